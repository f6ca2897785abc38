/* core_ahead_bounds_test.c: leases ahead of time (core/ahead.h) have bounds. A lease that other tasks overtake delays
 * no other task, and does not keep tasks in the overlay. A queue's shortened time ahead grows again as time passes. The
 * work of a step does not grow with the number of leases (CALM-1, KEEP-1). */
#include <inttypes.h>

#include "core_ahead_rig.h"

static void index_all(struct fx *f) {
    struct core_event indexed = {.kind = CORE_INDEXED, .position = f->core->durable};
    step(f, &indexed);
    for (int i = 0; i < 100 && f->core->hurry; i++) step(f, &(struct core_event){.kind = CORE_TICK});
}

static void beat(struct fx *f, uint64_t session) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Heartbeat body = TARRY__HEARTBEAT__INIT;
    request.body_case = TARRY__REQUEST__BODY_HEARTBEAT;
    request.heartbeat = &body;
    body.session = session;
    assert_int_equal(ask(f, &request), TARRY__CODE__OK);
}

/* Counts deliveries since the test last set it to zero. */
static struct {
    uint64_t wanted; /* id of the task that the test looks for */
    uint64_t left_ms;
    size_t count;
} seen;

static void look(struct fx *f) {
    for (size_t i = 0; i < f->effects.deliveries.count; i++) {
        const struct core_delivery *one = &f->effects.deliveries.items[i];
        seen.count += one->count;
        for (size_t k = 0; k < one->count; k++)
            if (one->tasks[k].row.id == seen.wanted && !seen.left_ms) seen.left_ms = f->now_ms;
    }
}

static void watch(struct fx *f, uint64_t id) {
    memset(&seen, 0, sizeof(seen));
    seen.wanted = id;
    f->after_step = look;
}

/* ---- an overtaken lease delays no task */

/* A task of priority 0 is leased ahead of time. Whenever its session could take it, a task of priority 9 is ready. The
 * task of priority 0 must still leave soon. */
static void a_stream_of_a_higher_priority_starves_no_task(void **state) {
    struct fx *f = *state;
    uint64_t session = consume(f, 1000), due_ms = lease_ahead(f);
    watch(f, f->id);
    f->now_ms = due_ms - 1;
    schedule_first(f, "orders", 9,
                   0); /* the delivery of this task is still in flight when the other task becomes due */
    for (size_t i = 0; i < 200 && !seen.left_ms; i++) {
        f->now_ms++;
        schedule_first(f, "orders", 9, 0);
        assert_true(session_find(f->core, session)->sending);
        ack_all(f, session, seen.wanted);
    }
    assert_in_range(seen.left_ms, due_ms, due_ms + AHEAD_LATE_MS + 5);
}

/* The overlay must not grow while a lease ahead of time is overtaken by other tasks. */
static void an_overtaken_lease_holds_up_no_other_queue(void **state) {
    struct fx *f = *state;
    struct core_options options = f->options;
    options.index_lag_max = 300;
    options.index_lag_hard = 500;
    begin_again(f, &options);
    uint64_t urgent = consume(f, 1000), due_ms = f->now_ms + 2 * DELAY_MS;
    for (unsigned i = 0; i < 1000; i++) {
        Tarry__Schedule absolute = TARRY__SCHEDULE__INIT;
        Tarry__When when = TARRY__WHEN__INIT;
        absolute.priority = 9;
        when.kind = TARRY__WHEN__KIND__AT;
        when.ms = due_ms - 1 + i;
        assert_int_equal(schedule_as(f, "orders", &absolute, &when), TARRY__CODE__OK);
        if (i % 100 == 99) index_all(f);
    }
    index_all(f);
    assert_int_equal(schedule(f, "orders", due_ms - f->now_ms), TARRY__CODE__OK);
    watch(f, f->id);
    while (f->now_ms < due_ms + 900) {
        f->now_ms++; /* the lane becomes free, but the next task of priority 9 is due too */
        if (session_find(f->core, urgent)->sending)
            lane(f, urgent, CORE_LANE_SENT, true);
        else
            at(f, f->now_ms);
        ack_held(f, urgent, seen.wanted);
        if (f->now_ms % 1000 == 0) beat(f, urgent);
        if (f->now_ms % 3 == 0) assert_int_equal(schedule(f, "other", 3600000), TARRY__CODE__OK); /* never BUSY */
        index_all(f);
        assert_true(f->core->overlay_count < 300);
    }
    assert_in_range(seen.left_ms, due_ms, due_ms + AHEAD_LATE_MS + 5);
    assert_true(seen.count > 890);
}

/* ---- limits of a departure */

static void a_departure_is_as_large_as_a_delivery(void **state) {
    struct fx *f = *state;
    uint64_t session = consume(f, 10), due_ms = f->now_ms + DELAY_MS;
    f->content_size = DELIVERY_SIZE_MAX / 2;
    for (size_t i = 0; i < 3; i++) assert_int_equal(schedule(f, "orders", DELAY_MS), TARRY__CODE__OK);
    at(f, due_ms - AHEAD_MS);
    assert_int_equal(recorded(f, TARRY__CAUSE__CAUSE_LEASED), 3);
    at(f, due_ms);
    assert_true(delivered(f) == 2 && delivery(f)->departs); /* the delivery has no space for the third task */
    lane(f, session, CORE_LANE_SENT, true);
    assert_true(delivered(f) == 1 && delivery(f)->departs);
}

/* The session gets one task of priority 9 in each delivery, so its task of priority 0 waits. AHEAD_LATE_MS after the
 * due time, the lease of this task is withdrawn, and any consumer may get it. */
static void a_task_that_departures_pass_over_is_withdrawn(void **state) {
    struct fx *f = *state;
    uint64_t session = consume_in_batches(f, 200, 1), due_ms = f->now_ms + DELAY_MS;
    schedule_first(f, "orders", 0, DELAY_MS);
    watch(f, f->id);
    for (size_t i = 0; i < 60; i++) schedule_first(f, "orders", 9, DELAY_MS);
    at(f, due_ms - AHEAD_MS);
    assert_int_equal(recorded(f, TARRY__CAUSE__CAUSE_LEASED), 61);
    at(f, due_ms);
    while (f->now_ms < due_ms + AHEAD_LATE_MS) {
        f->now_ms++;
        lane(f, session, CORE_LANE_SENT, true);
        assert_int_equal(recorded(f, TARRY__CAUSE__CAUSE_UNSENT), 0);
    }
    f->now_ms++;
    lane(f, session, CORE_LANE_SENT, true);
    assert_int_equal(recorded(f, TARRY__CAUSE__CAUSE_UNSENT), 1);
    assert_true(delivered(f) == 1 && delivery(f)->departs && !seen.left_ms);
    uint64_t other = consume(f, 10); /* after this time, any consumer may get the task */
    assert_true(delivered(f) == 1 && delivery(f)->session == other && seen.left_ms == f->now_ms);
}

/* A departure that withdraws many late leases counts each of them as work (CALM-1). */
static void withdrawn_leases_count_as_work(void **state) {
    struct fx *f = *state;
    const size_t late = 40;
    uint64_t session = consume_in_batches(f, 400, 1), due_ms = f->now_ms + DELAY_MS;
    for (size_t i = 0; i < late; i++) schedule_first(f, "orders", 0, DELAY_MS);
    for (size_t i = 0; i < 60; i++) schedule_first(f, "orders", 9, DELAY_MS);
    at(f, due_ms - AHEAD_MS);
    at(f, due_ms);
    f->now_ms = due_ms + AHEAD_LATE_MS + 1;
    uint64_t before = f->core->visits;
    lane(f, session, CORE_LANE_SENT, true);
    assert_int_equal(recorded(f, TARRY__CAUSE__CAUSE_UNSENT), late);
    assert_true(f->core->visits - before >= late);
}

/* If half of a lease has passed before its delivery leaves, the broker makes a new lease, because the consumer would
 * have too little time. */
static void after_a_long_stall_the_lease_is_a_whole_one(void **state) { /* TIME-1 */
    struct fx *f = *state;
    Tarry__Subscribe body = TARRY__SUBSCRIBE__INIT;
    char *queue = "orders";
    body.queues = &queue;
    body.n_queues = 1;
    body.lease_ms = 4000;
    assert_int_equal(subscribe(f, &body), TARRY__CODE__OK);
    lane(f, f->session, CORE_LANE_UP, false);
    uint64_t due_ms = lease_ahead(f);
    at(f, due_ms + body.lease_ms / 2 +
              1); /* more than half of the lease has passed, but the session is not silent for too long yet */
    const struct row *row = &delivery(f)->tasks[0].row;
    assert_true(!delivery(f)->departs && row->attempt == 1 && row->deliveries == 1);
    assert_true(row->lease_deadline_ms >= f->now_ms + body.lease_ms);
}

/* ---- time widens a narrowed span */

/* Schedules, three times, 40 tasks that are due at the same time. The consumer can take only a few of them at once
 * (issue 28, C5). */
static void bursts(struct fx *f, uint64_t session) {
    for (unsigned burst = 0; burst < 3; burst++) {
        uint64_t due_ms = f->now_ms + 500;
        for (unsigned i = 0; i < 40; i++) assert_int_equal(schedule(f, "orders", due_ms - f->now_ms), TARRY__CODE__OK);
        while (f->now_ms < due_ms) at(f, f->now_ms + 1);
        for (unsigned i = 0; i < 100 && session_find(f->core, session)->lease_count; i++) ack_all(f, session, 0);
    }
    assert_int_equal(core_live(f->core), 0);
}

static void a_burst_does_not_switch_leases_ahead_off(void **state) {
    struct fx *f = *state;
    uint64_t session = consume(f, 10);
    bursts(f, session);
    assert_true(near_halvings(f->core, orders(f)) > 0);
    assert_true(AHEAD_MS >> near_halvings(f->core, orders(f)) >= AHEAD_SPAN_MIN_MS);
    for (unsigned i = 0; i < AHEAD_REST_MAX_MS / 5000 + 1; i++) { /* ends after the longest pause (AHEAD_REST_MAX_MS) */
        f->now_ms += 5000;
        beat(f, session);
    }
    assert_int_equal(near_halvings(f->core, orders(f)), 0);
    uint64_t due_ms = lease_ahead(f);
    at(f, due_ms);
    assert_true(delivered(f) == 1 && delivery(f)->departs);
}

/* A queue's time ahead may be halved down to AHEAD_SPAN_MIN_MS. With this shortest time, tasks must still be leased
 * ahead of time. */
static void the_shortest_span_is_one_that_acts(void **state) {
    struct fx *f = *state;
    assert_int_equal(schedule(f, "orders", 10 * DELAY_MS), TARRY__CODE__OK); /* this schedule creates the queue */
    uint64_t session = consume(f, 100), due_ms = f->now_ms + DELAY_MS;
    orders(f)->ahead_halvings = 0;
    while (AHEAD_MS >> (orders(f)->ahead_halvings + 1) >= AHEAD_SPAN_MIN_MS) orders(f)->ahead_halvings++;
    orders(f)->ahead_pause = (struct pause){.until_ms = UINT64_MAX, .length_ms = AHEAD_REST_MS};
    assert_int_equal(schedule(f, "orders", DELAY_MS), TARRY__CODE__OK);
    at(f, due_ms - (AHEAD_MS >> orders(f)->ahead_halvings));
    assert_int_equal(recorded(f, TARRY__CAUSE__CAUSE_LEASED), 1);
    assert_int_equal(session_find(f->core, session)->ahead_count, 1);
}

/* The core searches at most AHEAD_TAKERS_PER_LOOK_MAX of the 41 consumers for credit at once. If these consumers have
 * no credit, another consumer may have some, so the time ahead must not be halved. */
static void consumers_without_room_do_not_narrow_the_time_ahead(void **state) {
    struct fx *f = *state;
    uint64_t due_ms = f->now_ms + DELAY_MS;
    assert_int_equal(schedule(f, "orders", 10 * DELAY_MS), TARRY__CODE__OK); /* this schedule creates the queue */
    for (unsigned i = 0; i < 40; i++) consume(f, 1);
    uint64_t session = consume(f, 1000);
    assert_int_equal(schedule(f, "orders", DELAY_MS), TARRY__CODE__OK);
    uint64_t before = f->core->visits;
    at(f, due_ms - AHEAD_MS);
    assert_true(f->core->visits - before >=
                AHEAD_TAKERS_PER_LOOK_MAX); /* each consumer that was visited counts as work */
    for (f->now_ms = due_ms - AHEAD_MS; f->now_ms < due_ms; f->now_ms++) at(f, f->now_ms);
    assert_int_equal(orders(f)->ahead_halvings, 0);
    assert_int_equal(session_find(f->core, session)->ahead_count, 1);
}

/* ---- amount of work */

static void many(struct fx *f, unsigned count, uint64_t delay_ms) {
    static Tarry__Schedule bodies[OPS_PER_COMMIT_MAX];
    static Tarry__When whens[OPS_PER_COMMIT_MAX];
    static Tarry__Op ops[OPS_PER_COMMIT_MAX], *pointers[OPS_PER_COMMIT_MAX];
    for (unsigned i = 0; i < count; i++) {
        tarry__op__init(&ops[i]);
        tarry__schedule__init(&bodies[i]);
        tarry__when__init(&whens[i]);
        bodies[i].queue = "orders";
        bodies[i].when = &whens[i];
        whens[i].ms = delay_ms;
        ops[i].op_case = TARRY__OP__OP_SCHEDULE;
        ops[i].schedule = &bodies[i];
        pointers[i] = &ops[i];
    }
    f->sequence++;
    assert_int_equal(commit_as(f, f->sequence, f->sequence, pointers, count), TARRY__CODE__OK);
}

/* One more lease costs the same, however many leases exist. The test counts how much the core examines at a departure.
 */
static void a_lease_ahead_looks_at_no_other(void **state) {
    struct fx *f = *state;
    struct core_options options = f->options;
    options.memory = 64u << 20;
    begin_again(f, &options);
    consume_in_batches(f, PREFETCH_MAX, 100);
    uint64_t due_ms = f->now_ms + DELAY_MS;
    for (unsigned i = 0; i < 40; i++) many(f, 100, due_ms + i - f->now_ms);
    while (f->now_ms < due_ms - 4) at(f, f->now_ms + 1);
    assert_int_equal(f->core->ahead_count, 4000);
    uint64_t before = f->core->visits;
    many(f, 200, 3); /* these tasks are due earlier than all others */
    assert_int_equal(f->core->ahead_count, 4200);
    assert_true(f->core->visits - before < 20);
    before = f->core->visits;
    at(f, due_ms - 1);
    assert_int_equal(delivered(f), 100);
    assert_in_range(f->core->visits - before, 100, 120);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        AHEAD_TEST(a_stream_of_a_higher_priority_starves_no_task),
        AHEAD_TEST(an_overtaken_lease_holds_up_no_other_queue),
        AHEAD_TEST(a_departure_is_as_large_as_a_delivery),
        AHEAD_TEST(a_task_that_departures_pass_over_is_withdrawn),
        AHEAD_TEST(withdrawn_leases_count_as_work),
        AHEAD_TEST(after_a_long_stall_the_lease_is_a_whole_one),
        AHEAD_TEST(a_burst_does_not_switch_leases_ahead_off),
        AHEAD_TEST(the_shortest_span_is_one_that_acts),
        AHEAD_TEST(consumers_without_room_do_not_narrow_the_time_ahead),
        AHEAD_TEST(a_lease_ahead_looks_at_no_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
