/* core_need_test.c: the memory and index rows that an event needs are known before it begins, and a commit that can
 * never fit is refused with that reason (need.h; CAP-1, CALM-1). */
#include "core_alone.h"
#include "engine_request.h"
#include "state.h"
#include "tarry_limits.h"

static Tarry__Op ops[OPS_PER_COMMIT_MAX], *pointers[OPS_PER_COMMIT_MAX];

static ProtobufCBinaryData key_of(const char *text) {
    return (ProtobufCBinaryData){.data = (uint8_t *)text, .len = strlen(text)};
}

static void add_schedule(size_t at, const char *key) {
    static Tarry__Schedule bodies[OPS_PER_COMMIT_MAX];
    static Tarry__When when = TARRY__WHEN__INIT;
    when.ms = 600000;
    tarry__op__init(&ops[at]);
    tarry__schedule__init(&bodies[at]);
    bodies[at].queue = "orders";
    bodies[at].when = &when;
    bodies[at].key = key_of(key);
    ops[at].op_case = TARRY__OP__OP_SCHEDULE;
    ops[at].schedule = &bodies[at];
    pointers[at] = &ops[at];
}

static void add_cancel(size_t at, const char *key) {
    static Tarry__Cancel bodies[OPS_PER_COMMIT_MAX];
    static Tarry__Ref refs[OPS_PER_COMMIT_MAX];
    tarry__op__init(&ops[at]);
    tarry__cancel__init(&bodies[at]);
    tarry__ref__init(&refs[at]);
    refs[at].queue = "orders";
    refs[at].key = key_of(key);
    bodies[at].task = &refs[at];
    ops[at].op_case = TARRY__OP__OP_CANCEL;
    ops[at].cancel = &bodies[at];
    pointers[at] = &ops[at];
}

/* Makes the event of a commit with `count` operations. */
struct commit_event {
    Tarry__Request request;
    Tarry__Commit commit;
    struct core_event event;
};

static void make_commit(const struct fx *f, struct commit_event *out, uint64_t sequence, size_t count) {
    tarry__request__init(&out->request);
    tarry__commit__init(&out->commit);
    out->request.body_case = TARRY__REQUEST__BODY_COMMIT;
    out->request.commit = &out->commit;
    out->request.client = "test";
    out->commit.producer = f->producer;
    out->commit.sequence = sequence;
    out->commit.oldest_unanswered = 1;
    out->commit.ops = pointers;
    out->commit.n_ops = count;
    out->event = (struct core_event){.kind = CORE_REQUEST, .request = {.ticket = 1, .message = &out->request}};
}

static size_t wants_of(struct fx *f, size_t count, struct want **out) {
    static struct commit_event made;
    make_commit(f, &made, f->sequence + 1, count);
    return core_wants(f->core, &made.event, &f->arena, NULL, out);
}

/* A key may have very many dead letters. In an earlier version all of them were read to schedule one task with the key.
 */
static void a_schedule_asks_for_no_dead_letters(void **state) {
    struct fx *f = *state;
    struct want *wants;
    assert_int_equal(schedule(f, "orders", 1000), TARRY__CODE__OK); /* this schedule creates the queue */
    add_schedule(0, "k");
    assert_int_equal(wants_of(f, 1, &wants), 1);
    assert_true(wants[0].live_only);
    add_cancel(0, "k");
    assert_int_equal(wants_of(f, 1, &wants), 1);
    assert_false(wants[0].live_only);
    add_schedule(1, "k"); /* this lookup finds all rows with the key, also the live one */
    assert_int_equal(wants_of(f, 2, &wants), 1);
    add_schedule(0, "k");
    add_cancel(1, "k");
    assert_int_equal(wants_of(f, 2, &wants), 2);
    assert_true(wants[0].live_only && !wants[1].live_only);
}

/* In an earlier version, each repetition of an answered commit read its facts again. */
static void a_repeated_commit_asks_for_nothing(void **state) { /* ONCE-1 */
    struct fx *f = *state;
    struct commit_event made;
    struct want *wants;
    add_cancel(0, "k");
    assert_int_equal(schedule(f, "orders", 1000), TARRY__CODE__OK);
    assert_int_equal(commit_as(f, f->sequence + 1, 1, pointers, 1), TARRY__CODE__OK);
    make_commit(f, &made, f->sequence + 1, 1);
    assert_int_equal(core_wants(f->core, &made.event, &f->arena, NULL, &wants), 0);
    make_commit(f, &made, f->sequence + 2, 1);
    assert_int_equal(core_wants(f->core, &made.event, &f->arena, NULL, &wants), 1);
}

/* In an earlier version each dead letter counted as one more task in memory, so the commit got BUSY for ever. */
static void dead_letters_that_were_read_need_no_memory(void **state) { /* CAP-1 */
    struct fx *f = *state;
    enum { DEAD = 40000 };
    static struct row rows[DEAD];
    struct commit_event made;
    struct want *wants;
    assert_int_equal(schedule(f, "orders", 1000), TARRY__CODE__OK);
    for (size_t i = 0; i < DEAD; i++)
        rows[i] = (struct row){.id = i + 2, .queue = 1, .state = ROW_BURIED, .dead_ms = i, .key = "k", .key_size = 1};
    f->core->tally.next_id = DEAD + 2;
    add_cancel(0, "k");
    make_commit(f, &made, f->sequence + 1, 1);
    made.event.request.facts.want_count = core_wants(f->core, &made.event, &f->arena, NULL, &wants);
    struct want want = wants[0];
    made.event.request.facts = (struct core_facts){.rows = rows, .count = DEAD, .wants = &want, .want_count = 1};
    step(f, &made.event);
    assert_int_equal(f->code, TARRY__CODE__OK);
    assert_int_equal(f->result, TARRY__CODE__NOT_DONE);
    assert_int_equal(f->id, DEAD + 1); /* the newest of the dead letters */
}

static void what_can_never_fit_is_not_busy(void **state) { /* CAP-1 */
    struct fx *f = *state;
    static char keys[OPS_PER_COMMIT_MAX][KEY_SIZE_MAX + 1];
    struct core_options options = defaults;
    options.index_lag_max = options.index_lag_hard = UINT64_MAX;
    begin_again(f, &options);
    for (size_t i = 0; i < OPS_PER_COMMIT_MAX; i++) {
        memset(keys[i], 'k', KEY_SIZE_MAX);
        snprintf(keys[i], sizeof(keys[i]), "%05zu", i);
        keys[i][5] = 'k';
        add_schedule(i, keys[i]);
    }
    for (unsigned i = 0; i < 12000; i++) assert_int_equal(schedule(f, "orders", 1000000), TARRY__CODE__OK);
    f->sequence++;
    assert_int_equal(commit_as(f, f->sequence, f->sequence, pointers, OPS_PER_COMMIT_MAX), TARRY__CODE__TOO_LARGE);
    assert_non_null(strstr(f->message, "--memory"));
    Tarry__Code code = TARRY__CODE__OK;
    for (unsigned i = 0; code == TARRY__CODE__OK; i++) {
        assert_true(i < 1000000);
        code = schedule(f, "orders", 1000000);
    }
    assert_int_equal(code, TARRY__CODE__BUSY); /* a commit that can fit later is refused as BUSY */
}

static size_t most_effects;

static void note_effects(struct fx *f) {
    if (f->effects.arena->used > most_effects) most_effects = f->effects.arena->used;
}

/* The commit concerns as many dead letters as one request may read, and each operation makes two records. core_step
 * asserts that a step makes at most STEP_EFFECTS_MAX effects. The commit may use only half of them, because deliveries
 * follow in the same step. */
static void the_largest_commit_stays_within_the_effects(void **state) { /* CALM-1 */
    struct fx *f = *state;
    enum { DEAD = FACTS_SIZE_MAX / (sizeof(struct row) + ARENA_ALIGN) };
    static char keys[OPS_PER_COMMIT_MAX][KEY_SIZE_MAX + 1];
    struct commit_event made;
    struct core_options options = defaults;
    options.memory = 128u << 20;
    begin_again(f, &options);
    for (size_t i = 0; i < OPS_PER_COMMIT_MAX; i++) {
        memset(keys[i], 'k', KEY_SIZE_MAX);
        snprintf(keys[i], sizeof(keys[i]), "%05zu", i);
        keys[i][5] = 'k';
        add_schedule(i, keys[i]);
        ops[i].schedule->on_conflict = TARRY__SCHEDULE__ON_CONFLICT__REPLACE;
    }
    f->sequence++;
    assert_int_equal(commit_as(f, f->sequence, 1, pointers, OPS_PER_COMMIT_MAX), TARRY__CODE__OK);
    struct row *rows = calloc(DEAD, sizeof(*rows));
    assert_non_null(rows);
    for (size_t i = 0; i < DEAD; i++)
        rows[i] = (struct row){.id = UINT32_MAX + i, .queue = 1, .state = ROW_BURIED, .key = "k", .key_size = 1};
    const struct want want = {.queue = 1, .key = "k", .key_size = 1};
    f->after_step = note_effects;
    for (unsigned round = 0; round < 2; round++) {
        if (round == 1)
            add_cancel(OPS_PER_COMMIT_MAX - 1, "there is none"); /* the last operation fails, so the core decides all
                                                                    operations and then drops their records */
        make_commit(f, &made, ++f->sequence, OPS_PER_COMMIT_MAX);
        made.commit.atomic = true;
        made.event.request.facts = (struct core_facts){.rows = rows, .count = DEAD, .wants = &want, .want_count = 1};
        static struct core_content contents[OPS_PER_COMMIT_MAX];
        made.event.request.commit.contents = contents;
        step(f, &made.event);
        assert_int_equal(f->code, TARRY__CODE__OK);
    }
    f->after_step = NULL;
    assert_true(most_effects > 16u << 20);
    assert_true(most_effects <= STEP_EFFECTS_MAX / 2);
    free(rows);
}

static void more_than_a_principal_may_have_is_not_busy(void **state) {
    struct fx *f = *state;
    struct core_caller caller = {.name = "shop", .pending_max = 2, .acts_for_all = true};
    for (size_t i = 0; i < 3; i++) add_schedule(i, "");
    f->caller = &caller;
    f->sequence++;
    assert_int_equal(commit_as(f, f->sequence, f->sequence, pointers, 3), TARRY__CODE__TOO_LARGE);
    assert_int_equal(commit_as(f, f->sequence, f->sequence, pointers, 2), TARRY__CODE__OK);
    f->sequence++;
    assert_int_equal(commit_as(f, f->sequence, f->sequence, pointers, 1), TARRY__CODE__BUSY);
    f->caller = NULL;
}

/* A request whose rows do not fit into its arena is refused. In an earlier version it ended the process. */
static void a_request_whose_arena_is_exhausted_is_refused(void **state) { /* CALM-1 */
    struct fx *f = *state;
    struct arena arena;
    struct commit_event made;
    static char keys[OPS_PER_COMMIT_MAX][8];
    assert_int_equal(schedule(f, "orders", 1000), TARRY__CODE__OK);
    for (size_t i = 0; i < OPS_PER_COMMIT_MAX; i++) {
        snprintf(keys[i], sizeof(keys[i]), "k%zu", i);
        add_cancel(i, keys[i]);
    }
    for (size_t size = 16; size < 4u << 20; size *= 2) {
        make_commit(f, &made, f->sequence + 1, OPS_PER_COMMIT_MAX);
        arena_init(&arena, size);
        struct engine_request request = {.item.kind = ITEM_CALL, .arena = &arena, .event = made.event, .hold = -1};
        enum engine_request_need need = engine_request_next(&request, f->core, NULL);
        if (need == ENGINE_REQUEST_REFUSED) assert_int_equal(request.refusal.code, TARRY__CODE__TOO_LARGE);
        assert_true(need == ENGINE_REQUEST_REFUSED || (size > 256u << 10 && need == ENGINE_REQUEST_READ));
        engine_request_end(&request, f->core);
        arena_deinit(&arena);
    }
    assert_int_equal(f->core->hold_count, 0);
}

/* The commit names more stored tasks than one request may read. */
static void a_request_that_read_too_much_is_refused(void **state) {
    struct fx *f = *state;
    struct commit_event made;
    assert_int_equal(schedule(f, "orders", 1000), TARRY__CODE__OK);
    add_cancel(0, "k");
    make_commit(f, &made, f->sequence + 1, 1);
    struct engine_request request = {.item.kind = ITEM_CALL, .arena = &f->arena, .event = made.event, .hold = -1};
    assert_int_equal(engine_request_next(&request, f->core, NULL), ENGINE_REQUEST_READ);
    assert_int_equal(engine_request_room(&request, 1000), 1000);
    engine_request_too_large(&request);
    assert_int_equal(engine_request_next(&request, f->core, NULL), ENGINE_REQUEST_REFUSED);
    assert_int_equal(request.refusal.code, TARRY__CODE__TOO_LARGE);
    engine_request_end(&request, f->core);
    request.refusal = (struct engine_refusal){0};
    assert_int_equal(engine_request_next(&request, f->core, NULL), ENGINE_REQUEST_READ);
    engine_request_add_rows(&request, NULL, 0, 900);
    assert_int_equal(engine_request_room(&request, 1000), 100);
    assert_int_equal(engine_request_room(&request, 800), 0);
    assert_int_equal(engine_request_next(&request, f->core, NULL), ENGINE_REQUEST_NONE);
    engine_request_end(&request, f->core);
}

static void purge_of(struct fx *f, const char *queue) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__QueuePurge body = TARRY__QUEUE_PURGE__INIT;
    op.op_case = TARRY__OP__OP_QUEUE_PURGE;
    op.queue_purge = &body;
    body.queue = (char *)queue;
    assert_int_equal(commit(f, &op), TARRY__CODE__OK);
}

/* In an earlier version, 64 purges read 64 result pages at the same time. Now at most four are read at a time, and all
 * jobs end. */
static void few_pages_are_read_at_once(void **state) { /* CALM-1 */
    struct fx *f = *state;
    enum { JOBS = 3 * JOB_PAGES_MAX };
    struct core_page pages[JOB_PAGES_MAX];
    size_t loading = 0, done = 0;
    for (unsigned i = 0; i < JOBS; i++) {
        char queue[8];
        snprintf(queue, sizeof(queue), "q%u", i);
        assert_int_equal(schedule(f, queue, 1000000), TARRY__CODE__OK);
        purge_of(f, queue);
    }
    struct core_event event = {.kind = CORE_INDEXED, .position = f->core->durable};
    for (step(f, &event); done < JOBS; done++) {
        assert_true(loading + f->effects.pages.count <= JOB_PAGES_MAX);
        for (size_t i = 0; i < f->effects.pages.count; i++) pages[loading++] = f->effects.pages.items[i];
        assert_true(loading > 0);
        event = (struct core_event){.kind = CORE_PAGE, .page.job = pages[--loading].job, .page.next_id = UINT64_MAX};
        step(f, &event);
    }
    assert_int_equal(f->core->job_count, 0);
    assert_int_equal(f->core->pages_loading, 0);
}

enum { LINES = 64, TASKS_OF_LINE = 20000 };

/* Starts a core whose index has very many due tasks, in one line of each of many queues. */
static void begin_with_full_lines(struct fx *f) {
    static struct queue_tally counts[QUEUE_PLACES + 1];
    struct core_options options = defaults;
    options.memory = 64u << 20;
    options.policy = (Tarry__Policy)TARRY__POLICY__INIT;
    core_free(f->core);
    f->core = core_new(&options);
    assert_non_null(f->core);
    struct tally tally;
    memset(counts, 0, sizeof(counts));
    tally_init(&tally, counts);
    tally.next_id = LINES * TASKS_OF_LINE + 1;
    tally.next_queue = LINES + 1;
    tally.live = LINES * TASKS_OF_LINE;
    for (unsigned i = 1; i <= LINES; i++) counts[i].waiting[ROW_STEADY][0] = TASKS_OF_LINE;
    core_restore(f->core, &(struct core_base){.position = LOG_POSITION_FIRST, .tally = &tally});
    for (uint32_t i = 1; i <= LINES; i++) {
        char name[8];
        Tarry__QueuePut queue = TARRY__QUEUE_PUT__INIT;
        snprintf(name, sizeof(name), "q%u", i);
        queue.number = i;
        queue.name = name;
        queue.policy = &options.policy;
        assert_int_equal(core_restore_queue(f->core, &queue), 0);
    }
}

/* In an earlier version, 64 lines (queue, time base, priority) requested rows of the index at the same time: 16,384
 * rows each, together up to 470 MB. Now only a few lines at a time may do so. */
static void few_windows_are_read_at_once(void **state) { /* CALM-1 */
    struct fx *f = *state;
    begin_with_full_lines(f);
    struct core_window windows[LINES];
    size_t loading = 0, loaded = 0;
    struct core_event event = {.kind = CORE_START, .start.epoch = 2};
    for (step(f, &event); loaded < LINES; step(f, &event)) {
        assert_true(f->core->rows_loading <= (WINDOWS_LOADING_MAX + 1) * WINDOW_TASKS_MAX);
        for (size_t i = 0; i < f->effects.windows.count; i++) windows[loading++] = f->effects.windows.items[i];
        assert_true(loading > 0 || f->core->hurry);
        event = (struct core_event){.kind = CORE_TICK};
        if (f->core->hurry) continue;
        /* The answer says that the index has no more rows. So the line is complete, and the core requests no further
         * window for it. */
        event =
            (struct core_event){.kind = CORE_WINDOW, .window.line = windows[--loading].line, .window.through = DUE_END};
        loaded++;
    }
    assert_int_equal(f->core->rows_loading, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CORE_TEST(a_schedule_asks_for_no_dead_letters),
        CORE_TEST(a_repeated_commit_asks_for_nothing),
        CORE_TEST(dead_letters_that_were_read_need_no_memory),
        CORE_TEST(what_can_never_fit_is_not_busy),
        CORE_TEST(the_largest_commit_stays_within_the_effects),
        CORE_TEST(more_than_a_principal_may_have_is_not_busy),
        CORE_TEST(a_request_whose_arena_is_exhausted_is_refused),
        CORE_TEST(a_request_that_read_too_much_is_refused),
        CORE_TEST(few_pages_are_read_at_once),
        CORE_TEST(few_windows_are_read_at_once),
    };
    return cmocka_run_group_tests_name("core_need", tests, NULL, NULL);
}
