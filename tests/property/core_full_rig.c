/* core_full_rig.c: see core_full_rig.h. */
#include "core_full_rig.h"

#include <assert.h>
#include <string.h>

#include "../appended.h"
#include "../fuzz/picks.h"

void *rig_alloc(struct arena *arena, size_t size) {
    void *at = arena_alloc(arena, size);
    if (at == NULL) abort();
    memset(at, 0, size);
    return at;
}

static void *room(void *items, size_t count, size_t *capacity, size_t size) {
    if (count < *capacity) return items;
    *capacity = *capacity > 0 ? *capacity * 2 : 64;
    void *grown = realloc(items, *capacity * size);
    if (grown == NULL) abort();
    return grown;
}

/* ---- effects */

static void note_records(struct rig *rig, const Tarry__FrameBody *body) {
    for (size_t i = 0; body != NULL && i < body->n_records; i++) {
        const Tarry__Record *record = body->records[i];
        if (record->fact_case != TARRY__RECORD__FACT_PUT) continue;
        Tarry__Cause cause = record->put->cause;
        rig->buried += cause == TARRY__CAUSE__CAUSE_BURIED;
        rig->given_back += cause == TARRY__CAUSE__CAUSE_LEASE_LOST || cause == TARRY__CAUSE__CAUSE_RELEASED ||
                           cause == TARRY__CAUSE__CAUSE_UNSENT;
    }
}

static void take_append(struct rig *rig, const struct core_append *append) {
    rig->frames = room(rig->frames, rig->frame_count, &rig->frame_capacity, sizeof(*rig->frames));
    struct rig_frame *frame = &rig->frames[rig->frame_count++];
    frame->header = appended_header(append);
    frame->body = NULL;
    if (append->type != FRAME_COMMIT) return;
    frame->body = tarry__frame_body__unpack(&rig->kept.pb, append->body_size, append->body);
    assert(frame->body != NULL);
    note_records(rig, frame->body);
}

static void take_reply(struct rig *rig, const struct core_reply *reply) {
    rig->code = reply->reply != NULL ? reply->reply->code : TARRY__CODE__OK;
    if (reply->reply == NULL) return;
    if (reply->reply->body_case == TARRY__REPLY__BODY_HELLO) rig->producer = reply->reply->hello->producer;
    for (size_t i = 0; reply->reply->body_case == TARRY__REPLY__BODY_SUBSCRIBE && i < RIG_SESSIONS; i++) {
        if (rig->sessions[i] != 0) continue;
        rig->sessions[i] = reply->reply->subscribe->session;
        break;
    }
}

static void take_delivery(struct rig *rig, const struct core_delivery *delivery) {
    size_t at = 0;
    while (at < RIG_SESSIONS && rig->sending[at] != 0) at++;
    assert(at < RIG_SESSIONS);
    rig->sending[at] = delivery->session;
    for (size_t i = 0; i < delivery->count; i++) {
        const struct row *row = &delivery->tasks[i].row;
        rig->leases = room(rig->leases, rig->lease_count, &rig->lease_capacity, sizeof(*rig->leases));
        struct rig_lease *lease = &rig->leases[rig->lease_count++];
        lease->id = row->id;
        lease->token = (Tarry__Token)TARRY__TOKEN__INIT;
        lease->token.epoch = row->lease_epoch;
        lease->token.position = row->lease_position;
    }
}

static void take_lane(struct rig *rig, const struct core_lane *lane) {
    for (size_t i = 0; i < RIG_SESSIONS && !lane->open; i++) {
        if (rig->sessions[i] == lane->session) rig->sessions[i] = 0;
        if (rig->sending[i] == lane->session) rig->sending[i] = 0;
    }
}

static void take_effects(struct rig *rig) {
    struct core_effects *effects = &rig->effects;
    for (size_t i = 0; i < effects->appends.count; i++) take_append(rig, &effects->appends.items[i]);
    for (size_t i = 0; i < effects->replies.count; i++) take_reply(rig, &effects->replies.items[i]);
    for (size_t i = 0; i < effects->deliveries.count; i++) take_delivery(rig, &effects->deliveries.items[i]);
    for (size_t i = 0; i < effects->lanes.count; i++) take_lane(rig, &effects->lanes.items[i]);
    for (size_t i = 0; i < effects->windows.count; i++) {
        rig->windows = room(rig->windows, rig->window_count, &rig->window_capacity, sizeof(*rig->windows));
        rig->windows[rig->window_count++] = effects->windows.items[i];
    }
    for (size_t i = 0; i < effects->pages.count; i++) {
        rig->pages = room(rig->pages, rig->page_count, &rig->page_capacity, sizeof(*rig->pages));
        rig->pages[rig->page_count++] = effects->pages.items[i];
    }
    core_effects_reset(effects);
}

/* ---- the index */

static void keep_row(struct rig *rig, const Tarry__Task *task, bool ended) {
    while (task->id >= rig->row_capacity) {
        size_t before = rig->row_capacity;
        rig->rows = room(rig->rows, before, &rig->row_capacity, sizeof(*rig->rows));
        memset(rig->rows + before, 0, (rig->row_capacity - before) * sizeof(*rig->rows));
    }
    bool fine = row_from_task(task, &rig->rows[task->id]);
    assert(fine);
    if (ended) rig->rows[task->id].id = 0;
}

static void keep_job(struct rig *rig, uint64_t id, Tarry__JobPut *put) {
    size_t free = JOBS_MAX;
    for (size_t i = 0; i < JOBS_MAX; i++) {
        if (rig->jobs[i] != NULL && rig->jobs[i]->job == id) rig->jobs[i] = NULL;
        if (rig->jobs[i] == NULL) free = i;
    }
    if (put != NULL) rig->jobs[free] = put;
}

static void absorb_record(struct rig *rig, const Tarry__Record *record) {
    bool fine = tally_record(&rig->tally, record);
    assert(fine);
    if (record->fact_case == TARRY__RECORD__FACT_PUT) keep_row(rig, record->put->task, false);
    if (record->fact_case == TARRY__RECORD__FACT_END) keep_row(rig, record->end->task, true);
    if (record->fact_case == TARRY__RECORD__FACT_QUEUE) rig->queue = record->queue;
    if (record->fact_case == TARRY__RECORD__FACT_JOB) keep_job(rig, record->job->job, record->job);
    if (record->fact_case == TARRY__RECORD__FACT_JOB_END) keep_job(rig, record->job_end->job, NULL);
}

static uint64_t end_of(const struct rig *rig, size_t count) {
    if (count == 0) return LOG_POSITION_FIRST;
    const struct frame_header *last = &rig->frames[count - 1].header;
    return last->position + frame_size(last->body_size, last->blob_size);
}

void rig_absorb(struct rig *rig, size_t frames) {
    if (frames > rig->frame_count - rig->absorbed) frames = rig->frame_count - rig->absorbed;
    for (; frames > 0; frames--) {
        const Tarry__FrameBody *body = rig->frames[rig->absorbed++].body;
        for (size_t i = 0; body != NULL && i < body->n_records; i++) absorb_record(rig, body->records[i]);
    }
    struct core_event event = {.kind = CORE_INDEXED, .position = end_of(rig, rig->absorbed)};
    rig_step(rig, &event);
    for (unsigned i = 0; i < 100 && core_deadline(rig->core) <= rig->now.steady_ns / 1000000; i++) rig_tick(rig);
}

static struct row *select_rows(struct rig *rig, bool (*fits)(const struct row *row, const void *argument),
                               const void *argument, size_t *out_count) {
    struct row *rows = rig_alloc(&rig->asking, rig->row_capacity * sizeof(*rows) + 1);
    *out_count = 0;
    for (size_t id = 1; id < rig->row_capacity; id++) {
        if (rig->rows[id].id != 0 && fits(&rig->rows[id], argument)) rows[(*out_count)++] = rig->rows[id];
    }
    return rows;
}

static void answer_window(struct rig *rig, const struct core_window *window) {
    struct core_event event = {.kind = CORE_WINDOW,
                               .window.line = window->line,
                               .window.through = {window->until_ms, UINT64_MAX}};
    size_t count;
    struct row *rows = select_rows(rig, pick_window, window, &count);
    if (count > 0) qsort(rows, count, sizeof(*rows), pick_compare);
    size_t within = 0;
    while (within < count && rows[within].due_ms <= window->until_ms) within++;
    if (within == count) event.window.through = DUE_END;
    event.window.rows = rows;
    event.window.row_count = within < window->count_max ? within : window->count_max;
    if (event.window.row_count < within) {
        const struct row *last = &rows[event.window.row_count - 1];
        event.window.through = (struct due){last->due_ms, last->id};
    }
    rig_step(rig, &event);
}

static void answer_page(struct rig *rig, const struct core_page *page) {
    struct core_event event = {.kind = CORE_PAGE, .page.job = page->job, .page.next_id = UINT64_MAX};
    size_t count;
    struct core_paged *paged = &event.page;
    paged->rows = select_rows(rig, pick_page, page, &count);
    paged->row_count = count < page->count_max ? count : page->count_max;
    if (paged->row_count < count) paged->next_id = paged->rows[paged->row_count - 1].id;
    rig_step(rig, &event);
}

void rig_answer(struct rig *rig) {
    for (unsigned n = 0; n < 100 && rig->window_count + rig->page_count > 0; n++) {
        if (rig->window_count > 0) {
            struct core_window window = rig->windows[--rig->window_count];
            answer_window(rig, &window);
        } else {
            struct core_page page = rig->pages[--rig->page_count];
            answer_page(rig, &page);
        }
        arena_reset(&rig->asking);
    }
}

/* ---- events */

static bool get_facts(struct rig *rig, struct core_event *event) {
    struct want *wants;
    size_t count = core_wants(rig->core, event, &rig->asking, NULL, &wants);
    if (count == 0) return false;
    struct core_facts *facts = core_facts_of(event);
    struct want *all = rig_alloc(&rig->asking, (facts->want_count + count) * sizeof(*all));
    if (facts->want_count > 0) memcpy(all, facts->wants, facts->want_count * sizeof(*all));
    memcpy(all + facts->want_count, wants, count * sizeof(*all));
    facts->wants = all;
    facts->want_count += count;
    size_t by_id = 0;
    struct row *rows = rig_alloc(&rig->asking, facts->want_count * sizeof(*rows));
    for (size_t i = 0; i < facts->want_count;
         i++) { /* the core asks only for ids, because keys are unique in this test */
        uint64_t id = all[i].id;
        if (id > 0 && id < rig->row_capacity && rig->rows[id].id != 0) rows[by_id++] = rig->rows[id];
    }
    facts->rows = rows;
    facts->count = by_id;
    return true;
}

void rig_step(struct rig *rig, struct core_event *event) {
    event->now = rig->now;
    while (get_facts(rig, event)) continue;
    core_step(rig->core, event, &rig->effects);
    take_effects(rig);
    struct core_event durable = {.kind = CORE_DURABLE, .now = rig->now};
    /* Making frames durable is a step too, and may deliver more tasks. */
    while (durable.position < core_position(rig->core)) {
        durable.position = core_position(rig->core);
        core_step(rig->core, &durable, &rig->effects);
        take_effects(rig);
    }
}

void rig_tick(struct rig *rig) {
    struct core_event tick = {.kind = CORE_TICK};
    rig_step(rig, &tick);
}

void rig_elapse_ms(struct rig *rig, uint64_t ms) {
    rig->now.steady_ns += ms * 1000000;
    rig->now.wall_ns += ms * 1000000;
    for (unsigned i = 0; i < 100 && core_deadline(rig->core) <= rig->now.steady_ns / 1000000; i++) rig_tick(rig);
}

Tarry__Code rig_ask(struct rig *rig, Tarry__Request *request) {
    static struct core_content contents[OPS_PER_COMMIT_MAX];
    struct core_event event = {.kind = CORE_REQUEST, .request = {.ticket = 1, .message = request}};
    Tarry__BrokerStats broker = TARRY__BROKER_STATS__INIT;
    if (request->body_case == TARRY__REQUEST__BODY_COMMIT) event.request.commit.contents = contents;
    if (request->body_case == TARRY__REQUEST__BODY_STATS) event.request.broker = &broker;
    if (request->body_case == TARRY__REQUEST__BODY_LIST)
        event.request.list.through = DUE_END; /* the rows are complete, because the index has none */
    request->client = "rig";
    rig_step(rig, &event);
    arena_reset(&rig->asking);
    return rig->code;
}

Tarry__Code rig_commit(struct rig *rig, Tarry__Op **ops, size_t count) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Commit commit = TARRY__COMMIT__INIT;
    request.body_case = TARRY__REQUEST__BODY_COMMIT;
    request.commit = &commit;
    commit.producer = rig->producer;
    commit.sequence = commit.oldest_unanswered = ++rig->sequence;
    commit.ops = ops;
    commit.n_ops = count;
    return rig_ask(rig, &request);
}

void rig_subscribe(struct rig *rig, size_t at) {
    if (rig->sessions[at] != 0) return;
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Subscribe body = TARRY__SUBSCRIBE__INIT;
    char *queue = "orders";
    request.body_case = TARRY__REQUEST__BODY_SUBSCRIBE;
    request.subscribe = &body;
    body.queues = &queue;
    body.n_queues = 1;
    body.prefetch = PREFETCH_MAX;
    body.max_batch = BATCH_MAX;
    rig_ask(rig, &request);
    assert(rig->code == TARRY__CODE__OK);
    struct core_event up = {.kind = CORE_LANE_UP, .lane.session = rig->sessions[at]};
    rig_step(rig, &up);
}

void rig_sent(struct rig *rig, bool ok) {
    for (size_t i = 0; i < RIG_SESSIONS; i++) {
        if (rig->sending[i] == 0) continue;
        struct core_event sent = {.kind = CORE_LANE_SENT,
                                  .lane = {.session = rig->sending[i], .ok = ok, .delivered_ns = rig->now.steady_ns}};
        rig->sending[i] = 0;
        rig_step(rig, &sent);
    }
}

/* ---- life */

static void forget_what_was_under_way(struct rig *rig) {
    rig->window_count = rig->page_count = 0;
    memset(rig->sending, 0, sizeof(rig->sending));
    memset(rig->sessions, 0, sizeof(rig->sessions));
}

static void start(struct rig *rig) {
    struct core_event event = {.kind = CORE_START, .start.epoch = ++rig->epoch};
    rig_step(rig, &event);
}

void rig_restart(struct rig *rig) {
    uint64_t digest = core_digest(rig->core);
    core_free(rig->core);
    rig->core = core_new(&rig->options);
    if (rig->core == NULL) abort();
    forget_what_was_under_way(rig);
    struct core_base base = {.position = end_of(rig, rig->absorbed), .tally = &rig->tally};
    core_restore(rig->core, &base);
    int error = rig->queue != NULL ? core_restore_queue(rig->core, rig->queue) : 0;
    for (size_t id = 1; id < rig->row_capacity && error == 0; id++) {
        const struct row *row = &rig->rows[id];
        if (row->id != 0 && row->state == ROW_LEASED) error = core_restore_lease(rig->core, row);
    }
    for (size_t i = 0; i < JOBS_MAX && error == 0; i++) {
        if (rig->jobs[i] != NULL) error = core_restore_job(rig->core, rig->jobs[i]);
    }
    if (error == 0 && rig->absorbed > 1) error = core_restore_producer(rig->core, rig->producer, 0, 1, 0);
    for (size_t i = rig->absorbed; i < rig->frame_count && error == 0; i++) {
        error = core_replay(rig->core, &rig->frames[i].header, rig->frames[i].body);
    }
    assert(error == 0); /* the same contents fitted into memory before the restart, so they must fit again */
    assert(core_digest(rig->core) == digest);
    core_check(rig->core);
    start(rig);
}

void rig_follow(struct rig *rig) {
    struct core *core = core_new(&rig->options);
    struct arena arena;
    struct core_effects effects;
    if (core == NULL) abort();
    arena_init(&arena, SIZE_MAX);
    core_effects_init(&effects, &arena);
    struct core_event follow = {.kind = CORE_FOLLOW};
    core_step(core, &follow, &effects);
    for (size_t i = 0, waited = 0; i < rig->frame_count; i++, waited = 0) {
        while (!core_may_replay(core) || core_replay(core, &rig->frames[i].header, rig->frames[i].body) != 0) {
            assert(waited++ < 100 && core_may_free(core));
            struct core_event durable = {.kind = CORE_DURABLE, .position = core_position(core)};
            struct core_event indexed = {.kind = CORE_INDEXED, .position = core_position(core)};
            core_step(core, &durable, &effects);
            core_step(core, &indexed, &effects);
        }
    }
    assert(core_digest(core) == core_digest(rig->core));
    core_check(core);
    core_free(core);
    arena_deinit(&arena);
}

void rig_init(struct rig *rig, uint64_t seed, size_t key_size) {
    *rig = (struct rig){.random = {seed},
                        .options = {.memory = RIG_MEMORY,
                                    .ahead_ms = LEASE_AHEAD_MS,
                                    .outcomes_max = 1000,
                                    .outcome_retention_ms = 3600000,
                                    .index_lag_max = UINT64_MAX,
                                    .index_lag_hard = UINT64_MAX,
                                    .create_queues = true,
                                    .policy = TARRY__POLICY__INIT,
                                    .version = "test"},
                        .key_size = key_size,
                        .now = {1700000000000000000, 1700000000000000000}};
    rig->options.policy.lease_ms = 5000;
    rig->options.policy.max_attempts = 1;
    rig->queue_tallies = calloc(QUEUE_PLACES + 1, sizeof(*rig->queue_tallies));
    if (rig->queue_tallies == NULL) abort();
    tally_init(&rig->tally, rig->queue_tallies);
    arena_init(&rig->arena, SIZE_MAX);
    arena_init(&rig->kept, SIZE_MAX);
    arena_init(&rig->asking, SIZE_MAX);
    core_effects_init(&rig->effects, &rig->arena);
    rig->core = core_new(&rig->options);
    if (rig->core == NULL) abort();
    start(rig);
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Hello hello = TARRY__HELLO__INIT;
    request.body_case = TARRY__REQUEST__BODY_HELLO;
    request.hello = &hello;
    rig_ask(rig, &request);
}

void rig_deinit(struct rig *rig) {
    core_check(rig->core);
    core_free(rig->core);
    arena_deinit(&rig->arena);
    arena_deinit(&rig->kept);
    arena_deinit(&rig->asking);
    free(rig->frames);
    free(rig->rows);
    free(rig->queue_tallies);
    free(rig->windows);
    free(rig->pages);
    free(rig->leases);
}
