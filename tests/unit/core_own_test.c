/* core_own_test.c: a task's own attempts, backoff and lease replace those of its queue (OWN-1). */
#include "core_alone.h"

#include "leases.h"
#include "near.h"
#include "state.h"
#include "tasks.h"

#define LEASE_MS 30000u /* lease duration of the queue in ms (core_alone.h) */

static struct row leased; /* the last delivery */
static size_t leased_count;

static void note_deliveries(struct fx *f) {
    for (size_t i = 0; i < f->effects.deliveries.count; i++) {
        for (size_t k = 0; k < f->effects.deliveries.items[i].count; k++) {
            leased = f->effects.deliveries.items[i].tasks[k].row;
            leased_count++;
        }
    }
}

static void consume(struct fx *f, uint64_t lease_ms) {
    Tarry__Subscribe body = TARRY__SUBSCRIBE__INIT;
    char *queue = "orders";
    leased_count = 0;
    f->after_step = note_deliveries;
    body.queues = &queue;
    body.n_queues = 1;
    body.prefetch = 4;
    body.lease_ms = lease_ms;
    assert_int_equal(subscribe(f, &body), TARRY__CODE__OK);
    step(f, &(struct core_event){.kind = CORE_LANE_UP, .lane.session = f->session});
}

/* Steps the core at `at_ms` after the start, and reports each delivery as sent. */
static void deliver_at(struct fx *f, uint64_t at_ms) {
    f->now_ms = NOW_MS + at_ms;
    step(f, &(struct core_event){.kind = CORE_TICK});
    step(f, &(struct core_event){.kind = CORE_LANE_SENT, .lane.session = f->session, .lane.ok = true});
    core_check(f->core);
}

struct own {
    uint32_t max_attempts;
    uint64_t backoff_ms, lease_ms, delay_ms;
};

static uint64_t schedule_own(struct fx *f, struct own own) {
    Tarry__Schedule body = TARRY__SCHEDULE__INIT;
    Tarry__When when = TARRY__WHEN__INIT;
    when.ms = own.delay_ms;
    body.max_attempts = own.max_attempts;
    body.backoff_ms = own.backoff_ms;
    body.lease_ms = own.lease_ms;
    assert_int_equal(schedule_as(f, "orders", &body, &when), TARRY__CODE__OK);
    return f->id;
}

static void set_policy(struct fx *f, const Tarry__Policy *given) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__QueueSet set = TARRY__QUEUE_SET__INIT;
    Tarry__Policy policy = *given;
    static char *fields[] = {"max_attempts", "backoff", "backoff_min_ms", "backoff_max_ms"};
    set.queue = "orders";
    set.policy = &policy;
    set.fields = fields;
    set.n_fields = 4;
    op.op_case = TARRY__OP__OP_QUEUE_SET;
    op.queue_set = &set;
    assert_int_equal(commit(f, &op), TARRY__CODE__OK);
}

/* Nacks the last delivery without a delay. */
static void nack(struct fx *f) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Nack body = TARRY__NACK__INIT;
    Tarry__Token token = token_of(&leased);
    op.op_case = TARRY__OP__OP_NACK;
    op.nack = &body;
    body.id = leased.id;
    body.token = &token;
    assert_int_equal(commit(f, &op), TARRY__CODE__OK);
}

static void more_or_fewer_attempts_than_the_queue(void **state) {
    struct fx *f = *state;
    Tarry__Policy policy = TARRY__POLICY__INIT;
    policy.max_attempts = 2;
    set_policy(f, &policy);
    const uint32_t most[] = {1, 0, 5}; /* own max_attempts of each task; 0: that of the queue */
    for (size_t i = 0; i < 3; i++) {
        const uint64_t id = schedule_own(f, (struct own){.max_attempts = most[i]});
        if (i == 0) consume(f, 0);
        for (uint32_t attempt = 1; attempt <= (most[i] ? most[i] : 2); attempt++) {
            deliver_at(f, 10 * i + attempt);
            assert_int_equal(leased.id, id);
            assert_int_equal(leased.attempt, attempt);
            nack(f);
        }
        deliver_at(f, 10 * i + 9);
        assert_int_equal(row_of(f, id)->state, ROW_BURIED);
    }
}

static void a_lost_lease_counts_to_its_attempts(void **state) {
    struct fx *f = *state;
    const uint64_t id = schedule_own(f, (struct own){.max_attempts = 1,
                                                     .lease_ms = 50}); /* the queue itself has no limit of attempts */
    consume(f, 0);
    deliver_at(f, 0);
    deliver_at(f, 49);
    assert_int_equal(row_of(f, id)->state, ROW_LEASED);
    deliver_at(f, 51);
    assert_int_equal(row_of(f, id)->state, ROW_BURIED);
    assert_string_equal(row_of(f, id)->reason, reason_lease_lost);
}

static void its_backoff_replaces_the_first_delay(void **state) {
    struct fx *f = *state;
    Tarry__Policy policy = TARRY__POLICY__INIT;
    policy.backoff = TARRY__POLICY__BACKOFF__EXPONENTIAL;
    policy.backoff_min_ms = 1000;
    policy.backoff_max_ms = 5000;
    set_policy(f, &policy);
    consume(f, 0);
    static const struct {
        uint64_t own_ms, delays_ms[4];
    } cases[] = {
        {0, {1000, 2000, 4000, 5000}},
        {40, {40, 80, 160, 320}},
        {3000, {3000, 5000, 5000, 5000}},
        {7000,
         {7000, 7000, 7000,
          7000}}, /* longer than the queue's backoff_max, which does not shorten a task's own backoff */
    };
    uint64_t at_ms = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint64_t id = schedule_own(f, (struct own){.backoff_ms = cases[i].own_ms});
        for (size_t k = 0; k < 4; k++) {
            deliver_at(f, at_ms);
            assert_int_equal(leased.id, id);
            nack(f);
            assert_int_equal(row_of(f, id)->due_ms, NOW_MS + at_ms + cases[i].delays_ms[k]);
            at_ms += cases[i].delays_ms[k];
        }
        assert_int_equal(cancel(f, id), TARRY__CODE__OK);
    }
}

static void extend(struct fx *f) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Extend body = TARRY__EXTEND__INIT;
    Tarry__Token token = token_of(&leased);
    op.op_case = TARRY__OP__OP_EXTEND;
    op.extend = &body;
    body.id = leased.id;
    body.token = &token;
    assert_int_equal(commit(f, &op), TARRY__CODE__OK);
}

static void its_lease_replaces_the_queues(void **state) {
    struct fx *f = *state;
    const uint64_t id = schedule_own(f, (struct own){.lease_ms = 90000});
    consume(f, 0);
    deliver_at(f, 0);
    assert_int_equal(leased.lease_deadline_ms, NOW_MS + 90000);
    f->now_ms += 7;
    extend(f);
    assert_int_equal(row_of(f, id)->lease_deadline_ms, NOW_MS + 7 + 90000);
    (void)schedule_own(f, (struct own){0});
    deliver_at(f, 8);
    assert_int_equal(leased.lease_deadline_ms,
                     NOW_MS + 7 + LEASE_MS); /* the lease began 7 ms after the start, when the task was scheduled */
}

static void a_consumer_that_asks_for_a_lease_gets_that(void **state) {
    struct fx *f = *state;
    (void)schedule_own(f, (struct own){.lease_ms = 90000});
    consume(f, 2000);
    deliver_at(f, 0);
    assert_int_equal(leased.lease_deadline_ms, NOW_MS + 2000);
}

static void a_short_lease_of_its_own_begins_when_the_task_is_due(void **state) {
    struct fx *f = *state;
    struct core_options options = defaults;
    options.ahead_ms = 50;
    begin_again(f, &options);
    consume(f, 0);
    const uint64_t short_one = schedule_own(f, (struct own){.lease_ms = AHEAD_LEASE_MIN_MS - 1, .delay_ms = 100});
    const uint64_t long_one = schedule_own(f, (struct own){.lease_ms = AHEAD_LEASE_MIN_MS, .delay_ms = 100});
    deliver_at(f, 90);
    assert_int_equal(row_of(f, short_one)->state, ROW_WAITING);
    assert_int_equal(row_of(f, long_one)->state, ROW_LEASED);
    assert_int_equal(row_of(f, long_one)->lease_deadline_ms, NOW_MS + 100 + 1 + AHEAD_LEASE_MIN_MS);
    deliver_at(f, 100);
    assert_int_equal(leased_count, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CORE_TEST(more_or_fewer_attempts_than_the_queue),
        CORE_TEST(a_lost_lease_counts_to_its_attempts),
        CORE_TEST(its_backoff_replaces_the_first_delay),
        CORE_TEST(its_lease_replaces_the_queues),
        CORE_TEST(a_consumer_that_asks_for_a_lease_gets_that),
        CORE_TEST(a_short_lease_of_its_own_begins_when_the_task_is_due),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
