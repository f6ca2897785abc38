/* core_ahead_test.c: leases ahead of time (core/ahead.h): committed before the task is due, delivered when it is
 * due. Which tasks and consumers get such a lease; what happens to it when the consumer leaves, and after a restart
 * (TIME-1, LOG-1, TRUE-1). */
#include "core_ahead_rig.h"

/* ---- the task is leased, and leaves */

static void it_is_leased_before_and_leaves_when_it_is_due(void **state) { /* TIME-1, LOG-1 */
    struct fx *f = *state;
    uint64_t session = consume(f, 10);
    uint64_t due_ms = lease_ahead(f), durable = core_position(f->core);
    at(f, due_ms - 1);
    assert_int_equal(delivered(f), 0);
    assert_int_equal(core_deadline(f->core), due_ms);
    at(f, due_ms);
    const struct row *row = &delivery(f)->tasks[0].row;
    assert_true(delivery(f)->departs && delivery(f)->session == session);
    assert_true(delivery(f)->after <= durable && row->lease_position < delivery(f)->after);
    assert_int_equal(written(f), 0); /* the due delivery leaves without a new frame, so it need not wait for a sync */
    assert_true(row->delivered_ms == due_ms && row->lease_deadline_ms == due_ms + 1 + LEASE_MS);
    assert_true(row->attempt == 1 && row->deliveries == 1);
    struct core_event sent = {.kind = CORE_LANE_SENT, .lane.session = session, .lane.ok = true};
    sent.lane.delivered_ns = (due_ms * 1000 + 80) * 1000;
    step(f, &sent);
    assert_int_equal(orders(f)->lateness_us.count, 1);
    assert_int_equal(orders(f)->lateness_us.max, 80);
}

static void what_is_due_sooner_than_that_is_leased_at_once(void **state) {
    struct fx *f = *state;
    consume(f, 10);
    assert_int_equal(schedule(f, "orders", 20), TARRY__CODE__OK);
    assert_int_equal(recorded(f, TARRY__CAUSE__CAUSE_LEASED), 1);
    assert_int_equal(delivered(f), 0);
    at(f, NOW_MS + 20);
    assert_int_equal(delivered(f), 1);
}

static void the_next_delivery_waits_for_the_one_under_way(void **state) {
    struct fx *f = *state;
    uint64_t session = consume(f, 10);
    uint64_t due_ms = lease_ahead(f);
    assert_int_equal(schedule(f, "orders", AHEAD_MS + 1), TARRY__CODE__OK);
    at(f, due_ms + 1 - AHEAD_MS);
    at(f, due_ms);
    assert_int_equal(delivered(f), 1);
    uint64_t first = delivery(f)->tasks[0].row.id;
    at(f, due_ms + 1);
    assert_int_equal(delivered(f), 0);
    lane(f, session, CORE_LANE_SENT, true);
    assert_int_equal(delivered(f), 1);
    assert_true(delivery(f)->departs && delivery(f)->tasks[0].row.id != first);
}

/* If a task that comes first in the queue's order is ready, a lease ahead of time is withdrawn when it is due. The task
 * then leaves in the queue's order, as any ready task does. */
static void ready_and_ahead_leave_in_one_order(void **state) {
    struct fx *f = *state;
    uint64_t session = consume(f, 10), due_ms = lease_ahead(f);
    uint64_t ahead = TAILQ_FIRST(&session_find(f->core, session)->ahead)->row.id;
    f->now_ms = due_ms - 3;
    assert_int_equal(schedule(f, "orders", 0), TARRY__CODE__OK); /* the delivery of this task occupies the lane */
    assert_int_equal(delivered(f), 1);
    assert_int_equal(schedule(f, "orders", 1), TARRY__CODE__OK);
    uint64_t before = f->id;
    f->now_ms = due_ms - 1;
    assert_int_equal(schedule(f, "orders", 2), TARRY__CODE__OK);
    uint64_t after = f->id;
    at(f, due_ms + 1);
    const uint64_t order[] = {before, ahead, after};
    lane(f, session, CORE_LANE_SENT, true);
    /* The leases of two tasks are withdrawn: of `ahead` and of `after`. */
    assert_int_equal(recorded(f, TARRY__CAUSE__CAUSE_UNSENT), 2);
    assert_true(delivered(f) == 3 && !delivery(f)->departs);
    for (size_t i = 0; i < 3; i++) assert_int_equal(delivery(f)->tasks[i].row.id, order[i]);
    assert_true(delivery(f)->tasks[1].row.attempt == 1 && delivery(f)->tasks[1].row.deliveries == 1);
}

static void two_consumers_share(void **state) {
    struct fx *f = *state;
    uint64_t one = consume(f, 10), other = consume(f, 10);
    for (unsigned i = 0; i < 4; i++) assert_int_equal(schedule(f, "orders", DELAY_MS), TARRY__CODE__OK);
    at(f, NOW_MS + DELAY_MS - AHEAD_MS);
    assert_int_equal(recorded(f, TARRY__CAUSE__CAUSE_LEASED), 4);
    assert_int_equal(session_find(f->core, one)->ahead_count, 2);
    assert_int_equal(session_find(f->core, other)->ahead_count, 2);
    at(f, NOW_MS + DELAY_MS);
    assert_int_equal(f->effects.deliveries.count, 2);
    assert_int_equal(delivered(f), 4);
}

static void the_highest_priority_leaves_first(void **state) {
    struct fx *f = *state;
    static const uint32_t order[] = {9, 5, 0, 0};
    consume(f, 10);
    schedule_first(f, "orders", 0, DELAY_MS - 1);
    schedule_first(f, "orders", 0, DELAY_MS);
    schedule_first(f, "orders", 9, DELAY_MS);
    schedule_first(f, "orders", 5, DELAY_MS);
    at(f, NOW_MS + DELAY_MS - AHEAD_MS);
    assert_int_equal(recorded(f, TARRY__CAUSE__CAUSE_LEASED), 4);
    at(f, NOW_MS + DELAY_MS);
    assert_int_equal(delivery(f)->count, 4);
    for (size_t i = 0; i < 4; i++) assert_int_equal(delivery(f)->tasks[i].row.priority, order[i]);
    assert_true(delivery(f)->tasks[2].row.due_ms < delivery(f)->tasks[3].row.due_ms);
}

/* ---- the consumer leaves */

static void whoever_goes_before_has_had_nothing(void **state) {
    struct fx *f = *state;
    static const enum { GONE, LEAVES, RETURNS } ways[] = {GONE, LEAVES, RETURNS};
    for (size_t i = 0; i < 3; i++) {
        uint64_t first = consume(f, 10), due_ms = lease_ahead(f);
        if (ways[i] == GONE) lane(f, first, CORE_LANE_GONE, true);
        if (ways[i] == LEAVES) {
            Tarry__Request request = TARRY__REQUEST__INIT;
            Tarry__Unsubscribe body = TARRY__UNSUBSCRIBE__INIT;
            request.body_case = TARRY__REQUEST__BODY_UNSUBSCRIBE;
            request.unsubscribe = &body;
            body.session = first;
            assert_int_equal(ask(f, &request), TARRY__CODE__OK);
        }
        f->resumes = ways[i] == RETURNS ? first : 0;
        if (ways[i] == RETURNS) {
            uint64_t again = consume(f, 10);
            assert_int_equal(again, first);
            assert_int_equal(delivered(f), 0); /* the task is not sent again, because the delivery has left already */
        } else {
            assert_int_equal(recorded(f, TARRY__CAUSE__CAUSE_UNSENT), 1);
            consume(f, 10);
        }
        f->resumes = 0;
        at(f, due_ms);
        const struct row *row = &delivery(f)->tasks[0].row;
        assert_true(row->attempt == 1 && row->deliveries == 1);
        assert_int_equal(cancel(f, row->id),
                         TARRY__CODE__NOT_DONE); /* the task is in flight, so the cancel is refused */
        lane(f, f->session, CORE_LANE_SENT, true);
        lane(f, f->session, CORE_LANE_GONE, true);
        Tarry__Op op = TARRY__OP__INIT; /* unchanged */
        Tarry__Cancel body = TARRY__CANCEL__INIT;
        Tarry__Ref ref = TARRY__REF__INIT;
        op.op_case = TARRY__OP__OP_CANCEL;
        op.cancel = &body;
        body.task = &ref;
        ref.id = 1 + i;
        assert_int_equal(commit(f, &op), TARRY__CODE__OK);
    }
}

static void what_never_left_costs_no_attempt(void **state) { /* TRUE-1 */
    struct fx *f = *state;
    uint64_t session = consume(f, 10);
    uint64_t due_ms = lease_ahead(f);
    at(f, due_ms);
    assert_int_equal(delivered(f), 1);
    lane(f, session, CORE_LANE_SENT, false);
    assert_int_equal(recorded(f, TARRY__CAUSE__CAUSE_UNSENT), 1);
    assert_int_equal(delivery(f)->tasks[0].row.attempt,
                     1); /* the task is delivered again at once, with its first attempt */
    assert_int_equal(delivery(f)->tasks[0].row.deliveries, 1);
}

static void a_consumer_that_takes_nothing_keeps_nothing(void **state) {
    struct fx *f = *state;
    uint64_t slow = consume(f, 10);
    uint64_t due_ms = lease_ahead(f);
    assert_int_equal(schedule(f, "orders", 0), TARRY__CODE__OK);
    assert_int_equal(delivered(f), 1); /* this delivery stays in flight */
    uint64_t quick = consume(f, 10);
    at(f, due_ms);
    assert_int_equal(recorded(f, TARRY__CAUSE__CAUSE_UNSENT), 1);
    assert_true(delivered(f) == 1 && delivery(f)->session == quick);
    lane(f, slow, CORE_LANE_SENT, true);
    assert_int_equal(delivered(f), 0);
}

static void a_task_waits_for_its_consumer_for_a_moment(void **state) {
    struct fx *f = *state;
    uint64_t slow = consume(f, 10);
    uint64_t due_ms = lease_ahead(f);
    f->now_ms = due_ms - 5;
    assert_int_equal(schedule(f, "orders", 0), TARRY__CODE__OK);
    assert_true(delivered(f) == 1 && delivery(f)->session == slow); /* this delivery stays in flight too */
    uint64_t quick = consume(f, 10);
    at(f, due_ms);
    assert_int_equal(delivered(f), 0);
    assert_true(core_deadline(f->core) <= due_ms - 5 + AHEAD_LATE_MS + 1);
    at(f, due_ms - 5 + AHEAD_LATE_MS);
    assert_int_equal(written(f), 0);
    at(f, due_ms - 5 + AHEAD_LATE_MS + 1);
    assert_int_equal(recorded(f, TARRY__CAUSE__CAUSE_UNSENT), 1);
    assert_true(delivered(f) == 1 && delivery(f)->session == quick);
}

static void a_stop_takes_all_of_them_back(void **state) {
    struct fx *f = *state;
    consume(f, 10);
    uint64_t due_ms = lease_ahead(f);
    step(f, &(struct core_event){.kind = CORE_STOP});
    assert_int_equal(recorded(f, TARRY__CAUSE__CAUSE_UNSENT), 1);
    at(f, due_ms);
    assert_int_equal(delivered(f), 0);
    step(f, &(struct core_event){.kind = CORE_RESUME});
    assert_int_equal(delivered(f), 1);
}

/* ---- credit */

static void what_is_due_finds_credit(void **state) {
    struct fx *f = *state;
    uint64_t session = consume(f, 4);
    for (unsigned i = 0; i < 4; i++) assert_int_equal(schedule(f, "orders", DELAY_MS), TARRY__CODE__OK);
    at(f, NOW_MS + DELAY_MS - AHEAD_MS);
    /* Leases ahead of time take at most half of the credit. */
    assert_int_equal(recorded(f, TARRY__CAUSE__CAUSE_LEASED), 2);
    size_t count = 0;
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(schedule(f, "orders", 0), TARRY__CODE__OK);
        count += delivered(f);
    }
    for (unsigned i = 0; i < 4 && count < 4; i++) {
        lane(f, session, CORE_LANE_SENT, true);
        count += delivered(f);
        for (size_t k = 0; k < f->effects.deliveries.count; k++)
            assert_true(f->effects.deliveries.items[k].tasks[0].row.due_ms < NOW_MS + DELAY_MS);
    }
    assert_int_equal(count, 4); /* no ready task waits for a task that is due later */
    assert_int_equal(session_find(f->core, session)->ahead_count, 0);
    at(f, NOW_MS + DELAY_MS);
    assert_int_equal(delivered(f), 0);
}

static void a_single_credit_is_not_spent_ahead(void **state) {
    struct fx *f = *state;
    consume(f, 1);
    assert_int_equal(schedule(f, "orders", DELAY_MS), TARRY__CODE__OK);
    at(f, NOW_MS + DELAY_MS - AHEAD_MS);
    assert_int_equal(written(f), 0);
    at(f, NOW_MS + DELAY_MS);
    assert_true(delivered(f) == 1 && !delivery(f)->departs);
}

static void where_something_waits_for_credit_nothing_is_leased_ahead(void **state) {
    struct fx *f = *state;
    uint64_t session = consume(f, 3); /* the consumer has credit for the two tasks below and for the last one */
    assert_int_equal(schedule(f, "orders", DELAY_MS), TARRY__CODE__OK);
    assert_int_equal(schedule(f, "orders", 0), TARRY__CODE__OK);
    assert_int_equal(delivered(f), 1); /* the delivery is in flight */
    assert_int_equal(schedule(f, "orders", 0), TARRY__CODE__OK);
    at(f, NOW_MS + DELAY_MS - AHEAD_MS);
    assert_int_equal(recorded(f, TARRY__CAUSE__CAUSE_LEASED), 0);
    lane(f, session, CORE_LANE_SENT, true);
    assert_int_equal(delivered(f), 1);
}

static void a_ready_task_that_finds_credit_forbids_no_lease_ahead(void **state) {
    struct fx *f = *state;
    consume(f, 4);
    assert_int_equal(schedule(f, "orders", DELAY_MS), TARRY__CODE__OK);
    assert_int_equal(schedule(f, "orders", 0), TARRY__CODE__OK);
    assert_int_equal(delivered(f), 1); /* the delivery is in flight */
    assert_int_equal(schedule(f, "orders", 0), TARRY__CODE__OK);
    at(f, NOW_MS + DELAY_MS - AHEAD_MS);
    assert_int_equal(recorded(f, TARRY__CAUSE__CAUSE_LEASED), 1);
}

/* Schedules one task for each millisecond. */
static void schedule_row(struct fx *f, uint64_t from_ms, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(schedule(f, "orders", from_ms + i - f->now_ms), TARRY__CODE__OK);
}

/* Lets the milliseconds pass one by one. Each task must leave on time, and is sent and acked at once. Returns the
 * number of tasks that left. */
static size_t pass(struct fx *f, uint64_t session, uint64_t until_ms, size_t *taken_back) {
    size_t count = 0;
    while (f->now_ms < until_ms) {
        at(f, f->now_ms + 1);
        *taken_back += recorded(f, TARRY__CAUSE__CAUSE_UNSENT);
        if (!delivered(f)) continue;
        assert_int_equal(delivery(f)->count, 1);
        struct row row = delivery(f)->tasks[0].row;
        assert_int_equal(row.due_ms, f->now_ms);
        count++;
        lane(f, session, CORE_LANE_SENT, true);
        *taken_back += recorded(f, TARRY__CAUSE__CAUSE_UNSENT);
        assert_int_equal(ack(f, &row), TARRY__CODE__OK);
        *taken_back += recorded(f, TARRY__CAUSE__CAUSE_UNSENT);
    }
    return count;
}

/* A task due later never takes the credit that a task due earlier needs. */
static void without_credit_for_all_the_time_ahead_is_halved(void **state) {
    struct fx *f = *state;
    uint64_t session = consume(f, 40), from_ms = f->now_ms + 200;
    schedule_row(f, from_ms, 300);
    size_t taken_back = 0;
    assert_int_equal(pass(f, session, from_ms + 300, &taken_back), 300);
    assert_int_equal(taken_back, 0);
    assert_int_equal(orders(f)->ahead_halvings, 2); /* halved twice, from 50 to 12 ms: half of 40 credits may be used
                                                       ahead of time, and 25 tasks are due in 25 ms */
    f->now_ms += 4 * AHEAD_REST_MS;
    from_ms = f->now_ms + 200;
    schedule_row(f, from_ms, 1);
    /* Some time without a new halving restores the full time ahead. */
    assert_int_equal(near_halvings(f->core, orders(f)), 0);
    assert_int_equal(pass(f, session, from_ms + 1, &taken_back), 1);
}

/* The next delivery leaves after the one before it, however late they are. */
static void a_consumer_that_takes_deliveries_keeps_its_late_ones(void **state) {
    struct fx *f = *state;
    uint64_t session = consume_in_batches(f, 40, 1), due_ms = f->now_ms + DELAY_MS;
    schedule_row(f, due_ms, 3);
    at(f, due_ms - AHEAD_MS + 2);
    assert_int_equal(recorded(f, TARRY__CAUSE__CAUSE_LEASED), 3);
    at(f, due_ms);
    assert_int_equal(delivered(f), 1);
    f->now_ms = due_ms + 10 * AHEAD_LATE_MS; /* time passes without a step, as if all threads were paused */
    lane(f, session, CORE_LANE_SENT, true);
    assert_int_equal(delivered(f), 1);
    assert_int_equal(recorded(f, TARRY__CAUSE__CAUSE_UNSENT), 0);
    lane(f, session, CORE_LANE_SENT, true);
    assert_int_equal(delivered(f), 1);
}

/* ---- tasks that are not leased ahead */

static void schedule_with(struct fx *f, Tarry__When__Kind kind, uint64_t ms, uint64_t expires_ms) {
    Tarry__Schedule body = TARRY__SCHEDULE__INIT;
    Tarry__When when = TARRY__WHEN__INIT;
    body.expires_ms = expires_ms;
    when.kind = kind;
    when.ms = ms;
    assert_int_equal(schedule_as(f, "orders", &body, &when), TARRY__CODE__OK);
}

static void what_expires_or_goes_by_the_wall_clock_is_not(void **state) {
    struct fx *f = *state;
    consume(f, 10);
    schedule_with(f, TARRY__WHEN__KIND__DELAY, DELAY_MS, 5000);
    schedule_with(f, TARRY__WHEN__KIND__AT, NOW_MS + DELAY_MS, 0);
    for (uint64_t ms = 0; ms < DELAY_MS; ms += 10) {
        at(f, NOW_MS + ms);
        assert_int_equal(recorded(f, TARRY__CAUSE__CAUSE_LEASED), 0);
    }
    at(f, NOW_MS + DELAY_MS);
    assert_int_equal(delivered(f), 2);
}

static void a_short_lease_is_not(void **state) {
    struct fx *f = *state;
    Tarry__Subscribe body = TARRY__SUBSCRIBE__INIT;
    char *queue = "orders";
    body.queues = &queue;
    body.n_queues = 1;
    body.lease_ms = AHEAD_LEASE_MIN_MS - 1;
    assert_int_equal(subscribe(f, &body), TARRY__CODE__OK);
    lane(f, f->session, CORE_LANE_UP, false);
    assert_int_equal(schedule(f, "orders", DELAY_MS), TARRY__CODE__OK);
    at(f, NOW_MS + DELAY_MS - AHEAD_MS);
    assert_int_equal(written(f), 0);
}

static void a_pooled_session_is_not(void **state) {
    struct fx *f = *state;
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Subscribe body = TARRY__SUBSCRIBE__INIT;
    char *queue = "orders";
    request.body_case = TARRY__REQUEST__BODY_SUBSCRIBE;
    request.subscribe = &body;
    body.queues = &queue;
    body.n_queues = 1;
    request.client = "test";
    struct core_event event = {.kind = CORE_REQUEST, .request = {.ticket = 1, .message = &request, .pooled = true}};
    step(f, &event);
    lane(f, f->session, CORE_LANE_UP, false);
    step(f, &(struct core_event){.kind = CORE_CREDIT, .lane.session = f->session, .lane.credit = 10});
    assert_int_equal(schedule(f, "orders", DELAY_MS), TARRY__CODE__OK);
    at(f, NOW_MS + DELAY_MS - AHEAD_MS);
    assert_int_equal(written(f), 0);
    at(f, NOW_MS + DELAY_MS);
    assert_int_equal(delivered(f), 1);
}

/* ---- another run */

static void after_a_restart_it_may_have_left_and_is_not_sent_early(void **state) { /* TIME-1, TRUE-1 */
    struct fx *f = *state;
    struct core_options options = f->options;
    f->after_step = keep_frames;
    begin_again(f, &options);
    uint64_t session = consume(f, 10), due_ms = lease_ahead(f), id = f->id;
    uint64_t token = TAILQ_FIRST(&session_find(f->core, session)->ahead)->row.lease_position;
    restart(f, 2); /* the new core starts with a clock that is behind that of the former run */
    assert_int_equal(hello(f), TARRY__CODE__OK);
    f->sequence = 0;
    assert_int_equal(cancel(f, id), TARRY__CODE__NOT_DONE);
    says(f, "in flight");
    f->resumes = session;
    assert_int_equal(consume(f, 10), session);
    assert_int_equal(delivered(f), 0);
    assert_true(core_deadline(f->core) <= due_ms);
    at(f, due_ms - 1);
    assert_int_equal(delivered(f), 0);
    at(f, due_ms);
    assert_int_equal(delivered(f), 1);
    const struct row *row = &delivery(f)->tasks[0].row;
    assert_true(row->lease_position == token && row->deliveries == 1 && row->attempt == 1);
}

static void who_stops_in_order_leaves_none(void **state) {
    struct fx *f = *state;
    struct core_options options = f->options;
    f->after_step = keep_frames;
    begin_again(f, &options);
    uint64_t session = consume(f, 10), due_ms = lease_ahead(f), id = f->id;
    step(f, &(struct core_event){.kind = CORE_STOP});
    restart(f, 2);
    assert_int_equal(hello(f), TARRY__CODE__OK);
    f->sequence = 0;
    f->resumes = session;
    consume(f, 10);
    assert_int_equal(cancel(f, id), TARRY__CODE__OK); /* the cancel succeeds, because no consumer has seen the task */
    at(f, due_ms);
    assert_int_equal(delivered(f), 0);
}

/* ---- amount of work */

static void however_many_are_due_a_step_leases_so_much(void **state) {
    struct fx *f = *state;
    consume(f, PREFETCH_MAX);
    for (unsigned i = 0; i < 3000; i++) assert_int_equal(schedule(f, "orders", DELAY_MS), TARRY__CODE__OK);
    at(f, NOW_MS + DELAY_MS - AHEAD_MS);
    assert_int_equal(recorded(f, TARRY__CAUSE__CAUSE_LEASED), DELIVERED_PER_STEP_MAX);
    assert_int_equal(f->core->ahead_count, DELIVERED_PER_STEP_MAX);
    at(f, NOW_MS + DELAY_MS);
    assert_true(delivered(f) > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        AHEAD_TEST(it_is_leased_before_and_leaves_when_it_is_due),
        AHEAD_TEST(what_is_due_sooner_than_that_is_leased_at_once),
        AHEAD_TEST(the_next_delivery_waits_for_the_one_under_way),
        AHEAD_TEST(ready_and_ahead_leave_in_one_order),
        AHEAD_TEST(two_consumers_share),
        AHEAD_TEST(the_highest_priority_leaves_first),
        AHEAD_TEST(whoever_goes_before_has_had_nothing),
        AHEAD_TEST(what_never_left_costs_no_attempt),
        AHEAD_TEST(a_consumer_that_takes_nothing_keeps_nothing),
        AHEAD_TEST(a_task_waits_for_its_consumer_for_a_moment),
        AHEAD_TEST(a_stop_takes_all_of_them_back),
        AHEAD_TEST(what_is_due_finds_credit),
        AHEAD_TEST(a_single_credit_is_not_spent_ahead),
        AHEAD_TEST(where_something_waits_for_credit_nothing_is_leased_ahead),
        AHEAD_TEST(a_ready_task_that_finds_credit_forbids_no_lease_ahead),
        AHEAD_TEST(without_credit_for_all_the_time_ahead_is_halved),
        AHEAD_TEST(a_consumer_that_takes_deliveries_keeps_its_late_ones),
        AHEAD_TEST(what_expires_or_goes_by_the_wall_clock_is_not),
        AHEAD_TEST(a_short_lease_is_not),
        AHEAD_TEST(a_pooled_session_is_not),
        AHEAD_TEST(after_a_restart_it_may_have_left_and_is_not_sent_early),
        AHEAD_TEST(who_stops_in_order_leaves_none),
        AHEAD_TEST(however_many_are_due_a_step_leases_so_much),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
