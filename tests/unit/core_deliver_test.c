/* core_deliver_test.c: how much one delivery may contain, how much a step delivers, and what a lease's holder may
 * request (CALM-1, TRUE-1). */
#include "core_alone.h"

#include "check.h"
#include "state.h"
#include "tarry_limits.h"

static void lane(struct fx *f, enum core_event_kind kind, bool ok) {
    struct core_event event = {.kind = kind, .lane.session = f->session, .lane.ok = ok};
    step(f, &event);
}

/* Returns the number of tasks in the last step's deliveries. */
static size_t delivered(const struct fx *f) {
    size_t count = 0;
    for (size_t i = 0; i < f->effects.deliveries.count; i++) count += f->effects.deliveries.items[i].count;
    return count;
}

static const struct row *first_row(const struct fx *f) {
    assert_true(delivered(f) > 0);
    return &f->effects.deliveries.items[0].tasks[0].row;
}

static void consume(struct fx *f, uint32_t prefetch, uint32_t max_batch) {
    Tarry__Subscribe body = TARRY__SUBSCRIBE__INIT;
    char *queue = "orders";
    body.queues = &queue;
    body.n_queues = 1;
    body.prefetch = prefetch;
    body.max_batch = max_batch;
    assert_int_equal(subscribe(f, &body), TARRY__CODE__OK);
}

static void a_delivery_is_bounded_by_its_batch_and_by_prefetch(void **state) {
    struct fx *f = *state;
    for (unsigned i = 0; i < 10; i++) assert_int_equal(schedule(f, "orders", 0), TARRY__CODE__OK);
    consume(f, 6, 4);
    assert_int_equal(delivered(f), 0);
    lane(f, CORE_LANE_UP, false);
    assert_int_equal(delivered(f), 4);
    lane(f, CORE_LANE_SENT, true);
    assert_int_equal(delivered(f), 2);
    lane(f, CORE_LANE_SENT, true);
    assert_int_equal(delivered(f), 0);
}

static void what_a_returner_holds_is_sent_again_in_batches(void **state) {
    struct fx *f = *state;
    for (unsigned i = 0; i < 5; i++) assert_int_equal(schedule(f, "orders", 0), TARRY__CODE__OK);
    consume(f, 5, 5);
    lane(f, CORE_LANE_UP, false);
    assert_int_equal(delivered(f), 5);
    uint64_t token = first_row(f)->lease_position;
    lane(f, CORE_LANE_SENT, true);
    f->resumes = f->session;
    consume(f, 5, 2);
    assert_int_equal(f->session, f->resumes);
    static const size_t batches[] = {2, 2, 1, 0};
    lane(f, CORE_LANE_UP, false);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(delivered(f), batches[i]);
        if (batches[i] > 0)
            assert_int_equal(first_row(f)->lease_position,
                             token); /* the repeated delivery has the lease's token (FENCE-1) */
        lane(f, CORE_LANE_SENT, true);
    }
}

static void large_contents_go_one_by_one(void **state) { /* DELIVERY_SIZE_MAX */
    struct fx *f = *state;
    f->content_size = DELIVERY_SIZE_MAX - 1000;
    for (unsigned i = 0; i < 3; i++) assert_int_equal(schedule(f, "orders", 0), TARRY__CODE__OK);
    f->content_size = 0;
    consume(f, 10, 10);
    lane(f, CORE_LANE_UP, false);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(delivered(f), 1);
        lane(f, CORE_LANE_SENT, true);
    }
    f->resumes = f->session;
    consume(f, 10, 10);
    lane(f, CORE_LANE_UP, false);
    assert_int_equal(delivered(f), 1); /* the task is delivered again after the session was resumed */
}

/* Returns the lease that a consumer has on the only task. */
static Tarry__Token take(struct fx *f, uint64_t *out_id) {
    const struct row *row = first_row(f);
    const Tarry__Token token = token_of(row);
    *out_id = row->id;
    lane(f, CORE_LANE_SENT, true);
    return token;
}

static Tarry__Code nack(struct fx *f, uint64_t id, Tarry__Token *token, uint64_t delay_ms, bool dead, char *reason) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Nack body = TARRY__NACK__INIT;
    op.op_case = TARRY__OP__OP_NACK;
    op.nack = &body;
    body.id = id;
    body.token = token;
    body.has_delay = delay_ms > 0;
    body.delay_ms = delay_ms;
    body.dead = dead;
    body.reason = reason;
    return commit(f, &op);
}

static void a_nack_says_when_and_why(void **state) {
    struct fx *f = *state;
    uint64_t id;
    assert_int_equal(schedule(f, "orders", 0), TARRY__CODE__OK);
    consume(f, 1, 1);
    lane(f, CORE_LANE_UP, false);
    Tarry__Token token = take(f, &id);
    assert_int_equal(nack(f, id, NULL, 1, false, ""), TARRY__CODE__STALE_TOKEN);
    assert_int_equal(nack(f, id, &token, DUE_AHEAD_MAX_MS + 1, false, ""), TARRY__CODE__INVALID);
    assert_int_equal(nack(f, id, &token, 1, true, "it is broken"), TARRY__CODE__OK);
    assert_int_equal(nack(f, id, &token, 1, true, ""), TARRY__CODE__STALE_TOKEN);
    says(f, "dead letter");
}

static void place(struct fx *f, Tarry__When__Kind kind, uint64_t ms, uint32_t priority, uint64_t id,
                  Tarry__Token *token) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Release release = TARRY__RELEASE__INIT;
    Tarry__Move move = TARRY__MOVE__INIT;
    Tarry__Ref ref = TARRY__REF__INIT;
    Tarry__When when = TARRY__WHEN__INIT;
    ref.id = release.id = id;
    release.token = token;
    move.task = &ref;
    release.when = move.when = &when;
    when.kind = kind;
    when.ms = ms;
    release.has_priority = move.has_priority = true;
    release.priority = move.priority = priority;
    op.op_case = token != NULL ? TARRY__OP__OP_RELEASE : TARRY__OP__OP_MOVE;
    if (token != NULL)
        op.release = &release;
    else
        op.move = &move;
    Tarry__Code code;
    assert_null(check_op(&op, 0, &code));
    assert_int_equal(commit(f, &op), TARRY__CODE__OK);
    release.priority = move.priority = PRIORITY_COUNT;
    assert_string_equal(check_op(&op, 0, &code), "priority must be at most 9");
    release.has_priority = move.has_priority = false;
    assert_string_equal(check_op(&op, 0, &code), "priority is given, but has_priority is not set");
    release.priority = move.priority = 0;
    when.kind = 7;
    assert_string_equal(check_op(&op, 0, &code), "the kind of time (when.kind) is unknown");
}

/* A release or a move gives a task its place among the ready tasks, by priority, due time (also in the past) and id. */
static void a_release_says_when_and_before_whom(void **state) {
    struct fx *f = *state;
    uint64_t ids[3], id;
    struct core_event tick = {.kind = CORE_TICK};
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(schedule(f, "orders", 1000000), TARRY__CODE__OK);
        ids[i] = f->id;
        place(f, TARRY__WHEN__KIND__AT, 30 - 10 * i, 9, ids[i], NULL);
        place(f, TARRY__WHEN__KIND__AT, 30 - 10 * i, 0, ids[i],
              NULL); /* the three tasks are due 30, 20 and 10 ms after 1970 */
    }
    consume(f, 1, 1);
    lane(f, CORE_LANE_UP, false);
    Tarry__Token token = take(f, &id);
    assert_int_equal(id, ids[2]);
    /* The task is moved to a time between the due times of the other two, so that one of them is the first now. */
    place(f, TARRY__WHEN__KIND__AT, 25, 0, id, &token);
    token = take(f, &id);
    assert_int_equal(id, ids[1]);
    place(f, TARRY__WHEN__KIND__DELAY, 500, 9, id, &token);
    token = take(f, &id);
    assert_int_equal(id, ids[2]);
    f->now_ms += 499;
    place(f, TARRY__WHEN__KIND__AT, 26, 0, id, &token);
    assert_int_equal(delivered(f), 1); /* the task with a delay waits (TIME-1) */
    token = take(f, &id);
    assert_int_equal(id, ids[2]);
    f->now_ms += 1;
    step(f, &tick);
    place(f, TARRY__WHEN__KIND__AT, 1, 0, id, &token);
    /* The task with the higher priority comes first, although it was due much later. */
    assert_int_equal(first_row(f)->id, ids[1]);
    assert_int_equal(first_row(f)->attempt,
                     1); /* still the first attempt, because a release does not count as an attempt */
    assert_int_equal(first_row(f)->deliveries, 2);
}

static void backoff_doubles_up_to_its_limit(void **state) {
    struct fx *f = *state;
    f->options.policy.backoff = TARRY__POLICY__BACKOFF__EXPONENTIAL;
    f->options.policy.backoff_min_ms = 100;
    f->options.policy.backoff_max_ms = 300;
    core_free(f->core);
    begin(f);
    assert_int_equal(schedule(f, "orders", 0), TARRY__CODE__OK);
    consume(f, 1, 1);
    lane(f, CORE_LANE_UP, false);
    static const uint64_t delays_ms[] = {100, 200, 300, 300};
    for (size_t i = 0; i < 4; i++) {
        uint64_t id;
        Tarry__Token token = take(f, &id);
        assert_int_equal(nack(f, id, &token, 0, false, ""), TARRY__CODE__OK);
        struct core_event tick = {.kind = CORE_TICK};
        f->now_ms += delays_ms[i] - 1;
        step(f, &tick);
        assert_int_equal(delivered(f), 0); /* TIME-1 */
        f->now_ms += 1;
        step(f, &tick);
        assert_int_equal(delivered(f), 1);
    }
}

static void a_lease_is_kept_as_long_as_was_said(void **state) {
    struct fx *f = *state;
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Extend body = TARRY__EXTEND__INIT;
    assert_int_equal(schedule(f, "orders", 0), TARRY__CODE__OK);
    consume(f, 1, 1);
    lane(f, CORE_LANE_UP, false);
    Tarry__Token token = take(f, &body.id);
    op.op_case = TARRY__OP__OP_EXTEND;
    op.extend = &body;
    body.token = &token;
    assert_int_equal(commit(f, &op),
                     TARRY__CODE__OK); /* an operation without a duration uses the queue's lease duration */
    struct core_event tick = {.kind = CORE_TICK};
    f->now_ms += f->options.policy.lease_ms - 1;
    lane(f, CORE_LANE_GONE, false); /* the consumer has died, so any consumer may get the task */
    consume(f, 1, 1);
    lane(f, CORE_LANE_UP, false);
    assert_int_equal(delivered(f), 1);
    f->now_ms += 1;
    step(f, &tick);
    assert_int_equal(commit(f, &op), TARRY__CODE__STALE_TOKEN);
}

static void nothing_leaves_while_the_index_is_far_behind(void **state) { /* CAP-1 */
    struct fx *f = *state;
    struct core_options options = defaults;
    options.index_lag_hard = 3;
    options.index_lag_max = 100;
    begin_again(f, &options);
    for (unsigned i = 0; i < 10; i++) assert_int_equal(schedule(f, "orders", 0), TARRY__CODE__OK);
    consume(f, 10, 10);
    lane(f, CORE_LANE_UP, false);
    assert_int_equal(delivered(f), 0);
}

/* CAP-1: only the holder of a leased task can free its memory. So leased tasks may take at most half of the memory. */
static void leases_take_half_of_the_memory_and_no_more(void **state) {
    struct fx *f = *state;
    struct core_options options = defaults;
    options.index_lag_max = options.index_lag_hard = UINT64_MAX;
    begin_again(f, &options);
    consume(f, PREFETCH_MAX, BATCH_MAX);
    lane(f, CORE_LANE_UP, false);
    size_t leased = 0;
    for (unsigned i = 0; i < 40000 && schedule(f, "orders", 0) == TARRY__CODE__OK; i++) {
        leased += delivered(f);
        lane(f, CORE_LANE_SENT, true);
    }
    size_t most = MEMORY / 2 / ((sizeof(struct task) + SLAB_ALIGN - 1) / SLAB_ALIGN * SLAB_ALIGN);
    assert_true(leased <= most && leased > most - 100);
    assert_int_equal(cancel(f, leased + 1), TARRY__CODE__OK); /* a waiting task can still be cancelled */
}

/* Returns the number of records in the last step's frames. */
static size_t recorded(const struct fx *f) {
    size_t count = 0;
    for (size_t i = 0; i < f->effects.appends.count; i++) {
        const struct core_append *append = &f->effects.appends.items[i];
        if (append->type != FRAME_COMMIT) continue;
        Tarry__FrameBody *body = tarry__frame_body__unpack(NULL, append->body_size, append->body);
        assert_non_null(body);
        count += body->n_records;
        tarry__frame_body__free_unpacked(body, NULL);
    }
    return count;
}

enum { MANY_SESSIONS = 12, MANY = MANY_SESSIONS * PREFETCH_MAX };

/* Starts a core with many leases, all from before the start. */
static void begin_with_leases(struct fx *f) {
    struct core_options options = defaults;
    options.memory = 256u << 20;
    options.policy = (Tarry__Policy)TARRY__POLICY__INIT;
    options.policy.max_attempts = 1;
    core_free(f->core);
    f->core = core_new(&options);
    assert_non_null(f->core);
    static struct queue_tally queues[QUEUE_PLACES + 1];
    struct tally tally;
    memset(queues, 0, sizeof(queues));
    tally_init(&tally, queues);
    tally.next_id = MANY + 1;
    tally.next_queue = 2;
    tally.live = queues[1].in_flight = MANY;
    core_restore(f->core, &(struct core_base){.position = LOG_POSITION_FIRST, .tally = &tally});
    Tarry__QueuePut queue = TARRY__QUEUE_PUT__INIT;
    queue.number = 1;
    queue.name = "orders";
    queue.policy = &options.policy;
    assert_int_equal(core_restore_queue(f->core, &queue), 0);
    struct row row = {.queue = 1, .state = ROW_LEASED, .attempt = 1, .deliveries = 1, .lease_epoch = 1};
    row.lease_deadline_ms = UINT64_MAX / 2;
    for (row.id = 1; row.id <= MANY; row.id++) {
        row.session = 1 + row.id % MANY_SESSIONS;
        assert_int_equal(core_restore_lease(f->core, &row), 0);
    }
    struct core_event start = {.kind = CORE_START, .start.epoch = 2};
    step(f, &start);
}

/* CALM-1: after a restart, all former consumers are found missing at the same moment. */
static void however_many_leases_are_over_at_once_a_step_does_so_much(void **state) {
    struct fx *f = *state;
    begin_with_leases(f);
    f->now_ms += CLAIM_AFTER_START_MS;
    unsigned steps = 0;
    for (; f->core->leases > 0;
         steps += 2) { /* two steps for each event: the event, and the CORE_DURABLE that follows */
        assert_true(steps < 2 * MANY_SESSIONS && core_deadline(f->core) <= f->now_ms);
        struct core_event tick = {.kind = CORE_TICK};
        step(f, &tick);
        assert_true(recorded(f) <= 2 * (TIMERS_PER_STEP_MAX + PREFETCH_MAX + 1));
    }
    assert_int_equal(steps,
                     MANY_SESSIONS); /* one step for each session, because each has more leases than a step ends */
}

/* CALM-1: many consumers with much credit, and all tasks are ready. */
static void however_much_is_ready_a_step_leases_so_much(void **state) {
    struct fx *f = *state;
    struct core_options options = defaults;
    options.memory = 64u << 20;
    begin_again(f, &options);
    static Tarry__Op ops[OPS_PER_COMMIT_MAX], *list[OPS_PER_COMMIT_MAX];
    Tarry__Schedule body = TARRY__SCHEDULE__INIT;
    body.queue = "orders";
    for (size_t i = 0; i < OPS_PER_COMMIT_MAX; i++) {
        ops[i] = (Tarry__Op)TARRY__OP__INIT;
        ops[i].op_case = TARRY__OP__OP_SCHEDULE;
        ops[i].schedule = &body;
        list[i] = &ops[i];
    }
    struct core_event stop = {.kind = CORE_STOP}, resume = {.kind = CORE_RESUME};
    for (f->sequence = 1; f->sequence <= 4; f->sequence++) {
        assert_int_equal(commit_as(f, f->sequence, f->sequence, list, OPS_PER_COMMIT_MAX), TARRY__CODE__OK);
    }
    for (unsigned i = 0; i < 8; i++) consume(f, PREFETCH_MAX, BATCH_MAX);
    step(f, &stop); /* while the core is stopped, lanes connect but nothing is delivered */
    for (unsigned i = 0; i < 8; i++, f->session--) lane(f, CORE_LANE_UP, false);
    step(f, &resume);
    assert_true(delivered(f) >= DELIVERED_PER_STEP_MAX &&
                delivered(f) <= 2 * DELIVERED_PER_STEP_MAX); /* deliveries of this step and of the step after it, each
                                                                of which may deliver DELIVERED_PER_STEP_MAX tasks */
    /* The core wants to continue at once, because more tasks are ready. */
    assert_true(core_deadline(f->core) <= f->now_ms);
}

static Tarry__Op pause_op(Tarry__QueuePause *body, bool paused) {
    Tarry__Op op = TARRY__OP__INIT;
    *body = (Tarry__QueuePause)TARRY__QUEUE_PAUSE__INIT;
    body->queue = "orders";
    body->paused = paused;
    op.op_case = TARRY__OP__OP_QUEUE_PAUSE;
    op.queue_pause = body;
    return op;
}

/* Memory is full. The core has moved two of the ready tasks out of memory, to be read from the index, but has not
 * examined three others. If all tasks in memory are cancelled, none of these three may be delivered before the two
 * (simulator history 20250434). */
static void what_is_put_aside_is_not_overtaken(void **state) { /* KEEP-1 */
    struct fx *f = *state;
    enum { TASKS = 11, STAY = 6, WORK = 8 };
    struct core_options options = defaults;
    options.near_max = TASKS - 1;
    options.work_max = WORK;
    begin_again(f, &options);
    consume(f, TASKS, TASKS);
    lane(f, CORE_LANE_UP, false);
    assert_int_equal(schedule(f, "orders", 3600000), TARRY__CODE__OK); /* this schedule creates the queue */
    assert_int_equal(cancel(f, 1), TARRY__CODE__OK);
    Tarry__QueuePause pauses[2];
    Tarry__Op pause = pause_op(&pauses[0], true), ops[STAY + 1], *list[STAY + 1];
    assert_int_equal(commit(f, &pause), TARRY__CODE__OK);
    for (unsigned i = 0; i < TASKS; i++) assert_int_equal(schedule(f, "orders", 0), TARRY__CODE__OK);
    const struct line_state *line = &f->core->queues[1].lines[ROW_STEADY][0];
    assert_int_equal(line->far_count, WORK - STAY);
    Tarry__Cancel cancels[STAY];
    Tarry__Ref refs[STAY];
    for (unsigned i = 0; i < STAY; i++) {
        cancels[i] = (Tarry__Cancel)TARRY__CANCEL__INIT;
        refs[i] = (Tarry__Ref)TARRY__REF__INIT;
        refs[i].id = 2 + i;
        cancels[i].task = &refs[i];
        ops[i] = (Tarry__Op)TARRY__OP__INIT;
        ops[i].op_case = TARRY__OP__OP_CANCEL;
        ops[i].cancel = &cancels[i];
    }
    ops[STAY] = pause_op(&pauses[1], false);
    for (unsigned i = 0; i <= STAY; i++) list[i] = &ops[i];
    f->sequence++;
    assert_int_equal(commit_as(f, f->sequence, f->sequence, list, STAY + 1), TARRY__CODE__OK);
    assert_int_equal(f->result, TARRY__CODE__OK);
    assert_int_equal(delivered(f),
                     0); /* nothing is delivered: all tasks wait for the index, which this test does not have */
}

/* The wall clock is set forward, and then an event is handled that came 10 ms before the last known time. Both clocks
 * must advance together. */
static void both_clocks_are_put_forward_together(void **state) { /* TIME-1 */
    struct fx *f = *state;
    const uint64_t ms = 1000000, ahead = 24 * ms, seen = f->now_ms * ms;
    struct core_event tick = {.kind = CORE_TICK, .now = {seen, seen}};
    core_step(f->core, &tick, &f->effects);
    tick.now = (struct instant){seen - 10 * ms, seen - 10 * ms + ahead};
    tick.age_ns = 15 * ms;
    core_step(f->core, &tick, &f->effects);
    assert_int_equal(f->core->now.steady_ns, seen);
    assert_int_equal(f->core->now.wall_ns, seen + ahead);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CORE_TEST(a_delivery_is_bounded_by_its_batch_and_by_prefetch),
        CORE_TEST(what_a_returner_holds_is_sent_again_in_batches),
        CORE_TEST(large_contents_go_one_by_one),
        CORE_TEST(a_nack_says_when_and_why),
        CORE_TEST(a_release_says_when_and_before_whom),
        CORE_TEST(backoff_doubles_up_to_its_limit),
        CORE_TEST(a_lease_is_kept_as_long_as_was_said),
        CORE_TEST(nothing_leaves_while_the_index_is_far_behind),
        CORE_TEST(leases_take_half_of_the_memory_and_no_more),
        CORE_TEST(however_many_leases_are_over_at_once_a_step_does_so_much),
        CORE_TEST(however_much_is_ready_a_step_leases_so_much),
        CORE_TEST(what_is_put_aside_is_not_overtaken),
        CORE_TEST(both_clocks_are_put_forward_together),
    };
    return cmocka_run_group_tests_name("core_deliver", tests, NULL, NULL);
}
