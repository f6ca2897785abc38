/* note_test.c: what one of a pair must not forget comes back as it was, and nothing else is taken for it (R2, R6, R7).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "../model_disk.h"
#include "note.h"

static const struct note full = {.node = 1,
                                 .floor = 0xfffffff0,
                                 .recorded = 0xffffffe0,
                                 .led = 77,
                                 .in_sync = true,
                                 .alone = true,
                                 .runs = 0x123456789abcdef0,
                                 .peer = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};

static bool is_same(const struct note *a, const struct note *b) {
    return a->node == b->node && a->floor == b->floor && a->recorded == b->recorded && a->led == b->led &&
           a->in_sync == b->in_sync && a->alone == b->alone && a->runs == b->runs &&
           memcmp(a->peer, b->peer, MEMBER_ID_SIZE) == 0;
}

static void a_note_comes_back_as_it_was(void **state) {
    struct model_disk *model = model_new(1);
    struct note note, found;
    char message[IDENTITY_MESSAGE_SIZE];
    model->directory_exists = true;
    assert_int_equal(note_read(&model->disk, "/d", &found, message), -ENOENT);
    for (unsigned i = 0; i < 32; i++) {
        note = (struct note){0};
        if (i & 1) note.node = full.node;
        if (i & 2) note.floor = full.floor;
        if (i & 4) note.in_sync = full.in_sync;
        if (i & 8) note.alone = full.alone;
        if (i & 16) note = full;
        assert_int_equal(note_write(&model->disk, "/d", &note), 0);
        model_crash(model);
        assert_int_equal(note_read(&model->disk, "/d", &found, message), 0);
        assert_true(is_same(&note, &found));
    }
    model_free(model);
}

static void a_damaged_note_is_refused_with_a_sentence(void **state) {
    uint8_t bytes[NOTE_SIZE + 1] = {0};
    struct note found = full;
    char message[IDENTITY_MESSAGE_SIZE];
    note_encode(&full, bytes);
    for (size_t bit = 0; bit < 8 * NOTE_SIZE; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        message[0] = 0;
        assert_int_equal(note_decode(bytes, NOTE_SIZE, "/d/pair", &found, message), 1);
        assert_non_null(strstr(message, "/d/pair"));
        assert_non_null(strstr(message, bit / 8 >= 8 && bit / 8 < 12 ? "format version" : "is damaged"));
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t size = 0; size <= NOTE_SIZE + 1; size++)
        assert_int_equal(note_decode(bytes, size, "/d/pair", &found, message), size != NOTE_SIZE);
    assert_true(is_same(&found, &full));
}

/* Whatever fails, and wherever the power goes: the old note or the new one. */
static void a_kill_leaves_the_old_note_or_the_new_one(void **state) {
    struct note old = {.floor = 5, .runs = 1}, found;
    char message[IDENTITY_MESSAGE_SIZE];
    for (uint64_t seed = 0; seed < 400; seed++) {
        struct model_disk *model = model_new(seed);
        model->directory_exists = true;
        model->short_io = seed % 2;
        assert_int_equal(note_write(&model->disk, "/d", &old), 0);
        model->fail_at = model->calls + 1 + seed / 4 % 8;
        model->fail_error = -EIO;
        model->fail_for_ever = true;
        int result = note_write(&model->disk, "/d", &full);
        assert_true(result == 0 || result == -EIO);
        (seed % 4 < 2 ? model_crash : model_kill)(model);
        assert_int_equal(note_read(&model->disk, "/d", &found, message), 0);
        assert_true(is_same(&found, &full) || (result != 0 && is_same(&found, &old)));
        /* The next one is not hindered by what was left. */
        assert_int_equal(note_write(&model->disk, "/d", &full), 0);
        model_free(model);
    }
}

static void another_disk_is_one_that_is_not_the_known_one(void **state) { /* F-29 */
    struct note note = {.node = 1};
    uint8_t member[MEMBER_ID_SIZE] = {1, 2, 3};
    assert_false(note_has_peer(&note));
    assert_false(note_is_another(&note, member));
    memcpy(note.peer, member, MEMBER_ID_SIZE);
    assert_true(note_has_peer(&note));
    assert_false(note_is_another(&note, member));
    member[MEMBER_ID_SIZE - 1] ^= 1;
    assert_true(note_is_another(&note, member));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_disk_is_one_that_is_not_the_known_one),
        cmocka_unit_test(a_note_comes_back_as_it_was),
        cmocka_unit_test(a_damaged_note_is_refused_with_a_sentence),
        cmocka_unit_test(a_kill_leaves_the_old_note_or_the_new_one),
    };
    return cmocka_run_group_tests_name("note", tests, NULL, NULL);
}
