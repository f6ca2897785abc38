/* flat.c: see flat.h. */
#include "flat.h"

#include <stdlib.h>
#include <string.h>

#include "../must.h"
#include "laws.h"

void flat_init(struct flat *flat) {
    memset(flat->tasks, 0, (size_t)(flat->next_id ? flat->next_id : 1) * sizeof flat->tasks[0]);
    memset(flat->queues, 0, sizeof flat->queues);
    flat->former_count = 0;
    flat->position = LOG_POSITION_FIRST;
    flat->steady_ns = flat->wall_ns = flat->digest = flat->live = 0;
    flat->epoch = 0;
    memset(flat->definitions, 0, sizeof flat->definitions);
    flat->next_id = 1;
    flat->producer_count = flat->result_count = flat->job_count = flat->ending_count = flat->recur_count = 0;
}

void flat_copy(struct flat *to, const struct flat *from) {
    flat_init(to);
    to->position = from->position;
    to->steady_ns = from->steady_ns;
    to->wall_ns = from->wall_ns;
    to->digest = from->digest;
    to->live = from->live;
    to->epoch = from->epoch;
    to->next_id = from->next_id;
    memcpy(to->tasks, from->tasks, (size_t)from->next_id * sizeof to->tasks[0]);
    memcpy(to->queues, from->queues, sizeof to->queues);
    to->former_count = from->former_count;
    memcpy(to->former, from->former, from->former_count * sizeof to->former[0]);
    to->producer_count = from->producer_count;
    memcpy(to->producers, from->producers, from->producer_count * sizeof to->producers[0]);
    to->result_count = from->result_count;
    memcpy(to->results, from->results, from->result_count * sizeof to->results[0]);
    to->job_count = from->job_count;
    memcpy(to->jobs, from->jobs, from->job_count * sizeof to->jobs[0]);
    memcpy(to->definitions, from->definitions, sizeof to->definitions);
    to->recur_count = from->recur_count;
    memcpy(to->recurs, from->recurs, from->recur_count * sizeof to->recurs[0]);
    to->ending_count = from->ending_count;
    memcpy(to->endings, from->endings, from->ending_count * sizeof to->endings[0]);
}

/* ---- records */

static void put_task(struct flat *flat, const Tarry__TaskPut *put) {
    struct row row;
    MUST(row_from_task(put->task, &row) && row.id < FLAT_TASKS_MAX);
    struct flat_task *task = &flat->tasks[row.id];
    MUST((task->row.id == 0) == put->fresh && !task->ended);
    if (put->fresh) {
        MUST(row.id == flat->next_id); /* a new task has the next id */
        flat->next_id++;
    } else {
        MUST(put->before_hash == task->hash); /* LOG-2: before_hash is the hash of the row that the record replaces */
    }
    bool was_live = !put->fresh && task->row.state != ROW_BURIED;
    if (put->cause == TARRY__CAUSE__CAUSE_LEASED) {
        task->session_before = task->row.session;
        task->delivered_before_ms = task->row.delivered_ms;
    }
    if (put->fresh) task->share_of = put->share_of;
    flat->digest -= task->hash;
    task->row = row;
    task->hash = row_hash(&row);
    flat->digest += task->hash;
    flat->live += (uint64_t)(row.state != ROW_BURIED) - (uint64_t)was_live;
}

static void end_task(struct flat *flat, const Tarry__TaskEnd *end) {
    struct row row;
    MUST(row_from_task(end->task, &row) && row.id < FLAT_TASKS_MAX);
    struct flat_task *task = &flat->tasks[row.id];
    MUST(task->row.id && !task->ended && row_hash(&row) == task->hash); /* KEEP-1: a task ends exactly once */
    task->ended = true;
    task->cause = end->cause;
    task->first_share = end->first_share;
    task->shares = end->shares;
    task->ended_ms = flat->steady_ns / 1000000;
    task->content = NULL;
    flat->digest -= task->hash;
    flat->live -= task->row.state != ROW_BURIED;
    flat->endings[flat->ending_count++] = row.id;
}

static void put_queue(struct flat *flat, const Tarry__QueuePut *put) {
    MUST(queue_place(put->number) && queue_place(put->number) < FLAT_QUEUES_MAX);
    struct flat_queue *queue = &flat->queues[queue_place(put->number)];
    MUST(put->before_hash == queue->hash); /* LOG-2 */
    laws_of_queue(flat, put);
    if (queue->put.number && queue->put.number != put->number) {
        MUST(flat->former_count < FLAT_FORMER_MAX);
        flat->former[flat->former_count++] = queue->put;
    }
    queue->put = *put;
    flat->digest -= queue->hash;
    queue->hash = queue_hash(put);
    flat->digest += queue->hash;
}

static void put_producer(struct flat *flat, uint64_t id) {
    MUST(flat->producer_count < FLAT_PRODUCERS_MAX);
    flat->producers[flat->producer_count++] =
        (struct flat_producer){.id = id, .floor = 1, .used_ms = flat->steady_ns / 1000000};
    flat->digest += producer_hash(id);
}

static void end_producer(struct flat *flat, uint64_t id) {
    for (size_t i = 0; i < flat->producer_count; i++) {
        if (flat->producers[i].id != id) continue;
        flat->producers[i--] = flat->producers[--flat->producer_count];
        flat->digest -= producer_hash(id);
    }
    for (size_t i = 0; i < flat->result_count; i++) {
        if (flat->results[i].producer == id) flat->results[i--] = flat->results[--flat->result_count];
    }
}

static void put_job(struct flat *flat, const Tarry__JobPut *put) {
    size_t i = 0;
    while (i < flat->job_count && flat->jobs[i].job != put->job) i++;
    if (i == flat->job_count) flat->job_count++;
    MUST(i < FLAT_JOBS_MAX);
    flat->jobs[i] = *put;
}

static void end_job(struct flat *flat, uint64_t id) {
    for (size_t i = 0; i < flat->job_count; i++) {
        if (flat->jobs[i].job == id) flat->jobs[i--] = flat->jobs[--flat->job_count];
    }
}

static void put_definition(struct flat *flat, const Tarry__DefinitionPut *put) {
    struct flat_definition *definition = &flat->definitions[put->name.data[put->name.len - 1] % FLAT_DEFINITIONS];
    MUST(put->before_hash == definition->hash && put->version == flat->position); /* LOG-2 */
    flat->digest -= definition->hash;
    *definition = (struct flat_definition){0};
    if (put->deleted) return;
    *definition = (struct flat_definition){put->version, definition_hash(put), put};
    flat->digest += definition->hash;
}

static void note_commit(struct flat *flat, const Tarry__FrameBody *body, uint64_t position) {
    MUST(!flat_result(flat, body->producer, body->sequence)); /* ONCE-1: no commit is executed twice */
    for (size_t i = 0; i < flat->producer_count; i++) {
        if (flat->producers[i].id != body->producer) continue;
        if (body->oldest_unanswered > flat->producers[i].floor) flat->producers[i].floor = body->oldest_unanswered;
        flat->producers[i].used_ms = flat->steady_ns / 1000000;
    }
    for (size_t i = 0; i < flat->result_count; i++) {
        const struct flat_result *result = &flat->results[i];
        bool forgotten = result->producer == body->producer && result->sequence < body->oldest_unanswered;
        if (forgotten) flat->results[i--] = flat->results[--flat->result_count];
    }
    MUST(flat->result_count < FLAT_RESULTS_MAX);
    flat->results[flat->result_count++] =
        (struct flat_result){.producer = body->producer, .sequence = body->sequence, .position = position};
}

/* ---- recurrences */

static struct flat_recur *find_recur(struct flat *flat, uint32_t queue, const char *name) {
    for (size_t i = 0; i < flat->recur_count; i++)
        if (flat->recurs[i].queue == queue && strcmp(flat->recurs[i].name, name) == 0) return &flat->recurs[i];
    return NULL;
}

/* Stores the record of a recurrence in the model. The frame has the records of the recurrence's tasks before it, so the
 * model has these tasks already. */
static void put_recur(struct flat *flat, const Tarry__RecurPut *put) {
    struct flat_recur *recur = find_recur(flat, put->queue, put->name);
    MUST(put->before_hash == (recur ? recur->hash : 0)); /* LOG-2 */
    MUST(!recur || recur->number == put->number);
    laws_of_recur(flat, recur, put);
    flat->digest -= put->before_hash;
    if (!put->state) {
        *recur = flat->recurs[--flat->recur_count];
        return;
    }
    if (!recur) {
        MUST(flat->recur_count < FLAT_RECURS_MAX);
        recur = &flat->recurs[flat->recur_count++];
        *recur = (struct flat_recur){.number = put->number, .queue = put->queue, .name = put->name};
    }
    if (put->set) {
        recur->set = put->set;
        recur->first_task = put->state->next_id ? put->state->next_id : flat->next_id;
    }
    recur->state = put->state;
    recur->hash = recur_hash(put->number, put->state);
    flat->digest += recur->hash;
}

/* Outputs the tasks of the recurrence that have not ended: only the dead ones (`is_dead`), or only the others. */
static void add_open(const struct flat *flat, const struct flat_recur *recur, bool is_dead, Tarry__RecurState *out) {
    for (size_t i = 0; i < recur->state->n_open; i++) {
        const uint64_t id = recur->state->open[i];
        if (!id || id >= flat->next_id || flat->tasks[id].ended) continue;
        if ((flat->tasks[id].row.state == ROW_BURIED) == is_dead) out->open[out->n_open++] = id;
    }
}

static void restore_recur(const struct flat *flat, const struct flat_recur *recur, struct core *core) {
    uint64_t open[16];
    Tarry__RecurState state = *recur->state;
    Tarry__RecurPut put = TARRY__RECUR_PUT__INIT;
    MUST(state.n_open <= 16);
    state.open = open;
    state.n_open = 0;
    add_open(flat, recur, false, &state);
    const size_t open_live = state.n_open;
    add_open(flat, recur, true, &state);
    put.number = recur->number;
    put.queue = recur->queue;
    put.name = (char *)recur->name;
    put.cause = TARRY__RECUR_PUT__CAUSE__SET;
    put.set = (Tarry__RecurSet *)recur->set;
    put.state = &state;
    put.before_hash = recur->hash;
    const bool is_there = state.next_id && state.next_id < flat->next_id && !flat->tasks[state.next_id].ended;
    MUST(core_restore_recur(core, &put, is_there ? &flat->tasks[state.next_id].row : NULL, open_live) == 0);
}

static void apply(struct flat *flat, const Tarry__Record *record) {
    switch (record->fact_case) {
    case TARRY__RECORD__FACT_PUT:
        laws_of_put(flat, record->put);
        put_task(flat, record->put);
        break;
    case TARRY__RECORD__FACT_END:
        laws_of_end(flat, record->end);
        end_task(flat, record->end);
        break;
    case TARRY__RECORD__FACT_QUEUE:
        put_queue(flat, record->queue);
        break;
    case TARRY__RECORD__FACT_PRODUCER:
        put_producer(flat, record->producer->producer);
        break;
    case TARRY__RECORD__FACT_PRODUCER_END:
        end_producer(flat, record->producer_end->producer);
        break;
    case TARRY__RECORD__FACT_JOB:
        laws_of_job(flat, record->job);
        put_job(flat, record->job);
        break;
    case TARRY__RECORD__FACT_JOB_END:
        end_job(flat, record->job_end->job);
        break;
    case TARRY__RECORD__FACT_REDACTION:
        laws_of_redaction(flat, record->redaction);
        flat->tasks[record->redaction->id].redacted = true;
        break;
    case TARRY__RECORD__FACT_DEFINITION:
        put_definition(flat, record->definition);
        break;
    case TARRY__RECORD__FACT_RECUR:
        put_recur(flat, record->recur);
        break;
    case TARRY__RECORD__FACT_EPOCH:
        MUST(record->epoch->epoch > flat->epoch);
        flat->epoch = record->epoch->epoch;
        break;
    case TARRY__RECORD__FACT_CLOCK:
    case TARRY__RECORD__FACT_SESSION:
    case TARRY__RECORD__FACT_SESSION_END:
    case TARRY__RECORD__FACT_STOP:
    case TARRY__RECORD__FACT_REFUSED:
    case TARRY__RECORD__FACT_ALONE:
        break;
    default:
        MUST(false);
    }
}

void flat_apply(struct flat *flat, const struct frame_header *header, const Tarry__FrameBody *body) {
    MUST(header->position == flat->position && header->epoch >= flat->epoch);
    MUST(header->steady_ns >= flat->steady_ns && header->wall_ns >= flat->wall_ns); /* TIME-2 */
    flat->steady_ns = header->steady_ns;
    flat->wall_ns = header->wall_ns;
    for (size_t i = 0; body && i < body->n_records; i++) apply(flat, body->records[i]);
    if (body && body->producer) note_commit(flat, body, header->position);
    flat->position += frame_size(header->body_size, header->blob_size);
}

uint64_t flat_digest(const struct flat *flat) {
    uint64_t digest = 0;
    for (uint64_t id = 1; id < flat->next_id; id++) {
        if (!flat->tasks[id].ended) digest += row_hash(&flat->tasks[id].row);
    }
    for (size_t i = 1; i < FLAT_QUEUES_MAX; i++) {
        if (flat->queues[i].put.number) digest += queue_hash(&flat->queues[i].put);
    }
    for (size_t i = 0; i < flat->producer_count; i++) digest += producer_hash(flat->producers[i].id);
    for (size_t i = 0; i < FLAT_DEFINITIONS; i++) digest += flat->definitions[i].hash;
    for (size_t i = 0; i < flat->recur_count; i++) digest += flat->recurs[i].hash;
    return digest;
}

/* ---- looking */

bool flat_is_group_of(const struct flat *flat, const Tarry__QueuePut *queue, uint32_t topic) {
    const char *name = flat_queue_of(flat, topic)->put.name;
    if (!queue->number || queue->deleted || !queue->policy->filter[0]) return false;
    const size_t size = strlen(name);
    return strncmp(queue->name, name, size) == 0 && queue->name[size] == ':' && !strchr(queue->name + size + 1, ':');
}

bool flat_is_topic(const struct flat *flat, uint32_t number) {
    for (size_t i = 1; i < FLAT_QUEUES_MAX; i++)
        if (flat_is_group_of(flat, &flat->queues[i].put, number)) return true;
    return false;
}

static bool has_key(const struct flat_task *task, uint32_t queue, const void *key, size_t key_size) {
    return task->row.queue == queue && key_size && task->row.key_size == key_size &&
           memcmp(task->row.key, key, key_size) == 0;
}

const struct flat_task *flat_live(const struct flat *flat, uint32_t queue, const void *key, size_t key_size) {
    const struct flat_task *found = NULL;
    for (uint64_t id = 1; queue && id < flat->next_id; id++) {
        const struct flat_task *task = &flat->tasks[id];
        if (task->ended || task->row.state == ROW_BURIED || !has_key(task, queue, key, key_size)) continue;
        MUST(!found); /* the key is unique among the live tasks of the queue */
        found = task;
    }
    return found;
}

const struct flat_task *flat_dead(const struct flat *flat, uint32_t queue, const void *key, size_t key_size) {
    const struct flat_task *found = NULL;
    for (uint64_t id = 1; queue && id < flat->next_id; id++) {
        const struct flat_task *task = &flat->tasks[id];
        if (task->ended || task->row.state != ROW_BURIED || !has_key(task, queue, key, key_size)) continue;
        if (!found || task->row.dead_ms >= found->row.dead_ms) found = task;
    }
    return found;
}

const struct flat_task *flat_ended(const struct flat *flat, uint32_t queue, const void *key, size_t key_size) {
    for (size_t i = flat->ending_count; queue && i-- > 0;) {
        const struct flat_task *task = &flat->tasks[flat->endings[i]];
        if (has_key(task, queue, key, key_size)) return task;
    }
    return NULL;
}

uint32_t flat_queue_number(const struct flat *flat, const char *name) {
    for (uint32_t i = 1; i < FLAT_QUEUES_MAX; i++) {
        const Tarry__QueuePut *put = &flat->queues[i].put;
        if (put->number && strcmp(put->name, name) == 0) return put->number;
    }
    return 0;
}

bool flat_has_queue(const struct flat *flat, const char *name) {
    const uint32_t number = flat_queue_number(flat, name);
    return number && !flat_queue_of(flat, number)->put.deleted;
}

bool flat_was_named(const struct flat *flat, uint32_t number, const char *name) {
    for (size_t i = 0; i < flat->former_count; i++) {
        if (flat->former[i].number == number) return strcmp(flat->former[i].name, name) == 0;
    }
    return number && flat_queue_number(flat, name) == number;
}

const struct flat_result *flat_result(const struct flat *flat, uint64_t producer, uint64_t sequence) {
    for (size_t i = 0; i < flat->result_count; i++) {
        const struct flat_result *result = &flat->results[i];
        if (result->producer == producer && result->sequence == sequence) return result;
    }
    return NULL;
}

bool flat_is_forgotten(const struct flat *flat, uint64_t producer, uint64_t sequence) {
    for (size_t i = 0; i < flat->producer_count; i++) {
        if (flat->producers[i].id == producer) return sequence < flat->producers[i].floor;
    }
    return true;
}

/* ---- what a restart reads */

/* Computes the tally from the rows. Leaves out totals such as scheduled and acked, because no decision depends on them.
 */
static void count_tally(const struct flat *flat, struct tally *tally) {
    tally->next_id = flat->next_id;
    for (uint64_t id = 1; id < flat->next_id; id++) {
        const struct row *row = &flat->tasks[id].row;
        if (flat->tasks[id].ended) continue;
        struct queue_tally *queue = &tally->queues[queue_place(row->queue)];
        if (row->state == ROW_WAITING) queue->waiting[row->base][row->priority]++;
        if (row->state == ROW_LEASED) queue->in_flight++;
        if (row->state == ROW_BURIED) queue->dead++;
        tally->live += row->state != ROW_BURIED;
    }
    for (uint32_t i = 1; i < FLAT_QUEUES_MAX; i++) {
        if (!flat->queues[i].put.number) continue;
        tally->next_queue = i + 1;
        tally->queues[i].number = flat->queues[i].put.number;
    }
    tally->digest = flat->digest;
    tally->epoch = flat->epoch;
}

static void restore_outcomes(const struct flat *flat, struct core *core) {
    for (size_t i = 0; i < flat->ending_count; i++) {
        const struct flat_task *task = &flat->tasks[flat->endings[i]];
        struct outcome outcome = {
            .id = task->row.id,
            .ended_ms = task->ended_ms,
            .due_ms = task->row.due_ms,
            .session = task->row.session,
            .delivered_ms = task->row.delivered_ms,
            .queue = task->row.queue,
            .deliveries = task->row.deliveries,
            .cause = (uint16_t)task->cause,
            .priority = task->row.priority,
            .key_size = task->row.key_size,
            .key = task->row.key,
            .redacted = task->redacted,
        };
        if (task->cause == TARRY__CAUSE__CAUSE_SHARED || task->cause == TARRY__CAUSE__CAUSE_UNMATCHED) {
            outcome.session = task->first_share;
            outcome.deliveries = task->shares;
            outcome.delivered_ms = 0;
        }
        MUST(core_restore_outcome(core, &outcome) == 0);
    }
}

static void restore_base(const struct flat *flat, struct core *core) {
    static struct queue_tally
        queues[QUEUE_PLACES + 1]; /* static, because only the first few entries are ever used and zeroed again */
    memset(queues, 0, FLAT_QUEUES_MAX * sizeof queues[0]);
    struct tally tally;
    tally_init(&tally, queues);
    count_tally(flat, &tally);
    core_restore(core, &(struct core_base){.position = flat->position,
                                           .tally = &tally,
                                           .then = {.steady_ns = flat->steady_ns, .wall_ns = flat->wall_ns}});
}

static void restore_queues(const struct flat *flat, struct core *core) {
    for (size_t i = 0; i < flat->former_count; i++) MUST(core_restore_queue(core, &flat->former[i]) == 0);
    for (size_t i = 1; i < FLAT_QUEUES_MAX; i++) {
        if (flat->queues[i].put.number) MUST(core_restore_queue(core, &flat->queues[i].put) == 0);
    }
}

static void restore_leases(const struct flat *flat, struct core *core) {
    for (uint64_t id = 1; id < flat->next_id; id++) {
        const struct flat_task *task = &flat->tasks[id];
        bool is_leased = !task->ended && task->row.state == ROW_LEASED;
        if (is_leased) MUST(core_restore_lease(core, &task->row) == 0);
    }
}

void flat_restore(const struct flat *flat, struct core *core, enum recovery_part part) {
    if (part == RECOVERY_BASE) restore_base(flat, core);
    if (part == RECOVERY_QUEUES) restore_queues(flat, core);
    if (part == RECOVERY_LEASES) restore_leases(flat, core);
    if (part == RECOVERY_OUTCOMES) restore_outcomes(flat, core);
    for (size_t i = 0; part == RECOVERY_RECURRENCES && i < flat->recur_count; i++)
        restore_recur(flat, &flat->recurs[i], core);
    for (size_t i = 0; part == RECOVERY_PRODUCERS && i < flat->producer_count; i++) {
        const struct flat_producer *p = &flat->producers[i];
        MUST(core_restore_producer(core, p->id, p->used_ms, p->floor, 0) == 0);
    }
    for (size_t i = 0; part == RECOVERY_RESULTS && i < flat->result_count; i++) {
        const struct flat_result *r = &flat->results[i];
        MUST(core_restore_result(core, r->producer, r->sequence, r->position) == 0);
    }
    for (size_t i = 0; part == RECOVERY_JOBS && i < flat->job_count; i++)
        MUST(core_restore_job(core, &flat->jobs[i]) == 0);
    for (size_t i = 0; part == RECOVERY_DEFINITIONS && i < FLAT_DEFINITIONS; i++) {
        if (!flat->definitions[i].version) continue;
        Tarry__DefinitionPut put = *flat->definitions[i].put;
        put.before_hash = 0;
        MUST(core_restore_definition(core, &put) == 0);
    }
}
