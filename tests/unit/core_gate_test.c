/* core_gate_test.c: a queue's rate, burst and max_in_flight (HERD-1). */
#include "core_alone.h"

#include "leases.h"
#include "state.h"

#define MANY 40u

static struct row leased[MANY]; /* leased rows in the order of their deliveries */
static size_t leased_count;

static void note_deliveries(struct fx *f) {
    for (size_t i = 0; i < f->effects.deliveries.count; i++)
        for (size_t k = 0; k < f->effects.deliveries.items[i].count; k++)
            leased[leased_count++] = f->effects.deliveries.items[i].tasks[k].row;
}

static void heartbeat(struct fx *f) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Heartbeat body = TARRY__HEARTBEAT__INIT;
    request.body_case = TARRY__REQUEST__BODY_HEARTBEAT;
    request.heartbeat = &body;
    body.session = f->session;
    assert_int_equal(ask(f, &request), TARRY__CODE__OK);
}

/* Steps the core at `at_ms`, and reports each delivery as sent, until no more tasks leave. Returns the number of tasks
 * that left. */
static size_t deliver_at(struct fx *f, uint64_t at_ms) {
    const size_t before = leased_count;
    size_t last;
    /* Sends heartbeats, so that the session does not end. */
    for (; f->now_ms + 4000 < NOW_MS + at_ms; heartbeat(f)) f->now_ms += 4000;
    f->now_ms = NOW_MS + at_ms;
    struct core_event tick = {.kind = CORE_TICK};
    step(f, &tick);
    do {
        last = leased_count;
        struct core_event sent = {.kind = CORE_LANE_SENT, .lane.session = f->session, .lane.ok = true};
        step(f, &sent);
    } while (leased_count > last);
    core_check(f->core);
    return leased_count - before;
}

static Tarry__Code set_limits(struct fx *f, uint32_t rate, uint32_t burst, uint32_t max_in_flight) {
    static char *fields[] = {"rate", "burst", "max_in_flight"};
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__QueueSet body = TARRY__QUEUE_SET__INIT;
    Tarry__Policy policy = TARRY__POLICY__INIT;
    op.op_case = TARRY__OP__OP_QUEUE_SET;
    op.queue_set = &body;
    body.queue = "orders";
    body.policy = &policy;
    body.fields = fields;
    body.n_fields = 3;
    policy.rate = rate;
    policy.burst = burst;
    policy.max_in_flight = max_in_flight;
    return commit(f, &op);
}

/* Makes `count` ready tasks, and a consumer with credit for all of them. */
static void begin_with(struct fx *f, unsigned count) {
    Tarry__Subscribe body = TARRY__SUBSCRIBE__INIT;
    char *queue = "orders";
    leased_count = 0;
    f->after_step = note_deliveries;
    for (unsigned i = 0; i < count; i++) assert_int_equal(schedule(f, "orders", 0), TARRY__CODE__OK);
    body.queues = &queue;
    body.n_queues = 1;
    body.prefetch = MANY;
    assert_int_equal(subscribe(f, &body), TARRY__CODE__OK);
    struct core_event up = {.kind = CORE_LANE_UP, .lane.session = f->session};
    step(f, &up);
}

static void a_rate_spaces_the_deliveries(void **state) {
    struct fx *f = *state;
    assert_int_equal(set_limits(f, 10, 5, 0), TARRY__CODE__OK);
    begin_with(f, MANY);
    assert_int_equal(deliver_at(f, 0),
                     0); /* nothing is delivered, because the bucket is empty after a change of the policy */
    assert_int_equal(deliver_at(f, 99), 0);
    assert_int_equal(core_deadline(f->core), NOW_MS + 100);
    assert_int_equal(deliver_at(f, 100), 1);
    assert_int_equal(deliver_at(f, 350), 2);
    assert_int_equal(deliver_at(f, 399), 0);
    assert_int_equal(deliver_at(f, 3900), 5); /* only as many tasks as the burst are delivered */
    assert_int_equal(deliver_at(f, 3999), 0);
    assert_int_equal(deliver_at(f, 4000), 1);
    for (size_t i = 1; i < leased_count; i++) assert_true(leased[i - 1].id < leased[i].id); /* in order */
    assert_int_equal(set_limits(f, 0, 0, 0), TARRY__CODE__OK);
    (void)deliver_at(f, 4001);
    assert_int_equal(leased_count, MANY);
}

static void the_default_burst_is_the_rate_of_100_ms(void **state) {
    struct fx *f = *state;
    assert_int_equal(set_limits(f, 200, 0, 0), TARRY__CODE__OK);
    begin_with(f, MANY);
    assert_int_equal(deliver_at(f, 3000), 20);
}

static void max_in_flight_counts_leases_of_all_kinds(void **state) {
    struct fx *f = *state;
    assert_int_equal(set_limits(f, 0, 0, 3), TARRY__CODE__OK);
    begin_with(f, 10);
    (void)deliver_at(f, 0);
    assert_int_equal(leased_count, 3);
    assert_int_equal(ack(f, &leased[1]), TARRY__CODE__OK);
    (void)deliver_at(f, 1);
    assert_int_equal(leased_count, 4);
    (void)deliver_at(f, 30001); /* the leases have expired, so the tasks return and three of them leave again */
    assert_int_equal(core_live(f->core), 9);
    assert_int_equal(leased_count, 7);
    assert_int_equal(f->core->leases, 3);
    assert_int_equal(set_limits(f, 0, 0, 5), TARRY__CODE__OK);
    (void)deliver_at(f, 30002);
    assert_int_equal(f->core->leases, 5);
}

static void limits_that_contradict_each_other_are_refused(void **state) {
    struct fx *f = *state;
    /* A burst without a rate is allowed, and has no effect until a rate is set. */
    assert_int_equal(set_limits(f, 0, 5, 0), TARRY__CODE__OK);
    assert_int_equal(set_limits(f, 10000, 19, 0), TARRY__CODE__INVALID);
    says(f, "burst is too small for this rate");
    assert_int_equal(set_limits(f, 10000, 20, 0), TARRY__CODE__OK);
    assert_int_equal(set_limits(f, 1, 86401, 0), TARRY__CODE__INVALID);
    says(f, "burst is too large for this rate");
    assert_int_equal(set_limits(f, 1, 86400, 0), TARRY__CODE__OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CORE_TEST(a_rate_spaces_the_deliveries),
        CORE_TEST(the_default_burst_is_the_rate_of_100_ms),
        CORE_TEST(max_in_flight_counts_leases_of_all_kinds),
        CORE_TEST(limits_that_contradict_each_other_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
