/* core_flat.c: see core_flat.h. */
#include "core_flat.h"

#include <stdlib.h>
#include <string.h>

#include "../must.h"

void flat_init(struct flat *flat) {
    memset(flat, 0, sizeof *flat);
    flat->position = LOG_POSITION_FIRST;
}

static void put_task(struct flat *flat, const Tarry__TaskPut *put) {
    struct row row;
    MUST(row_from_task(put->task, &row) && row.id < FLAT_TASKS_MAX);
    struct flat_task *task = &flat->tasks[row.id];
    MUST((task->row.id == 0) == put->fresh && !task->ended);
    if (!put->fresh) MUST(put->before_hash == row_hash(&task->row)); /* LOG-2: it carries what it replaces */
    task->row = row;
    if (row.key_size) memcpy(task->key, row.key, row.key_size);
    task->row.key = task->key;
    if (row.reason_size) memcpy(task->reason, row.reason, row.reason_size);
    task->row.reason = task->reason;
}

static void end_task(struct flat *flat, const Tarry__TaskEnd *end) {
    struct row row;
    MUST(row_from_task(end->task, &row) && row.id < FLAT_TASKS_MAX);
    struct flat_task *task = &flat->tasks[row.id];
    MUST(task->row.id && !task->ended && row_hash(&row) == row_hash(&task->row)); /* KEEP-1: exactly once */
    task->ended = true;
    task->cause = end->cause;
    task->ended_ms = flat->now_ms;
    flat->endings[flat->ending_count++] = row.id;
}

static void put_queue(struct flat *flat, const Tarry__QueuePut *put) {
    MUST(put->number && put->number < FLAT_QUEUES_MAX);
    struct flat_queue *queue = &flat->queues[put->number];
    queue->put = *put;
    queue->policy = *put->policy;
    queue->put.policy = &queue->policy;
    memmove(queue->name, put->name, strlen(put->name) + 1);
    queue->put.name = queue->name;
}

static void end_producer(struct flat *flat, uint64_t id) {
    for (size_t i = 0; i < flat->producer_count; i++) {
        if (flat->producers[i].id == id) flat->producers[i--] = flat->producers[--flat->producer_count];
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

static void note_commit(struct flat *flat, const Tarry__FrameBody *body, uint64_t position) {
    for (size_t i = 0; i < flat->producer_count; i++) {
        if (flat->producers[i].id != body->producer) continue;
        if (body->oldest_unanswered > flat->producers[i].floor) flat->producers[i].floor = body->oldest_unanswered;
        flat->producers[i].used_ms = flat->now_ms;
    }
    for (size_t i = 0; i < flat->result_count; i++) {
        bool forgotten =
            flat->results[i].producer == body->producer && flat->results[i].sequence < body->oldest_unanswered;
        if (forgotten) flat->results[i--] = flat->results[--flat->result_count];
    }
    MUST(flat->result_count < FLAT_RESULTS_MAX);
    flat->results[flat->result_count++] =
        (struct flat_result){.producer = body->producer, .sequence = body->sequence, .position = position};
}

static void apply(struct flat *flat, const Tarry__Record *record) {
    switch (record->fact_case) {
    case TARRY__RECORD__FACT_PUT:
        put_task(flat, record->put);
        break;
    case TARRY__RECORD__FACT_END:
        end_task(flat, record->end);
        break;
    case TARRY__RECORD__FACT_QUEUE:
        put_queue(flat, record->queue);
        break;
    case TARRY__RECORD__FACT_PRODUCER:
        MUST(flat->producer_count < FLAT_PRODUCERS_MAX);
        flat->producers[flat->producer_count++] =
            (struct flat_producer){.id = record->producer->producer, .floor = 1, .used_ms = flat->now_ms};
        break;
    case TARRY__RECORD__FACT_PRODUCER_END:
        end_producer(flat, record->producer_end->producer);
        break;
    case TARRY__RECORD__FACT_JOB:
        put_job(flat, record->job);
        break;
    case TARRY__RECORD__FACT_JOB_END:
        end_job(flat, record->job_end->job);
        break;
    case TARRY__RECORD__FACT_EPOCH:
        MUST(record->epoch->epoch > flat->epoch);
        flat->epoch = record->epoch->epoch;
        break;
    default:
        MUST(record->fact_case == TARRY__RECORD__FACT_CLOCK);
    }
}

void flat_apply(struct flat *flat, const struct frame_header *header, const Tarry__FrameBody *body) {
    MUST(header->position == flat->position);
    flat->now_ms = header->steady_ns / 1000000;
    for (size_t i = 0; body && i < body->n_records; i++) apply(flat, body->records[i]);
    if (body && body->producer) note_commit(flat, body, header->position);
    flat->position += frame_size(header->body_size, header->blob_size);
}

uint64_t flat_digest(const struct flat *flat) {
    uint64_t digest = 0;
    for (size_t id = 1; id < FLAT_TASKS_MAX && flat->tasks[id].row.id; id++) {
        if (!flat->tasks[id].ended) digest += row_hash(&flat->tasks[id].row);
    }
    for (size_t i = 1; i < FLAT_QUEUES_MAX; i++) {
        if (flat->queues[i].put.number) digest += queue_hash(&flat->queues[i].put);
    }
    for (size_t i = 0; i < flat->producer_count; i++) digest += producer_hash(flat->producers[i].id);
    return digest;
}

static bool has_key(const struct flat_task *task, uint32_t queue, const char *key, size_t key_size) {
    return task->row.id && !task->ended && task->row.queue == queue && key_size && task->row.key_size == key_size &&
           memcmp(task->key, key, key_size) == 0;
}

const struct flat_task *flat_live(const struct flat *flat, uint32_t queue, const char *key, size_t key_size) {
    const struct flat_task *found = NULL;
    for (size_t id = 1; id < FLAT_TASKS_MAX && flat->tasks[id].row.id; id++) {
        const struct flat_task *task = &flat->tasks[id];
        if (!has_key(task, queue, key, key_size) || task->row.state == ROW_BURIED) continue;
        MUST(!found); /* a key is unique among the live tasks of its queue */
        found = task;
    }
    return found;
}

const struct flat_task *flat_dead(const struct flat *flat, uint32_t queue, const char *key, size_t key_size) {
    const struct flat_task *found = NULL;
    for (size_t id = 1; id < FLAT_TASKS_MAX && flat->tasks[id].row.id; id++) {
        const struct flat_task *task = &flat->tasks[id];
        if (!has_key(task, queue, key, key_size) || task->row.state != ROW_BURIED) continue;
        if (!found || task->row.dead_ms >= found->row.dead_ms) found = task;
    }
    return found;
}

/* The tally, counted from the rows; what has gone by (scheduled, acked, …) plays no part in decisions. */
static void count_tally(const struct flat *flat, struct tally *tally) {
    for (size_t id = 1; id < FLAT_TASKS_MAX && flat->tasks[id].row.id; id++) {
        const struct row *row = &flat->tasks[id].row;
        tally->next_id = id + 1;
        if (flat->tasks[id].ended) continue;
        struct queue_tally *queue = &tally->queues[row->queue];
        if (row->state == ROW_WAITING) queue->waiting[row->base][row->priority]++;
        if (row->state == ROW_LEASED) queue->in_flight++;
        if (row->state == ROW_BURIED) queue->dead++;
        tally->live += row->state != ROW_BURIED;
    }
    for (uint32_t i = 1; i < FLAT_QUEUES_MAX; i++) {
        if (flat->queues[i].put.number) tally->next_queue = i + 1;
    }
    tally->digest = flat_digest(flat);
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
            .key = task->key,
        };
        MUST(core_restore_outcome(core, &outcome) == 0);
    }
}

void flat_restore(const struct flat *flat, struct core *core) {
    struct tally tally;
    struct queue_tally *queues = calloc(QUEUES_MAX + 1, sizeof *queues);
    MUST(queues);
    tally_init(&tally, queues);
    count_tally(flat, &tally);
    core_restore(core, &(struct core_base){.position = flat->position, .tally = &tally});
    free(queues);
    for (size_t i = 1; i < FLAT_QUEUES_MAX; i++) {
        if (flat->queues[i].put.number) MUST(core_restore_queue(core, &flat->queues[i].put) == 0);
    }
    for (size_t id = 1; id < FLAT_TASKS_MAX && flat->tasks[id].row.id; id++) {
        const struct flat_task *task = &flat->tasks[id];
        bool is_leased = !task->ended && task->row.state == ROW_LEASED;
        if (is_leased) MUST(core_restore_lease(core, &task->row) == 0);
    }
    for (size_t i = 0; i < flat->producer_count; i++) {
        const struct flat_producer *p = &flat->producers[i];
        MUST(core_restore_producer(core, p->id, p->used_ms, p->floor) == 0);
    }
    for (size_t i = 0; i < flat->result_count; i++) {
        const struct flat_result *r = &flat->results[i];
        MUST(core_restore_result(core, r->producer, r->sequence, r->position) == 0);
    }
    for (size_t i = 0; i < flat->job_count; i++) MUST(core_restore_job(core, &flat->jobs[i]) == 0);
    restore_outcomes(flat, core);
}
