/* core_work_test.c: the work of a step is bounded, whatever the number of queues, consumers and tasks. A step of one
 * second would make every task one second late. The test does not measure time, but counts the items that a step
 * examines (core->visits). */
#include "core_alone.h"
#include "state.h"
#include "tarry_limits.h"

/* The sum of the limits of all parts of a step, with a little for their overhead. */
#define VISITS_MAX                                                                                                     \
    (SETTLED_PER_STEP_MAX + 2 * QUEUES_PER_SUBSCRIBE_MAX + EVICT_PER_STEP_MAX + EVICT_PER_STEP_MAX / 2 +               \
     PROMOTE_PER_STEP_MAX + 2 * CHECK_PER_STEP_MAX + DELIVERIES_PER_STEP_MAX)
#define STEPS_MAX 1000000

/* Runs `event`, and then ticks until the core has no more work at once. Each step is followed by a step that makes it
 * durable. Returns the largest number of items examined by such a pair of steps. */
static uint64_t most_visits(struct fx *f, struct core_event *event) {
    struct core_event tick = {.kind = CORE_TICK};
    uint64_t most = 0;
    for (unsigned n = 0; n == 0 || f->core->hurry; n++) {
        assert_true(n < STEPS_MAX);
        uint64_t before = f->core->visits;
        step(f, n == 0 ? event : &tick);
        if (f->core->visits - before > most) most = f->core->visits - before;
    }
    return most;
}

static uint64_t most_visits_of_a_tick(struct fx *f) {
    struct core_event tick = {.kind = CORE_TICK};
    return most_visits(f, &tick);
}

#define COMMIT_OPS 1024

/* Schedules tasks for the queues q0, q1, … in turn, in one commit. Returns false if it was refused. */
static bool schedule_all(struct fx *f, unsigned count, unsigned queues, uint64_t delay_ms) {
    static Tarry__Schedule bodies[COMMIT_OPS];
    static Tarry__When whens[COMMIT_OPS];
    static Tarry__Op ops[COMMIT_OPS], *pointers[COMMIT_OPS];
    static char names[COMMIT_OPS][16];
    static unsigned next;
    for (unsigned i = 0; i < count; i++, next++) {
        tarry__op__init(&ops[i]);
        tarry__schedule__init(&bodies[i]);
        tarry__when__init(&whens[i]);
        snprintf(names[i], sizeof(names[i]), "q%u", next % queues);
        bodies[i].queue = names[i];
        bodies[i].when = &whens[i];
        whens[i].ms = delay_ms;
        ops[i].op_case = TARRY__OP__OP_SCHEDULE;
        ops[i].schedule = &bodies[i];
        pointers[i] = &ops[i];
    }
    f->sequence++;
    return commit_as(f, f->sequence, f->sequence, pointers, count) == TARRY__CODE__OK;
}

/* Subscribes a consumer to `count` queues from `first` on; its lane connects later. */
static uint64_t consumer_of(struct fx *f, unsigned first, unsigned count) {
    static char names[QUEUES_PER_SUBSCRIBE_MAX][16];
    static char *queues[QUEUES_PER_SUBSCRIBE_MAX];
    for (unsigned i = 0; i < count; i++) {
        snprintf(names[i], sizeof(names[i]), "q%u", first + i);
        queues[i] = names[i];
    }
    Tarry__Subscribe body = TARRY__SUBSCRIBE__INIT;
    body.queues = queues;
    body.n_queues = count;
    body.prefetch = body.max_batch = 1;
    assert_int_equal(subscribe(f, &body), TARRY__CODE__OK);
    return f->session;
}

static void up(struct fx *f, uint64_t session) {
    struct core_event event = {.kind = CORE_LANE_UP, .lane.session = session};
    most_visits(f, &event);
}

static void with_memory(struct fx *f, size_t memory) {
    struct core_options options = defaults;
    options.memory = memory;
    options.ahead_ms = 50; /* the value that tarryd uses */
    options.index_lag_max = options.index_lag_hard = UINT64_MAX;
    begin_again(f, &options);
}

/* In an earlier version, 4,096 such queues cost 111 µs per step. */
static void queues_whose_consumers_have_enough_are_not_looked_at(void **state) {
    struct fx *f = *state;
    with_memory(f, 32u << 20);
    for (unsigned i = 0; i < 3 * QUEUES_MAX; i += COMMIT_OPS) assert_true(schedule_all(f, COMMIT_OPS, QUEUES_MAX, 0));
    for (unsigned i = 0; i < QUEUES_MAX; i += QUEUES_PER_SUBSCRIBE_MAX)
        up(f, consumer_of(f, i, QUEUES_PER_SUBSCRIBE_MAX));
    assert_int_equal(f->core->leases, QUEUES_MAX / QUEUES_PER_SUBSCRIBE_MAX);
    assert_true(most_visits_of_a_tick(f) == 0);
}

/* 64 consumers of the same 256 queues have their leases acked at the same time, and each gets its next task. */
static void consumers_that_come_free_together_are_looked_at_by_and_by(void **state) {
    struct fx *f = *state;
    enum { CONSUMERS = 64 };
    static Tarry__Ack acks[CONSUMERS];
    static Tarry__Token tokens[CONSUMERS];
    static Tarry__Op ops[CONSUMERS], *pointers[CONSUMERS];
    with_memory(f, 32u << 20);
    assert_true(schedule_all(f, COMMIT_OPS, QUEUES_PER_SUBSCRIBE_MAX, 0));
    for (unsigned i = 0; i < CONSUMERS; i++) {
        uint64_t session = consumer_of(f, 0, QUEUES_PER_SUBSCRIBE_MAX);
        struct core_event event = {.kind = CORE_LANE_UP, .lane.session = session};
        step(f, &event);
        assert_int_equal(f->effects.deliveries.count, 1);
        const struct row *row = &f->effects.deliveries.items[0].tasks[0].row;
        tarry__op__init(&ops[i]);
        tarry__ack__init(&acks[i]);
        tokens[i] = token_of(row);
        acks[i].id = row->id;
        acks[i].token = &tokens[i];
        ops[i].op_case = TARRY__OP__OP_ACK;
        ops[i].ack = &acks[i];
        pointers[i] = &ops[i];
        event.kind = CORE_LANE_SENT;
        event.lane.ok = true;
        step(f, &event);
    }
    f->sequence++;
    uint64_t before = f->core->visits;
    assert_int_equal(commit_as(f, f->sequence, f->sequence, pointers, CONSUMERS), TARRY__CODE__OK);
    assert_int_equal(f->result, TARRY__CODE__OK);
    const uint64_t most =
        SETTLED_PER_STEP_MAX + QUEUES_PER_SUBSCRIBE_MAX + DELIVERIES_PER_STEP_MAX + CHECK_PER_STEP_MAX;
    /* Two steps are counted: the step of the event, and the step after its sync. */
    assert_true(f->core->visits - before <= 2 * most);
    assert_true(most_visits_of_a_tick(f) <= 2 * most);
    assert_int_equal(f->core->leases, CONSUMERS);
}

/* Memory is full of tasks in 4,096 queues, because the index has not absorbed them. A step may visit only a few lines
 * (queue, time base, priority). In an earlier version, each step visited all 81,920 lines, some more than once. Later
 * the index absorbs all tasks, and the core is stopped and continues. */
static void lines_are_not_searched_when_memory_is_scarce(void **state) { /* F-39 */
    struct fx *f = *state;
    with_memory(f, 32u << 20);
    uint64_t most = 0;
    unsigned taken = 0;
    for (; schedule_all(f, COMMIT_OPS, QUEUES_MAX, 86400000) && f->code == TARRY__CODE__OK; taken++) {
        uint64_t visits = most_visits_of_a_tick(f);
        if (visits > most) most = visits;
    }
    assert_true(taken * COMMIT_OPS > 4 * QUEUES_MAX);
    assert_true(most > 0 && most <= VISITS_MAX);
    struct core_event indexed = {.kind = CORE_INDEXED, .position = f->core->durable};
    assert_true(most_visits(f, &indexed) <= VISITS_MAX);
    struct core_event stop = {.kind = CORE_STOP}, resume = {.kind = CORE_RESUME};
    assert_true(most_visits(f, &stop) <= VISITS_MAX);
    assert_true(most_visits(f, &resume) <= VISITS_MAX);
    assert_int_equal(f->core->unchecked, 0);
}

/* Examines the state for `event` in parts (core_look) until the core can step the event. Calls `between` after each
 * part. Returns the number of parts. */
static unsigned looks(struct fx *f, struct core_event *event, void (*between)(struct fx *f, unsigned look)) {
    unsigned count = 1;
    event->now = (struct instant){f->now_ms * 1000000, f->now_ms * 1000000};
    for (; !core_look(f->core, event); count++) between(f, count);
    step(f, event);
    assert_true(event->request.look > 0);
    core_look_end(f->core, event);
    assert_int_equal(event->request.look, 0);
    return count;
}

/* Schedules tasks that come first in the list's order, and cancels the first of them. */
static void change(struct fx *f, unsigned look) {
    assert_true(schedule_all(f, look, 1, 1000));
    Tarry__Op op = TARRY__OP__INIT, *pointer = &op;
    Tarry__Cancel cancel = TARRY__CANCEL__INIT;
    Tarry__Ref ref = TARRY__REF__INIT;
    op.op_case = TARRY__OP__OP_CANCEL;
    op.cancel = &cancel;
    cancel.task = &ref;
    ref.id = look;
    f->sequence++;
    assert_int_equal(commit_as(f, f->sequence, f->sequence, &pointer, 1), TARRY__CODE__OK);
}

/* The list examines a long overlay in pieces. Its result page still shows the state at the final step. */
static void a_list_is_looked_into_in_pieces(void **state) { /* F-39 */
    struct fx *f = *state;
    with_memory(f, 64u << 20);
    for (unsigned i = 0; i < 12; i++) assert_true(schedule_all(f, COMMIT_OPS, 1, 86400000));
    Tarry__List list = TARRY__LIST__INIT;
    Tarry__Request request = TARRY__REQUEST__INIT;
    list.queue = "q0";
    list.limit = 5;
    request.body_case = TARRY__REQUEST__BODY_LIST;
    request.list = &list;
    struct core_event event = {.kind = CORE_REQUEST,
                               .request = {.ticket = 1, .message = &request, .list.through = DUE_END}};
    assert_int_equal(looks(f, &event, change), 12 * COMMIT_OPS / LIST_PER_PIECE_MAX);
    const Tarry__ListReply *reply = f->effects.replies.items[0].reply->list;
    /* The list had made room for tasks 1 and 2 by leaving out tasks 3 and 4. Then tasks 1 and 2 were cancelled, so the
     * page is complete only up to task 2. */
    assert_int_equal(reply->n_tasks, 3);
    uint64_t after;
    assert_int_equal(reply->next.len, 16);
    memcpy(&after, reply->next.data + 8, 8);
    assert_int_equal(after, 2);
    uint64_t last = 12 * COMMIT_OPS;
    /* These tasks were scheduled between the parts of the examination: first one task, then two. */
    for (uint64_t i = 0; i < 3; i++) assert_int_equal(reply->tasks[i]->id, last + 1 + i);
    assert_int_equal(f->core->scan_count, 0);
}

static void time_passes(struct fx *f, unsigned look) {
    f->now_ms += 5000;
    assert_true(schedule_all(f, 1, 1, 86400000));
}

/* A task may become ready after the caller's check and before the step, without any change of its record. */
static void a_list_of_ready_tasks_misses_none_that_came_due(void **state) { /* TRUE-1 */
    struct fx *f = *state;
    with_memory(f, 64u << 20);
    assert_true(schedule_all(f, 1, 1, 3000));
    for (unsigned i = 0; i < 12; i++) assert_true(schedule_all(f, COMMIT_OPS, 1, 86400000));
    Tarry__List list = TARRY__LIST__INIT;
    Tarry__Request request = TARRY__REQUEST__INIT;
    list.queue = "q0";
    list.states = STATE_READY;
    request.body_case = TARRY__REQUEST__BODY_LIST;
    request.list = &list;
    struct core_event event = {.kind = CORE_REQUEST,
                               .request = {.ticket = 1, .message = &request, .list.through = DUE_END}};
    assert_true(looks(f, &event, time_passes) > 1);
    const Tarry__ListReply *reply = f->effects.replies.items[0].reply->list;
    assert_int_equal(reply->n_tasks, 1);
    assert_int_equal(reply->tasks[0]->id, 1);
}

static void ticks(struct fx *f, unsigned look) {
    struct core_event tick = {.kind = CORE_TICK};
    step(f, &tick);
}

/* Makes a dead letter in the queue "q0". */
static uint64_t bury_one(struct fx *f) {
    Tarry__Op op = TARRY__OP__INIT, *pointer = &op;
    Tarry__Nack nack = TARRY__NACK__INIT;
    struct core_event event = {.kind = CORE_LANE_UP, .lane.session = consumer_of(f, 0, 1)};
    assert_true(schedule_all(f, 1, 1, 0));
    step(f, &event);
    const struct row *row = &f->effects.deliveries.items[0].tasks[0].row;
    Tarry__Token token = token_of(row);
    op.op_case = TARRY__OP__OP_NACK;
    op.nack = &nack;
    nack.id = row->id;
    nack.token = &token;
    nack.dead = true;
    f->sequence++;
    assert_int_equal(commit_as(f, f->sequence, f->sequence, &pointer, 1), TARRY__CODE__OK);
    assert_int_equal(f->result, TARRY__CODE__OK);
    return nack.id;
}

static void schedule_far(struct fx *f, unsigned count) {
    for (unsigned i = 0; i < count / COMMIT_OPS; i++) assert_true(schedule_all(f, COMMIT_OPS, 1, 86400000));
}

/* Reports that the index has everything. The overlay is so long that it is trimmed while a list examines it. */
static void index_all(struct fx *f, uint64_t left) {
    struct core_event indexed = {.kind = CORE_INDEXED, .position = f->core->durable};
    step(f, &indexed);
    assert_int_equal(f->core->overlay_count, left);
}

static const Tarry__ListReply *list_while_it_is_trimmed(struct fx *f, uint32_t states) {
    static Tarry__List list;
    static Tarry__Request request;
    tarry__list__init(&list);
    tarry__request__init(&request);
    list.queue = "q0";
    list.limit = 5;
    list.states = states;
    request.body_case = TARRY__REQUEST__BODY_LIST;
    request.list = &list;
    struct core_event event = {.kind = CORE_REQUEST,
                               .request = {.ticket = 1, .message = &request, .list.through = DUE_END}};
    int hold = core_hold(f->core);
    assert_true(looks(f, &event, ticks) > 1);
    core_unhold(f->core, hold);
    assert_int_equal(f->core->overlay_count, 0);
    return f->effects.replies.items[0].reply->list;
}

/* At the time of the request, the index had these tasks already, but so had the overlay. So the list did not read them
 * from the index, and must get them when they are trimmed from the overlay. */
static void a_list_knows_what_was_trimmed_meanwhile(void **state) { /* TRUE-1, F-39 */
    struct fx *f = *state;
    with_memory(f, 64u << 20);
    schedule_far(f, 3 * TRIM_PER_STEP_MAX);
    index_all(f, TRIM_PER_STEP_MAX);
    const Tarry__ListReply *reply = list_while_it_is_trimmed(f, 0);
    assert_int_equal(reply->n_tasks, 5);
    for (uint64_t i = 0; i < 5; i++) assert_int_equal(reply->tasks[i]->id, 2 * TRIM_PER_STEP_MAX + 1 + i);
}

/* The list examines tasks in the order of their last change. It must be complete even if the tasks that come first in
 * the list were changed last. */
static void what_a_list_would_have_come_to_is_offered_as_it_is_trimmed(void **state) { /* TRUE-1 */
    struct fx *f = *state;
    with_memory(f, 64u << 20);
    schedule_far(f, 3 * TRIM_PER_STEP_MAX - COMMIT_OPS);
    assert_true(schedule_all(f, COMMIT_OPS, 1, 1000));
    index_all(f, TRIM_PER_STEP_MAX);
    const Tarry__ListReply *reply = list_while_it_is_trimmed(f, 0);
    assert_int_equal(reply->n_tasks, 5);
    for (uint64_t i = 0; i < 5; i++) assert_int_equal(reply->tasks[i]->id, 3 * TRIM_PER_STEP_MAX - COMMIT_OPS + 1 + i);
}

/* Memory drops dead letters, so the next result page reads them from the index. */
static void a_list_ends_before_what_only_the_index_has_by_now(void **state) { /* TRUE-1, F-39 */
    struct fx *f = *state;
    with_memory(f, 64u << 20);
    schedule_far(f, 2 * TRIM_PER_STEP_MAX);
    uint64_t dead = bury_one(f);
    schedule_far(f, TRIM_PER_STEP_MAX);
    index_all(f, TRIM_PER_STEP_MAX + 1);
    const Tarry__ListReply *reply = list_while_it_is_trimmed(f, STATE_DEAD);
    assert_int_equal(reply->n_tasks, 0);
    assert_int_equal(reply->next.len, 16);
    uint64_t after;
    memcpy(&after, reply->next.data + 8, 8);
    assert_int_equal(after, dead - 1);
}

static void nothing_between(struct fx *f, unsigned look) {}

static void statistics_of_many_queues_are_made_in_pieces(void **state) { /* F-39 */
    struct fx *f = *state;
    with_memory(f, 64u << 20);
    for (unsigned i = 0; i < 4; i++) assert_true(schedule_all(f, COMMIT_OPS, 3 * STATS_PER_PIECE_MAX, 1000));
    Tarry__Stats stats = TARRY__STATS__INIT;
    Tarry__Request request = TARRY__REQUEST__INIT;
    request.body_case = TARRY__REQUEST__BODY_STATS;
    request.stats = &stats;
    struct core_event event = {.kind = CORE_REQUEST, .request = {.ticket = 1, .message = &request}};
    assert_int_equal(looks(f, &event, nothing_between), 3);
    const Tarry__StatsReply *reply = f->effects.replies.items[0].reply->stats;
    assert_int_equal(reply->n_queues, 3 * STATS_PER_PIECE_MAX);
    uint64_t pending = 0;
    for (size_t i = 0; i < reply->n_queues; i++) pending += reply->queues[i]->pending;
    assert_int_equal(pending, 4 * COMMIT_OPS);
    assert_false(f->core->is_looked);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(queues_whose_consumers_have_enough_are_not_looked_at),
        TEST(consumers_that_come_free_together_are_looked_at_by_and_by),
        TEST(lines_are_not_searched_when_memory_is_scarce),
        TEST(a_list_is_looked_into_in_pieces),
        TEST(a_list_of_ready_tasks_misses_none_that_came_due),
        TEST(a_list_knows_what_was_trimmed_meanwhile),
        TEST(what_a_list_would_have_come_to_is_offered_as_it_is_trimmed),
        TEST(a_list_ends_before_what_only_the_index_has_by_now),
        TEST(statistics_of_many_queues_are_made_in_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
