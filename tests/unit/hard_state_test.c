/* hard_state_test.c: the hard state of a node can be read back as it was written, and nothing else is accepted (R2,
 * R6, R7). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "../model_disk.h"
#include "hard_state.h"

static const struct hard_state full = {.node = 1,
                                       .floor = 0xfffffff0,
                                       .recorded = 0xffffffe0,
                                       .led = 77,
                                       .in_sync = true,
                                       .alone = true,
                                       .runs = 0x123456789abcdef0,
                                       .peer = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};

static bool is_same(const struct hard_state *a, const struct hard_state *b) {
    return a->node == b->node && a->floor == b->floor && a->recorded == b->recorded && a->led == b->led &&
           a->in_sync == b->in_sync && a->alone == b->alone && a->runs == b->runs &&
           memcmp(a->peer, b->peer, MEMBER_ID_SIZE) == 0;
}

static void a_hard_state_comes_back_as_it_was(void **state) {
    struct model_disk *model = model_new(1);
    struct hard_state hard_state, found;
    char message[IDENTITY_MESSAGE_SIZE];
    model->directory_exists = true;
    assert_int_equal(hard_state_read(&model->disk, "/d", &found, message), -ENOENT);
    for (unsigned i = 0; i < 32; i++) {
        hard_state = (struct hard_state){0};
        if (i & 1) hard_state.node = full.node;
        if (i & 2) hard_state.floor = full.floor;
        if (i & 4) hard_state.in_sync = full.in_sync;
        if (i & 8) hard_state.alone = full.alone;
        if (i & 16) hard_state = full;
        assert_int_equal(hard_state_write(&model->disk, "/d", &hard_state), 0);
        model_crash(model);
        assert_int_equal(hard_state_read(&model->disk, "/d", &found, message), 0);
        assert_true(is_same(&hard_state, &found));
    }
    model_free(model);
}

static void a_damaged_hard_state_is_refused_with_a_sentence(void **state) {
    uint8_t bytes[HARD_STATE_SIZE + 1] = {0};
    struct hard_state found = full;
    char message[IDENTITY_MESSAGE_SIZE];
    hard_state_encode(&full, bytes);
    for (size_t bit = 0; bit < 8 * HARD_STATE_SIZE; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        message[0] = 0;
        assert_int_equal(hard_state_decode(bytes, HARD_STATE_SIZE, "/d/pair", &found, message), 1);
        assert_non_null(strstr(message, "/d/pair"));
        assert_non_null(strstr(message, bit / 8 >= 8 && bit / 8 < 12 ? "format version" : "is damaged"));
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t size = 0; size <= HARD_STATE_SIZE + 1; size++)
        assert_int_equal(hard_state_decode(bytes, size, "/d/pair", &found, message), size != HARD_STATE_SIZE);
    assert_true(is_same(&found, &full));
}

/* Each disk call fails in turn, and the power fails at each moment. The directory then has the old hard state or the
 * new one. */
static void a_kill_leaves_the_old_state_or_the_new_one(void **state) {
    struct hard_state old = {.floor = 5, .runs = 1}, found;
    char message[IDENTITY_MESSAGE_SIZE];
    for (uint64_t seed = 0; seed < 400; seed++) {
        struct model_disk *model = model_new(seed);
        model->directory_exists = true;
        model->short_io = seed % 2;
        assert_int_equal(hard_state_write(&model->disk, "/d", &old), 0);
        model->fail_at = model->calls + 1 + seed / 4 % 8;
        model->fail_error = -EIO;
        model->fail_for_ever = true;
        int result = hard_state_write(&model->disk, "/d", &full);
        assert_true(result == 0 || result == -EIO);
        (seed % 4 < 2 ? model_crash : model_kill)(model);
        assert_int_equal(hard_state_read(&model->disk, "/d", &found, message), 0);
        assert_true(is_same(&found, &full) || (result != 0 && is_same(&found, &old)));
        /* What a failed write has left must not disturb the next write. */
        assert_int_equal(hard_state_write(&model->disk, "/d", &full), 0);
        model_free(model);
    }
}

static void another_disk_is_one_that_is_not_the_known_one(void **state) { /* F-29 */
    struct hard_state hard_state = {.node = 1};
    uint8_t member[MEMBER_ID_SIZE] = {1, 2, 3};
    assert_false(hard_state_has_peer(&hard_state));
    assert_false(hard_state_is_another(&hard_state, member));
    memcpy(hard_state.peer, member, MEMBER_ID_SIZE);
    assert_true(hard_state_has_peer(&hard_state));
    assert_false(hard_state_is_another(&hard_state, member));
    member[MEMBER_ID_SIZE - 1] ^= 1;
    assert_true(hard_state_is_another(&hard_state, member));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_disk_is_one_that_is_not_the_known_one),
        cmocka_unit_test(a_hard_state_comes_back_as_it_was),
        cmocka_unit_test(a_damaged_hard_state_is_refused_with_a_sentence),
        cmocka_unit_test(a_kill_leaves_the_old_state_or_the_new_one),
    };
    return cmocka_run_group_tests_name("hard_state", tests, NULL, NULL);
}
