/* lane_state_test.c: which session has a lane, and which messages may still leave on it (engine/lane_state.h). */
#include "lane_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { ANNA = 7, BERT = 8, PIPE = 100 };

/* Returns a lane that session ANNA has, and that is connected. */
static struct lane_state held(void) {
    struct lane_state lane = {0};
    uint64_t former;
    assert_int_equal(lane_state_open(&lane, ANNA), 0);
    assert_true(lane_state_up(&lane, ANNA, PIPE, &former));
    assert_int_equal(former, 0);
    return lane;
}

static void a_delivery_leaves_by_the_holders_connection(void **state) {
    struct lane_state lane = held();
    assert_int_equal(lane_state_send(&lane, lane.turn, true), LANE_DELIVERS);
    assert_true(lane_state_leaves(&lane, lane.turn));
    assert_true(lane_state_sent(&lane, lane.turn));
    /* The lane delivers, because it may send the next delivery. */
    assert_int_equal(lane_state_send(&lane, lane.turn, true), LANE_DELIVERS);
}

static void what_cannot_leave_is_told_of(void **state) { /* KEEP-1 */
    struct lane_state lane = held();
    assert_int_equal(lane_state_send(&lane, lane.turn, false), LANE_UNSENT);
    assert_true(lane_state_gone(&lane, PIPE));
    assert_int_equal(lane_state_send(&lane, lane.turn, true), LANE_UNSENT);
}

static void a_delivery_of_a_former_turn_never_leaves(void **state) { /* TRUE-1 */
    struct lane_state lane = held();
    uint64_t turn = lane.turn, former;
    assert_int_equal(lane_state_send(&lane, turn, true), LANE_DELIVERS);
    assert_int_equal(lane_state_open(&lane, BERT), PIPE);
    assert_false(lane_state_leaves(&lane, turn));
    /* The departure is not reported, because the core would attribute it to session BERT. */
    assert_false(lane_state_sent(&lane, turn));
    assert_int_equal(lane_state_send(&lane, turn, true), LANE_SILENT);
    assert_int_equal(lane_state_open(&lane, ANNA),
                     0); /* the departure is still not reported after session ANNA has the lane again */
    assert_true(lane_state_up(&lane, ANNA, PIPE + 1, &former));
    assert_false(lane_state_leaves(&lane, turn));
    assert_int_equal(lane_state_send(&lane, turn, true), LANE_SILENT);
}

static void news_of_a_former_turn_are_none(void **state) { /* KEEP-1 */
    struct lane_state lane = held();
    uint64_t turn = lane.turn, former;
    assert_true(lane_state_is_news(&lane, turn));
    assert_int_equal(lane_state_close(&lane, ANNA), PIPE);
    assert_false(lane_state_is_news(&lane, turn));
    /* The delivery is still not sent after session ANNA has the lane again, because ANNA is not connected yet. */
    assert_int_equal(lane_state_open(&lane, ANNA), 0);
    assert_false(lane_state_is_news(&lane, turn));
    assert_true(lane_state_up(&lane, ANNA, PIPE + 1, &former));
    assert_true(lane_state_is_news(&lane, lane.turn));
}

static void a_session_that_ends_leaves_its_connection(void **state) {
    struct lane_state lane = held();
    uint64_t turn = lane.turn;
    assert_int_equal(lane_state_close(&lane, BERT), 0); /* ignored: session BERT does not have the lane */
    assert_int_equal(lane_state_close(&lane, ANNA), PIPE);
    assert_false(lane_state_leaves(&lane, turn));
    assert_int_equal(lane_state_close(&lane, ANNA), 0);
}

static void the_same_session_keeps_its_turn(void **state) {
    struct lane_state lane = held();
    uint64_t turn = lane.turn;
    assert_int_equal(lane_state_open(&lane, ANNA), 0);
    assert_true(lane_state_leaves(&lane, turn));
}

static void nobody_connects_to_anothers_lane(void **state) { /* TRUE-1 */
    struct lane_state lane = held();
    uint64_t former;
    assert_false(lane_state_up(&lane, BERT, PIPE + 1, &former));
    assert_int_equal(former, 0);
    assert_int_equal(lane.connection, PIPE);
}

static void nobody_is_no_holder(void **state) { /* TRUE-1 */
    struct lane_state lane = held(), empty = {0};
    uint64_t former;
    assert_true(lane_state_admits(&lane, ANNA));
    assert_false(lane_state_admits(&lane, ANNA + 1));
    assert_false(lane_state_admits(&lane, 0));
    assert_false(lane_state_admits(&empty, ANNA));
    assert_false(lane_state_admits(&empty, 0)); /* a lane without a session admits no connection */
    assert_false(lane_state_up(&empty, 0, PIPE, &former));
    assert_int_equal(empty.connection, 0);
}

static void a_newcomer_takes_the_former_connections_place(void **state) {
    struct lane_state lane = held();
    uint64_t former;
    assert_true(lane_state_up(&lane, ANNA, PIPE + 1, &former));
    assert_int_equal(former, PIPE);
    assert_false(lane_state_gone(&lane, PIPE)); /* ignored: the session already has a newer connection */
    assert_int_equal(lane_state_send(&lane, lane.turn, true), LANE_DELIVERS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_delivery_leaves_by_the_holders_connection),
        cmocka_unit_test(what_cannot_leave_is_told_of),
        cmocka_unit_test(a_delivery_of_a_former_turn_never_leaves),
        cmocka_unit_test(news_of_a_former_turn_are_none),
        cmocka_unit_test(a_session_that_ends_leaves_its_connection),
        cmocka_unit_test(the_same_session_keeps_its_turn),
        cmocka_unit_test(nobody_connects_to_anothers_lane),
        cmocka_unit_test(nobody_is_no_holder),
        cmocka_unit_test(a_newcomer_takes_the_former_connections_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
