/* core_ahead_waits_test.c: a task that is leased ahead of time (core/ahead.h) counts as waiting until its delivery
 * leaves, for every query, cancel, move and pause (TRUE-1, FENCE-1, KEEP-1). */
#include "core_ahead_rig.h"

/* ---- until then it waits */

static const Tarry__StatsReply *stats(struct fx *f) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Stats body = TARRY__STATS__INIT;
    request.body_case = TARRY__REQUEST__BODY_STATS;
    request.stats = &body;
    assert_int_equal(ask(f, &request), TARRY__CODE__OK);
    return f->effects.replies.items[0].reply->stats;
}

static const Tarry__ListReply *list(struct fx *f, uint32_t states) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__List body = TARRY__LIST__INIT;
    request.body_case = TARRY__REQUEST__BODY_LIST;
    request.list = &body;
    body.queue = "orders";
    body.states = states;
    struct core_event event = {.kind = CORE_REQUEST,
                               .request = {.ticket = 1, .message = &request, .list.through = DUE_END}};
    step(f, &event);
    return f->effects.replies.items[0].reply->list;
}

static void whoever_looks_sees_it_pending(void **state) {
    struct fx *f = *state;
    consume(f, 10);
    uint64_t due_ms = lease_ahead(f);
    const Tarry__QueueStats *queue = stats(f)->queues[0];
    assert_true(queue->pending == 1 && queue->in_flight == 0 && queue->delivered == 0);
    assert_int_equal(list(f, STATE_IN_FLIGHT)->n_tasks, 0);
    const Tarry__ListReply *page = list(f, STATE_PENDING);
    assert_int_equal(page->n_tasks, 1);
    const Tarry__TaskView *view = page->tasks[0];
    assert_string_equal(view->state, "pending");
    assert_true(!view->token && !view->session && !view->deliveries && !view->attempt && !view->delivered_ms);
    assert_true(view->due_ms == due_ms && !view->lease_deadline_ms);
    /* The index has absorbed the lease. The task must still stay in the overlay until its delivery leaves. */
    struct core_event indexed = {.kind = CORE_INDEXED, .position = core_position(f->core)};
    step(f, &indexed);
    assert_int_equal(list(f, STATE_PENDING)->n_tasks, 1);
    at(f, due_ms);
    assert_int_equal(delivered(f), 1);
    queue = stats(f)->queues[0];
    assert_true(queue->pending == 0 && queue->in_flight == 1 && queue->delivered == 1);
    assert_int_equal(list(f, STATE_PENDING)->n_tasks, 0);
}

static Tarry__Code move(struct fx *f, uint64_t id, uint64_t delay_ms) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Move body = TARRY__MOVE__INIT;
    Tarry__Ref ref = TARRY__REF__INIT;
    Tarry__When when = TARRY__WHEN__INIT;
    op.op_case = TARRY__OP__OP_MOVE;
    op.move = &body;
    body.task = &ref;
    body.when = &when;
    ref.id = id;
    when.ms = delay_ms;
    return commit(f, &op);
}

static void pause(struct fx *f, bool pause) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__QueuePause body = TARRY__QUEUE_PAUSE__INIT;
    op.op_case = TARRY__OP__OP_QUEUE_PAUSE;
    op.queue_pause = &body;
    body.queue = "orders";
    body.paused = pause;
    assert_int_equal(commit(f, &op), TARRY__CODE__OK);
}

static Tarry__TaskReply *told(struct fx *f, uint64_t id) {
    assert_int_equal(get(f, id, false), TARRY__CODE__OK);
    return f->effects.replies.items[0].reply->get;
}

static void whoever_asks_for_it_sees_it_pending(void **state) {
    struct fx *f = *state;
    consume(f, 10);
    uint64_t due_ms = lease_ahead(f);
    const Tarry__TaskReply *reply = told(f, f->id);
    assert_int_equal(reply->outcome, TARRY__OUTCOME__PENDING);
    assert_string_equal(reply->task->state, "pending");
    assert_true(!reply->task->token && !reply->task->deliveries && !reply->task->session);
    assert_int_equal(written(f), 0); /* the query has written nothing */
    const Tarry__QueueStats *queue = stats(f)->queues[0];
    assert_true(queue->pending == 1 && queue->delivered == 0);
    at(f, due_ms);
    assert_true(delivered(f) == 1 && delivery(f)->departs);
    assert_int_equal(delivery(f)->tasks[0].row.deliveries, 1);
    assert_int_equal(told(f, f->id)->outcome, TARRY__OUTCOME__IN_FLIGHT);
}

/* A lease that was returned unsent does not count as a delivery; but a reported count never decreases. */
static void what_never_left_is_not_counted(void **state) { /* TRUE-1 */
    struct fx *f = *state;
    uint64_t session = consume(f, 10);
    lease_ahead(f);
    assert_int_equal(move(f, f->id, 2 * DELAY_MS), TARRY__CODE__OK);
    assert_int_equal(recorded(f, TARRY__CAUSE__CAUSE_UNSENT), 1);
    assert_int_equal(stats(f)->queues[0]->delivered, 0);
    assert_int_equal(f->core->tally.queues[queue_place(orders(f)->number)].delivered, 0);
    assert_int_equal(schedule(f, "orders", 0), TARRY__CODE__OK);
    assert_int_equal(stats(f)->queues[0]->delivered, 1); /* the delivery is in flight */
    pause(f, true);
    lane(f, session, CORE_LANE_SENT, false);
    assert_int_equal(f->core->tally.queues[queue_place(orders(f)->number)].delivered, 0);
    assert_int_equal(stats(f)->queues[0]->delivered, 1);
    pause(f, false);
    assert_int_equal(stats(f)->queues[0]->delivered, 1);
}

static void cancelled_it_is_never_seen(void **state) { /* TRUE-1 */
    struct fx *f = *state;
    consume(f, 10);
    uint64_t due_ms = lease_ahead(f);
    f->now_ms = due_ms - 1;
    assert_int_equal(cancel(f, f->id), TARRY__CODE__OK);
    assert_int_equal(recorded(f, TARRY__CAUSE__CAUSE_UNSENT), 1);
    assert_int_equal(recorded(f, TARRY__CAUSE__CAUSE_CANCELLED), 1);
    assert_int_equal(written(f), 1); /* one frame has both records, so a crash keeps both or neither */
    for (unsigned i = 0; i < 100; i++) {
        at(f, due_ms + i);
        assert_int_equal(delivered(f), 0);
    }
    const Tarry__TaskReply *reply = told(f, f->id);
    assert_int_equal(reply->outcome, TARRY__OUTCOME__ALREADY_CANCELLED);
    assert_true(!reply->task->deliveries && !reply->task->session);
}

static void once_it_has_left_it_cannot_be_cancelled(void **state) {
    struct fx *f = *state;
    consume(f, 10);
    uint64_t due_ms = lease_ahead(f);
    at(f, due_ms);
    assert_int_equal(delivered(f), 1);
    assert_int_equal(cancel(f, f->id), TARRY__CODE__NOT_DONE);
    says(f, "in flight");
}

static void moved_it_waits_until_then(void **state) {
    struct fx *f = *state;
    consume(f, 10);
    uint64_t due_ms = lease_ahead(f);
    uint64_t moved_ms = f->now_ms + 5000;
    assert_int_equal(move(f, f->id, 5000), TARRY__CODE__OK);
    at(f, due_ms);
    assert_int_equal(delivered(f), 0);
    at(f, moved_ms - AHEAD_MS);
    assert_int_equal(recorded(f, TARRY__CAUSE__CAUSE_LEASED), 1);
    at(f, moved_ms);
    assert_int_equal(delivered(f), 1);
    assert_true(delivery(f)->tasks[0].row.deliveries == 1 && delivery(f)->tasks[0].row.attempt == 1);
}

static void its_token_settles_nothing_before(void **state) { /* FENCE-1 */
    struct fx *f = *state;
    consume(f, 10);
    lease_ahead(f);
    const struct task *task = TAILQ_FIRST(&session_find(f->core, f->session)->ahead);
    assert_int_equal(ack(f, &task->row), TARRY__CODE__STALE_TOKEN);
    says(f, "waits again");
}

static void a_paused_queue_lets_nothing_out(void **state) {
    struct fx *f = *state;
    consume(f, 10);
    uint64_t due_ms = lease_ahead(f);
    pause(f, true);
    at(f, due_ms);
    assert_int_equal(delivered(f), 0);
    assert_int_equal(recorded(f, TARRY__CAUSE__CAUSE_UNSENT), 1);
    assert_int_equal(schedule(f, "orders", DELAY_MS), TARRY__CODE__OK);
    at(f, f->now_ms + DELAY_MS - AHEAD_MS); /* a paused queue's tasks are not leased ahead of time */
    assert_int_equal(recorded(f, TARRY__CAUSE__CAUSE_LEASED), 0);
    pause(f, false);
    assert_int_equal(delivered(f), 1);
    assert_true(delivery(f)->tasks[0].row.attempt == 1 && delivery(f)->tasks[0].row.deliveries == 1);
}

static void set_lease_ms(struct fx *f, uint64_t lease_ms) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__QueueSet body = TARRY__QUEUE_SET__INIT;
    op.op_case = TARRY__OP__OP_QUEUE_SET;
    op.queue_set = &body;
    body.queue = "orders";
    Tarry__Policy policy = TARRY__POLICY__INIT;
    char *field = "lease_ms";
    policy.lease_ms = lease_ms;
    body.policy = &policy;
    body.fields = &field;
    body.n_fields = 1;
    assert_int_equal(commit(f, &op), TARRY__CODE__OK);
}

static void a_lease_of_another_length_is_made_anew(void **state) {
    struct fx *f = *state;
    consume(f, 10);
    uint64_t due_ms = lease_ahead(f);
    set_lease_ms(f, 2 * LEASE_MS);
    at(f, due_ms);
    assert_int_equal(recorded(f, TARRY__CAUSE__CAUSE_UNSENT), 1);
    assert_true(delivered(f) == 1 && !delivery(f)->departs);
    assert_true(delivery(f)->tasks[0].row.lease_deadline_ms >= due_ms + 2 * LEASE_MS);
}

/* Two tasks are leased ahead of time with different lease durations, and wait behind a delivery in flight. The second
 * must not leave before the first (history --ahead 93052883). */
static void what_comes_after_a_lease_of_another_length_waits_for_it(void **state) {
    struct fx *f = *state;
    uint64_t session = consume(f, 10), due_ms = lease_ahead(f);
    uint64_t first = TAILQ_FIRST(&session_find(f->core, session)->ahead)->row.id;
    f->now_ms = due_ms - 3;
    assert_int_equal(schedule(f, "orders", 0), TARRY__CODE__OK);
    assert_int_equal(delivered(f), 1); /* the delivery stays in flight */
    set_lease_ms(f, 2 * LEASE_MS);
    assert_int_equal(schedule(f, "orders", 4), TARRY__CODE__OK);
    assert_int_equal(session_find(f->core, session)->ahead_count, 2);
    at(f, due_ms + 1);
    lane(f, session, CORE_LANE_SENT, true);
    assert_int_equal(recorded(f, TARRY__CAUSE__CAUSE_UNSENT), 2);
    assert_true(delivered(f) == 2 && !delivery(f)->departs);
    assert_true(delivery(f)->tasks[0].row.id == first && delivery(f)->tasks[1].row.id == f->id);
}

static uint32_t states_read_for(struct fx *f, uint32_t states) {
    Tarry__List list = TARRY__LIST__INIT;
    struct core_list_plan plan;
    list.queue = "orders";
    list.states = states;
    core_plan_list(f->core, &list, &plan);
    return plan.states;
}

/* In the index the task is leased, among many leased ones. Only the overlay shows that it still waits. */
static void a_page_of_what_is_pending_needs_no_leases_of_the_index(void **state) { /* TRUE-1 */
    struct fx *f = *state;
    consume(f, 10);
    lease_ahead(f);
    assert_int_equal(states_read_for(f, STATE_PENDING), 1u << ROW_WAITING);
    assert_int_equal(states_read_for(f, STATE_DEAD), 1u << ROW_BURIED);
    struct core_event indexed = {.kind = CORE_INDEXED, .position = f->core->durable};
    step(f, &indexed);
    assert_int_equal(f->core->overlay_count, 1); /* the overlay keeps the task until it is due */
    Tarry__List list = TARRY__LIST__INIT;
    Tarry__Request request = TARRY__REQUEST__INIT;
    list.queue = "orders";
    list.states = STATE_PENDING;
    request.body_case = TARRY__REQUEST__BODY_LIST;
    request.list = &list;
    struct core_event event = {.kind = CORE_REQUEST,
                               .request = {.ticket = 1, .message = &request, .list.through = DUE_END}};
    step(f, &event);
    const Tarry__ListReply *page = f->effects.replies.items[0].reply->list;
    assert_int_equal(page->n_tasks, 1);
    assert_int_equal(page->tasks[0]->id, f->id);
    assert_string_equal(page->tasks[0]->state, "pending");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        AHEAD_TEST(whoever_looks_sees_it_pending),
        AHEAD_TEST(whoever_asks_for_it_sees_it_pending),
        AHEAD_TEST(what_never_left_is_not_counted),
        AHEAD_TEST(cancelled_it_is_never_seen),
        AHEAD_TEST(once_it_has_left_it_cannot_be_cancelled),
        AHEAD_TEST(moved_it_waits_until_then),
        AHEAD_TEST(its_token_settles_nothing_before),
        AHEAD_TEST(a_paused_queue_lets_nothing_out),
        AHEAD_TEST(a_lease_of_another_length_is_made_anew),
        AHEAD_TEST(what_comes_after_a_lease_of_another_length_waits_for_it),
        AHEAD_TEST(a_page_of_what_is_pending_needs_no_leases_of_the_index),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
