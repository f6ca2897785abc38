/* index_world.c: see index_world.h. Plain arrays, as simple as possible. */
#include "index_world.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DAY_MS (24ull * 3600 * 1000)

uint64_t world_random(struct world *world, uint64_t below) {
    world->seed ^= world->seed << 13;
    world->seed ^= world->seed >> 7;
    world->seed ^= world->seed << 17;
    return (world->seed * 0x2545F4914F6CDD1Dull >> 11) % below;
}

void world_init(struct world *world, uint64_t seed) {
    memset(world, 0, sizeof *world);
    world->seed = seed * 0x9E3779B97F4A7C15ull + 1;
    world->tasks = calloc(WORLD_TASKS_MAX + 1, sizeof *world->tasks);
    world->outcomes = calloc(WORLD_TASKS_MAX + 1, sizeof *world->outcomes);
    world->sorted = calloc(WORLD_TASKS_MAX + 1, sizeof *world->sorted);
    world->next_id = 1;
    world->position = world->log_start = LOG_POSITION_FIRST;
    world->now_ms = 1700000000000ull;
    tally_init(&world->tally, world->queues);
    for (uint32_t place = 1; place <= WORLD_QUEUES; place++) world->numbers[place] = place;
}

uint32_t world_queue(struct world *world) {
    return world->numbers[1 + world_random(world, WORLD_QUEUES)];
}

void world_deinit(struct world *world) {
    for (size_t i = 0; i < world->frame_count; i++) free(world->frames[i].body);
    free(world->frames);
    free(world->tasks);
    free(world->sorted);
    free(world->outcomes);
}

uint32_t world_blob_size(uint64_t position) {
    return position >> 3 & 1 ? WORLD_BLOB_SIZE : WORLD_BLOB_SMALL;
}

void world_blob(uint64_t position, uint8_t out[WORLD_BLOB_SIZE]) {
    for (unsigned i = 0; i < WORLD_BLOB_SIZE; i++) out[i] = (uint8_t)(position >> 3 >> i % 8 * 4);
}

int world_retire(struct world *world, size_t count, struct index *index) {
    assert(count <= world->committed);
    int error = 0;
    for (size_t i = 0; i < count && error == 0; i++) {
        const struct world_frame *frame = &world->frames[i];
        uint8_t blob[WORLD_BLOB_SIZE];
        world_blob(frame->header.position, blob);
        Tarry__FrameBody *body = tarry__frame_body__unpack(NULL, frame->header.body_size, frame->body);
        error = index_retire_frame(index, &frame->header, body, blob);
        tarry__frame_body__free_unpacked(body, NULL);
    }
    return error;
}

int world_retired(struct world *world, size_t count, struct index *index) {
    const struct frame_header *last = &world->frames[count - 1].header;
    world->log_start = last->position + frame_size(last->body_size, last->blob_size);
    int error = index_retire_commit(index, world->log_start);
    for (size_t i = 0; i < count; i++) free(world->frames[i].body);
    memmove(world->frames, world->frames + count, (world->frame_count - count) * sizeof *world->frames);
    world->frame_count -= count;
    world->committed -= count;
    return error;
}

static uint64_t random_due(struct world *world) {
    switch (world_random(world, 8)) {
    case 0:
        return world->now_ms - world_random(world, 3 * DAY_MS); /* overdue */
    case 1:
    case 2:
        return world->now_ms / 100000 * 100000 + 100000; /* for many tasks with the same due time */
    case 3:
    case 4:
        return world->now_ms + world_random(world, 100000);
    case 5:
        return world->now_ms + world_random(world, 5000000);
    case 6:
        return world->now_ms + world_random(world, 40 * DAY_MS);
    default:
        return world->now_ms + world_random(world, 3650 * DAY_MS);
    }
}

/* A record under construction; freed together with its frame. */
static Tarry__Record *new_record(Tarry__Record__FactCase fact) {
    Tarry__Record *record = malloc(sizeof *record);
    tarry__record__init(record);
    record->fact_case = fact;
    return record;
}

static Tarry__Task *new_task(const struct row *row) {
    Tarry__Task *task = malloc(sizeof *task);
    tarry__task__init(task);
    row_to_task(row, task);
    if (task->key.len > 0) task->key.data = memcpy(malloc(task->key.len), row->key, task->key.len);
    if (task->reason.len > 0) task->reason.data = memcpy(malloc(task->reason.len), row->reason, task->reason.len);
    if (task->key.len == 0) task->key.data = NULL;
    if (task->reason.len == 0) task->reason.data = NULL;
    return task;
}

static Tarry__Record *put_record(const struct row *row, Tarry__Cause cause, const struct row *before) {
    Tarry__Record *record = new_record(TARRY__RECORD__FACT_PUT);
    Tarry__TaskPut *put = malloc(sizeof *put);
    tarry__task_put__init(put);
    record->put = put;
    put->cause = cause;
    put->task = new_task(row);
    put->fresh = before == NULL;
    if (put->fresh && row->blob_size > 0) { /* a record that schedules a task has the content in its frame */
        uint8_t blob[WORLD_BLOB_SIZE];
        world_blob(row->blob_at - FRAME_HEADER_SIZE, blob);
        put->content_hash = (ProtobufCBinaryData){CONTENT_HASH_SIZE, malloc(CONTENT_HASH_SIZE)};
        content_hash(blob, row->blob_size, put->content_hash.data);
    }
    if (before != NULL) {
        put->before_hash = row_hash(before);
        put->before_state = (Tarry__Task__State)before->state;
        put->before_time_base = (Tarry__Task__Base)before->base;
        put->before_due_ms = before->due_ms;
        if (before->priority != row->priority) put->before_priority = before->priority + 1u;
    }
    return record;
}

static bool key_is_live(const struct world *world, uint32_t queue, const char *key, size_t size) {
    for (uint64_t id = 1; id < world->next_id; id++) {
        const struct world_task *task = &world->tasks[id];
        if (task->state != WORLD_HERE || task->row.state == ROW_BURIED || task->row.queue != queue) continue;
        if (task->row.key_size == size && memcmp(task->key, key, size) == 0) return true;
    }
    return false;
}

static uint32_t queue_for_task(struct world *world) {
    const uint32_t place =
        world_random(world, 50) == 0 ? WORLD_BRIEF : 1 + (uint32_t)world_random(world, WORLD_BRIEF - 1);
    return world->numbers[place == WORLD_BRIEF && world->is_deleted ? 1 : place];
}

static Tarry__Record *schedule(struct world *world) {
    if (world->next_id >= WORLD_TASKS_MAX) return NULL;
    /* Sometimes skips some ids, because a real log may have gaps in the ids. */
    world->next_id += world_random(world, 200) == 0 ? world_random(world, 300) : 0;
    struct world_task *task = &world->tasks[world->next_id];
    static const uint8_t priorities[] = {0, 5, 9};
    task->row = (struct row){
        .id = world->next_id,
        .due_ms = random_due(world),
        .expires_ms = world_random(world, 4) == 0 ? 1000 : 0,
        .scheduled_ms = world->now_ms,
        .blob_at = world->position + FRAME_HEADER_SIZE,
        .blob_size = world_blob_size(world->position),
        .queue = queue_for_task(world),
        .priority = priorities[world_random(world, 3)],
        .base = (uint8_t)world_random(world, 2),
    };
    uint8_t blob[WORLD_BLOB_SIZE];
    world_blob(world->position, blob);
    task->row.blob_sum = frame_sum(blob, task->row.blob_size);
    if (world_random(world, 3) > 0) {
        int size = snprintf(task->key, sizeof task->key, "k%u-%u", (unsigned)world_random(world, 5),
                            (unsigned)world_random(world, 400));
        if (!key_is_live(world, task->row.queue, task->key, (size_t)size)) task->row.key_size = (uint8_t)size;
    }
    task->row.key = task->key;
    task->row.reason = task->reason;
    task->state = WORLD_HERE;
    world->next_id++;
    return put_record(&task->row, TARRY__CAUSE__CAUSE_SCHEDULED, NULL);
}

static struct world_task *random_task(struct world *world) {
    if (world->next_id == 1) return NULL;
    for (unsigned tries = 0; tries < 20; tries++) {
        uint64_t id = 1 + world_random(world, world->next_id - 1);
        if (world_random(world, 2) == 0 && world->next_id > 30) id = world->next_id - 1 - world_random(world, 30);
        if (world->tasks[id].state == WORLD_HERE) return &world->tasks[id];
    }
    return NULL;
}

static Tarry__Record *change_waiting(struct world *world, struct row *row) {
    struct row before = *row;
    if (world_random(world, 2) == 0) {
        row->due_ms = random_due(world);
        if (world_random(world, 3) == 0) row->base ^= 1;
        if (world_random(world, 3) == 0) row->priority = (uint8_t)world_random(world, PRIORITY_COUNT);
        return put_record(row, TARRY__CAUSE__CAUSE_MOVED, &before);
    }
    row->state = ROW_LEASED;
    row->lease_epoch = 1;
    row->lease_position = world->position;
    row->lease_deadline_ms = world->now_ms + 30000;
    row->session = 7;
    row->delivered_ms = world->now_ms;
    row->deliveries++;
    return put_record(row, TARRY__CAUSE__CAUSE_LEASED, &before);
}

static Tarry__Record *change_leased(struct world *world, struct world_task *task) {
    struct row *row = &task->row, before = *row;
    switch (world_random(world, 4)) {
    case 0:
        row->lease_deadline_ms += 1000;
        return put_record(row, TARRY__CAUSE__CAUSE_EXTENDED, &before);
    case 1:
        row->state = ROW_WAITING;
        return put_record(row, TARRY__CAUSE__CAUSE_RELEASED, &before);
    case 2:
        row->state = ROW_WAITING;
        row->base = ROW_STEADY;
        row->due_ms = world->now_ms + world_random(world, 10000);
        row->attempt++;
        return put_record(row, TARRY__CAUSE__CAUSE_RETRIED, &before);
    default:
        row->state = ROW_BURIED;
        row->dead_ms = world->now_ms;
        row->reason_size =
            (uint8_t)snprintf(task->reason, sizeof task->reason, "r%u", (unsigned)world_random(world, 99));
        return put_record(row, TARRY__CAUSE__CAUSE_BURIED, &before);
    }
}

static Tarry__Record *change_buried(struct world *world, struct row *row) {
    if (row->key_size > 0 && key_is_live(world, row->queue, row->key, row->key_size)) return NULL;
    char reason[8];
    struct row before = *row;
    memcpy(reason, row->reason, sizeof reason);
    before.reason = reason;
    row->state = ROW_WAITING;
    row->dead_ms = 0;
    row->reason_size = 0;
    row->due_ms = world->now_ms;
    return put_record(row, TARRY__CAUSE__CAUSE_REQUEUED, &before);
}

static Tarry__Record *end_task(struct world *world, struct world_task *task) {
    static const Tarry__Cause causes[] = {TARRY__CAUSE__CAUSE_ACKED, TARRY__CAUSE__CAUSE_CANCELLED,
                                          TARRY__CAUSE__CAUSE_REPLACED, TARRY__CAUSE__CAUSE_DROPPED};
    Tarry__Record *record = new_record(TARRY__RECORD__FACT_END);
    Tarry__TaskEnd *end = malloc(sizeof *end);
    tarry__task_end__init(end);
    record->end = end;
    end->cause = causes[world_random(world, 4)];
    end->task = new_task(&task->row);
    task->state = WORLD_ENDED;
    world->outcomes[world->outcome_count++] = (struct outcome){.id = task->row.id,
                                                               .ended_ms = world->now_ms,
                                                               .due_ms = task->row.due_ms,
                                                               .session = task->row.session,
                                                               .delivered_ms = task->row.delivered_ms,
                                                               .queue = task->row.queue,
                                                               .deliveries = task->row.deliveries,
                                                               .cause = (uint16_t)end->cause,
                                                               .priority = task->row.priority,
                                                               .key_size = task->row.key_size,
                                                               .key = task->key};
    return record;
}

static Tarry__Record *queue_record(struct world *world, uint32_t place, bool is_deleted) {
    const uint32_t number = world->numbers[place];
    Tarry__Record *record = new_record(TARRY__RECORD__FACT_QUEUE);
    Tarry__QueuePut *queue = malloc(sizeof *queue);
    tarry__queue_put__init(queue);
    record->queue = queue;
    queue->number = number;
    queue->deleted = is_deleted;
    queue->name = malloc(8);
    snprintf(queue->name, 8, "q%u", number);
    queue->policy = malloc(sizeof *queue->policy);
    tarry__policy__init(queue->policy);
    queue->policy->lease_ms = world_random(world, 100000);
    queue->before_hash = world->queue_hash[place];
    world->queue_hash[place] = queue_hash(queue);
    return record;
}

static struct world_task *brief_task(struct world *world) {
    for (uint64_t id = 1; id < world->next_id; id++) {
        struct world_task *task = &world->tasks[id];
        if (task->state == WORLD_HERE && task->row.queue == world->numbers[WORLD_BRIEF]) return task;
    }
    return NULL;
}

/* Ends a task of the queue at WORLD_BRIEF; deletes the queue once it is empty; later puts another queue in its
 * place. */
static Tarry__Record *brief_record(struct world *world) {
    struct world_task *task = brief_task(world);
    if (task != NULL) return end_task(world, task);
    if (world->is_deleted && world_random(world, 4) > 0) {
        world->numbers[WORLD_BRIEF] += queue_number(0, 1);
        world->former++;
        world->is_deleted = false;
    } else {
        world->is_deleted = !world->is_deleted;
    }
    return queue_record(world, WORLD_BRIEF, world->is_deleted);
}

static Tarry__Record *producer_record(struct world *world) {
    size_t slot = world_random(world, WORLD_PRODUCERS);
    uint64_t producer = world->producers[slot];
    bool was = producer != 0;
    if (!was) producer = ++world->last_producer; /* makes a new producer, because a producer id is never used again */
    world->producers[slot] = was ? 0 : producer;
    world->floors[slot] = 1;
    world->sequences[slot] = 0;
    memset(world->result_at[slot], 0, sizeof world->result_at[slot]);
    Tarry__Record *record = new_record(was ? TARRY__RECORD__FACT_PRODUCER_END : TARRY__RECORD__FACT_PRODUCER);
    if (was) {
        record->producer_end = malloc(sizeof *record->producer_end);
        tarry__producer_end__init(record->producer_end);
        record->producer_end->producer = producer;
    } else {
        record->producer = malloc(sizeof *record->producer);
        tarry__producer_put__init(record->producer);
        record->producer->producer = producer;
    }
    return record;
}

static Tarry__Record *job_record(struct world *world) {
    size_t slot = world_random(world, 8);
    if (world->jobs[slot] != 0) {
        Tarry__Record *record = new_record(TARRY__RECORD__FACT_JOB_END);
        record->job_end = malloc(sizeof *record->job_end);
        tarry__job_end__init(record->job_end);
        record->job_end->job = world->jobs[slot];
        world->jobs[slot] = 0;
        return record;
    }
    world->jobs[slot] = world->position * 8 + slot;
    Tarry__Record *record = new_record(TARRY__RECORD__FACT_JOB);
    record->job = malloc(sizeof *record->job);
    tarry__job_put__init(record->job);
    record->job->job = world->jobs[slot];
    record->job->queue = 1;
    return record;
}

static Tarry__Record *random_record(struct world *world, unsigned endings) {
    for (uint32_t i = 1; i <= WORLD_QUEUES; i++) {
        if (world->queue_hash[i] == 0) return queue_record(world, i, false);
    }
    uint64_t dice = world_random(world, 100);
    if (dice == 0) return queue_record(world, 1 + (uint32_t)world_random(world, WORLD_BRIEF - 1), false);
    if (dice == 1) return producer_record(world);
    if (dice == 2) return job_record(world);
    if (dice < 6) return brief_record(world);
    struct world_task *task = dice < 50 ? NULL : random_task(world);
    if (task == NULL) return schedule(world);
    if (world_random(world, 100) < endings) return end_task(world, task);
    if (task->row.state == ROW_WAITING) return change_waiting(world, &task->row);
    if (task->row.state == ROW_LEASED) return change_leased(world, task);
    return change_buried(world, &task->row);
}

/* Sometimes makes the frame a commit of a client, whose reply is remembered. */
static void maybe_result(struct world *world, Tarry__FrameBody *body) {
    size_t slot = world_random(world, WORLD_PRODUCERS);
    if (world->producers[slot] == 0 || world_random(world, 2) == 0) return;
    uint64_t sequence = ++world->sequences[slot];
    body->producer = world->producers[slot];
    body->sequence = sequence;
    uint64_t low = sequence > 40 ? sequence - 40 : 1;
    if (low < world->floors[slot]) low = world->floors[slot];
    if (world_random(world, 4) == 0) low += world_random(world, sequence - low + 1); /* at most `sequence` */
    /* Sometimes sends a smaller value than before. Such a value must not lower the producer's floor (its oldest
     * remembered sequence). */
    if (low == world->floors[slot]) low -= world_random(world, low);
    body->oldest_unanswered = low;
    if (low > world->floors[slot]) world->floors[slot] = low;
    for (uint64_t old = sequence > 63 ? sequence - 63 : 1; old < world->floors[slot]; old++) {
        world->result_at[slot][old % 64] = 0;
    }
    world->result_at[slot][sequence % 64] = world->position;
}

void world_frame(struct world *world, size_t records_max, unsigned endings) {
    Tarry__Record *records[256] = {NULL};
    Tarry__FrameBody body = TARRY__FRAME_BODY__INIT;
    size_t count = 1 + world_random(world, records_max);
    world->now_ms += world_random(world, 50) == 0 ? world_random(world, 2 * DAY_MS) : world_random(world, 500);
    body.records = records;
    while (body.n_records < count && body.n_records < 256) {
        Tarry__Record *record = random_record(world, endings);
        if (record == NULL) break;
        assert(tally_record(&world->tally, record));
        records[body.n_records++] = record;
    }
    maybe_result(world, &body);
    uint8_t reply[8];
    memcpy(reply, &world->position, sizeof reply);
    body.reply = (ProtobufCBinaryData){.len = sizeof reply, .data = reply};
    bool has_blob = false;
    for (size_t i = 0; i < body.n_records; i++)
        has_blob |= records[i]->fact_case == TARRY__RECORD__FACT_PUT && records[i]->put->fresh;
    size_t size = tarry__frame_body__get_packed_size(&body);
    struct world_frame frame = {.body = malloc(size + 1)};
    tarry__frame_body__pack(&body, frame.body);
    for (size_t i = 0; i < body.n_records; i++) tarry__record__free_unpacked(records[i], NULL);
    frame.header = (struct frame_header){.type = FRAME_COMMIT,
                                         .epoch = 1,
                                         .body_size = (uint32_t)size,
                                         .blob_size = has_blob ? world_blob_size(world->position) : 0,
                                         .position = world->position,
                                         .steady_ns = world->now_ms * 1000000,
                                         .wall_ns = (world->now_ms + 3600000) * 1000000};
    memset(frame.header.chain, (int)world_random(world, 256), FRAME_CHAIN_SIZE);
    world->position += frame_size(frame.header.body_size, frame.header.blob_size);
    world->frames = realloc(world->frames, (world->frame_count + 1) * sizeof frame);
    world->frames[world->frame_count++] = frame;
}

int world_absorb(const struct world *world, size_t i, struct index *index) {
    const struct world_frame *frame = &world->frames[i];
    Tarry__FrameBody *body = tarry__frame_body__unpack(NULL, frame->header.body_size, frame->body);
    assert(body != NULL);
    int error = index_absorb(index, &frame->header, body);
    tarry__frame_body__free_unpacked(body, NULL);
    return error;
}

static const struct world *sorting;

static int compare(const void *a, const void *b) {
    const struct row *x = &sorting->tasks[*(const uint64_t *)a].row, *y = &sorting->tasks[*(const uint64_t *)b].row;
    if (x->due_ms != y->due_ms) return x->due_ms < y->due_ms ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

uint64_t *world_sorted(const struct world *world, bool (*match)(const struct row *row, const void *argument),
                       const void *argument, size_t *out_count) {
    uint64_t *ids = world->sorted;
    *out_count = 0;
    for (uint64_t id = 1; id < world->next_id; id++) {
        const struct world_task *task = &world->tasks[id];
        if (task->state == WORLD_HERE && match(&task->row, argument)) ids[(*out_count)++] = id;
    }
    sorting = world;
    qsort(ids, *out_count, sizeof *ids, compare);
    return ids;
}

bool world_same(const struct world *world, const struct row *row) {
    if (row->id == 0 || row->id >= world->next_id) return false;
    const struct world_task *task = &world->tasks[row->id];
    return task->state == WORLD_HERE && row_hash(row) == row_hash(&task->row);
}
