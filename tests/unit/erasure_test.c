/* erasure_test.c: when redactions are carried out, and in which order (engine/erasure.h). */
#include "erasure.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MS 1000000ull

static struct erasure begun(bool in_index) {
    struct erasure erasure = {0};
    struct erasure_facts facts = {.in_index = in_index, .missed_redactions = true};
    assert_int_equal(erasure_look(&erasure, &facts), ERASURE_BEGIN);
    return erasure;
}

static void it_is_reported_once_nothing_is_left_anywhere(void **state) { /* LOG-3, LOG-5 */
    struct erasure erasure = begun(true);
    /* The content is erased in the log, which still has it. */
    assert_int_equal(erasure_step(&erasure, ERASURE_DONE, 0), ERASURE_TAILS);
    assert_int_equal(erasure_step(&erasure, ERASURE_DONE, 0), ERASURE_LOG);
    assert_int_equal(erasure_step(&erasure, ERASURE_DONE, 0), ERASURE_ARCHIVE);
    assert_int_equal(erasure_step(&erasure, ERASURE_DONE, 0), ERASURE_REPORT);
    assert_int_equal(erasure_step(&erasure, ERASURE_DONE, 0), ERASURE_END);
    assert_int_equal(erasure_step(&erasure, ERASURE_DONE, 0), ERASURE_REST);
    struct erasure_facts more = {.in_index = true};
    assert_int_equal(erasure_wait_ns(&erasure, &more), 0); /* more redactions wait, so their erasure begins at once */
}

static void what_a_snapshot_passed_over_is_not_looked_for_in_the_log(void **state) { /* LOG-3 */
    struct erasure erasure = begun(false);
    assert_int_equal(erasure_step(&erasure, ERASURE_DONE, 0), ERASURE_TAILS);
    assert_int_equal(erasure_step(&erasure, ERASURE_DONE, 0), ERASURE_ARCHIVE);
    assert_int_equal(erasure_step(&erasure, ERASURE_DONE, 0), ERASURE_FORGET);
    assert_int_equal(erasure_step(&erasure, ERASURE_DONE, 0), ERASURE_END);
}

static void it_waits_for_the_end_of_a_copy(void **state) { /* LOG-5 */
    struct erasure erasure = begun(true);
    assert_int_equal(erasure_step(&erasure, ERASURE_BUSY, 50 * MS), ERASURE_REST);
    struct erasure_facts facts = {.in_index = true, .now_ns = 60 * MS};
    assert_int_equal(erasure_wait_ns(&erasure, &facts), 90 * MS);
    assert_int_equal(erasure_look(&erasure, &facts), ERASURE_REST);
    facts.now_ns = 150 * MS;
    assert_int_equal(erasure_look(&erasure, &facts), ERASURE_BEGIN);
}

static void what_cannot_be_erased_is_not_reported(void **state) { /* LOG-5 */
    for (int steps = 1; steps <= 3; steps += 2) {                 /* first ERASURE_TAILS fails, then ERASURE_ARCHIVE */
        struct erasure erasure = begun(true);
        for (int i = 0; i < steps; i++) erasure_step(&erasure, ERASURE_DONE, 0);
        assert_int_equal(erasure_step(&erasure, ERASURE_FAILED, 0), ERASURE_END);
        assert_int_equal(erasure_step(&erasure, ERASURE_DONE, 10 * MS), ERASURE_REST);
        struct erasure_facts facts = {.in_index = true, .now_ns = 10 * MS};
        assert_int_equal(erasure_wait_ns(&erasure, &facts), 2000 * MS);
    }
}

static void without_room_it_is_reported_as_soon_as_there_is_some(void **state) { /* F-4 */
    struct erasure erasure = begun(true);
    while (erasure.effect != ERASURE_REPORT) erasure_step(&erasure, ERASURE_DONE, 0);
    assert_int_equal(erasure_step(&erasure, ERASURE_NO_ROOM, 0), ERASURE_END);
    assert_int_equal(erasure_step(&erasure, ERASURE_DONE, 10 * MS), ERASURE_REST);
    struct erasure_facts facts = {.in_index = true, .now_ns = 10 * MS};
    assert_int_equal(erasure_wait_ns(&erasure, &facts), 0);
}

static void nothing_is_erased_while_a_segment_is_on_its_way_out(void **state) { /* LOG-3 */
    struct erasure erasure = {0};
    struct erasure_facts facts = {.in_index = true, .is_retiring = true};
    assert_int_equal(erasure_look(&erasure, &facts), ERASURE_REST);
    facts.is_retiring = false;
    assert_int_equal(erasure_look(&erasure, &facts), ERASURE_BEGIN);
}

static void without_redactions_it_rests_for_good(void **state) {
    struct erasure erasure = {0};
    struct erasure_facts facts = {0};
    assert_true(erasure_wait_ns(&erasure, &facts) == UINT64_MAX);
    assert_int_equal(erasure_look(&erasure, &facts), ERASURE_REST);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_reported_once_nothing_is_left_anywhere),
        cmocka_unit_test(what_a_snapshot_passed_over_is_not_looked_for_in_the_log),
        cmocka_unit_test(it_waits_for_the_end_of_a_copy),
        cmocka_unit_test(what_cannot_be_erased_is_not_reported),
        cmocka_unit_test(without_room_it_is_reported_as_soon_as_there_is_some),
        cmocka_unit_test(nothing_is_erased_while_a_segment_is_on_its_way_out),
        cmocka_unit_test(without_redactions_it_rests_for_good),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
