/* hard_state_rules_test.c: which facts a node of a pair records at its start, for the pair's rules and about the
 * other node's disk (R6, F-29, F-31b). */
#include "hard_state_rules.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const uint8_t first[MEMBER_ID_SIZE] = {1}, second[MEMBER_ID_SIZE] = {2};

static struct hard_state begun(struct hard_state hard_state, struct hard_state_start start) {
    hard_state_begin(&hard_state, &start);
    return hard_state;
}

static void each_run_has_a_number_of_its_own(void **state) { /* R6 */
    struct hard_state hard_state = begun((struct hard_state){.runs = 7}, (struct hard_state_start){0});
    assert_int_equal(hard_state.runs, 8);
    assert_int_equal(hard_state.floor, 0); /* the directory is new and empty */
    assert_false(hard_state.alone);
}

static void a_log_that_was_written_without_a_pair_was_served_alone(void **state) {
    struct hard_state hard_state =
        begun((struct hard_state){0}, (struct hard_state_start){.is_new = true, .last_epoch = 4});
    assert_int_equal(hard_state.floor, 5);
    assert_true(hard_state.alone);
    hard_state =
        begun((struct hard_state){0}, (struct hard_state_start){.is_new = true, .joins = true, .last_epoch = 4});
    assert_int_equal(
        hard_state.floor,
        4); /* a copied log proves that this node promised the log's last epoch, so its floor is that epoch */
    assert_false(hard_state.alone);
    hard_state = begun((struct hard_state){.floor = 9}, (struct hard_state_start){.last_epoch = 4});
    assert_int_equal(
        hard_state.floor,
        9); /* the floor (lowest epoch in which the node takes part) stays, because the node must keep its promise */
}

static void a_frame_of_an_epoch_proves_that_there_was_a_record(void **state) { /* F-31b */
    struct hard_state_start start = {.coordinated = true, .last_epoch = 4};
    assert_int_equal(begun((struct hard_state){.floor = 4}, start).recorded, 4);
    assert_int_equal(begun((struct hard_state){.floor = 4, .recorded = 6}, start).recorded, 6);
    /* `recorded` stays 0: the node took no part in epoch 4, because this epoch is below its floor. */
    assert_int_equal(begun((struct hard_state){.floor = 5}, start).recorded, 0);
    start.is_new = true;
    assert_int_equal(begun((struct hard_state){0}, start).recorded, 0);
    start.is_new = start.coordinated = false;
    assert_int_equal(begun((struct hard_state){.floor = 4}, start).recorded, 0);
}

static void with_a_coordinator_it_is_noted_that_a_node_may_have_served_alone(void **state) {
    assert_true(begun((struct hard_state){0}, (struct hard_state_start){.coordinated = true}).alone);
    assert_false(begun((struct hard_state){0}, (struct hard_state_start){.coordinated = false}).alone);
}

static void a_restored_copy_leads_no_epoch_of_the_original(void **state) { /* FENCE-1 */
    struct hard_state hard_state = begun((struct hard_state){.floor = 3}, (struct hard_state_start){.epoch_min = 4000});
    assert_int_equal(hard_state.floor, 4000);
    hard_state = begun((struct hard_state){.floor = 3}, (struct hard_state_start){.epoch_min = 4000, .joins = true});
    assert_int_equal(hard_state.floor, 3);
    hard_state = begun((struct hard_state){.floor = 5000}, (struct hard_state_start){.epoch_min = 4000});
    assert_int_equal(hard_state.floor, 5000);
}

static void what_the_rules_want_noted_is_noted_and_told_back(void **state) {
    struct pair pair = {.role = PAIR_FOLLOWING,
                        .hard_state = {.floor = 5, .recorded = 4, .led = 3, .in_sync = true, .alone = true}};
    struct hard_state hard_state = {.runs = 7};
    memcpy(hard_state.peer, first, MEMBER_ID_SIZE);
    hard_state_take(&hard_state, &pair, second, NULL);
    struct pair_hard_state rules = hard_state_for_rules(&hard_state);
    assert_int_equal(rules.floor, 5);
    assert_int_equal(rules.recorded, 4);
    assert_int_equal(rules.led, 3);
    assert_true(rules.in_sync && rules.alone);
    assert_int_equal(hard_state.runs, 7);
    /* The hard state keeps the first disk as the peer, because this node has promised nothing to the second disk. */
    assert_memory_equal(hard_state.peer, first, MEMBER_ID_SIZE);
}

static void the_others_disk_is_noted_with_the_promise_or_the_reign(void **state) { /* F-29 */
    struct pair pair = {.role = PAIR_FOLLOWING, .adopts = true};
    struct hard_state hard_state = {0};
    hard_state_take(&hard_state, &pair, second,
                    NULL); /* the node has made a promise to the other node, whose reply names the second disk */
    assert_memory_equal(hard_state.peer, second, MEMBER_ID_SIZE);
    pair = (struct pair){.role = PAIR_FOLLOWING};
    hard_state_take(&hard_state, &pair, second, first); /* when the other node only asks, nothing changes */
    assert_memory_equal(hard_state.peer, second, MEMBER_ID_SIZE);
    pair.role = PAIR_LEADING;
    hard_state_take(&hard_state, &pair, second, first); /* the node leads because of a promise of the other node */
    assert_memory_equal(hard_state.peer, first, MEMBER_ID_SIZE);
}

static void a_disk_is_admitted_once(void **state) { /* F-29 */
    struct hard_state hard_state = {0};
    assert_true(hard_state_admit(&hard_state, first));
    assert_false(hard_state_admit(&hard_state, first));
    assert_true(hard_state_admit(&hard_state, second));
    assert_memory_equal(hard_state.peer, second, MEMBER_ID_SIZE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_run_has_a_number_of_its_own),
        cmocka_unit_test(a_log_that_was_written_without_a_pair_was_served_alone),
        cmocka_unit_test(a_frame_of_an_epoch_proves_that_there_was_a_record),
        cmocka_unit_test(with_a_coordinator_it_is_noted_that_a_node_may_have_served_alone),
        cmocka_unit_test(a_restored_copy_leads_no_epoch_of_the_original),
        cmocka_unit_test(what_the_rules_want_noted_is_noted_and_told_back),
        cmocka_unit_test(the_others_disk_is_noted_with_the_promise_or_the_reign),
        cmocka_unit_test(a_disk_is_admitted_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
