/* core_early_test.c: queues with lease_before_due. Consumers get tasks before the due time, in order of priority, due
 * time and id. At the due time a waiting task goes to a mover, and to no consumer (TIME-1). */
#include "core_alone.h"

#include "leases.h"
#include "queues.h"
#include "state.h"
#include "tarry_limits.h"
#include "tasks.h"

#define TTL_MS 5000u

static const struct core_caller broker = {.name = "(tarryd)", .acts_for_all = true, .is_broker = true};

/* Subscribes a pooled session to `queue`. NULL: subscribes a mover, which gets the due tasks of all queues with
 * lease_before_due. */
static uint64_t subscribe_pool(struct fx *f, const char *queue) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Subscribe body = TARRY__SUBSCRIBE__INIT;
    char *queues[] = {(char *)queue};
    body.queues = queues;
    body.n_queues = queue != NULL;
    body.mover = queue == NULL;
    body.lease_ms = 60000;
    request.client = "test";
    request.body_case = TARRY__REQUEST__BODY_SUBSCRIBE;
    request.subscribe = &body;
    step(f, &(struct core_event){.kind = CORE_REQUEST,
                                 .request = {.ticket = 1, .message = &request, .pooled = true, .caller = f->caller}});
    assert_int_equal(f->code, TARRY__CODE__OK);
    step(f, &(struct core_event){.kind = CORE_LANE_UP, .lane.session = f->session});
    return f->session;
}

/* Returns the tasks that the last step delivered to the session; 0: none. */
static size_t got(const struct fx *f, uint64_t session, uint64_t *ids) {
    size_t count = 0;
    for (size_t i = 0; i < f->effects.deliveries.count; i++) {
        const struct core_delivery *delivery = &f->effects.deliveries.items[i];
        for (size_t k = 0; k < delivery->count && delivery->session == session; k++)
            ids[count++] = delivery->tasks[k].row.id;
    }
    return count;
}

static void credit(struct fx *f, uint64_t session, uint32_t count) {
    step(f, &(struct core_event){.kind = CORE_CREDIT, .lane = {.session = session, .credit = count}});
}

static void sent(struct fx *f, uint64_t session) {
    step(f, &(struct core_event){.kind = CORE_LANE_SENT, .lane = {.session = session, .ok = true}});
}

static void wait_until(struct fx *f, uint64_t ms) {
    f->now_ms = ms;
    step(f, &(struct core_event){.kind = CORE_TICK});
}

static Tarry__Code set_early(struct fx *f, const char *queue, bool early) {
    char *fields[] = {"lease_before_due"};
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__QueueSet body = TARRY__QUEUE_SET__INIT;
    Tarry__Policy policy = TARRY__POLICY__INIT;
    policy.lease_before_due = early;
    op.op_case = TARRY__OP__OP_QUEUE_SET;
    op.queue_set = &body;
    body.queue = (char *)queue;
    body.policy = &policy;
    body.fields = fields;
    body.n_fields = 1;
    return commit(f, &op);
}

static uint64_t schedule_with(struct fx *f, const char *queue, uint64_t delay_ms, uint32_t priority) {
    Tarry__Schedule body = TARRY__SCHEDULE__INIT;
    Tarry__When when = TARRY__WHEN__INIT;
    when.ms = delay_ms;
    body.priority = priority;
    assert_int_equal(schedule_as(f, queue, &body, &when), TARRY__CODE__OK);
    return f->id;
}

static Tarry__Code release(struct fx *f, uint64_t id) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Release body = TARRY__RELEASE__INIT;
    Tarry__Token token = token_of(row_of(f, id));
    op.op_case = TARRY__OP__OP_RELEASE;
    op.release = &body;
    body.id = id;
    body.token = &token;
    return commit(f, &op);
}

static void consumers_get_tasks_early_and_in_order(void **state) {
    struct fx *f = *state;
    uint64_t ids[8];
    assert_int_equal(set_early(f, "ttl", true), TARRY__CODE__OK);
    const uint64_t late = schedule_with(f, "ttl", 3 * TTL_MS, 0), first = schedule_with(f, "ttl", TTL_MS, 0);
    const uint64_t second = schedule_with(f, "ttl", TTL_MS, 0), urgent = schedule_with(f, "ttl", 9 * TTL_MS, 5);
    const uint64_t consumer = subscribe_pool(f, "ttl");
    credit(f, consumer, 8);
    assert_int_equal(got(f, consumer, ids), 4);
    assert_int_equal(ids[0], urgent);
    assert_int_equal(ids[1], first);
    assert_int_equal(ids[2], second);
    assert_int_equal(ids[3], late);
    core_check(f->core);
    sent(f, consumer);
    /* A task that a consumer has leased stays with the consumer at its due time. */
    wait_until(f, NOW_MS + 2 * TTL_MS);
    assert_int_equal(row_of(f, first)->state, ROW_LEASED);
    assert_int_equal(ack(f, row_of(f, first)), TARRY__CODE__OK);
    core_check(f->core);
}

static void what_waits_at_its_due_time_goes_to_the_mover(void **state) { /* TIME-1 */
    struct fx *f = *state;
    uint64_t ids[8];
    f->caller = &broker;
    assert_int_equal(hello(f), TARRY__CODE__OK);
    f->sequence = 0;
    assert_int_equal(set_early(f, "ttl", true), TARRY__CODE__OK);
    const uint64_t mover = subscribe_pool(f, NULL);
    const uint64_t consumer = subscribe_pool(f, "ttl");
    credit(f, mover, 8);
    const uint64_t a = schedule_with(f, "ttl", TTL_MS, 0), b = schedule_with(f, "ttl", TTL_MS + 1, 0);
    assert_int_equal(got(f, mover, ids), 0); /* the mover gets no task, because none is due yet */
    wait_until(f, NOW_MS + TTL_MS - 1);
    assert_int_equal(got(f, mover, ids), 0);
    wait_until(f, NOW_MS + TTL_MS);
    assert_int_equal(got(f, mover, ids), 1);
    assert_int_equal(ids[0], a);
    core_check(f->core);
    credit(f, consumer, 8); /* the consumer asks one millisecond before the other task is due */
    assert_int_equal(got(f, consumer, ids), 1);
    assert_int_equal(ids[0], b);
    sent(f, consumer);
    sent(f, mover);
    wait_until(f, NOW_MS + TTL_MS + 10);
    assert_int_equal(got(f, mover, ids), 0);
    /* If a task is given back before its due time, consumers get it again; after its due time, the mover gets it. */
    const uint64_t c = schedule_with(f, "ttl", TTL_MS, 0);
    assert_int_equal(got(f, consumer, ids), 1);
    sent(f, consumer);
    assert_int_equal(release(f, c), TARRY__CODE__OK);
    assert_int_equal(got(f, consumer, ids), 1);
    sent(f, consumer);
    assert_int_equal(release(f, b), TARRY__CODE__OK);
    assert_int_equal(got(f, consumer, ids), 0);
    assert_int_equal(got(f, mover, ids), 1);
    assert_int_equal(ids[0], b);
    core_check(f->core);
    f->caller = NULL;
}

/* The mover gets nothing from other queues. A due task waits until there is a mover. */
static void other_queues_are_as_before(void **state) {
    struct fx *f = *state;
    uint64_t ids[8];
    assert_int_equal(set_early(f, "ttl", true), TARRY__CODE__OK);
    const uint64_t plain = schedule_with(f, "plain", TTL_MS, 0), due = schedule_with(f, "ttl", TTL_MS, 0);
    const uint64_t consumer = subscribe_pool(f, "plain"), taker = subscribe_pool(f, "ttl");
    credit(f, consumer, 8);
    assert_int_equal(got(f, consumer, ids), 0);
    wait_until(f, NOW_MS + TTL_MS);
    assert_int_equal(got(f, consumer, ids), 1);
    assert_int_equal(ids[0], plain);
    credit(f, taker, 8);
    assert_int_equal(got(f, taker, ids), 0);
    core_check(f->core);
    const uint64_t mover = subscribe_pool(f, NULL);
    credit(f, mover, 8);
    assert_int_equal(got(f, mover, ids), 1);
    assert_int_equal(ids[0], due);
    core_check(f->core);
}

static void a_pause_holds_both(void **state) {
    struct fx *f = *state;
    uint64_t ids[8];
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__QueuePause pause = TARRY__QUEUE_PAUSE__INIT;
    assert_int_equal(set_early(f, "ttl", true), TARRY__CODE__OK);
    op.op_case = TARRY__OP__OP_QUEUE_PAUSE;
    op.queue_pause = &pause;
    pause.queue = "ttl";
    pause.paused = true;
    assert_int_equal(commit(f, &op), TARRY__CODE__OK);
    const uint64_t mover = subscribe_pool(f, NULL), consumer = subscribe_pool(f, "ttl");
    credit(f, mover, 8);
    credit(f, consumer, 8);
    schedule_with(f, "ttl", TTL_MS, 0);
    assert_int_equal(got(f, consumer, ids), 0);
    wait_until(f, NOW_MS + TTL_MS);
    assert_int_equal(got(f, mover, ids), 0);
    core_check(f->core);
    pause.paused = false;
    assert_int_equal(commit(f, &op), TARRY__CODE__OK);
    assert_int_equal(got(f, mover, ids), 1);
    assert_int_equal(got(f, consumer, ids), 0);
    core_check(f->core);
}

static void the_flag_changes_only_without_live_tasks(void **state) {
    struct fx *f = *state;
    const struct core_caller client = {.name = "admin", .acts_for_all = true};
    const uint64_t id = schedule_with(f, "ttl", TTL_MS, 0);
    assert_int_equal(set_early(f, "ttl", true), TARRY__CODE__NOT_DONE);
    assert_int_equal(set_early(f, "ttl", false), TARRY__CODE__OK); /* nothing changes */
    assert_int_equal(cancel(f, id), TARRY__CODE__OK);
    assert_int_equal(set_early(f, "ttl", true), TARRY__CODE__OK);
    Tarry__Op ops[2] = {TARRY__OP__INIT, TARRY__OP__INIT}, *pointers[2] = {&ops[0], &ops[1]};
    Tarry__Schedule task = TARRY__SCHEDULE__INIT;
    Tarry__When when = TARRY__WHEN__INIT;
    Tarry__QueueSet set = TARRY__QUEUE_SET__INIT;
    Tarry__Policy policy = TARRY__POLICY__INIT;
    char *fields[] = {"lease_before_due"};
    task.queue = set.queue = "ttl";
    task.when = &when;
    when.ms = TTL_MS;
    set.policy = &policy;
    set.fields = fields;
    set.n_fields = 1;
    ops[0].op_case = TARRY__OP__OP_SCHEDULE;
    ops[0].schedule = &task;
    ops[1].op_case = TARRY__OP__OP_QUEUE_SET;
    ops[1].queue_set = &set;
    f->sequence++;
    assert_int_equal(commit_as(f, f->sequence, f->sequence, pointers, 2), TARRY__CODE__OK);
    assert_true(queue_find(f->core, "ttl")->policy.lease_before_due);
    core_check(f->core);
    f->caller = &client;
    assert_int_equal(hello(f), TARRY__CODE__OK);
    f->sequence = 0;
    assert_int_equal(set_early(f, "other", true),
                     TARRY__CODE__DENIED); /* refused, because clients may not set lease_before_due */
    f->caller = NULL;
}

enum { MANY = 20000 };

/* CALM-1: many tasks that fall due at once become ready in steps of bounded size, and none is lost. */
static void many_fall_due_at_once(void **state) {
    struct fx *f = *state;
    static uint64_t ids[MANY];
    struct core_options options = defaults;
    options.memory = 64u << 20;
    options.index_lag_max = options.index_lag_hard = 10 * MANY;
    begin_again(f, &options);
    assert_int_equal(set_early(f, "ttl", true), TARRY__CODE__OK);
    for (int i = 0; i < MANY; i++) schedule_with(f, "ttl", TTL_MS, 0);
    const uint64_t mover = subscribe_pool(f, NULL);
    const uint64_t consumer = subscribe_pool(f, "ttl");
    credit(f, mover, BATCH_MAX);
    size_t moved = 0, steps = 0;
    f->now_ms = NOW_MS + TTL_MS;
    credit(f, consumer, 1); /* the consumer asks in the millisecond in which the tasks become due */
    for (; moved < MANY && steps < 1000; steps++) {
        assert_int_equal(got(f, consumer, ids), 0); /* only the mover gets due tasks (TIME-1) */
        size_t count = got(f, mover, ids);
        assert_true(count <= BATCH_MAX);
        moved += count;
        sent(f, mover);
        if (steps % 10 == 0) core_check(f->core);
    }
    assert_int_equal(moved, MANY);
}

/* A consumer with its own lane reconnects. Its early leases are sent again at once, not at their due time. */
static void early_leases_are_sent_again_at_once(void **state) {
    struct fx *f = *state;
    uint64_t ids[8];
    Tarry__Subscribe body = TARRY__SUBSCRIBE__INIT;
    char *queue = "ttl";
    body.queues = &queue;
    body.n_queues = 1;
    assert_int_equal(set_early(f, "ttl", true), TARRY__CODE__OK);
    const uint64_t id = schedule_with(f, "ttl", TTL_MS, 0);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(subscribe(f, &body), TARRY__CODE__OK);
        step(f, &(struct core_event){.kind = CORE_LANE_UP, .lane.session = f->session});
        assert_int_equal(got(f, f->session, ids), 1);
        assert_int_equal(ids[0], id);
        sent(f, f->session);
        f->resumes = f->session;
    }
}

static struct core_window asked; /* the window that the core requested last; count_max 0: none */

static void note_window(struct fx *f) {
    if (f->effects.windows.count > 0) asked = f->effects.windows.items[0];
}

/* Answers the core's request for a window (`asked`) with sorted rows, as the index would. */
static void load(struct fx *f, const struct row *rows, size_t count) {
    const struct core_window ask = asked;
    struct core_event event = {.kind = CORE_WINDOW, .window = {.line = ask.line, .through = DUE_END}};
    struct row found[40];
    assert_true(ask.until_ms == UINT64_MAX && count <= 40);
    for (size_t i = 0; i < count; i++) {
        const struct task *task = task_find(f->core, rows[i].id);
        if (!due_before(ask.after, row_due(&rows[i])) || (task && task->place == PLACE_ENDED)) continue;
        if (event.window.row_count == ask.count_max) {
            event.window.through = row_due(&found[event.window.row_count - 1]);
            break;
        }
        found[event.window.row_count++] = rows[i];
    }
    event.window.rows = found;
    asked.count_max = 0;
    step(f, &event);
}

/* The queue's tasks are only in the index, and due in hours. When a consumer subscribes, the core loads them. Without a
 * consumer, it loads them when their time is near. */
static void a_consumer_makes_far_tasks_near(void **state) {
    struct fx *f = *state;
    uint64_t ids[8];
    struct core_options options = defaults;
    options.near_max = 8;
    begin_again(f, &options);
    assert_int_equal(set_early(f, "ttl", true), TARRY__CODE__OK);
    struct row rows[40] = {{0}};
    for (size_t i = 0; i < 40; i++) rows[i] = *row_of(f, schedule_with(f, "ttl", 3600000 + i, 0));
    step(f, &(struct core_event){.kind = CORE_INDEXED, .position = core_position(f->core)});
    for (int i = 0; i < 100; i++) step(f, &(struct core_event){.kind = CORE_TICK});
    assert_true(f->core->task_count <= 8);
    assert_int_equal(f->effects.windows.count, 0);
    size_t seen = 0;
    asked.count_max = 0;
    f->after_step = note_window;
    const uint64_t consumer = subscribe_pool(f, "ttl");
    credit(f, consumer, 8);
    for (int round = 0; round < 200 && seen < 40; round++) {
        size_t count = got(f, consumer, ids);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(ids[i], rows[seen++].id); /* the order is the same as if all tasks were in memory */
            assert_int_equal(ack(f, row_of(f, ids[i])), TARRY__CODE__OK);
        }
        if (asked.count_max > 0) {
            load(f, rows, 40);
            if (f->effects.deliveries.count > 0) continue;
        }
        sent(f, consumer);
    }
    assert_int_equal(seen, 40);
}

static void a_movers_leases_end_with_the_process(void **state) {
    struct fx *f = *state;
    const uint64_t mover = subscribe_pool(f, NULL);
    assert_true(session_is_pooled(mover) && session_is_bound(mover) && session_is_mover(mover));
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Subscribe body = TARRY__SUBSCRIBE__INIT;
    request.body_case = TARRY__REQUEST__BODY_SUBSCRIBE;
    request.subscribe = &body;
    body.mover = true;
    /* Refused, because a client outside of the broker's process must not be a mover. */
    assert_int_equal(ask(f, &request), TARRY__CODE__INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(consumers_get_tasks_early_and_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_waits_at_its_due_time_goes_to_the_mover, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_queues_are_as_before, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_pause_holds_both, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_flag_changes_only_without_live_tasks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_fall_due_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(early_leases_are_sent_again_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_consumer_makes_far_tasks_near, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_movers_leases_end_with_the_process, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
