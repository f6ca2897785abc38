/* core.c: interface of the core: memory at the start, recovery, one step per event (core.h). */
#include "core.h"

#include <stdlib.h>
#include <string.h>

#include "ahead.h"
#include "apply.h"
#include "commit.h"
#include "definitions.h"
#include "draft.h"
#include "effects.h"
#include "gate.h"
#include "jobs.h"
#include "leases.h"
#include "near.h"
#include "need.h"
#include "overdue.h"
#include "pending.h"
#include "producers.h"
#include "query.h"
#include "queues.h"
#include "recur.h"
#include "requests.h"
#include "sparse.h"
#include "tasks.h"
#include "timers.h"

#define CORE_MEMORY_MIN (8u << 20)

/* Returns the approximate number of tasks, with keys, that fit into the memory. */
static size_t tasks_max(const struct core *core) {
    return core->options.memory / (sizeof(struct task) + 64);
}

static bool allocate(struct core *core) {
    size_t slots = 1024;
    while (slots < tasks_max(core)) slots *= 2;
    core->table_mask = slots - 1;
    core->slab = slab_new(core->options.memory);
    core->by_id = sparse_new(slots, sizeof *core->by_id);
    core->by_key = sparse_new(slots, sizeof *core->by_key);
    core->by_serial = sparse_new(slots, sizeof *core->by_serial);
    core->outcomes = outcomes_new(core->options.outcomes_max, core->options.outcome_retention_ms);
    core->queues = sparse_new(QUEUE_PLACES + 1, sizeof *core->queues);
    core->queue_names = sparse_new(NAME_TABLE_SIZE, sizeof *core->queue_names);
    core->queue_owners = sparse_new(QUEUE_PLACES + 1, sizeof *core->queue_owners);
    core->deletions = sparse_new(QUEUE_PLACES + 1, sizeof *core->deletions);
    core->free_places.items = sparse_new(QUEUE_PLACES, sizeof *core->free_places.items);
    core->awaited = sparse_new(QUEUES_AWAITED_MAX, sizeof *core->awaited);
    core->awaited_owners = sparse_new(QUEUES_AWAITED_MAX, sizeof *core->awaited_owners);
    core->awaited_names = sparse_new(AWAITED_TABLE_SIZE, sizeof *core->awaited_names);
    core->wishes = sparse_new(WISHES_MAX, sizeof *core->wishes);
    core->tally.queues = sparse_new(QUEUE_PLACES + 1, sizeof *core->tally.queues);
    core->sessions = sparse_new(SESSIONS_TABLE, sizeof *core->sessions);
    core->subscriptions = sparse_new(SESSIONS_TABLE, sizeof *core->subscriptions);
    core->producers = sparse_new(PRODUCERS_MAX, sizeof *core->producers);
    core->producer_ids = sparse_new(PRODUCER_TABLE_SIZE, sizeof *core->producer_ids);
    core->definitions = definitions_new();
    if (!pending_init(&core->pending) || !core->definitions) return false;
    core->recur_names = sparse_new(RECUR_TABLE_SIZE, sizeof(struct recur *));
    core->recur_slots = sparse_new(RECURRENCES_MAX, sizeof(struct recur *));
    if (!core->recur_names || !core->recur_slots) return false;
    core->queue_looks = sparse_new(QUEUE_PLACES + 1, sizeof *core->queue_looks);
    for (size_t i = 0; i < LIST_SCANS_MAX; i++) {
        core->scans[i].heap = calloc(LIST_LIMIT_MAX, sizeof *core->scans[i].heap);
        if (!core->scans[i].heap) return false;
    }
    return core->slab && core->by_id && core->by_key && core->by_serial && core->outcomes && core->queues &&
           core->queue_names && core->tally.queues && core->sessions && core->subscriptions && core->producers &&
           core->producer_ids && core->queue_looks && core->queue_owners && core->deletions &&
           core->free_places.items && core->awaited && core->awaited_owners && core->awaited_names && core->wishes;
}

struct core *core_new(const struct core_options *options) {
    assert(options->memory >= CORE_MEMORY_MIN);
    struct core *core = calloc(1, sizeof *core);
    if (!core) return NULL;
    core->options = *options;
    if (!allocate(core)) {
        core_free(core);
        return NULL;
    }
    if (!core->options.index_lag_max) core->options.index_lag_max = tasks_max(core) / 3;
    if (!core->options.index_lag_hard) core->options.index_lag_hard = tasks_max(core) / 2;
    core->position = core->durable = core->indexed = core->trim_to = LOG_POSITION_FIRST;
    core->seal_at_ms = UINT64_MAX;
    core->sealed = true; /* an empty log needs no seal frame */
    core->random = 0x9E3779B97F4A7C15ull;
    core->salt = (options->salt ? options->salt : core->random) | 1;
    outcomes_set_salt(core->outcomes, core->salt);
    core->tally.next_id = 1;
    core->tally.next_queue = 1;
    core->claim.kind = TIMER_CLAIM;
    TAILQ_INIT(&core->overlay);
    TAILQ_INIT(&core->changed);
    TAILQ_INIT(&core->movers);
    TAILQ_INIT(&core->sharers);
    TAILQ_INIT(&core->check);
    TAILQ_INIT(&core->starved);
    TAILQ_INIT(&core->promoting);
    for (size_t i = 0; i < LINE_SIZES; i++) TAILQ_INIT(&core->by_size[i]);
    TAILQ_INIT(&core->wishes_free);
    TAILQ_INIT(&core->producers_idle);
    TAILQ_INIT(&core->producers_free);
    for (size_t i = 0; i < OWNER_BUCKETS; i++) TAILQ_INIT(&core->producers_of[i]);
    for (size_t base = 0; base < ROW_BASES; base++) wheel_init(&core->wheels[base], 0);
    wheel_init(&core->recur_wheel, 0);
    return core;
}

void core_free(struct core *core) {
    if (!core) return;
    slab_free_all(core->slab);
    outcomes_free(core->outcomes);
    sparse_free(core->by_id, core->table_mask + 1, sizeof *core->by_id);
    sparse_free(core->by_key, core->table_mask + 1, sizeof *core->by_key);
    sparse_free(core->by_serial, core->table_mask + 1, sizeof *core->by_serial);
    sparse_free(core->queues, QUEUE_PLACES + 1, sizeof *core->queues);
    sparse_free(core->queue_names, NAME_TABLE_SIZE, sizeof *core->queue_names);
    sparse_free(core->queue_owners, QUEUE_PLACES + 1, sizeof *core->queue_owners);
    sparse_free(core->deletions, QUEUE_PLACES + 1, sizeof *core->deletions);
    sparse_free(core->free_places.items, QUEUE_PLACES, sizeof *core->free_places.items);
    sparse_free(core->awaited, QUEUES_AWAITED_MAX, sizeof *core->awaited);
    sparse_free(core->awaited_owners, QUEUES_AWAITED_MAX, sizeof *core->awaited_owners);
    sparse_free(core->awaited_names, AWAITED_TABLE_SIZE, sizeof *core->awaited_names);
    sparse_free(core->wishes, WISHES_MAX, sizeof *core->wishes);
    sparse_free(core->tally.queues, QUEUE_PLACES + 1, sizeof *core->tally.queues);
    sparse_free(core->sessions, SESSIONS_TABLE, sizeof *core->sessions);
    sparse_free(core->subscriptions, SESSIONS_TABLE, sizeof *core->subscriptions);
    sparse_free(core->producers, PRODUCERS_MAX, sizeof *core->producers);
    sparse_free(core->producer_ids, PRODUCER_TABLE_SIZE, sizeof *core->producer_ids);
    sparse_free(core->queue_looks, QUEUE_PLACES + 1, sizeof *core->queue_looks);
    sparse_free(core->recur_names, RECUR_TABLE_SIZE, sizeof(struct recur *));
    sparse_free(core->recur_slots, RECURRENCES_MAX, sizeof(struct recur *));
    pending_deinit(&core->pending);
    definitions_free(core->definitions);
    for (size_t i = 0; i < LIST_SCANS_MAX; i++) free(core->scans[i].heap);
    free(core);
}

/* ---- recovery */

static void set_now(struct core *core, const struct instant *now) {
    /* TIME-2: the time never decreases. */
    if (now->steady_ns > core->now.steady_ns) core->now.steady_ns = now->steady_ns;
    if (now->wall_ns > core->now.wall_ns) core->now.wall_ns = now->wall_ns;
}

void core_restore(struct core *core, const struct core_base *base) {
    struct queue_tally *queues = core->tally.queues;
    core->tally = *base->tally;
    core->tally.queues = queues;
    assert(core->tally.next_queue <= QUEUE_PLACES + 1);
    memcpy(queues, base->tally->queues, core->tally.next_queue * sizeof *queues);
    core->position = core->durable = core->indexed = core->trim_to = base->position;
    core->epoch = core->tally.epoch;
    outcomes_set_known_since(core->outcomes, base->known_since_ms);
    set_now(core, &base->then);
    core->recorded = base->then;
}

int core_restore_queue(struct core *core, const Tarry__QueuePut *put) {
    if (!queue_number_is_valid(put->number)) return CORE_NONSENSE;
    const uint32_t number = core->tally.queues[queue_place(put->number)].number;
    /* Another queue uses the same entry of the table of queues now, so this record is outdated. */
    if (number && number != put->number) return 0;
    int error = queue_apply(core, put);
    if (error) return error;
    /* Some tasks of the line are only in the index, so its horizon (up to which memory has all waiting tasks) starts at
     * 0. */
    for (size_t i = 0; i < ROW_BASES * PRIORITY_COUNT; i++) {
        struct line_state *line = &queue_at(core, put->number)->lines[i / PRIORITY_COUNT][i % PRIORITY_COUNT];
        if (line_index_only(core, line)) line->horizon = (struct due){0, 0};
    }
    return 0;
}

int core_restore_lease(struct core *core, const struct row *row) {
    if (row->state != ROW_LEASED || !queue_has_place(core, row->queue)) return CORE_NONSENSE;
    struct task *task = task_new(core, row, row_key(row).hash, false);
    /* Leases use at most a fixed share of the region (LEASES_SHARE), so all fit into a region of the same size. */
    if (!task) return CORE_NO_MEMORY;
    task->hash = row_hash(row);
    if (!serial_is_free(task)) return CORE_NONSENSE; /* SERIAL-1 */
    lease_take(core, task);
    return 0;
}

int core_restore_producer(struct core *core, uint64_t id, uint64_t used_ms, uint64_t floor, uint64_t owner) {
    int error = producer_apply_put(core, id, owner);
    if (error) return error;
    struct producer *producer = producer_find(core, id);
    producer->used_ms = used_ms;
    producer->floor = floor ? floor : 1;
    core->producers_unordered = true;
    return 0;
}

int core_restore_result(struct core *core, uint64_t id, uint64_t sequence, uint64_t position) {
    struct producer *producer = producer_find(core, id);
    if (!producer || producer->result_count == COMMITS_PER_PRODUCER_MAX) return CORE_NONSENSE;
    producer->results[producer->result_count++] = (struct commit_result){.sequence = sequence, .position = position};
    return 0;
}

int core_restore_job(struct core *core, const Tarry__JobPut *job) {
    return job_apply_put(core, job);
}

int core_restore_definition(struct core *core, const Tarry__DefinitionPut *put) {
    return definitions_apply(core->definitions, put);
}

int core_restore_recur(struct core *core, const Tarry__RecurPut *put, const struct row *next, size_t open_live) {
    return recur_restore(core, put, next, open_live);
}

int core_restore_outcome(struct core *core, const struct outcome *outcome) {
    if (outcome->cause == OUTCOME_REDACTION) {
        outcomes_redacted(core->outcomes, outcome->id);
        return 0;
    }
    if (!queue_number_is_valid(outcome->queue)) return CORE_NONSENSE;
    if (!queue_has_place(core, outcome->queue)) { /* another queue uses the table entry of the outcome's queue now, so
                                                     the outcome is forgotten */
        outcomes_forget(core->outcomes, outcome->ended_ms);
        return 0;
    }
    outcomes_push(core->outcomes, outcome);
    return 0;
}

int core_replay(struct core *core, const struct frame_header *header, const Tarry__FrameBody *body) {
    if (header->position != core->position || header->epoch < core->epoch) return CORE_NONSENSE;
    if (!need_frame_fits(core, body)) return CORE_NO_MEMORY;
    struct instant then = {.steady_ns = header->steady_ns, .wall_ns = header->wall_ns};
    set_now(core, &then);
    core->recorded = then;
    core->sealed = header->type == FRAME_SEAL;
    return apply_frame(core, frame_size(header->body_size, header->blob_size), body, NULL);
}

/* ---- events */

/* Records that an operator moved the wall clock, so that a reader of the log can see it (TIME-2). */
static void record_clock(struct draft *draft, const struct core_event *event) {
    Tarry__Record *record = draft_record(draft);
    record->fact_case = TARRY__RECORD__FACT_CLOCK;
    record->clock = must_alloc(draft->arena, sizeof *record->clock);
    tarry__clock_accepted__init(record->clock);
    record->clock->wall_ms = event->now.wall_ns / 1000000;
}

static void record_epoch(struct draft *draft, const struct core_start *start) {
    const struct core_options *options = &draft->core->options;
    Tarry__Record *record = draft_record(draft);
    record->fact_case = TARRY__RECORD__FACT_EPOCH;
    record->epoch = must_alloc(draft->arena, sizeof *record->epoch);
    tarry__epoch_put__init(record->epoch);
    record->epoch->epoch = start->epoch;
    record->epoch->server_version = (char *)options->version;
    record->epoch->before = start->before;
    if (!options->config_digest) return;
    record->epoch->config_digest =
        (ProtobufCBinaryData){.data = (uint8_t *)options->config_digest, .len = CONFIG_DIGEST_SIZE};
}

/* Starts an epoch: every start is a promotion, and its first record is a new epoch. */
static void start(struct core *core, const struct core_event *event, struct core_effects *effects) {
    assert(!core->started && event->start.epoch > core->epoch);
    core->durable = core->position;
    core->started = true;
    core->following = false;
    core->epoch = event->start.epoch;
    /* Unique, because each epoch has its own range of session ids. */
    core->session_next = (uint64_t)event->start.epoch << 32 | 1;
    struct draft draft;
    draft_init(&draft, core, effects->arena, NULL, 2);
    draft.client = event->start.who;
    record_epoch(&draft, &event->start);
    if (event->start.clock_accepted) record_clock(&draft, event);
    const struct instant since = core->recorded;
    draft_commit(&draft, NULL, effects);
    overdue_start(core, &since, effects);
    core->claim_over_ms = steady_ms(core) + CLAIM_AFTER_START_MS;
    /* Leases of bound sessions are returned first. */
    wheel_arm(&core->wheels[ROW_STEADY], &core->claim.wheel, steady_ms(core), 0);
    for (uint32_t place = 1; place < core->tally.next_queue; place++) gate_reset(core, &core->queues[place]);
    near_check_all(core);
}

/* Starts an inspection: the state stays as of the last frame, and this node does not lead. */
static void inspect(struct core *core) {
    assert(!core->started && !core->inspected);
    core->durable = core->position;
    core->inspected = true;
    timers_make_ready(core);
    near_check_all(core);
}

/* Appends the last record of an orderly run; a seal follows once the record is durable. */
static void close_log(struct core *core, const struct core_event *event, struct core_effects *effects) {
    assert(core->stopping && !core->closed);
    struct draft draft;
    draft_init(&draft, core, effects->arena, NULL, 1);
    draft.client = event->who;
    Tarry__Record *record = draft_record(&draft);
    record->fact_case = TARRY__RECORD__FACT_STOP;
    record->stop = must_alloc(effects->arena, sizeof *record->stop);
    tarry__stop_put__init(record->stop);
    record->stop->server_version = (char *)core->options.version;
    draft_commit(&draft, NULL, effects);
    core->closed = true;
}

static uint64_t ms_ago(const struct core *core, uint64_t ago_ms) {
    return steady_ms(core) > ago_ms ? steady_ms(core) - ago_ms : 0;
}

/* Records refused clients for an auditor; the state does not change. */
static void record_refusals(struct core *core, const struct core_event *event, struct core_effects *effects) {
    struct draft draft;
    draft_init(&draft, core, effects->arena, NULL, event->refused.count);
    for (size_t i = 0; i < event->refused.count; i++) {
        const struct core_refusal *refusal = &event->refused.items[i];
        Tarry__Record *record = draft_record(&draft);
        record->fact_case = TARRY__RECORD__FACT_REFUSED;
        record->refused = must_alloc(effects->arena, sizeof *record->refused);
        tarry__access_refused__init(record->refused);
        record->refused->why = refusal->why;
        record->refused->address = (char *)refusal->address;
        record->refused->principal = (char *)refusal->principal;
        record->refused->what = (char *)refusal->what;
        record->refused->count = refusal->count;
        record->refused->first_ms = ms_ago(core, refusal->first_ago_ms);
        record->refused->last_ms = ms_ago(core, refusal->last_ago_ms);
    }
    draft_commit(&draft, NULL, effects);
}

/* Records when acknowledged data was on one disk only, so that an auditor can see it (KEEP-1). */
static void record_alone(struct core *core, const struct core_event *event, struct core_effects *effects) {
    assert(core->started && !core->stopping && !core->closed);
    struct draft draft;
    draft_init(&draft, core, effects->arena, NULL, 1);
    if (event->alone.by) draft_by_request(&draft, event->alone.by);
    Tarry__Record *record = draft_record(&draft);
    record->fact_case = TARRY__RECORD__FACT_ALONE;
    record->alone = must_alloc(effects->arena, sizeof *record->alone);
    *record->alone = *event->alone.put;
    draft_commit(&draft, NULL, effects);
}

static void lane_gone(struct core *core, uint64_t id, struct core_effects *effects) {
    struct session *session = session_find(core, id);
    if (!session || !session_is_present(session)) return;
    if (session->sending && !session->sending_again) {
        /* The session ends when CORE_LANE_SENT arrives, because only that event says whether the delivery was sent. If
         * it was not sent, no attempt is counted (TRUE-1). */
        session->gone = true;
    } else {
        session_gone(core, session, TARRY__SESSION_END__CAUSE__PIPE_LOST, effects);
    }
}

/* Passes a request to the function that executes it. Of the questions, only a Get may write a record: that the task has
 * expired. */
static void dispatch_request(struct core *core, const struct core_request *request, struct core_effects *effects) {
    switch (request->message->body_case) {
    case TARRY__REQUEST__BODY_HELLO:
        producer_hello(core, request, effects);
        return;
    case TARRY__REQUEST__BODY_GOODBYE:
        producer_goodbye(core, request, effects);
        return;
    case TARRY__REQUEST__BODY_COMMIT:
        commit_step(core, request, effects);
        return;
    case TARRY__REQUEST__BODY_SUBSCRIBE:
        session_subscribe(core, request, effects);
        return;
    case TARRY__REQUEST__BODY_UNSUBSCRIBE:
        session_unsubscribe(core, request, effects);
        return;
    case TARRY__REQUEST__BODY_HEARTBEAT:
        session_heartbeat(core, request, effects);
        return;
    case TARRY__REQUEST__BODY_GET:
        query_get(core, request, effects);
        return;
    case TARRY__REQUEST__BODY_LIST:
        query_list(core, request, effects);
        return;
    case TARRY__REQUEST__BODY_QUEUES:
        query_queues(core, request, effects);
        return;
    case TARRY__REQUEST__BODY_STATS:
        query_stats(core, request, effects);
        return;
    case TARRY__REQUEST__BODY_CALENDAR:
        query_calendar(core, request, effects);
        return;
    case TARRY__REQUEST__BODY_CONSUMERS:
        query_consumers(core, request, effects);
        return;
    case TARRY__REQUEST__BODY_DEFINITIONS:
        query_definitions(core, request, effects);
        return;
    case TARRY__REQUEST__BODY_RECURRENCES:
        query_recurrences(core, request, effects);
        return;
    case TARRY__REQUEST__BODY_ATTACH: /* other parts of the broker answer these requests (requests.def) */
    case TARRY__REQUEST__BODY_AUDIT:
    case TARRY__REQUEST__BODY_BACKUP:
    case TARRY__REQUEST__BODY_FOLLOW:
    case TARRY__REQUEST__BODY_PAIR:
        REQUEST_UNKNOWN
    }
    assert(!"the core does not answer this request");
}

static bool is_request(const struct core_event *event, Tarry__Request__BodyCase body_case) {
    return event->kind == CORE_REQUEST && event->request.message->body_case == body_case;
}

bool core_look(struct core *core, struct core_event *event) {
    if (is_request(event, TARRY__REQUEST__BODY_STATS)) return stats_look(core, &event->request);
    return !is_request(event, TARRY__REQUEST__BODY_LIST) || list_look(core, &event->request);
}

void core_look_end(struct core *core, struct core_event *event) {
    if (event->kind != CORE_REQUEST || !event->request.look) return;
    if (is_request(event, TARRY__REQUEST__BODY_LIST)) list_look_end(core, &event->request);
    if (is_request(event, TARRY__REQUEST__BODY_STATS)) stats_look_end(core);
    event->request.look = 0;
}

static void note_durable(struct core *core, const struct core_event *event) {
    assert(event->position >= core->durable && event->position <= core->position);
    core->durable = event->position;
}

static void note_indexed(struct core *core, const struct core_event *event) {
    assert(event->position >= core->indexed && event->position <= core->durable); /* LOG-3 */
    core->indexed = event->position;
}

static void resume(struct core *core) {
    assert(!core->closed);
    core->stopping = false;
    near_check_all(core);
}

/* Removes absorbed tasks from memory, and evicts tasks if memory is short. */
static void make_room(struct core *core) {
    core->trim_to = near_trim_limit(core);
    near_trim(core);
    near_promote(core);
    near_relieve(core);
}

static bool has_more_to_do(const struct core *core) {
    bool checks = (core->started || core->inspected) && !core->stopping && near_is_checking(core);
    return checks || near_is_trimming(core) || near_is_promoting(core) || near_is_relieving(core);
}

/* Returns true if tasks can be delivered at once because, after its deliveries, this step made tasks ready or made
 * leases possible. Such deliveries must not wait for the next event (CALM-1). */
static bool may_deliver_now(const struct core *core, bool could_lease) {
    bool is_serving =
        core->started && !core->stopping && !core->full && (core->serving.count || can_move(core)) && may_lease(core);
    return is_serving && (core->ready_anew || !could_lease);
}

/* Steps the core while another node leads. The core keeps the time of the last frame, because applying the frames must
 * have the same result on both nodes. Only a question uses the current time. */
static void follow(struct core *core, const struct core_event *event, struct core_effects *effects) {
    struct instant then = core->now;
    switch (event->kind) {
    case CORE_FOLLOW:
        assert(!core->started && !core->inspected && !core->following);
        core->durable = core->position;
        core->following = true;
        break;
    case CORE_TICK:
        break;
    case CORE_DURABLE:
        note_durable(core, event);
        break;
    case CORE_INDEXED:
        note_indexed(core, event);
        break;
    case CORE_STOP:
        core->stopping = true;
        break;
    case CORE_RESUME: /* this node got the order to take over, and the order was withdrawn before it began to lead */
        core->stopping = false;
        break;
    default:
        assert(event->kind == CORE_REQUEST && request_is_question(event->request.message));
        set_now(core, &event->now);
        dispatch_request(core, &event->request, effects);
        core->now = then;
    }
    make_room(core);
    core->hurry = has_more_to_do(core);
}

bool core_may_replay(const struct core *core) {
    return core->overlay_count <= core->options.index_lag_max && !near_is_relieving(core);
}

bool core_may_free(const struct core *core) {
    return core->overlay_count > 0 || near_is_relieving(core);
}

static void dispatch_event(struct core *core, const struct core_event *event, struct core_effects *effects) {
    assert(event->kind != CORE_FOLLOW); /* core_step passes this event to follow() */
    switch (event->kind) {
    case CORE_START:
        start(core, event, effects);
        break;
    case CORE_TICK:
    case CORE_FOLLOW:
        break;
    case CORE_REQUEST:
        dispatch_request(core, &event->request, effects);
        break;
    case CORE_LANE_UP:
        session_lane_up(core, event->lane.session);
        break;
    case CORE_LANE_GONE:
        lane_gone(core, event->lane.session, effects);
        break;
    case CORE_LANE_SENT:
        session_sent(core, &event->lane, effects);
        break;
    case CORE_CREDIT:
        session_credit(core, event->lane.session, event->lane.credit);
        break;
    case CORE_DURABLE:
        note_durable(core, event);
        break;
    case CORE_INDEXED:
        note_indexed(core, event);
        break;
    case CORE_WINDOW:
        near_loaded(core, &event->window);
        break;
    case CORE_PAGE:
        job_page(core, &event->page, effects);
        break;
    case CORE_STOP:
        core->stopping = true;
        ahead_withdraw_all(core, effects);
        break;
    case CORE_RESUME:
        resume(core);
        break;
    case CORE_INSPECT:
        inspect(core);
        break;
    case CORE_REFUSED:
        record_refusals(core, event, effects);
        break;
    case CORE_ALONE:
        record_alone(core, event, effects);
        break;
    case CORE_CLOSE:
        close_log(core, event, effects);
        break;
    }
}

/* Returns the steady time in ms at which the broker must write another frame, so that the log shows that it was serving
 * (overdue.h). Returns UINT64_MAX if no frame is needed, for example while a written frame is not durable yet. */
static uint64_t mark_at_ms(const struct core *core) {
    bool is_wanted = core->overdue_queues && core->started && !core->stopping && core->durable == core->position;
    return is_wanted ? core->recorded.steady_ns / 1000000 + OVERDUE_MARK_MS : UINT64_MAX;
}

/* Appends a seal once everything is durable and the log is idle (LOG-5). */
static void seal_when_idle(struct core *core, struct core_effects *effects) {
    bool is_settled = core->durable == core->position;
    const bool is_mark = steady_ms(core) >= mark_at_ms(core);
    if ((core->sealed && !is_mark) || !core->started || !is_settled) return;
    if (core->seal_at_ms == UINT64_MAX) core->seal_at_ms = steady_ms(core) + SEAL_IDLE_MS;
    if (!core->stopping && !is_mark && steady_ms(core) < core->seal_at_ms) return;
    *PUSH(effects, appends) = (struct core_append){
        .position = core->position,
        .type = FRAME_SEAL,
        .epoch = core->epoch,
        .now = core->now,
    };
    core->position += frame_size(0, 0);
    core->recorded = core->now;
    core->sealed = true;
    core->seal_at_ms = UINT64_MAX;
}

/* Sets the core's time to that of the event. A delayed event carries the time of its arrival. If the core has already
 * handled a later time, the steady clock keeps the later time, and the wall clock is moved by the same amount. Reason:
 * after a restart, the time continues by the difference of the two clocks. If only the steady clock were moved, timers
 * could expire too early (TIME-1; history 20714502). */
static void set_now_of(struct core *core, const struct core_event *event) {
    struct instant now = event->now;
    uint64_t behind_ns = core->now.steady_ns > now.steady_ns ? core->now.steady_ns - now.steady_ns : 0;
    /* behind_ns can exceed the event's age only if the two times come from the clocks of two nodes. */
    if (behind_ns > event->age_ns) behind_ns = event->age_ns;
    now.wall_ns += behind_ns;
    set_now(core, &now);
}

void core_step(struct core *core, const struct core_event *event, struct core_effects *effects) {
    if (event->kind == CORE_FOLLOW || (core->following && event->kind != CORE_START)) {
        follow(core, event, effects);
        return;
    }
    set_now_of(core, event);
    uint64_t latest_ns = event->now.steady_ns + event->late_ns;
    core->from_ns = latest_ns > core->now.steady_ns ? latest_ns : core->now.steady_ns;
    producers_note_late(core);
    assert(!core->closed || event->kind == CORE_DURABLE || event->kind == CORE_INDEXED || event->kind == CORE_TICK);
    size_t used = effects->arena->used;
    uint64_t taken = slab_allocated(core->slab);
    core->soon_count = 0;
    core->free_places.is_known = false;
    core->hurry = timers_run(core, effects);
    assert(slab_allocated(core->slab) == taken); /* CAP-1: expired timers allocate no memory */
    core->no_room = event->no_room;
    core->hurry |= recur_run(core, effects);
    taken = slab_allocated(core->slab);
    const uint64_t visits = core->visits;
    dispatch_event(core, event, effects);
    assert(need_allows(event, slab_allocated(core->slab) - taken)); /* CAP-1 */
    assert(core->visits - visits <= need_visits_max(event));
    taken = slab_allocated(core->slab);
    core->full = event->full;
    core->hurry |= event->behind || (!event->full && deliver(core, effects));
    assert(slab_allocated(core->slab) == taken); /* CAP-1: deliveries allocate no memory */
    bool could_lease = may_lease(core);
    make_room(core);
    near_check_lines(core, effects);
    jobs_run(core, effects);
    seal_when_idle(core, effects);
    core->hurry |= has_more_to_do(core) || may_deliver_now(core, could_lease);
    assert(effects->arena->used - used <= STEP_EFFECTS_MAX); /* CALM-1 */
}

/* Returns the steady time in ms at which the earliest wall-clock timer of a task or a recurrence expires, if both
 * clocks advance equally from now on. */
static uint64_t wall_deadline(const struct core *core) {
    const uint64_t recur_ms = core->recur_count ? wheel_next(&core->recur_wheel) : WHEEL_NEVER;
    uint64_t next_ms = wheel_next(&core->wheels[ROW_WALL]);
    if (recur_ms < next_ms) next_ms = recur_ms;
    if (next_ms == WHEEL_NEVER) return UINT64_MAX;
    uint64_t now_ms = base_ms(core, ROW_WALL);
    return steady_ms(core) + (next_ms > now_ms ? next_ms - now_ms : 0);
}

uint64_t core_deadline(const struct core *core) {
    if (core->following || core->inspected) return core->hurry ? 0 : UINT64_MAX;
    if (!core->started) return UINT64_MAX;
    if (core->hurry) return steady_ms(core);
    if (core->stopping) return UINT64_MAX;
    uint64_t deadline_ms = wheel_next(&core->wheels[ROW_STEADY]);
    uint64_t wall_ms = wall_deadline(core);
    if (wall_ms < deadline_ms) deadline_ms = wall_ms;
    if (core->seal_at_ms < deadline_ms) deadline_ms = core->seal_at_ms;
    const uint64_t retry_ms = core->recur_lacks_room ? steady_ms(core) + RECUR_RETRY_MS : UINT64_MAX;
    if (retry_ms < deadline_ms) deadline_ms = retry_ms;
    const uint64_t mark_ms = mark_at_ms(core);
    return mark_ms < deadline_ms ? mark_ms : deadline_ms;
}

uint64_t core_digest(const struct core *core) {
    return core->tally.digest;
}
uint64_t core_position(const struct core *core) {
    return core->position;
}
uint64_t core_live(const struct core *core) {
    return core->tally.live;
}
