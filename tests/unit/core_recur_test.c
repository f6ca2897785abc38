/* core_recur_test.c: recurrences in the core (broker/core/recur.h): each occurrence exactly once, over restarts; missed
 * and overlapping occurrences; refusals store nothing. Every test ends with a replay, whose digest must be the same. */
#include "core_alone.h"
#include "frame.h"
#include "state.h"
#include "tarry_limits.h"
#include "tasks.h"

#define FRAMES_MAX 4096u
#define TASKS_MAX 4096u

/* The frames that the core has appended, in order. */
static struct frame {
    struct frame_header header;
    uint8_t *body;
} frames[FRAMES_MAX];
static size_t frame_count;

static struct occurrence {
    uint64_t id, due_ms;
    char key[KEY_SIZE_MAX + 1];
    bool ended;
} tasks[TASKS_MAX]; /* tasks of all queues, in the order of their creation */
static size_t task_count;
static uint64_t missed, skipped;         /* total numbers of missed and of skipped occurrences in the records so far */
static char ended_key[KEY_SIZE_MAX + 1]; /* key in the last record that ended a task */

static void take_record(const Tarry__Record *record) {
    if (record->fact_case == TARRY__RECORD__FACT_PUT && record->put->fresh) {
        struct occurrence *task = &tasks[task_count++];
        assert_true(task_count < TASKS_MAX);
        *task = (struct occurrence){.id = record->put->task->id, .due_ms = record->put->task->due_ms};
        memcpy(task->key, record->put->task->key.data, record->put->task->key.len);
    } else if (record->fact_case == TARRY__RECORD__FACT_END) {
        const ProtobufCBinaryData key = record->end->task->key;
        for (size_t i = 0; i < task_count; i++) tasks[i].ended |= tasks[i].id == record->end->task->id;
        snprintf(ended_key, sizeof(ended_key), "%.*s", (int)key.len, (const char *)key.data);
    } else if (record->fact_case == TARRY__RECORD__FACT_RECUR) {
        missed += record->recur->missed;
        skipped += record->recur->skipped;
    }
}

static void keep_frames(struct fx *f) {
    for (size_t i = 0; i < f->effects.appends.count; i++) {
        const struct core_append *append = &f->effects.appends.items[i];
        struct frame *frame = &frames[frame_count++];
        assert_true(frame_count < FRAMES_MAX);
        frame->header = (struct frame_header){.position = append->position,
                                              .type = append->type,
                                              .epoch = append->epoch,
                                              .body_size = append->body_size,
                                              .steady_ns = append->now.steady_ns,
                                              .wall_ns = append->now.wall_ns};
        for (size_t k = 0; k < append->content_count; k++) frame->header.blob_size += append->contents[k]->size;
        frame->body = malloc(append->body_size + 1);
        if (append->body_size) memcpy(frame->body, append->body, append->body_size);
        Tarry__FrameBody *body = tarry__frame_body__unpack(NULL, append->body_size, frame->body);
        assert_non_null(body);
        for (size_t k = 0; k < body->n_records; k++) take_record(body->records[k]);
        tarry__frame_body__free_unpacked(body, NULL);
    }
}

/* Returns a core that has replayed all frames. */
static struct core *replayed(const struct fx *f) {
    struct core *core = core_new(&f->options);
    for (size_t i = 0; i < frame_count; i++) {
        Tarry__FrameBody *body = tarry__frame_body__unpack(NULL, frames[i].header.body_size, frames[i].body);
        assert_int_equal(core_replay(core, &frames[i].header, body), 0);
        tarry__frame_body__free_unpacked(body, NULL);
    }
    return core;
}

static int set_up_recur(void **state) {
    frame_count = task_count = missed = skipped = 0;
    ended_key[0] = '\0';
    struct fx *f = calloc(1, sizeof(*f));
    f->now_ms = NOW_MS;
    f->after_step = keep_frames;
    arena_init(&f->arena, SIZE_MAX);
    core_effects_init(&f->effects, &f->arena);
    f->options = defaults;
    f->options.policy = (Tarry__Policy)TARRY__POLICY__INIT;
    f->options.policy.lease_ms = 30000;
    begin(f);
    *state = f;
    return 0;
}

static int tear_down_recur(void **state) {
    struct fx *f = *state;
    struct core *again = replayed(f);
    assert_true(core_digest(again) == core_digest(f->core)); /* a follower and a start have the same state (LOG-2) */
    core_check(again);
    core_free(again);
    for (size_t i = 0; i < frame_count; i++) free(frames[i].body);
    return tear_down(state);
}

#define RECUR_TEST(name) cmocka_unit_test_setup_teardown(name, set_up_recur, tear_down_recur)

static Tarry__RecurSet every(uint64_t every_ms) {
    Tarry__RecurSet set = TARRY__RECUR_SET__INIT;
    set.queue = "orders";
    set.name = "r";
    set.every_ms = every_ms;
    set.overlap = "allow";
    return set;
}

static Tarry__RecurSet cron(const char *text) {
    Tarry__RecurSet set = every(0);
    set.cron = (char *)text;
    return set;
}

static Tarry__Code set_recur(struct fx *f, Tarry__RecurSet set) {
    Tarry__Op op = TARRY__OP__INIT;
    op.op_case = TARRY__OP__OP_RECUR_SET;
    op.recur_set = &set;
    return commit(f, &op);
}

static Tarry__Code do_recur(struct fx *f, Tarry__RecurDo__What what) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__RecurDo order = TARRY__RECUR_DO__INIT;
    order.queue = "orders";
    order.name = "r";
    order.what = what;
    op.op_case = TARRY__OP__OP_RECUR_DO;
    op.recur_do = &order;
    return commit(f, &op);
}

/* Lets time pass, as the shell does: a tick at each deadline. */
static void elapse(struct fx *f, uint64_t ms) {
    const uint64_t end_ms = f->now_ms + ms;
    while (core_deadline(f->core) <= end_ms) {
        if (core_deadline(f->core) > f->now_ms) f->now_ms = core_deadline(f->core);
        struct core_event tick = {.kind = CORE_TICK};
        step(f, &tick);
    }
    f->now_ms = end_ms;
}

/* The broker dies and starts again after this time. */
static void restart(struct fx *f, uint64_t ms) {
    struct core *again = replayed(f);
    core_free(f->core);
    f->core = again;
    f->now_ms += ms;
    struct core_event start = {.kind = CORE_START, .start.epoch = frames[frame_count - 1].header.epoch + 1};
    step(f, &start);
    assert_int_equal(hello(f), TARRY__CODE__OK);
    f->sequence = 0;
    elapse(f, 0);
}

static size_t count_live(void) {
    size_t count = 0;
    for (size_t i = 0; i < task_count; i++) count += !tasks[i].ended;
    return count;
}

/* Checks that tasks[from …] have these due times after NOW_MS, in seconds. */
static void due_are(size_t from, const unsigned *seconds, size_t count) {
    assert_int_equal(task_count, from + count);
    for (size_t i = 0; i < count; i++) assert_int_equal(tasks[from + i].due_ms - NOW_MS, seconds[i] * 1000ull);
}

/* ---- occurrences */

static void each_occurrence_is_created_once_by_the_one_before(void **state) {
    struct fx *f = *state;
    assert_int_equal(set_recur(f, every(10000)), TARRY__CODE__OK);
    for (unsigned i = 1; i <= 30; i++) {
        assert_int_equal(task_count,
                         i); /* exactly one occurrence waits at a time, so there are as many tasks as occurrences */
        assert_int_equal(tasks[i - 1].due_ms, NOW_MS + i * 10000);
        elapse(f, 9999);
        assert_int_equal(task_count, i);
        elapse(f, 1);
        core_check(f->core);
    }
    assert_string_equal(tasks[0].key, "recur:r@2023-11-14T22:13:30Z");
    assert_int_equal(missed + skipped, 0);
}

static void a_restart_neither_loses_nor_repeats_an_occurrence(void **state) {
    struct fx *f = *state;
    assert_int_equal(set_recur(f, every(10000)), TARRY__CODE__OK);
    for (unsigned i = 1; i <= 20; i++) {
        elapse(f, i % 3 == 0 ? 10000 : 9000);
        restart(f, i % 3 == 0 ? 0 : 1000);
        assert_int_equal(task_count, i + 1);
        assert_int_equal(tasks[i].due_ms, NOW_MS + (i + 1) * 10000);
    }
    assert_int_equal(missed, 0);
}

static void keys_have_the_zones_offset_and_winter_comes(void **state) {
    struct fx *f = *state;
    Tarry__RecurSet set = cron("30 2 * * *");
    set.zone = "Europe/Berlin";
    set.from_ms = 1711670400000; /* 2024-03-29T00:00:00Z */
    assert_int_equal(set_recur(f, set), TARRY__CODE__OK);
    elapse(f, 1711670400000 - NOW_MS + 4ull * 24 * 3600 * 1000);
    static const char *const keys[] = {"recur:r@2024-03-29T02:30:00+01:00", "recur:r@2024-03-30T02:30:00+01:00",
                                       "recur:r@2024-03-31T03:00:00+02:00", /* 02:30 does not exist on this day, so the
                                                                               occurrence is at 03:00 (gap=next) */
                                       "recur:r@2024-04-01T02:30:00+02:00", "recur:r@2024-04-02T02:30:00+02:00"};
    assert_int_equal(task_count, 5);
    for (size_t i = 0; i < 5; i++) assert_string_equal(tasks[i].key, keys[i]);
}

static void jitter_stays_before_the_next_occurrence(void **state) {
    struct fx *f = *state;
    Tarry__RecurSet set = every(10000);
    set.jitter_ms = 3600000;
    assert_int_equal(set_recur(f, set), TARRY__CODE__OK);
    elapse(f, 600000);
    assert_true(task_count >= 59);
    uint64_t spread = 0;
    for (size_t i = 0; i < task_count; i++) {
        const uint64_t at_ms = NOW_MS + (i + 1) * 10000;
        assert_true(tasks[i].due_ms >= at_ms && tasks[i].due_ms < at_ms + 10000);
        spread += tasks[i].due_ms != at_ms;
    }
    assert_true(spread > task_count / 2);
}

static void count_and_until_end_it(void **state) {
    struct fx *f = *state;
    Tarry__RecurSet set = every(10000);
    set.count = 3;
    assert_int_equal(set_recur(f, set), TARRY__CODE__OK);
    elapse(f, 100000);
    due_are(0, (const unsigned[]){10, 20, 30}, 3);
    set = every(10000);
    set.until_ms = f->now_ms + 25000;
    assert_int_equal(set_recur(f, set), TARRY__CODE__OK);
    elapse(f, 100000);
    due_are(3, (const unsigned[]){110, 120}, 2);
}

/* ---- missed */

static void the_last_missed_one_runs(void **state) {
    struct fx *f = *state;
    assert_int_equal(set_recur(f, every(10000)), TARRY__CODE__OK);
    restart(f, 605000); /* during the outage, the 60 occurrences from 10 s to 600 s would fall due */
    due_are(1, (const unsigned[]){600, 610}, 2);
    assert_int_equal(missed, 59);
    assert_true(tasks[0].ended && !tasks[1].ended);
}

static void no_missed_one_runs(void **state) {
    struct fx *f = *state;
    Tarry__RecurSet set = every(1000000);
    set.missed = "none";
    assert_int_equal(set_recur(f, set), TARRY__CODE__OK);
    restart(f, 1000000 + RECUR_GRACE_MS + 1);
    due_are(1, (const unsigned[]){2000}, 1);
    assert_true(tasks[0].ended);
    assert_int_equal(missed, 1);
    restart(f,
            1000000 -
                1); /* at the restart the occurrence is exactly RECUR_GRACE_MS late, so it does not count as missed */
    due_are(2, (const unsigned[]){3000}, 1);
    assert_false(tasks[1].ended);
    assert_int_equal(missed, 1);
}

static void the_last_n_missed_ones_run(void **state) {
    struct fx *f = *state;
    Tarry__RecurSet set = every(100000);
    set.missed = "all:3";
    assert_int_equal(set_recur(f, set), TARRY__CODE__OK);
    restart(f, 1000000 + RECUR_GRACE_MS + 1);
    due_are(1, (const unsigned[]){800, 900, 1000, 1100}, 4);
    assert_int_equal(missed, 7);
    set.missed_window_ms = 150000;
    assert_int_equal(set_recur(f, set), TARRY__CODE__OK); /* the first occurrence falls due in 100 s */
    const size_t before = task_count;
    restart(f, 1000000 + RECUR_GRACE_MS + 1);
    assert_int_equal(
        task_count - before,
        2); /* two new tasks: the only missed occurrence within missed_window_ms, and the next occurrence */
}

static void a_long_downtime_is_settled_in_pieces(void **state) {
    struct fx *f = *state;
    assert_int_equal(set_recur(f, every(1000)), TARRY__CODE__OK);
    restart(f, 3600ull * 1000 * 5 + 500);
    assert_int_equal(task_count, 3);
    assert_int_equal(missed, 5 * 3600 - 1);
    assert_int_equal(tasks[1].due_ms, NOW_MS + 3600ull * 1000 * 5);
}

/* ---- overlap */

/* The core handles many missed occurrences in parts, and the last part may have only one. The first occurrence of a
 * part has no task yet; the core makes one if the occurrence is to run. */
static void the_last_piece_may_have_one_occurrence(void **state) {
    struct fx *f = *state;
    assert_int_equal(set_recur(f, every(1000)), TARRY__CODE__OK);
    restart(f, 1001000);
    assert_int_equal(missed, 1000);
    due_are(1, (const unsigned[]){1001, 1002}, 2);
    assert_true(tasks[0].ended && !tasks[1].ended && !tasks[2].ended);
}

static void an_occurrence_is_skipped_while_one_is_open(void **state) {
    struct fx *f = *state;
    Tarry__RecurSet set = every(10000);
    set.overlap = "skip";
    assert_int_equal(set_recur(f, set), TARRY__CODE__OK);
    elapse(f, 35000); /* the first occurrence waits without end, because no consumer takes it */
    due_are(0, (const unsigned[]){10, 20, 30, 40}, 4);
    assert_int_equal(skipped, 2);
    assert_true(!tasks[0].ended && tasks[1].ended && tasks[2].ended && !tasks[3].ended);
    restart(f, 0);
    assert_int_equal(cancel(f, tasks[0].id), TARRY__CODE__OK);
    elapse(f, 10000);
    assert_true(!tasks[3].ended);
    assert_int_equal(skipped, 2);
}

static void one_occurrence_waits_for_the_open_one(void **state) {
    struct fx *f = *state;
    Tarry__RecurSet set = every(10000);
    set.overlap = "queue-one";
    assert_int_equal(set_recur(f, set), TARRY__CODE__OK);
    elapse(f, 35000); /* the occurrence of 10 s is open, that of 20 s waits, and that of 30 s is skipped */
    assert_int_equal(skipped, 1);
    assert_int_equal(count_live(), 2);
    restart(f, 0);
    assert_int_equal(cancel(f, tasks[0].id), TARRY__CODE__OK);
    elapse(f, 0);
    assert_int_equal(task_count, 5);
    assert_string_equal(tasks[4].key, tasks[1].key); /* the occurrence of 20 s runs now */
    assert_false(tasks[4].ended);
}

/* Begins a consumer that takes one task at a time. */
static void consume(struct fx *f) {
    Tarry__Subscribe body = TARRY__SUBSCRIBE__INIT;
    char *queue = "orders";
    body.queues = &queue;
    body.n_queues = 1;
    body.prefetch = 1;
    assert_int_equal(subscribe(f, &body), TARRY__CODE__OK);
    struct core_event up = {.kind = CORE_LANE_UP, .lane.session = f->session};
    step(f, &up);
}

/* The delivery of the task is sent, and the consumer moves the task to the dead letters. */
static Tarry__Code bury(struct fx *f, uint64_t id) {
    struct core_event sent = {.kind = CORE_LANE_SENT, .lane.session = f->session, .lane.ok = true};
    step(f, &sent);
    const struct row *row = &task_find(f->core, id)->row;
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Nack body = TARRY__NACK__INIT;
    Tarry__Token token = token_of(row);
    op.op_case = TARRY__OP__OP_NACK;
    op.nack = &body;
    body.id = id;
    body.token = &token;
    body.dead = true;
    return commit(f, &op);
}

static Tarry__Code requeue(struct fx *f, uint64_t id) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__DeadOp body = TARRY__DEAD_OP__INIT;
    Tarry__Ref ref = TARRY__REF__INIT;
    op.op_case = TARRY__OP__OP_DEAD;
    op.dead = &body;
    body.task = &ref;
    ref.id = id;
    return commit(f, &op);
}

static void a_dead_occurrence_is_open_again_once_it_is_requeued(void **state) {
    struct fx *f = *state;
    Tarry__RecurSet set = every(10000);
    set.overlap = "skip";
    assert_int_equal(set_recur(f, set), TARRY__CODE__OK);
    elapse(f, 9000);
    consume(f);
    elapse(f, 1000);
    assert_int_equal(bury(f, tasks[0].id), TARRY__CODE__OK);
    elapse(f, 9000); /* the consumer's session has ended, because it sends nothing */
    consume(f);
    elapse(f, 1000);
    due_are(0, (const unsigned[]){10, 20, 30}, 3);
    assert_int_equal(skipped, 0); /* nothing is skipped, because an occurrence that is a dead letter is not open */
    assert_int_equal(bury(f, tasks[1].id), TARRY__CODE__OK);
    assert_int_equal(requeue(f, tasks[1].id), TARRY__CODE__OK);
    elapse(f, 10000);
    assert_int_equal(skipped, 1);
    assert_true(!tasks[1].ended && tasks[2].ended);
}

static void a_cancelled_occurrence_is_left_out(void **state) {
    struct fx *f = *state;
    Tarry__RecurSet set = every(10000);
    set.overlap = "skip";
    assert_int_equal(set_recur(f, set), TARRY__CODE__OK);
    assert_int_equal(cancel(f, tasks[0].id), TARRY__CODE__OK);
    elapse(f, 25000);
    due_are(0, (const unsigned[]){10, 20, 30}, 3);
    assert_int_equal(skipped, 0); /* nothing is skipped, because a cancelled occurrence is not open */
}

/* ---- operators */

static void pause_resume_trigger_and_delete(void **state) {
    struct fx *f = *state;
    assert_int_equal(set_recur(f, every(10000)), TARRY__CODE__OK);
    assert_int_equal(do_recur(f, TARRY__RECUR_DO__WHAT__PAUSE), TARRY__CODE__OK);
    assert_true(tasks[0].ended);
    elapse(f, 35000);
    assert_int_equal(task_count, 1);
    restart(f, 0);
    assert_int_equal(do_recur(f, TARRY__RECUR_DO__WHAT__RESUME), TARRY__CODE__OK);
    due_are(1, (const unsigned[]){40}, 1);
    assert_int_equal(missed, 0);
    assert_int_equal(do_recur(f, TARRY__RECUR_DO__WHAT__TRIGGER), TARRY__CODE__OK);
    due_are(2, (const unsigned[]){35}, 1);
    assert_string_equal(tasks[2].key, "recur:r@2023-11-14T22:13:55Z#3");
    assert_int_equal(f->id, tasks[2].id);
    assert_int_equal(do_recur(f, TARRY__RECUR_DO__WHAT__TRIGGER),
                     TARRY__CODE__OK); /* triggers the recurrence twice in the same millisecond */
    assert_int_equal(do_recur(f, TARRY__RECUR_DO__WHAT__DELETE), TARRY__CODE__OK);
    assert_true(tasks[1].ended && !tasks[2].ended);
    elapse(f, 100000);
    assert_int_equal(task_count, 4);
    assert_int_equal(do_recur(f, TARRY__RECUR_DO__WHAT__DELETE), TARRY__CODE__NOT_DONE);
}

static void a_replaced_recurrence_starts_anew(void **state) {
    struct fx *f = *state;
    assert_int_equal(set_recur(f, every(10000)), TARRY__CODE__OK);
    elapse(f, 15000);
    assert_int_equal(set_recur(f, every(3600000)), TARRY__CODE__OK);
    assert_true(!tasks[0].ended && tasks[1].ended);
    due_are(2, (const unsigned[]){3615}, 1);
    elapse(f, 60000);
    assert_int_equal(task_count, 3);
}

static void refusals_name_the_place_and_store_nothing(void **state) {
    struct fx *f = *state;
    static const struct {
        const char *cron, *says;
    } wrong[] = {
        {"0 25 * * *", "column 3: 25 is out of range for hour (0 to 23)"},
        {"0 0 30 2 *", "never fires"},
        {"0 0 1 * MON", "both day of month and day of week are given"},
        {"61 * * * *", "column 1"},
        {"* * * *", "has 4 fields"},
        {"*/0 * * * *", "column 3: the step 0 is out of range"},
        {"0 9 * * MOO", "column 9"},
        {"0 9-5 * * *", "column 3: the range runs backwards"},
        {"0 9 15W * *", "nearest weekday"},
    };
    assert_int_equal(set_recur(f, every(10000)), TARRY__CODE__OK);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(set_recur(f, cron(wrong[i].cron)), TARRY__CODE__INVALID);
        says(f, wrong[i].says);
    }
    Tarry__RecurSet set = cron("0 9 * * *");
    set.zone = "Europe/Berlim";
    assert_int_equal(set_recur(f, set), TARRY__CODE__INVALID);
    says(f, "no zone \"Europe/Berlim\"");
    set.zone = "../../etc/passwd";
    assert_int_equal(set_recur(f, set), TARRY__CODE__INVALID);
    set = every(0);
    set.rrule = "FREQ=DAILY;BYDAY=1MO";
    assert_int_equal(set_recur(f, set), TARRY__CODE__INVALID);
    says(f, "needs FREQ=MONTHLY or YEARLY");
    elapse(f, 15000); /* the recurrence that was set before continues */
    due_are(0, (const unsigned[]){10, 20}, 2);
}

static void one_commit_decides_once_about_a_recurrence(void **state) {
    struct fx *f = *state;
    Tarry__RecurSet set = every(10000);
    Tarry__Op a = TARRY__OP__INIT, b = TARRY__OP__INIT, *ops[] = {&a, &b};
    a.op_case = b.op_case = TARRY__OP__OP_RECUR_SET;
    a.recur_set = b.recur_set = &set;
    f->sequence++;
    assert_int_equal(commit_as(f, f->sequence, f->sequence, ops, 2), TARRY__CODE__OK);
    assert_int_equal(task_count, 1);
}

/* ---- a start with other time zones */

/* Returns the first record of this type. The caller frees `*out_body`. */
static const Tarry__Record *first_record(Tarry__Record__FactCase type, Tarry__FrameBody **out_body) {
    for (size_t i = 0; i < frame_count; i++) {
        *out_body = tarry__frame_body__unpack(NULL, frames[i].header.body_size, frames[i].body);
        for (size_t k = 0; k < (*out_body)->n_records; k++)
            if ((*out_body)->records[k]->fact_case == type) return (*out_body)->records[k];
        tarry__frame_body__free_unpacked(*out_body, NULL);
    }
    fail();
    return NULL;
}

/* Replaces f->core by a core that starts from an index. The index has the same queue and recurrence, but `zone` as the
 * recurrence's zone. The task of the next occurrence has the time `next_ms` and the key `key`, and is only in the
 * index. */
static void restart_from_index(struct fx *f, const char *zone, uint64_t next_ms, const char *key) {
    Tarry__FrameBody *queue_body, *recur_body;
    const Tarry__QueuePut *queue = first_record(TARRY__RECORD__FACT_QUEUE, &queue_body)->queue;
    Tarry__RecurPut put = *first_record(TARRY__RECORD__FACT_RECUR, &recur_body)->recur;
    Tarry__RecurSet set = *put.set;
    Tarry__RecurState now = *put.state;
    struct tally tally = f->core->tally;
    struct row row = task_find(f->core, 1)->row;
    tally.digest -= row_hash(&row) + recur_hash(put.number, &now);
    row.due_ms = next_ms;
    row.key = key;
    row.key_size = (uint8_t)strlen(key);
    set.zone = (char *)zone;
    now.set_hash = recur_set_hash(&set);
    now.next_ms = now.due_ms = next_ms;
    now.tzdata = "1999a";
    put.set = &set;
    put.state = &now;
    put.before_hash = recur_hash(put.number, &now);
    tally.digest += row_hash(&row) + put.before_hash;
    const struct core_base base = {.position = core_position(f->core),
                                   .tally = &tally,
                                   .then = {f->now_ms * 1000000, f->now_ms * 1000000}};
    struct core *core = core_new(&f->options);
    core_restore(core, &base);
    assert_int_equal(core_restore_queue(core, queue), 0);
    assert_int_equal(core_restore_recur(core, &put, &row, 0), 0);
    tarry__frame_body__free_unpacked(queue_body, NULL);
    tarry__frame_body__free_unpacked(recur_body, NULL);
    core_free(f->core);
    f->core = core;
    struct core_event start = {.kind = CORE_START, .now = base.then, .start.epoch = 2};
    core_effects_reset(&f->effects);
    core_step(core, &start, &f->effects);
}

/* Lets the core do what it has to do after restart_from_index. */
static void settle(struct fx *f) {
    elapse(f, 0);
    assert_int_equal(hello(f), TARRY__CODE__OK);
    f->sequence = 0;
}

/* Ends a test that used restart_from_index: the frames since then cannot be replayed without that index. */
static void forget_frames(struct fx *f, size_t kept) {
    while (frame_count > kept) free(frames[--frame_count].body);
    core_free(f->core);
    f->core = replayed(f);
}

static void the_task_of_an_older_tzdata_is_cancelled_by_its_own_key(void **state) {
    struct fx *f = *state;
    Tarry__RecurSet set = cron("0 9 * * *");
    static const char key[] =
        "recur:r@2023-11-15T09:00:00Z"; /* a key of an older tzdata, in which the zone had no offset */
    set.zone = "Europe/Berlin";
    assert_int_equal(set_recur(f, set), TARRY__CODE__OK);
    const size_t kept = frame_count;
    restart_from_index(f, "Europe/Berlin", 1700038800000, key); /* 2023-11-15T09:00:00Z */
    settle(f);
    assert_string_equal(ended_key, key);
    assert_string_equal(tasks[task_count - 1].key, "recur:r@2023-11-15T09:00:00+01:00");
    forget_frames(f, kept);
}

static void a_full_disk_delays_a_new_tzdata_without_a_busy_loop(void **state) {
    struct fx *f = *state;
    Tarry__RecurSet set = cron("0 9 * * *");
    set.zone = "Europe/Berlin";
    assert_int_equal(set_recur(f, set), TARRY__CODE__OK);
    const size_t kept = frame_count;
    restart_from_index(f, "Europe/Berlin", 1700038800000, "recur:r@2023-11-15T09:00:00Z");
    struct core_event tick = {.kind = CORE_TICK, .now = f->core->now, .no_room = true};
    core_step(f->core, &tick, &f->effects);
    assert_true(core_deadline(f->core) > f->now_ms);
    elapse(f, 1000); /* by now there is room again */
    assert_string_equal(ended_key, "recur:r@2023-11-15T09:00:00Z");
    forget_frames(f, kept);
}

static void the_task_of_a_lost_zone_is_cancelled_by_its_own_key(void **state) {
    struct fx *f = *state;
    Tarry__RecurSet set = cron("0 9 * * *");
    static const char key[] = "recur:r@2023-11-15T09:00:00+05:00";
    set.zone = "Europe/Berlin";
    assert_int_equal(set_recur(f, set), TARRY__CODE__OK);
    const size_t kept = frame_count;
    restart_from_index(f, "Europe/Atlantis", 1700020800000, key); /* 2023-11-15T04:00:00Z */
    settle(f);
    assert_string_equal(ended_key, "");
    assert_int_equal(do_recur(f, TARRY__RECUR_DO__WHAT__DELETE), TARRY__CODE__OK);
    assert_string_equal(ended_key, key);
    forget_frames(f, kept);
}

static void the_task_of_a_former_zone_is_cancelled_by_its_own_key(void **state) {
    struct fx *f = *state;
    Tarry__RecurSet set = cron("0 9 * * *");
    static const char key[] = "recur:r@2023-11-15T09:00:00+01:00";
    set.zone = "Europe/Berlin";
    assert_int_equal(set_recur(f, set), TARRY__CODE__OK);
    const size_t kept = frame_count;
    restart_from_index(f, "Europe/Berlin", 1700035200000, key); /* 2023-11-15T08:00:00Z */
    settle(f);
    assert_string_equal(ended_key, "");
    set.zone = "America/New_York";
    assert_int_equal(set_recur(f, set), TARRY__CODE__OK);
    assert_string_equal(ended_key, key);
    forget_frames(f, kept);
}

/* ---- limits */

static void without_room_on_the_disk_nothing_advances(void **state) {
    struct fx *f = *state;
    assert_int_equal(set_recur(f, every(10000)), TARRY__CODE__OK);
    f->now_ms += 15000;
    struct core_event tick = {.kind = CORE_TICK, .no_room = true};
    step(f, &tick);
    assert_int_equal(task_count, 1);
    elapse(f, 1000); /* by now there is room again */
    due_are(0, (const unsigned[]){10, 20}, 2);
}

static void recurrences_use_an_eighth_of_the_memory(void **state) { /* CAP-1 */
    struct fx *f = *state;
    Tarry__RecurSet set = every(3600000);
    static uint8_t content[12000];
    unsigned count = 0;
    char name[16];
    set.name = name;
    set.content.data = content;
    set.content.len = sizeof(content);
    do {
        (void)snprintf(name, sizeof(name), "r%u", count++);
    } while (set_recur(f, set) == TARRY__CODE__OK);
    says(f, "an eighth");
    assert_true(count > 40 && count < 120); /* each recurrence takes more than 12,000 bytes, and together they may use 1
                                               MiB, an eighth of 8 MiB */
}

/* A recurrence takes at most 640 bytes. So 100,000 recurrences fit into --memory 1GiB, where they may use 64 MiB, an
 * eighth of the memory for tasks. */
static void a_recurrence_takes_at_most_640_bytes(void **state) {
    struct fx *f = *state;
    Tarry__RecurSet set = cron("30 9 * * MON-FRI");
    static uint8_t content[64];
    unsigned count = 0;
    char name[16];
    set.name = name;
    set.zone = "America/New_York";
    set.overlap = "skip";
    set.content.data = content;
    set.content.len = sizeof(content);
    do {
        (void)snprintf(name, sizeof(name), "report-%05u", count++);
    } while (set_recur(f, set) == TARRY__CODE__OK);
    says(f, "an eighth");
    assert_true(count > (8u << 20) / 8 / 640);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        RECUR_TEST(each_occurrence_is_created_once_by_the_one_before),
        RECUR_TEST(a_restart_neither_loses_nor_repeats_an_occurrence),
        RECUR_TEST(keys_have_the_zones_offset_and_winter_comes),
        RECUR_TEST(the_task_of_an_older_tzdata_is_cancelled_by_its_own_key),
        RECUR_TEST(a_full_disk_delays_a_new_tzdata_without_a_busy_loop),
        RECUR_TEST(the_task_of_a_lost_zone_is_cancelled_by_its_own_key),
        RECUR_TEST(the_task_of_a_former_zone_is_cancelled_by_its_own_key),
        RECUR_TEST(jitter_stays_before_the_next_occurrence),
        RECUR_TEST(count_and_until_end_it),
        RECUR_TEST(the_last_missed_one_runs),
        RECUR_TEST(no_missed_one_runs),
        RECUR_TEST(the_last_n_missed_ones_run),
        RECUR_TEST(a_long_downtime_is_settled_in_pieces),
        RECUR_TEST(the_last_piece_may_have_one_occurrence),
        RECUR_TEST(an_occurrence_is_skipped_while_one_is_open),
        RECUR_TEST(one_occurrence_waits_for_the_open_one),
        RECUR_TEST(a_dead_occurrence_is_open_again_once_it_is_requeued),
        RECUR_TEST(a_cancelled_occurrence_is_left_out),
        RECUR_TEST(pause_resume_trigger_and_delete),
        RECUR_TEST(a_replaced_recurrence_starts_anew),
        RECUR_TEST(refusals_name_the_place_and_store_nothing),
        RECUR_TEST(one_commit_decides_once_about_a_recurrence),
        RECUR_TEST(without_room_on_the_disk_nothing_advances),
        RECUR_TEST(recurrences_use_an_eighth_of_the_memory),
        RECUR_TEST(a_recurrence_takes_at_most_640_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
