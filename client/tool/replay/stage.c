/* stage.c: see stage.h. */
#include "stage.h"

#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "queue_policy.h"
#include "tally.h"
#include "wire.h"

#define NS_PER_MS 1000000u
#define MEMORY_MIN_BYTES ((size_t)64 << 20)
#define MEMORY_PER_TASK                                                                                                \
    1024u /* memory of the core per task, in bytes: more than any task needs, so that none is evicted */
#define OUTCOMES_KEPT 1024u
#define NEVER_LAGS (UINT64_MAX / 2)

/* ---- twins */

static struct twin *stage_twin(const struct stage *stage, uint64_t id) {
    return id >= stage->first_id && id - stage->first_id < stage->count ? stage->twins[id - stage->first_id] : NULL;
}

static struct twin *twin_new(struct stage *stage, uint64_t id, struct life *life) {
    while (stage->first_id + stage->count <= id) {
        if (stage->count == stage->capacity) {
            stage->capacity = stage->capacity > 0 ? 2 * stage->capacity : 1024;
            struct twin **grown = tool_alloc(stage->capacity * sizeof(struct twin *));
            if (stage->count > 0) memcpy(grown, stage->twins, stage->count * sizeof(struct twin *));
            free(stage->twins);
            stage->twins = grown;
        }
        stage->twins[stage->count++] = NULL;
    }
    struct twin *twin = tool_alloc(sizeof *twin);
    *twin = (struct twin){.life = life, .next = life->first};
    stage->twins[id - stage->first_id] = twin;
    life->twin = twin;
    return twin;
}

static void remember_dead(struct stage *stage, struct twin *twin) {
    if (twin->was_dead || twin->row.key_size == 0) return;
    uint64_t hash = row_key_hash(twin->row.queue, twin->row.key, twin->row.key_size);
    twin->was_dead = true;
    twin->same_key = id_map_get(&stage->dead_keys, hash);
    id_map_put(&stage->dead_keys, hash, twin);
}

static enum outcome_kind outcome_of(const struct twin *twin, Tarry__Cause cause) {
    enum outcome_kind outcome = twin->outcome;
    outcome_after((enum entry_kind)cause, &outcome); /* enum entry_kind has the same numbers as Cause (entry.h) */
    return outcome;
}

static void take_record(struct stage *stage, const Tarry__Record *record) {
    bool is_end = record->fact_case == TARRY__RECORD__FACT_END;
    if (!is_end && record->fact_case != TARRY__RECORD__FACT_PUT) return;
    const Tarry__Task *task = is_end ? record->end->task : record->put->task;
    Tarry__Cause cause = is_end ? record->end->cause : record->put->cause;
    struct twin *twin = stage_twin(stage, task->id);
    if (twin == NULL || !row_from_task(task, &twin->row)) return;
    twin->row.key = twin->life->key;
    twin->row.serial = twin->life->serial;
    twin->row.reason = NULL;
    twin->row.reason_size = 0;
    twin->ended = is_end;
    twin->outcome = outcome_of(twin, cause);
    twin->since = (struct logical_time){stage->now.steady_ns, stage->now.wall_ns};
    twin->version += cause != TARRY__CAUSE__CAUSE_EXTENDED;
    if (twin->outcome == DEAD) remember_dead(stage, twin);
    stage->on_twin(stage->argument, twin, cause);
}

/* ---- facts */

static void add_row(struct row **rows, size_t *count, const struct twin *twin) {
    if ((*count & (*count - 1)) == 0) { /* the array's capacity doubles at each power of two */
        struct row *grown = tool_alloc((*count > 0 ? 2 * *count : 1) * sizeof *grown);
        if (*count > 0) memcpy(grown, *rows, *count * sizeof *grown);
        free(*rows);
        *rows = grown;
    }
    (*rows)[(*count)++] = twin->row;
}

static void look_up(const struct stage *stage, const struct want *want, struct row **rows, size_t *count) {
    if (want->id != 0) {
        const struct twin *twin = stage_twin(stage, want->id);
        if (twin != NULL && !twin->ended) add_row(rows, count, twin);
        return;
    }
    const struct twin *twin = id_map_get(&stage->dead_keys, row_key_hash(want->queue, want->key, want->key_size));
    for (; twin != NULL; twin = twin->same_key) {
        if (want->live_only && twin->row.state == ROW_BURIED) continue;
        bool fits = !twin->ended && twin->row.queue == want->queue && twin->row.key_size == want->key_size &&
                    memcmp(twin->row.key, want->key, want->key_size) == 0;
        if (fits) add_row(rows, count, twin);
    }
}

static bool may_exist(const void *keys, uint64_t key_hash) {
    const struct stage *stage = keys;
    return id_map_get(&stage->dead_keys, key_hash) != NULL;
}

struct facts {
    struct row *rows;
    size_t row_count;
    struct want *wants;
    size_t want_count;
};

/* Looks up all task rows that the core needs before it decides about the event. The caller frees them. */
static void bring_facts(struct stage *stage, struct core_event *event, struct facts *facts) {
    *facts = (struct facts){0};
    arena_reset(&stage->facts);
    for (;;) {
        struct want *wants = NULL;
        const struct core_filter filter = {.may_exist = may_exist, .keys = stage};
        size_t count = core_wants(stage->core, event, &stage->facts, &filter, &wants);
        if (count == 0) return;
        struct want *grown = tool_alloc((facts->want_count + count) * sizeof *grown);
        if (facts->want_count > 0) memcpy(grown, facts->wants, facts->want_count * sizeof *grown);
        memcpy(grown + facts->want_count, wants, count * sizeof *grown);
        free(facts->wants);
        facts->wants = grown;
        facts->want_count += count;
        for (size_t i = 0; i < count; i++) look_up(stage, &wants[i], &facts->rows, &facts->row_count);
        *core_facts_of(event) = (struct core_facts){facts->rows, facts->row_count, facts->wants, facts->want_count};
    }
}

/* ---- steps */

static void take_reply(struct stage *stage, const struct core_reply *reply) {
    stage->code = reply->reply != NULL ? reply->reply->code : TARRY__CODE__OK;
    stage->results = NULL;
    if (reply->commit != NULL)
        stage->results = tarry__commit_reply__unpack(&stage->bodies.pb, reply->commit_size, reply->commit);
    if (reply->reply == NULL || stage->code != TARRY__CODE__OK) return;
    if (reply->reply->body_case == TARRY__REPLY__BODY_HELLO) stage->producer = reply->reply->hello->producer;
    if (reply->reply->body_case != TARRY__REPLY__BODY_SUBSCRIBE) return;
    stage->session = reply->reply->subscribe->session;
    stage->silence_ms = reply->reply->subscribe->silence_ms;
}

static void take_effects(struct stage *stage) {
    const struct core_effects *effects = &stage->effects;
    for (size_t i = 0; i < effects->appends.count; i++) {
        const struct core_append *append = &effects->appends.items[i];
        if (append->type != FRAME_COMMIT) continue;
        const Tarry__FrameBody *body = frame_body_unpack(&stage->bodies, append->body_size, append->body);
        for (size_t k = 0; body != NULL && k < body->n_records; k++) take_record(stage, body->records[k]);
    }
    for (size_t i = 0; i < effects->pages.count; i++) {
        if (stage->page_count == stage->page_capacity) {
            stage->page_capacity += JOBS_MAX;
            struct core_page *grown = tool_alloc(stage->page_capacity * sizeof *grown);
            if (stage->page_count > 0) memcpy(grown, stage->pages, stage->page_count * sizeof *grown);
            free(stage->pages);
            stage->pages = grown;
        }
        stage->pages[stage->page_count++] = effects->pages.items[i];
    }
}

/* Runs a step of the core at the current virtual time. */
static void step_now(struct stage *stage, struct core_event *event) {
    core_turn_begin(&stage->turn, stage->now.steady_ns);
    core_turn_step(&stage->turn, event, &(struct turn_now){.logical = stage->now, .boot_ns = stage->now.steady_ns});
}

static void step_alone(struct stage *stage, enum core_event_kind kind, uint64_t position) {
    struct core_event event = {.kind = kind, .position = position};
    step_now(stage, &event);
}

static void step(struct stage *stage, struct core_event *event) {
    core_effects_reset(&stage->effects);
    arena_reset(&stage->bodies);
    step_now(stage, event);
    uint64_t position = core_position(stage->core);
    step_alone(stage, CORE_DURABLE, position);
    step_alone(stage, CORE_INDEXED, position);
    if (stage->effects.replies.count > 0) take_reply(stage, &stage->effects.replies.items[0]);
}

static void stage_event(struct stage *stage, struct core_event *event) {
    step(stage, event);
    take_effects(stage);
}

void stage_tick(struct stage *stage) {
    struct core_event event = {.kind = CORE_TICK};
    stage_event(stage, &event);
}

uint64_t stage_deadline_ns(const struct stage *stage) {
    uint64_t deadline_ms = core_deadline(stage->core);
    return deadline_ms >= UINT64_MAX / NS_PER_MS ? UINT64_MAX : deadline_ms * NS_PER_MS;
}

/* Sends a request to the core. */
static void stage_ask(struct stage *stage, Tarry__Request *request) {
    struct core_event event = {.kind = CORE_REQUEST, .request = {.ticket = 1, .message = request}};
    request->client = "dry run";
    step(stage, &event);
    take_effects(stage);
}

void stage_commit(struct stage *stage, Tarry__Op **ops, size_t count, bool atomic, struct life *const *lives) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Commit commit = TARRY__COMMIT__INIT;
    request.body_case = TARRY__REQUEST__BODY_COMMIT;
    request.client = "dry run";
    request.commit = &commit;
    commit.producer = stage->producer;
    commit.sequence = commit.oldest_unanswered = ++stage->sequence;
    commit.atomic = atomic;
    commit.ops = ops;
    commit.n_ops = count;
    /* Contents stay empty, because the dry run does not read them. */
    struct core_content *contents = tool_alloc(count * sizeof *contents);
    struct core_event event = {.kind = CORE_REQUEST,
                               .request = {.ticket = 1, .message = &request, .commit.contents = contents}};
    struct facts facts;
    bring_facts(stage, &event, &facts);
    step(stage, &event);
    for (size_t i = 0; stage->results != NULL && i < count; i++) {
        const Tarry__OpResult *result = stage->results->results[i];
        if (lives[i] != NULL && result->code == TARRY__CODE__OK && result->id != 0 &&
            result->outcome != TARRY__OUTCOME__KEPT)
            twin_new(stage, result->id, lives[i]);
    }
    take_effects(stage);
    if (stage->results == NULL) stage->problem = "the core did not accept a commit";
    free(facts.rows);
    free(facts.wants);
    free(contents);
}

/* ---- jobs */

static bool page_wants(const struct core_page *page, const struct twin *twin) {
    return twin != NULL && !twin->ended && twin->row.queue == page->queue;
}

static void answer_page(struct stage *stage, const struct core_page *page) {
    struct row *rows = NULL;
    size_t count = 0;
    uint64_t next_id = UINT64_MAX;
    uint64_t id = page->after_id + 1 > stage->first_id ? page->after_id + 1 : stage->first_id;
    for (; id < page->id_end && id - stage->first_id < stage->count; id++) {
        const struct twin *twin = stage_twin(stage, id);
        if (!page_wants(page, twin)) continue;
        if (count == page->count_max) {
            next_id = id - 1;
            break;
        }
        add_row(&rows, &count, twin);
    }
    struct core_event event = {.kind = CORE_PAGE,
                               .page = {.job = page->job, .next_id = next_id, .rows = rows, .row_count = count}};
    struct facts facts;
    bring_facts(stage, &event, &facts);
    step(stage, &event);
    take_effects(stage);
    free(facts.rows);
    free(facts.wants);
    free(rows);
}

bool stage_pages(struct stage *stage) {
    size_t count = stage->page_count;
    if (count == 0) return false;
    struct core_page *pages = stage->pages;
    stage->pages = NULL;
    stage->page_count = stage->page_capacity = 0;
    for (size_t i = 0; i < count; i++) answer_page(stage, &pages[i]);
    free(pages);
    return true;
}

/* ---- life of the stage */

static bool make_core(struct stage *stage, size_t count) {
    struct queue_tally *queues = calloc(QUEUE_PLACES + 1, sizeof *queues);
    struct core_options options = {.memory = MEMORY_MIN_BYTES + count * MEMORY_PER_TASK,
                                   .outcomes_max = OUTCOMES_KEPT,
                                   .outcome_retention_ms = OUTCOME_RETENTION_DEFAULT_MS,
                                   .index_lag_max = NEVER_LAGS,
                                   .index_lag_hard = NEVER_LAGS,
                                   .create_queues = true,
                                   .policy = policy_default(),
                                   .version = TARRY_VERSION};
    struct tally tally;
    stage->core = core_new(&options);
    if (stage->core != NULL && queues != NULL) {
        tally_init(&tally, queues);
        tally.next_id = stage->first_id;
        core_restore(stage->core, &(struct core_base){.position = LOG_POSITION_FIRST, .tally = &tally});
    }
    free(queues);
    return stage->core != NULL;
}

bool stage_init(struct stage *stage, uint64_t first_id, size_t count, struct logical_time now) {
    *stage = (struct stage){.first_id = first_id, .now = {now.steady_ns, now.wall_ns}};
    arena_init(&stage->arena, SIZE_MAX);
    arena_init(&stage->bodies, SIZE_MAX);
    arena_init(&stage->facts, SIZE_MAX);
    stage->arena.keep_max = stage->bodies.keep_max = stage->facts.keep_max = 1u << 20;
    core_effects_init(&stage->effects, &stage->arena);
    if (!make_core(stage, count)) return false;
    core_turn_init(&stage->turn, stage->core, LOG_POSITION_FIRST, LOG_POSITION_FIRST);
    core_turn_fill(&stage->turn, &stage->effects);
    struct core_event start = {.kind = CORE_START, .start.epoch = 1};
    step(stage, &start);
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Hello hello = TARRY__HELLO__INIT;
    request.body_case = TARRY__REQUEST__BODY_HELLO;
    request.hello = &hello;
    stage_ask(stage, &request);
    return true;
}

void stage_deinit(struct stage *stage) {
    core_free(stage->core);
    for (size_t i = 0; i < stage->count; i++) free(stage->twins[i]);
    free(stage->twins);
    free(stage->pages);
    id_map_deinit(&stage->dead_keys);
    arena_deinit(&stage->arena);
    arena_deinit(&stage->bodies);
    arena_deinit(&stage->facts);
}

/* ---- consumers */

struct workers *workers_new(struct stage *stage, struct plan *plan) {
    struct workers *workers = tool_alloc(sizeof *workers);
    *workers = (struct workers){.stage = stage, .plan = plan};
    LIST_INIT(&workers->held);
    return workers;
}

static bool is_heard(const struct workers *workers) {
    return workers->session != 0 && workers->stage->now.steady_ns < workers->heard_ns + workers->silence_ns;
}

static void subscribe(struct workers *workers) {
    struct stage *stage = workers->stage;
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Subscribe body = TARRY__SUBSCRIBE__INIT;
    request.body_case = TARRY__REQUEST__BODY_SUBSCRIBE;
    request.subscribe = &body;
    body.queues = &workers->plan->name;
    body.n_queues = 1;
    body.prefetch = PREFETCH_MAX;
    body.max_batch = 1;
    stage_ask(stage, &request);
    if (stage->code != TARRY__CODE__OK) {
        stage->problem =
            "more queues and consumers have tasks in flight at the same time than the maximum number of sessions";
        workers->session = 0;
        return;
    }
    workers->session = stage->session;
    workers->silence_ns = stage->silence_ms * NS_PER_MS;
    workers->heard_ns = stage->now.steady_ns;
    workers->count = 0;
    workers->open = true;
    struct core_event up = {.kind = CORE_LANE_UP, .lane.session = workers->session};
    stage_event(stage, &up);
}

void workers_beat(struct workers *workers) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Heartbeat body = TARRY__HEARTBEAT__INIT;
    request.body_case = TARRY__REQUEST__BODY_HEARTBEAT;
    request.heartbeat = &body;
    body.session = workers->session;
    workers->heard_ns = workers->stage->now.steady_ns;
    stage_ask(workers->stage, &request);
    if (workers->stage->code != TARRY__CODE__OK) workers->session = 0;
}

uint64_t workers_beat_ns(const struct workers *workers) {
    return workers->session != 0 && workers->count > 0 ? workers->heard_ns + workers->silence_ns / 2 : UINT64_MAX;
}

void workers_withdraw(struct workers *workers) {
    if (!is_heard(workers)) {
        workers->session = 0;
        return;
    }
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Unsubscribe body = TARRY__UNSUBSCRIBE__INIT;
    request.body_case = TARRY__REQUEST__BODY_UNSUBSCRIBE;
    request.unsubscribe = &body;
    body.session = workers->session;
    body.keep_leases = true;
    body.seen = tool_alloc(workers->count * sizeof *body.seen);
    const struct twin *twin;
    LIST_FOREACH(twin, &workers->held, held) {
        // cppcheck-suppress uninitvar ; LIST_FOREACH sets it
        if (twin->row.session == workers->session) body.seen[body.n_seen++] = twin->row.id;
    }
    workers->session = 0;
    workers->open = false;
    workers->granted = workers->count = 0;
    stage_ask(workers->stage, &request);
    free(body.seen);
}

void workers_grant(struct workers *workers) {
    workers->granted++;
    if (is_heard(workers) && workers->count >= PREFETCH_MAX) {
        uint32_t granted = workers->granted;
        workers_withdraw(workers);
        workers->granted = granted;
    }
    if (is_heard(workers))
        workers_beat(workers);
    else
        subscribe(workers);
    while (workers->session != 0 && !workers->open && workers->granted > 0) {
        struct core_event sent = {.kind = CORE_LANE_SENT,
                                  .lane = {.session = workers->session,
                                           .ok = true,
                                           .delivered_ns = workers->stage->now.steady_ns}};
        workers->open = true;
        stage_event(workers->stage, &sent);
    }
}

void workers_leased(struct workers *workers, struct twin *twin) {
    twin->holder = workers;
    LIST_INSERT_HEAD(&workers->held, twin, held);
    if (twin->row.session != workers->session) return;
    workers->open = false;
    workers->granted -= workers->granted > 0;
    workers->count++;
}

void workers_lost(struct workers *workers, struct twin *twin) {
    if (twin->row.session == workers->session && workers->count > 0) workers->count--;
    LIST_REMOVE(twin, held);
    twin->holder = NULL;
}
