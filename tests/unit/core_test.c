/* core_test.c: refusals by the core, at limits and beyond them (CAP-1); index and log contents that it does not accept
 * (LOG-2); and its behaviour without memory (F-11). tests/sim tests its normal work. */
#include "core_alone.h"
#include "outcomes.h"
#include "state.h"

/* ---- the allocator, by the linker's --wrap */

static uint64_t allocations_left; /* 0: no limit; n: the n-th allocation fails */

static bool is_refused(void) {
    return allocations_left > 0 && --allocations_left == 0;
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size) {
    return is_refused() ? NULL : __real_malloc(size);
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size) {
    return is_refused() ? NULL : __real_calloc(count, size);
}

void *__real_mmap64(void *at, size_t size, int protection, int flags, int file, long offset);
void *__wrap_mmap64(void *at, size_t size, int protection, int flags, int file, long offset);
void *__wrap_mmap64(void *at, size_t size, int protection, int flags, int file, long offset) {
    return is_refused() ? (void *)-1 : __real_mmap64(at, size, protection, flags, file, offset);
}

/* ---- refusals */

static void a_commit_out_of_bounds_is_refused(void **state) {
    struct fx *f = *state;
    static Tarry__Op *ops[OPS_PER_COMMIT_MAX + 1];
    Tarry__Op op = TARRY__OP__INIT;
    for (size_t i = 0; i <= OPS_PER_COMMIT_MAX; i++) ops[i] = &op;
    static const struct {
        uint64_t sequence, oldest;
        size_t count;
        Tarry__Code code;
    } cases[] = {
        {0, 1, 1, TARRY__CODE__INVALID},
        {1, 0, 1, TARRY__CODE__INVALID},
        {1, 2, 1, TARRY__CODE__INVALID},
        {1, 1, 0, TARRY__CODE__TOO_LARGE},
        {1, 1, OPS_PER_COMMIT_MAX + 1, TARRY__CODE__TOO_LARGE},
    };
    uint64_t position = core_position(f->core);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        assert_int_equal(commit_as(f, cases[i].sequence, cases[i].oldest, ops, cases[i].count), cases[i].code);
    assert_int_equal(core_position(f->core), position); /* nothing has been recorded */
    assert_int_equal(commit(f, &op), TARRY__CODE__UNSUPPORTED);
    f->producer++;
    assert_int_equal(commit(f, &op), TARRY__CODE__FORGOTTEN);
}

static void a_producer_with_too_much_unanswered_waits(void **state) { /* ONCE-1, CAP-1 */
    struct fx *f = *state;
    Tarry__Op op = TARRY__OP__INIT, *ops[] = {&op};
    for (uint64_t i = 1; i <= COMMITS_PER_PRODUCER_MAX; i++)
        assert_int_equal(commit_as(f, i, 1, ops, 1), TARRY__CODE__OK);
    assert_int_equal(commit_as(f, COMMITS_PER_PRODUCER_MAX + 1, 1, ops, 1), TARRY__CODE__BUSY);
    says(f, "COMMITS_PER_PRODUCER_MAX");
    assert_int_equal(commit_as(f, COMMITS_PER_PRODUCER_MAX + 1, 2, ops, 1), TARRY__CODE__OK);
}

static Tarry__Code ask_what_became_of(struct fx *f, uint64_t sequence) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Commit body = TARRY__COMMIT__INIT;
    request.body_case = TARRY__REQUEST__BODY_COMMIT;
    request.commit = &body;
    body.producer = f->producer;
    body.sequence = sequence;
    body.oldest_unanswered = 1;
    body.ask = true;
    return ask(f, &request);
}

static void what_became_of_a_commit_can_be_asked(void **state) { /* ONCE-1 */
    struct fx *f = *state;
    Tarry__Op op = TARRY__OP__INIT, *ops[] = {&op};
    uint64_t recorded = core_position(f->core);
    assert_int_equal(commit_as(f, 1, 1, ops, 1), TARRY__CODE__OK);
    uint64_t position = core_position(f->core);
    assert_int_equal(ask_what_became_of(f, 1), TARRY__CODE__OK);
    assert_int_equal(f->repeats, recorded); /* the reply is the producer's own, read from the log */
    assert_int_equal(core_position(f->core), position);
}

static void who_is_asked_for_before_he_comes_stays_outside(void **state) { /* ONCE-1, TRUE-1 */
    struct fx *f = *state;
    Tarry__Op op = TARRY__OP__INIT, *ops[] = {&op};
    uint64_t asked = core_position(f->core);
    assert_int_equal(ask_what_became_of(f, 1), TARRY__CODE__OK);
    assert_true(f->abandoned);
    assert_int_equal(f->repeats, 0);
    uint64_t position = core_position(f->core);
    assert_true(position > asked); /* the refusal is recorded, so it is also true after a crash */
    assert_int_equal(commit_as(f, 1, 1, ops, 1),
                     TARRY__CODE__OK); /* the commit itself arrives only now, after its outcome was queried */
    assert_int_equal(f->repeats, asked);
    assert_int_equal(ask_what_became_of(f, 1), TARRY__CODE__OK);
    assert_int_equal(f->repeats, asked);
    assert_int_equal(core_position(f->core), position);
}

static void what_is_forgotten_is_neither_here_nor_there(void **state) { /* ONCE-1 */
    struct fx *f = *state;
    Tarry__Op op = TARRY__OP__INIT, *ops[] = {&op};
    assert_int_equal(commit_as(f, 1, 1, ops, 1), TARRY__CODE__OK);
    assert_int_equal(commit_as(f, 3, 3, ops, 1), TARRY__CODE__OK);
    uint64_t position = core_position(f->core);
    assert_int_equal(ask_what_became_of(f, 1), TARRY__CODE__FORGOTTEN);
    assert_int_equal(ask_what_became_of(f, 2), TARRY__CODE__FORGOTTEN);
    for (uint64_t i = 4; i < 3 + COMMITS_PER_PRODUCER_MAX; i++)
        assert_int_equal(commit_as(f, i, 3, ops, 1), TARRY__CODE__OK);
    assert_true(core_position(f->core) > position);
    assert_int_equal(ask_what_became_of(f, 3 + COMMITS_PER_PRODUCER_MAX), TARRY__CODE__BUSY); /* CAP-1 */
    f->producer++;
    assert_int_equal(ask_what_became_of(f, 3), TARRY__CODE__FORGOTTEN);
}

static void times_out_of_range_are_refused(void **state) { /* TIME-1: overflow is an error */
    struct fx *f = *state;
    assert_int_equal(schedule(f, "orders", DUE_AHEAD_MAX_MS + 1), TARRY__CODE__INVALID);
    says(f, "ten years");
    assert_int_equal(schedule(f, "orders", DUE_AHEAD_MAX_MS), TARRY__CODE__OK);
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Schedule body = TARRY__SCHEDULE__INIT;
    Tarry__When when = TARRY__WHEN__INIT;
    op.op_case = TARRY__OP__OP_SCHEDULE;
    op.schedule = &body;
    body.queue = "orders";
    body.expires_ms = UINT64_MAX / 2;
    assert_int_equal(commit(f, &op), TARRY__CODE__INVALID);
    says(f, "expires_ms");
    body.expires_ms = 0;
    body.when = &when;
    when.kind = TARRY__WHEN__KIND__AT;
    when.ms = NOW_MS + DUE_AHEAD_MAX_MS + 1000;
    assert_int_equal(commit(f, &op), TARRY__CODE__INVALID);
    Tarry__Move move = TARRY__MOVE__INIT;
    Tarry__Ref ref = TARRY__REF__INIT;
    ref.id = 1;
    move.task = &ref;
    move.when = &when;
    op.op_case = TARRY__OP__OP_MOVE;
    op.move = &move;
    assert_int_equal(commit(f, &op), TARRY__CODE__INVALID);
}

static void a_policy_that_contradicts_itself_is_refused(void **state) {
    struct fx *f = *state;
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__QueueSet set = TARRY__QUEUE_SET__INIT;
    Tarry__Policy policy = TARRY__POLICY__INIT;
    char *fields[] = {"backoff_min_ms", "backoff_max_ms"};
    op.op_case = TARRY__OP__OP_QUEUE_SET;
    op.queue_set = &set;
    set.queue = "orders";
    set.policy = &policy;
    set.fields = fields;
    set.n_fields = 2;
    policy.backoff_min_ms = 2000;
    policy.backoff_max_ms = 1000;
    assert_int_equal(commit(f, &op), TARRY__CODE__INVALID);
    policy.backoff_max_ms = 2000;
    assert_int_equal(commit(f, &op), TARRY__CODE__OK);
}

static void there_are_so_many_queues_and_no_more(void **state) {
    struct fx *f = *state;
    char name[16];
    for (unsigned i = 1; i <= QUEUES_MAX + 1; i++) {
        snprintf(name, sizeof(name), "q%u", i);
        assert_int_equal(schedule(f, name, 1000), i <= QUEUES_MAX ? TARRY__CODE__OK : TARRY__CODE__TOO_LARGE);
    }
    says(f, "QUEUES_MAX");
    struct core_options options = defaults;
    options.create_queues = false;
    begin_again(f, &options);
    assert_int_equal(schedule(f, "orders", 1000), TARRY__CODE__NO_SUCH_QUEUE);
    Tarry__Subscribe body = TARRY__SUBSCRIBE__INIT;
    char *queue = "orders";
    body.queues = &queue;
    body.n_queues = 1;
    assert_int_equal(subscribe(f, &body), TARRY__CODE__NO_SUCH_QUEUE);
}

static void so_many_purges_at_once_and_no_more(void **state) {
    struct fx *f = *state;
    assert_int_equal(purge(f), TARRY__CODE__NO_SUCH_QUEUE);
    assert_int_equal(schedule(f, "orders", 1000), TARRY__CODE__OK);
    for (unsigned i = 0; i < JOBS_MAX; i++)
        assert_int_equal(purge(f), TARRY__CODE__OK); /* the purge does not continue, because no result page arrives */
    assert_int_equal(purge(f), TARRY__CODE__BUSY);
    says(f, "purges");
}

static void a_subscription_out_of_bounds_is_refused(void **state) {
    struct fx *f = *state;
    static char *queues[QUEUES_PER_SUBSCRIBE_MAX + 1];
    for (size_t i = 0; i <= QUEUES_PER_SUBSCRIBE_MAX; i++) queues[i] = "orders";
    static const struct {
        size_t queues;
        uint32_t prefetch, max_batch;
        uint64_t lease_ms;
    } cases[] = {
        {0, 1, 1, 1000},
        {QUEUES_PER_SUBSCRIBE_MAX + 1, 1, 1, 1000},
        {1, PREFETCH_MAX + 1, 1, 1000},
        {1, 1, BATCH_MAX + 1, 1000},
        {1, 1, 1, LEASE_MIN_MS - 1},
        {1, 1, 1, LEASE_MAX_MS + 1},
    };
    for (size_t i = 0; i <= sizeof(cases) / sizeof(*cases); i++) {
        bool is_good = i == sizeof(cases) / sizeof(*cases);
        Tarry__Subscribe body = TARRY__SUBSCRIBE__INIT;
        body.queues = queues;
        body.n_queues = is_good ? 2 : cases[i].queues; /* a queue that is named twice counts once */
        body.prefetch = is_good ? PREFETCH_MAX : cases[i].prefetch;
        body.max_batch = is_good ? BATCH_MAX : cases[i].max_batch;
        body.lease_ms = is_good ? LEASE_MIN_MS : cases[i].lease_ms;
        assert_int_equal(subscribe(f, &body), is_good ? TARRY__CODE__OK : TARRY__CODE__INVALID);
    }
}

static void so_many_sessions_and_no_more(void **state) {
    struct fx *f = *state;
    Tarry__Subscribe body = TARRY__SUBSCRIBE__INIT;
    char *queue = "orders";
    body.queues = &queue;
    body.n_queues = 1;
    for (unsigned i = 0; i < SESSIONS_MAX; i++) assert_int_equal(subscribe(f, &body), TARRY__CODE__OK);
    assert_int_equal(subscribe(f, &body), TARRY__CODE__BUSY);
    says(f, "SESSIONS_MAX");
    f->resumes = f->session;
    /* A resumed session keeps its place; it gets its own lane again if a lane is free. */
    assert_int_equal(subscribe(f, &body), TARRY__CODE__OK);
    f->resumes = 0;
    struct core_event gone = {.kind = CORE_LANE_GONE, .lane.session = f->session};
    step(f, &gone);
    step(f, &gone); /* ignored, because the session does not exist */
    gone.kind = CORE_LANE_UP;
    step(f, &gone);
    gone.kind = CORE_LANE_SENT;
    step(f, &gone);
    assert_int_equal(subscribe(f, &body), TARRY__CODE__OK);
}

static Tarry__Code unsubscribe(struct fx *f) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Unsubscribe end = TARRY__UNSUBSCRIBE__INIT;
    request.body_case = TARRY__REQUEST__BODY_UNSUBSCRIBE;
    request.unsubscribe = &end;
    end.session = f->session;
    return ask(f, &request);
}

/* The consumer's lane may be connected or not, and its session may have any place in the table, even the first. */
static void a_queue_with_a_consumer_is_not_deleted(void **state) {
    struct fx *f = *state;
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__QueueDelete body = TARRY__QUEUE_DELETE__INIT;
    Tarry__Subscribe subscription = TARRY__SUBSCRIBE__INIT;
    char *queue = (char *)"orders";
    op.op_case = TARRY__OP__OP_QUEUE_DELETE;
    op.queue_delete = &body;
    subscription.queues = &queue;
    body.queue = queue;
    subscription.n_queues = 1;
    bool was_first = false;
    /* Session ids are log positions, which determine their places in the table. */
    for (unsigned tries = 0; !was_first; tries++) {
        assert_true(tries < 20 * SESSIONS_TABLE);
        assert_int_equal(schedule(f, queue, 1000), TARRY__CODE__OK);
        assert_int_equal(cancel(f, f->id), TARRY__CODE__OK);
        assert_int_equal(subscribe(f, &subscription), TARRY__CODE__OK);
        was_first = f->session % SESSIONS_TABLE == 0;
        struct core_event up = {.kind = CORE_LANE_UP, .lane.session = f->session};
        assert_int_equal(commit(f, &op), TARRY__CODE__NOT_DONE);
        step(f, &up);
        assert_int_equal(commit(f, &op), TARRY__CODE__NOT_DONE);
        assert_int_equal(unsubscribe(f), TARRY__CODE__OK);
        assert_int_equal(commit(f, &op), TARRY__CODE__OK);
    }
}

/* CAP-1: first schedules are refused, then everything except settlements. */
static void an_index_that_lags_is_waited_for(void **state) {
    struct fx *f = *state;
    struct core_options options = defaults;
    options.index_lag_max = 10;
    options.index_lag_hard = 12;
    begin_again(f, &options);
    for (unsigned i = 0; i <= 10; i++) assert_int_equal(schedule(f, "orders", 1000), TARRY__CODE__OK);
    assert_int_equal(schedule(f, "orders", 1000), TARRY__CODE__BUSY);
    says(f, "index_lag_max");
    assert_int_equal(cancel(f, 1), TARRY__CODE__OK);
    options.index_lag_hard = 5;
    options.index_lag_max = 100;
    begin_again(f, &options);
    for (unsigned i = 0; i <= 5; i++) assert_int_equal(schedule(f, "orders", 1000), TARRY__CODE__OK);
    assert_int_equal(cancel(f, 1), TARRY__CODE__BUSY);
    says(f, "index_lag_hard");
}

static void memory_for_tasks_ends_in_a_refusal(void **state) { /* CALM-1, CAP-1 */
    struct fx *f = *state;
    struct core_options options = defaults;
    options.index_lag_max = options.index_lag_hard = UINT64_MAX;
    begin_again(f, &options);
    Tarry__Code code = TARRY__CODE__OK;
    unsigned count = 0;
    while (count < 1000000 && (code = schedule(f, "orders", 1000000)) == TARRY__CODE__OK) count++;
    assert_int_equal(code, TARRY__CODE__BUSY);
    says(f, "memory");
    assert_true(count > 10000);
}

static void nothing_new_once_it_stops(void **state) {
    struct fx *f = *state;
    struct core_event stop = {.kind = CORE_STOP};
    step(f, &stop);
    assert_int_equal(schedule(f, "orders", 1000), TARRY__CODE__STOPPING);
    assert_int_equal(hello(f), TARRY__CODE__STOPPING);
    Tarry__Subscribe body = TARRY__SUBSCRIBE__INIT;
    char *queue = "orders";
    body.queues = &queue;
    body.n_queues = 1;
    assert_int_equal(subscribe(f, &body), TARRY__CODE__STOPPING);
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Goodbye goodbye = TARRY__GOODBYE__INIT;
    request.body_case = TARRY__REQUEST__BODY_GOODBYE;
    request.goodbye = &goodbye;
    goodbye.producer = f->producer;
    uint64_t position = core_position(f->core);
    assert_int_equal(ask(f, &request), TARRY__CODE__OK);
    assert_int_equal(core_position(f->core), position);
}

/* Seed 2030989 of the pair simulation: before it began to lead, the node received the order to hand over and then the
 * opposite order. */
static void a_follower_that_is_to_stop_and_then_not_leads_like_any_other(void **state) {
    struct fx *f = *state;
    static const enum core_event_kind kinds[] = {CORE_FOLLOW, CORE_STOP, CORE_RESUME, CORE_START};
    core_free(f->core);
    f->core = core_new(&f->options);
    assert_non_null(f->core);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        struct core_event event = {.kind = kinds[i], .start.epoch = kinds[i] == CORE_START ? 2 : 0};
        step(f, &event);
    }
    assert_int_equal(hello(f), TARRY__CODE__OK);
    assert_int_equal(schedule(f, "orders", 1000), TARRY__CODE__OK);
}

static uint64_t now_by_stats(struct fx *f, uint64_t now_ms) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Stats stats = TARRY__STATS__INIT;
    Tarry__BrokerStats broker = TARRY__BROKER_STATS__INIT;
    request.client = "test";
    request.body_case = TARRY__REQUEST__BODY_STATS;
    request.stats = &stats;
    struct core_event event = {.kind = CORE_REQUEST, .request = {.ticket = 1, .message = &request, .broker = &broker}};
    f->now_ms = now_ms;
    step(f, &event);
    assert_int_equal(f->code, TARRY__CODE__OK);
    return broker.now_ms;
}

/* TIME-2: a follower's logical clock shows the time of its last frame. A query is answered with the present time, but
 * does not advance this clock. */
static void a_question_moves_no_followers_clock(void **state) {
    struct fx *f = *state;
    core_free(f->core);
    f->core = core_new(&f->options);
    assert_non_null(f->core);
    struct core_event event = {.kind = CORE_FOLLOW};
    step(f, &event);
    assert_int_equal(now_by_stats(f, 9000), 9000);
    assert_int_equal(now_by_stats(f, 2000), 2000);
}

/* ---- contents that no index or log of ours has */

static void an_index_that_makes_no_sense_is_not_believed(void **state) {
    struct core *core = core_new(&defaults);
    Tarry__Policy policy = TARRY__POLICY__INIT;
    Tarry__QueuePut queue = TARRY__QUEUE_PUT__INIT;
    char long_name[QUEUE_NAME_SIZE_MAX + 2];
    memset(long_name, 'q', sizeof(long_name) - 1);
    long_name[sizeof(long_name) - 1] = 0;
    static const struct {
        uint32_t number;
        bool is_named, is_long, has_policy;
    } queues[] = {{1, false, false, true},
                  {1, true, true, true},
                  {1, true, false, false},
                  {QUEUE_PLACES + 1, true, false, true}};
    for (size_t i = 0; i < sizeof(queues) / sizeof(*queues); i++) {
        queue.number = queues[i].number;
        queue.name = queues[i].is_long ? long_name : queues[i].is_named ? "orders" : "";
        queue.policy = queues[i].has_policy ? &policy : NULL;
        assert_int_equal(core_restore_queue(core, &queue), CORE_NONSENSE);
    }
    queue.number = 1;
    queue.name = "orders";
    queue.policy = &policy;
    assert_int_equal(core_restore_queue(core, &queue), 0);
    queue.number = 2;
    assert_int_equal(core_restore_queue(core, &queue),
                     CORE_NONSENSE); /* refused, because another queue has this name already */

    struct row row = {.id = 1, .queue = 1, .state = ROW_WAITING};
    assert_int_equal(core_restore_lease(core, &row), CORE_NONSENSE);
    row.state = ROW_LEASED;
    static const uint32_t bad_queues[] = {0, 2, QUEUE_PLACES + 1};
    for (size_t i = 0; i < 3; i++) {
        row.queue = bad_queues[i];
        assert_int_equal(core_restore_lease(core, &row), CORE_NONSENSE);
        struct outcome outcome = {.id = 1, .queue = bad_queues[i]};
        assert_int_equal(core_restore_outcome(core, &outcome), bad_queues[i] == 2 ? 0 : CORE_NONSENSE);
        Tarry__JobPut job = TARRY__JOB_PUT__INIT;
        job.job = 8;
        job.queue = bad_queues[i];
        assert_int_equal(core_restore_job(core, &job), CORE_NONSENSE);
    }
    Tarry__JobPut job = TARRY__JOB_PUT__INIT;
    job.queue = 1;
    assert_int_equal(core_restore_job(core, &job), CORE_NONSENSE);
    for (job.job = 8; job.job < 8 + JOBS_MAX; job.job++) assert_int_equal(core_restore_job(core, &job), 0);
    assert_int_equal(core_restore_job(core, &job), CORE_NONSENSE);

    assert_int_equal(core_restore_producer(core, 0, 1, 1, 0), CORE_NONSENSE);
    assert_int_equal(core_restore_producer(core, 7, 1, 0, 0), 0);
    assert_int_equal(core_restore_producer(core, 7, 1, 1, 0), CORE_NONSENSE);
    assert_int_equal(core_restore_result(core, 8, 1, 1), CORE_NONSENSE);
    for (uint64_t i = 1; i <= COMMITS_PER_PRODUCER_MAX; i++) assert_int_equal(core_restore_result(core, 7, i, i), 0);
    assert_int_equal(core_restore_result(core, 7, 65, 65), CORE_NONSENSE);
    for (uint64_t i = 8; i < 7 + PRODUCERS_MAX; i++) assert_int_equal(core_restore_producer(core, i, 1, 1, 0), 0);
    assert_int_equal(core_restore_producer(core, 7 + PRODUCERS_MAX, 1, 1, 0), CORE_NONSENSE);
    core_free(core);
}

/* Replays a frame with one record on a core that has one queue. */
static int replay(Tarry__Record *record, uint64_t producer) {
    struct core *core = core_new(&defaults);
    Tarry__Policy policy = TARRY__POLICY__INIT;
    Tarry__QueuePut queue = TARRY__QUEUE_PUT__INIT;
    Tarry__Record first = TARRY__RECORD__INIT, *records[] = {&first, record};
    Tarry__FrameBody body = TARRY__FRAME_BODY__INIT;
    struct frame_header header = {.type = FRAME_COMMIT, .epoch = 1, .position = LOG_POSITION_FIRST, .body_size = 8};
    queue.number = 1;
    queue.name = "orders";
    queue.policy = &policy;
    first.fact_case = TARRY__RECORD__FACT_QUEUE;
    first.queue = &queue;
    body.records = records;
    body.n_records = record != NULL ? 2 : 1;
    body.producer = producer;
    body.sequence = body.oldest_unanswered = producer > 0;
    int error = core_replay(core, &header, &body);
    core_free(core);
    return error;
}

/* ONCE-1: a full table drops the producer that has been idle longest, also after a restart. The index lists producers
 * in the order of their ids. */
static void after_a_restart_the_longest_idle_producer_goes_first(void **state) {
    struct fx *f = *state;
    const uint64_t FIRST = 1ull << 40; /* a producer's id is a log position */
    core_free(f->core);
    f->core = core_new(&f->options);
    assert_non_null(f->core);
    for (uint64_t i = 1; i <= PRODUCERS_MAX;
         i++) { /* producers with lower ids were used later; always two in the same millisecond */
        assert_int_equal(core_restore_producer(f->core, FIRST + i, NOW_MS - i / 2, 1, 0), 0);
    }
    struct core_event start = {.kind = CORE_START, .start.epoch = 2};
    step(f, &start);
    for (uint64_t gone = 0; gone < 3; gone++) assert_int_equal(hello(f), TARRY__CODE__OK);
    static const uint64_t alive[] = {1, 2, 3, PRODUCERS_MAX / 2, PRODUCERS_MAX - 3};
    for (size_t i = 0; i < sizeof(alive) / sizeof(*alive); i++) {
        f->producer = FIRST + alive[i];
        assert_int_equal(schedule(f, "orders", 1000), TARRY__CODE__OK);
    }
    for (f->producer = FIRST + PRODUCERS_MAX - 2; f->producer <= FIRST + PRODUCERS_MAX; f->producer++) {
        assert_int_equal(schedule(f, "orders", 1000), TARRY__CODE__FORGOTTEN);
    }
}

/* ONCE-1, F-13: a producer that is used soon after a pause of the process is not idle. The time of the pause must not
 * count. */
static void a_producer_used_right_after_a_standstill_is_not_idle(void **state) {
    struct fx *f = *state;
    /* After a pause of the process, a request counts as received before the pause. */
    f->late_ms = PRODUCER_IDLE_MS + 1000;
    assert_int_equal(hello(f), TARRY__CODE__OK);
    uint64_t fresh = f->producer;
    f->now_ms += f->late_ms;
    f->late_ms = 0;
    assert_int_equal(hello(f), TARRY__CODE__OK);
    f->producer = fresh;
    assert_int_equal(schedule(f, "orders", 1000), TARRY__CODE__OK);
    f->now_ms += PRODUCER_IDLE_MS + 1;
    assert_int_equal(hello(f), TARRY__CODE__OK);
    f->producer = fresh;
    assert_int_equal(schedule(f, "orders", 1000),
                     TARRY__CODE__FORGOTTEN); /* forgotten, because the producer was idle for too long */
}

static void a_log_that_makes_no_sense_is_not_believed(void **state) { /* LOG-2 */
    Tarry__Task task = TARRY__TASK__INIT;
    Tarry__TaskPut put = TARRY__TASK_PUT__INIT;
    Tarry__TaskEnd end = TARRY__TASK_END__INIT;
    Tarry__ProducerPut producer = TARRY__PRODUCER_PUT__INIT;
    Tarry__ProducerEnd producer_end = TARRY__PRODUCER_END__INIT;
    Tarry__JobEnd job_end = TARRY__JOB_END__INIT;
    Tarry__JobPut job = TARRY__JOB_PUT__INIT;
    Tarry__ClockAccepted clock = TARRY__CLOCK_ACCEPTED__INIT;
    Tarry__SessionPut session = TARRY__SESSION_PUT__INIT;
    Tarry__SessionEnd session_end = TARRY__SESSION_END__INIT;
    Tarry__StopPut stop = TARRY__STOP_PUT__INIT;
    Tarry__AlonePut alone = TARRY__ALONE_PUT__INIT;
    assert_int_equal(replay(NULL, 0), 0);
    assert_int_equal(replay(NULL, 9), CORE_NONSENSE); /* refused, because the frame has a sequence but no producer */
    Tarry__Record records[] = {
        {.fact_case = TARRY__RECORD__FACT__NOT_SET},
        {.fact_case = TARRY__RECORD__FACT_PUT, .put = &put},
        {.fact_case = TARRY__RECORD__FACT_END, .end = &end},
        {.fact_case = TARRY__RECORD__FACT_PRODUCER, .producer = &producer},
        {.fact_case = TARRY__RECORD__FACT_PRODUCER_END, .producer_end = &producer_end},
        {.fact_case = TARRY__RECORD__FACT_JOB, .job = &job},
        {.fact_case = TARRY__RECORD__FACT_JOB_END, .job_end = &job_end},
        {.fact_case = TARRY__RECORD__FACT_SESSION, .session = &session},
        {.fact_case = TARRY__RECORD__FACT_SESSION_END, .session_end = &session_end},
        {.fact_case = TARRY__RECORD__FACT_ALONE, .alone = &alone},
    };
    for (unsigned with_task = 0; with_task < 2; with_task++) {
        put.task = end.task =
            with_task ? &task
                      : NULL; /* in the first round the record has no task; in the second round its task has no id */
        for (size_t i = 0; i < sizeof(records) / sizeof(*records); i++) {
            records[i].base = (ProtobufCMessage)PROTOBUF_C_MESSAGE_INIT(&tarry__record__descriptor);
            int error = replay(&records[i], 0);
            if (error != CORE_NONSENSE) fail_msg("record %zu: %d", i, error);
        }
    }
    Tarry__AccessRefused refused = TARRY__ACCESS_REFUSED__INIT;
    refused.count = 1;
    session.session = session_end.session = alone.since_ms = 1;
    Tarry__Record fine[] = {
        {.fact_case = TARRY__RECORD__FACT_CLOCK, .clock = &clock},
        {.fact_case = TARRY__RECORD__FACT_SESSION, .session = &session},
        {.fact_case = TARRY__RECORD__FACT_SESSION_END, .session_end = &session_end},
        {.fact_case = TARRY__RECORD__FACT_STOP, .stop = &stop},
        {.fact_case = TARRY__RECORD__FACT_REFUSED, .refused = &refused},
        {.fact_case = TARRY__RECORD__FACT_ALONE, .alone = &alone},
    };
    for (size_t i = 0; i < sizeof(fine) / sizeof(*fine); i++) {
        fine[i].base = (ProtobufCMessage)PROTOBUF_C_MESSAGE_INIT(&tarry__record__descriptor);
        assert_int_equal(replay(&fine[i], 0), 0);
    }
}

/* ---- memory */

static void without_memory_there_is_no_core(void **state) { /* F-11 */
    unsigned failed = 0;
    for (uint64_t n = 1;; n++) {
        allocations_left = n;
        struct core *core = core_new(&defaults);
        bool is_met = allocations_left == 0;
        allocations_left = 0;
        if (!is_met) {
            assert_non_null(core);
            core_free(core);
            break;
        }
        assert_null(core);
        failed++;
    }
    assert_true(failed >= 12);
    core_free(NULL);
    outcomes_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CORE_TEST(a_commit_out_of_bounds_is_refused),
        CORE_TEST(a_producer_with_too_much_unanswered_waits),
        CORE_TEST(what_became_of_a_commit_can_be_asked),
        CORE_TEST(who_is_asked_for_before_he_comes_stays_outside),
        CORE_TEST(what_is_forgotten_is_neither_here_nor_there),
        CORE_TEST(times_out_of_range_are_refused),
        CORE_TEST(a_policy_that_contradicts_itself_is_refused),
        CORE_TEST(there_are_so_many_queues_and_no_more),
        CORE_TEST(so_many_purges_at_once_and_no_more),
        CORE_TEST(a_subscription_out_of_bounds_is_refused),
        CORE_TEST(so_many_sessions_and_no_more),
        CORE_TEST(a_queue_with_a_consumer_is_not_deleted),
        CORE_TEST(an_index_that_lags_is_waited_for),
        CORE_TEST(memory_for_tasks_ends_in_a_refusal),
        CORE_TEST(nothing_new_once_it_stops),
        CORE_TEST(a_follower_that_is_to_stop_and_then_not_leads_like_any_other),
        CORE_TEST(a_question_moves_no_followers_clock),
        cmocka_unit_test(an_index_that_makes_no_sense_is_not_believed),
        CORE_TEST(after_a_restart_the_longest_idle_producer_goes_first),
        CORE_TEST(a_producer_used_right_after_a_standstill_is_not_idle),
        cmocka_unit_test(a_log_that_makes_no_sense_is_not_believed),
        cmocka_unit_test(without_memory_there_is_no_core),
    };
    return cmocka_run_group_tests_name("core", tests, NULL, NULL);
}
