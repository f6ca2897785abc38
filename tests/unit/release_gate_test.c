/* release_gate_test.c: which replies may leave, and which subscribers are notified (engine/release_gate.h). */
#include "release_gate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define START 4096u

struct heard {
    uint64_t position;
    unsigned times;
    struct heard *before; /* subscriber that must have been notified of the same position before this one */
};

static void hear(void *context, uint64_t position) {
    struct heard *heard = context;
    heard->position = position;
    heard->times++;
    if (heard->before != NULL) assert_int_equal(heard->before->position, position);
}

static void nothing_leaves_before_its_position_is_reached(void **state) { /* LOG-1, R2 */
    struct release_gate gate;
    struct release first = {.position = START + 100}, second = {.position = START + 200};
    release_gate_init(&gate, START);
    release_gate_enter(&gate, &first);
    release_gate_enter(&gate, &second);
    release_gate_reach(&gate, START + 99);
    assert_null(release_gate_next(&gate));
    assert_false(release_gate_reaches(&gate, START + 100));
    release_gate_reach(&gate, START + 100);
    assert_true(release_gate_reaches(&gate, START + 100));
    assert_ptr_equal(release_gate_next(&gate), &first);
    assert_null(release_gate_next(&gate));
    release_gate_reach(&gate, START + 200);
    assert_ptr_equal(release_gate_next(&gate), &second);
    assert_null(release_gate_next(&gate));
}

static void a_question_is_answered_once_it_is_confirmed(void **state) { /* R3, TRUE-1 */
    struct release_gate gate;
    struct release asked = {.position = START, .question = 7}, later = {.position = START + 100, .question = 0};
    release_gate_init(&gate, START);
    release_gate_confirm(&gate, 6);
    release_gate_enter(&gate, &asked);
    release_gate_enter(&gate, &later);
    release_gate_reach(&gate, START + 100);
    assert_true(release_gate_wants_confirmation(&gate));
    assert_null(release_gate_next(&gate)); /* later batches wait, because they leave in order */
    release_gate_confirm(&gate, 7);
    assert_false(release_gate_wants_confirmation(&gate));
    assert_ptr_equal(release_gate_next(&gate), &asked);
    assert_ptr_equal(release_gate_next(&gate), &later);
}

static void no_confirmation_is_wanted_of_what_is_not_reached(void **state) { /* R3 */
    struct release_gate gate;
    struct release asked = {.position = START + 100, .question = 7};
    release_gate_init(&gate, START);
    assert_false(release_gate_wants_confirmation(&gate));
    release_gate_confirm(&gate, 6);
    release_gate_enter(&gate, &asked);
    assert_false(release_gate_wants_confirmation(&gate));
    release_gate_confirm(&gate, UINT64_MAX); /* confirms all questions, because the follower is not in sync any more */
    assert_null(release_gate_next(&gate));
    release_gate_reach(&gate, START + 100);
    assert_ptr_equal(release_gate_next(&gate), &asked);
}

static void subscribers_are_told_once_and_in_order(void **state) {
    struct release_gate gate;
    struct heard first = {0}, second = {.before = &first};
    struct release_subscriber a = {.reached = hear, .context = &first}, b = {.reached = hear, .context = &second};
    release_gate_init(&gate, START);
    release_gate_subscribe(&gate, &a);
    release_gate_subscribe(&gate, &b);
    release_gate_tell(&gate);
    assert_int_equal(first.times, 0); /* the subscriber began at this position, so it is not notified of it */
    release_gate_reach(&gate, START + 100);
    release_gate_tell(&gate);
    release_gate_tell(&gate);
    assert_int_equal(first.times, 1);
    assert_int_equal(second.times, 1);
    assert_int_equal(second.position, START + 100);
}

static void what_never_leaves_can_be_taken(
    void **state) { /* LOG-4: the batch is returned, so that its waiting clients can get an error */
    struct release_gate gate;
    struct release first = {.position = START + 100}, second = {.position = START + 200, .question = 3};
    release_gate_init(&gate, START);
    release_gate_enter(&gate, &first);
    release_gate_enter(&gate, &second);
    assert_ptr_equal(release_gate_take(&gate), &first);
    assert_ptr_equal(release_gate_take(&gate), &second);
    assert_null(release_gate_take(&gate));
    release_gate_enter(&gate, &second); /* after the failure, the gate works as before */
    release_gate_confirm(&gate, 3);
    release_gate_reach(&gate, START + 200);
    assert_ptr_equal(release_gate_next(&gate), &second);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_leaves_before_its_position_is_reached),
        cmocka_unit_test(a_question_is_answered_once_it_is_confirmed),
        cmocka_unit_test(no_confirmation_is_wanted_of_what_is_not_reached),
        cmocka_unit_test(subscribers_are_told_once_and_in_order),
        cmocka_unit_test(what_never_leaves_can_be_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
