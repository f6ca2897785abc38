/* story_answer.c: promises to a producer: a task ends once, a commit takes effect once, a reply stays true (KEEP-1,
 * ONCE-1, TRUE-1), whatever the network or a crash does to the reply (F-10, F-15, F-16, F-17, F-22). */
#include "story.h"

/* ---- KEEP-1: a task ends exactly once */

static void a_task_ends_once_and_the_log_knows_how(void **state) { /* KEEP-1, TRUE-1 */
    struct fx *f = *state;
    client_schedule(f->shop, .key = "order-1", .delay_ms = 60000);
    SIM_ELAPSE(f, 50);
    client_commit_one(f->shop, op_cancel(f->world, order(f, "order-1"), false));
    SIM_ELAPSE(f, 50);
    host_kill(f->world, HOST_POWER_LOST);
    assert_true(host_start(f->world, false));
    client_commit_one(f->shop, op_cancel(f->world, order(f, "order-1"), false));
    SIM_ELAPSE(f, 50);
    SIM_TRACE(f, "[1000] shop > schedule orders order-1 in 60000 ms #3\n"
                 "[1001] broker append #5 queue orders\n"
                 "[1001] broker append #6 scheduled 1\n"
                 "[1011] broker durable #6\n"
                 "[1012] shop < scheduled, task 1 #3\n"
                 "[1050] shop > cancel orders order-1 #4\n"
                 "[1051] broker append #8 cancelled 1\n"
                 "[1061] broker durable #8\n"
                 "[1062] shop < cancelled, task 1 #4\n"
                 "[1100] broker loses power\n"
                 "[1100] broker starts, epoch 2\n"
                 "[1100] broker append #10 epoch 2\n"
                 "[1100] shop > cancel orders order-1 #5\n"
                 "[1101] broker append #11 nothing but the answer\n"
                 "[1110] broker durable #10\n"
                 "[1120] broker durable #11\n"
                 "[1121] shop < already cancelled, task 1 #5\n");
}

static void dead_is_a_state_that_waits_for_a_decision(void **state) { /* KEEP-1 */
    struct fx *f = *state;
    subscribe(f->worker, "orders");
    client_schedule(f->shop, .key = "order-1", .delay_ms = 100);
    SIM_ELAPSE(f, 200);
    SIM_SKIP(f);
    client_settle(f->worker, &f->worker->held[0], op_nack(f->world, &f->worker->held[0], false, 0, true));
    SIM_ELAPSE(f, 50);
    SIM_TRACE(f, "[1200] worker > nack task 1, it is hopeless #5\n"
                 "[1201] broker append #11 buried 1\n"
                 "[1211] broker durable #11\n"
                 "[1212] worker < buried, task 1, deliveries 1 #5\n");
    host_kill(f->world, HOST_POWER_LOST);
    assert_true(host_start(f->world, false));
    client_commit_one(f->shop, op_dead(f->world, TARRY__DEAD_OP__WHAT__REQUEUE, order(f, "order-1"), false));
    SIM_ELAPSE(f, 50);
    SIM_TRACE(f, "[1250] broker loses power\n"
                 "[1250] broker starts, epoch 2\n"
                 "[1250] broker append #13 epoch 2\n"
                 "[1250] shop > requeue orders order-1 #6\n"
                 "[1251] worker has lost its lane\n"
                 "[1251] worker > subscribe, to go on\n"
                 "[1251] broker append #14 requeued 1\n"
                 "[1252] broker append #15 session\n"
                 "[1260] broker durable #13\n"
                 "[1270] broker durable #15\n"
                 "[1271] shop < requeued, task 1, deliveries 1 #6\n"
                 "[1271] worker < a lane\n"
                 "[1272] broker lane of worker is up\n"
                 "[1272] broker append #16 leased 1\n"
                 "[1282] broker durable #16\n"
                 "[1283] worker gets task 1, delivery 2\n");
}

static void an_expired_task_ends_and_is_not_delivered(void **state) { /* KEEP-1 */
    struct fx *f = *state;
    client_schedule(f->shop, .key = "order-1", .delay_ms = 100, .expires_ms = 200);
    SIM_ELAPSE(f, 500);
    subscribe(f->worker, "orders");
    SIM_SKIP(f);
    SIM_ELAPSE(f, 100);
    SIM_TRACE(f, "[1501] broker append #8 session\n"
                 "[1511] broker durable #8\n"
                 "[1512] worker < a lane\n"
                 "[1513] broker lane of worker is up\n"
                 "[1513] broker append #9 expired 1\n"
                 "[1523] broker durable #9\n");
}

/* ---- ONCE-1: a commit takes effect once */

/* Proves ONCE-1, F-22 and F-15. */
static void a_lost_answer_is_given_again_and_nothing_happens_twice(void **state) {
    struct fx *f = *state;
    f->shop->link.cut_down = true;
    struct request *placed = client_schedule(f->shop, .key = "order-1", .delay_ms = 60000);
    SIM_ELAPSE(f, 50);
    f->shop->link.cut_down = false;
    client_repeat(f->shop, placed);
    SIM_ELAPSE(f, 50);
    SIM_TRACE(f, "[1000] shop > schedule orders order-1 in 60000 ms #3\n"
                 "[1001] broker append #5 queue orders\n"
                 "[1001] broker append #6 scheduled 1\n"
                 "[1011] broker durable #6\n"
                 "[1050] shop repeats #3\n"
                 "[1052] shop < scheduled, task 1 #3\n");
}

static void the_same_answer_comes_from_the_log_after_a_crash(void **state) { /* ONCE-1, F-22 */
    struct fx *f = *state;
    client_schedule(f->shop, .key = "order-1", .delay_ms = 60000);
    SIM_ELAPSE(f, 50);
    SIM_SKIP(f);
    f->shop->link.cut_down = true;
    struct request *payment = client_commit_one(f->shop, op_cancel(f->world, order(f, "order-1"), false));
    SIM_ELAPSE(f, 50);
    host_index_now(f->world); /* the index has everything, so a start replays no frame: outcomes come from the index */
    host_kill(f->world, HOST_POWER_LOST);
    assert_true(host_start(f->world, false));
    f->shop->link.cut_down = false;
    client_repeat(f->shop, payment);
    SIM_ELAPSE(f, 50);
    /* The repeated cancel gets its first reply, "cancelled", and not "already cancelled". */
    SIM_TRACE(f, "[1050] shop > cancel orders order-1 #4\n"
                 "[1051] broker append #8 cancelled 1\n"
                 "[1061] broker durable #8\n"
                 "[1100] broker loses power\n"
                 "[1100] broker starts, epoch 2\n"
                 "[1100] broker append #10 epoch 2\n"
                 "[1100] shop repeats #4\n"
                 "[1110] broker durable #10\n"
                 "[1111] shop < cancelled, task 1 #4\n");
}

static void what_lies_outside_the_limits_is_forgotten_never_executed(void **state) { /* ONCE-1 */
    struct fx *f = *state;
    struct request *placed = client_schedule(f->shop, .key = "order-1", .delay_ms = 60000);
    SIM_ELAPSE(f, 50);
    client_schedule(
        f->shop, .key = "order-2",
        .delay_ms = 60000); /* the new commit's sequence tells the broker that the first commit's reply has arrived */
    SIM_ELAPSE(f, 50);
    client_commit_one(f->shop, op_cancel(f->world, order(f, "order-1"), false));
    SIM_ELAPSE(f, 50);
    SIM_SKIP(f);
    client_repeat(f->shop, placed); /* a copy of the first commit arrives, which was in flight for a long time */
    SIM_ELAPSE(f, 50);
    SIM_TRACE(f, "[1150] shop repeats #3\n"
                 "[1152] shop < refused: forgotten #3\n");
}

/* ---- F-16 */

static void a_request_that_comes_twice_is_one(void **state) { /* F-16, ONCE-1 */
    struct fx *f = *state;
    f->world->network.double_permille = 1000;
    client_schedule(f->shop, .key = "order-1", .delay_ms = 60000);
    SIM_ELAPSE(f, 50);
    SIM_TRACE(f, "[1000] shop > schedule orders order-1 in 60000 ms #3\n"
                 "[1001] broker append #5 queue orders\n"
                 "[1001] broker append #6 scheduled 1\n"
                 "[1011] broker durable #6\n"
                 "[1012] shop < scheduled, task 1 #3\n"
                 "[1012] shop < scheduled, task 1 #3\n"
                 "[1012] shop < scheduled, task 1 #3\n"
                 "[1012] shop < scheduled, task 1 #3\n");
}

static void requests_that_overtake_each_other_take_effect_each_once(void **state) { /* F-16, ONCE-1 */
    struct fx *f = *state;
    f->world->network.late_permille = 1000;
    f->world->network.late_ms = 100;
    struct request *first = client_schedule(f->shop, .key = "order-1", .delay_ms = 60000);
    f->world->network.late_permille = 0;
    struct request *second = client_schedule(f->shop, .key = "order-2", .delay_ms = 60000);
    SIM_ELAPSE(f, 200);
    assert_true(first->answered && second->answered);
    SIM_TRACE(f, "[1000] shop > schedule orders order-1 in 60000 ms #3\n"
                 "[1000] shop > schedule orders order-2 in 60000 ms #4\n"
                 "[1001] broker append #5 queue orders\n"
                 "[1001] broker append #6 scheduled 1\n"
                 "[1011] broker durable #6\n"
                 "[1012] shop < scheduled, task 1 #4\n"
                 "[1088] broker append #8 scheduled 2\n"
                 "[1098] broker durable #8\n"
                 "[1099] shop < scheduled, task 2 #3\n");
}

/* ---- TRUE-1: an answer stays true */

static void cancelled_unseen_is_never_seen_by_anybody(void **state) { /* TRUE-1 */
    struct fx *f = *state;
    subscribe(f->worker, "orders");
    client_schedule(f->shop, .key = "order-1", .delay_ms = 500);
    SIM_ELAPSE(f, 499);
    SIM_SKIP(f);
    client_commit_one(f->shop, op_cancel(f->world, order(f, "order-1"),
                                         false)); /* the order is cancelled in its last millisecond */
    SIM_ELAPSE(f, 100);
    SIM_TRACE(f, "[1499] shop > cancel orders order-1 #5\n"
                 "[1500] broker append #11 unsent 1, cancelled 1\n"
                 "[1510] broker durable #11\n"
                 "[1511] shop < cancelled, task 1 #5\n");
    host_kill(f->world, HOST_POWER_LOST);
    assert_true(host_start(f->world, false));
    subscribe(f->worker, "orders");
    SIM_ELAPSE(f, 1000);
    SIM_TRACE(f, "[1599] broker loses power\n"
                 "[1599] broker starts, epoch 2\n"
                 "[1599] broker append #13 epoch 2\n"
                 "[1600] worker has lost its lane\n"
                 "[1600] worker > subscribe, to go on\n"
                 "[1601] broker append #14 session\n"
                 "[1609] broker durable #13\n"
                 "[1619] broker durable #14\n"
                 "[1620] worker < a lane\n"
                 "[1621] broker lane of worker is up\n");
}

static void a_payment_that_comes_too_late_is_told_who_has_the_task(void **state) { /* TRUE-1 */
    struct fx *f = *state;
    subscribe(f->worker, "orders");
    client_schedule(f->shop, .key = "order-1", .delay_ms = 500);
    SIM_ELAPSE(f, 501);
    SIM_SKIP(f);
    client_commit_one(f->shop, op_cancel(f->world, order(f, "order-1"),
                                         false)); /* the cancel arrives while the task's lease is being synced */
    SIM_ELAPSE(f, 100);
    SIM_TRACE(f, "[1501] shop > cancel orders order-1 #5\n"
                 "[1502] worker gets task 1, delivery 1\n"
                 "[1502] broker append #11 nothing but the answer\n"
                 "[1512] broker durable #11\n"
                 "[1513] shop < not done: in flight, task 1, deliveries 1 #5\n");
}

/* Proves TRUE-1, F-17 and F-19. */
static void a_delivery_that_provably_never_left_does_not_count(void **state) {
    struct fx *f = *state;
    subscribe(f->worker, "orders");
    client_schedule(f->shop, .key = "order-1", .delay_ms = 500);
    SIM_ELAPSE(f, 400);
    SIM_SKIP(f);
    f->worker->stalled = true; /* the worker does not read from its lane, so the delivery stays in the broker */
    SIM_ELAPSE(f, 200);
    f->worker->wants_session = false;
    client_break_pipe(f->worker); /* the connection breaks before the delivery was sent */
    SIM_ELAPSE(f, 50);
    client_commit_one(f->shop, op_cancel(f->world, order(f, "order-1"), false));
    SIM_ELAPSE(f, 50);
    SIM_TRACE(f, "[1451] broker append #9 leased 1\n"
                 "[1461] broker durable #9\n"
                 "[1601] worker has lost its lane\n"
                 "[1601] broker lane of worker is gone\n"
                 "[1601] broker append #11 unsent 1\n"
                 "[1601] broker append #12 session over\n"
                 "[1611] broker durable #12\n"
                 "[1650] shop > cancel orders order-1 #5\n"
                 "[1651] broker append #14 cancelled 1\n"
                 "[1661] broker durable #14\n"
                 "[1662] shop < cancelled, task 1 #5\n");
}

static void a_delivery_that_may_have_been_seen_counts(void **state) { /* TRUE-1, F-17 */
    struct fx *f = *state;
    subscribe(f->worker, "orders");
    client_schedule(f->shop, .key = "order-1", .delay_ms = 500);
    SIM_ELAPSE(f, 600);
    SIM_SKIP(f);
    f->worker->wants_session = false;
    client_break_pipe(
        f->worker); /* the connection breaks after the worker got the task, so the worker may be working on it */
    SIM_ELAPSE(f, 50);
    client_commit_one(f->shop, op_cancel(f->world, order(f, "order-1"), false));
    SIM_ELAPSE(f, 50);
    SIM_TRACE(f, "[1601] worker has lost its lane\n"
                 "[1601] broker lane of worker is gone\n"
                 "[1601] broker append #11 lease lost 1, session over\n"
                 "[1611] broker durable #11\n"
                 "[1650] shop > cancel orders order-1 #5\n"
                 "[1651] broker append #13 cancelled 1\n"
                 "[1661] broker durable #13\n"
                 "[1662] shop < cancelled, task 1, deliveries 1 #5\n");
}

/* Returns the only result of the reply to this commit. */
static Tarry__OpResult *result_of(struct fx *f, const struct request *request) {
    assert_true(request->answered);
    Tarry__CommitReply *reply =
        tarry__commit_reply__unpack(&f->world->memory.pb, request->answer_size, request->answer);
    assert_non_null(reply);
    return reply->results[0];
}

/* Proves TRUE-1, F-17 and F-19. */
static void who_may_have_acted_is_known_after_a_delivery_that_never_left(void **state) {
    struct fx *f = *state;
    struct client *other = client_new(f->world, "other");
    subscribe(f->worker, "orders");
    client_schedule(f->shop, .key = "order-1", .delay_ms = 500);
    SIM_ELAPSE(f, 600);
    uint64_t session = f->worker->session;
    f->worker->wants_session = false;
    client_break_pipe(
        f->worker); /* the connection breaks after the worker got the task, so the worker may be working on it */
    SIM_ELAPSE(f, 50);
    SIM_SKIP(f);
    other->stalled = true; /* the other worker does not read from its lane, so it will never get the task */
    subscribe(other, "orders");
    SIM_ELAPSE(f, 100);
    other->wants_session = false;
    client_break_pipe(other);
    SIM_ELAPSE(f, 50);
    host_kill(f->world, HOST_POWER_LOST);
    assert_true(host_start(f->world, false));
    const struct request *paid = client_commit_one(f->shop, op_cancel(f->world, order(f, "order-1"), false));
    SIM_ELAPSE(f, 50);
    SIM_TRACE(f, "[1650] other > subscribe\n"
                 "[1651] broker append #13 session\n"
                 "[1661] broker durable #13\n"
                 "[1662] other < a lane\n"
                 "[1663] broker lane of other is up\n"
                 "[1663] broker append #14 leased 1\n"
                 "[1673] broker durable #14\n"
                 "[1751] other has lost its lane\n"
                 "[1751] broker lane of other is gone\n"
                 "[1751] broker append #16 unsent 1\n"
                 "[1751] broker append #17 session over\n"
                 "[1761] broker durable #17\n"
                 "[1800] broker loses power\n"
                 "[1800] broker starts, epoch 2\n"
                 "[1800] broker append #19 epoch 2\n"
                 "[1800] shop > cancel orders order-1 #6\n"
                 "[1801] broker append #20 cancelled 1\n"
                 "[1810] broker durable #19\n"
                 "[1820] broker durable #20\n"
                 "[1821] shop < cancelled, task 1, deliveries 1 #6\n");
    const Tarry__OpResult *result = result_of(f, paid);
    assert_int_equal(result->outcome, TARRY__OUTCOME__CANCELLED);
    assert_int_equal(result->deliveries, 1);
    assert_int_equal(result->session, session);
    assert_true(result->delivered_ms > 0);
}

static void an_atomic_commit_takes_effect_wholly_or_not_at_all(void **state) { /* TRUE-1, KEEP-1 */
    struct fx *f = *state;
    client_schedule(f->shop, .key = "order-1", .delay_ms = 60000);
    SIM_ELAPSE(f, 50);
    SIM_SKIP(f);
    Tarry__Op *ops[] = {op_schedule(f->world, &(struct schedule){.key = "order-2", .delay_ms = 60000}),
                        op_cancel(f->world, order(f, "order-9"), false)};
    client_commit(f->shop, ops, 2, true);
    SIM_ELAPSE(f, 50);
    SIM_TRACE(f, "[1050] shop > atomically schedule orders order-2 in 60000 ms #4\n"
                 "[1050] shop > atomically cancel orders order-9 #4\n"
                 "[1051] broker append #8 nothing but the answer\n"
                 "[1061] broker durable #8\n"
                 "[1062] shop < aborted: none #4\n"
                 "[1062] shop < not done: unknown #4\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        STORY(a_task_ends_once_and_the_log_knows_how),
        STORY(dead_is_a_state_that_waits_for_a_decision),
        STORY(an_expired_task_ends_and_is_not_delivered),
        STORY(a_lost_answer_is_given_again_and_nothing_happens_twice),
        STORY(the_same_answer_comes_from_the_log_after_a_crash),
        STORY(what_lies_outside_the_limits_is_forgotten_never_executed),
        STORY(a_request_that_comes_twice_is_one),
        STORY(requests_that_overtake_each_other_take_effect_each_once),
        STORY(cancelled_unseen_is_never_seen_by_anybody),
        STORY(a_payment_that_comes_too_late_is_told_who_has_the_task),
        STORY(a_delivery_that_provably_never_left_does_not_count),
        STORY(a_delivery_that_may_have_been_seen_counts),
        STORY(who_may_have_acted_is_known_after_a_delivery_that_never_left),
        STORY(an_atomic_commit_takes_effect_wholly_or_not_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
