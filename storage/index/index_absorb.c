/* index_absorb.c: turns frames into the batch of net effects, in memory only.
 *
 * The batch has one change per id: the packed latest row, and the state on disk (from the before_ fields of the first
 * record of the id). A task that was scheduled and ended within the batch leaves only an outcome. The batch copies all
 * data. */
#include "index_parts.h"

#include <assert.h>
#include <stdlib.h>

#define FRESH_SPAN_MAX (1u << 22) /* batch.fresh has this many ids from first_id on; batch.old has higher ids */

struct change *batch_find(const struct batch *batch, uint64_t id) {
    if (id >= batch->first_id && id - batch->first_id < FRESH_SPAN_MAX) {
        uint64_t at = id - batch->first_id;
        if (at >= batch->fresh.count || batch->fresh.items[at] == 0) return NULL;
        return &batch->changes.items[batch->fresh.items[at] - 1];
    }
    const uint32_t hash = hash_index_mix(id);
    uint32_t number;
    for (size_t at = hash; (number = hash_index_next(&batch->old, hash, &at)) != 0;)
        if (batch->changes.items[number - 1].id == id) return &batch->changes.items[number - 1];
    return NULL;
}

static int batch_add(struct batch *batch, uint64_t id, struct change **out) {
    struct change change = {.id = id};
    int error = VECTOR_PUSH(&batch->changes, change);
    if (error != 0) return error;
    uint32_t number = (uint32_t)batch->changes.count;
    if (id >= batch->first_id && id - batch->first_id < FRESH_SPAN_MAX) {
        size_t at = (size_t)(id - batch->first_id);
        if (at >= batch->fresh.count) {
            error = VECTOR_RESERVE(&batch->fresh, at + 1 - batch->fresh.count);
            if (error != 0) return error;
            memset(&batch->fresh.items[batch->fresh.count], 0, (at + 1 - batch->fresh.count) * sizeof(uint32_t));
            batch->fresh.count = at + 1;
        }
        batch->fresh.items[at] = number;
    } else {
        if (!hash_index_add(&batch->old, hash_index_mix(id), number)) return -ENOMEM;
    }
    *out = &batch->changes.items[batch->changes.count - 1];
    return 0;
}

static void change_set(struct change *change, const struct row *row) {
    change->due_ms = row->due_ms;
    change->queue = row->queue;
    change->priority = row->priority;
    change->base = row->base;
    change->state = row->state;
    change->key_size = row->key_size;
    change->large_blob_at = row->blob_size > BLOB_SWEPT_MAX ? row->blob_at : UINT64_MAX;
}

static void need_format(struct index *index, uint32_t format) {
    if (index->batch.format < format) index->batch.format = format;
}

static int absorb_put(struct index *index, const Tarry__TaskPut *put, const struct row *row, uint64_t position) {
    struct batch *batch = &index->batch;
    struct change *change = batch_find(batch, row->id);
    if (change == NULL) {
        /* If the put is not fresh, the task already has a row on disk. The record's before_… fields describe that row.
         */
        if (put->fresh != (row->id >= batch->first_id)) return INDEX_DAMAGED;
        int error = batch_add(batch, row->id, &change);
        if (error != 0) return error;
        change->flags = put->fresh ? CHANGE_FRESH : 0;
        change->first_due_ms = put->before_due_ms;
        change->first_base = (uint8_t)put->before_time_base;
        change->first_state = (uint8_t)put->before_state;
        change->first_priority = put->before_priority > 0 ? (uint8_t)(put->before_priority - 1) : row->priority;
        if (put->fresh && row->key_size > 0) change->key_hash = row_key_hash(row->queue, row->key, row->key_size);
    } else if (put->fresh || (change->flags & CHANGE_ENDED)) {
        return INDEX_DAMAGED;
    }
    change_set(change, row);
    if (row->has_own) need_format(index, INDEX_FORMAT_OWN);
    if (row->serial_size || row->spread_ms) need_format(index, INDEX_FORMAT_GROUPS);
    int error = VECTOR_RESERVE(&batch->bytes, PACKED_ROW_MAX);
    if (error != 0) return error;
    change->offset = batch->bytes.count;
    change->size = (uint16_t)row_pack(row, position, batch->bytes.items + batch->bytes.count);
    batch->bytes.count += change->size;
    batch->queue_dirty[queue_place(row->queue)] = 1;
    return 0;
}

static int absorb_end(struct index *index, const Tarry__TaskEnd *end, const struct row *row, uint64_t ended_ms) {
    struct batch *batch = &index->batch;
    struct change *change = batch_find(batch, row->id);
    if (change == NULL) {
        if (row->id >= batch->first_id) return INDEX_DAMAGED;
        int error = batch_add(batch, row->id, &change);
        if (error != 0) return error;
        change->first_due_ms = row->due_ms;
        change->first_base = row->base;
        change->first_state = row->state;
        change->first_priority = row->priority;
    } else if (change->flags & CHANGE_ENDED) {
        return INDEX_DAMAGED; /* KEEP-1 */
    }
    change_set(change, row);
    if (row->key_size > 0) change->key_hash = row_key_hash(row->queue, row->key, row->key_size);
    change->flags |= CHANGE_ENDED;
    batch->queue_dirty[queue_place(row->queue)] = 1;
    if (!end_is_sharing(end)) return outcome_absorb(index, row, (uint16_t)end->cause, ended_ms);
    const struct row last = row_at_end(end, row);
    return outcome_absorb(index, &last, (uint16_t)end->cause, ended_ms);
}

/* Adds a packed message to the batch, or its deletion (size 0). */
static int absorb_side(struct index *index, enum db_table table, uint64_t number, const ProtobufCMessage *message) {
    struct batch *batch = &index->batch;
    struct side_change side = {.table = table, .number = number, .offset = batch->bytes.count};
    if (message != NULL) {
        side.size = protobuf_c_message_get_packed_size(message);
        int error = VECTOR_RESERVE(&batch->bytes, side.size);
        if (error != 0) return error;
        protobuf_c_message_pack(message, batch->bytes.items + batch->bytes.count);
        batch->bytes.count += side.size;
    }
    return VECTOR_PUSH(&batch->sides, side);
}

/* A recurrence has two rows: its definition, which is large and rarely changes, and its state. */
static int absorb_recur(struct index *index, const Tarry__RecurPut *put) {
    int error = 0;
    if (put->set != NULL || put->state == NULL)
        error = absorb_side(index, DB_RECURS, 2 * put->number, put->set != NULL ? &put->base : NULL);
    if (error == 0)
        error = absorb_side(index, DB_RECURS, 2 * put->number + 1, put->state != NULL ? &put->state->base : NULL);
    need_format(index, INDEX_FORMAT_RECURS);
    return error;
}

/* Adds a redaction to the table of open redactions, and to the outcomes, so queries report it while the ending is
 * remembered. */
static int absorb_redaction(struct index *index, const Tarry__Redaction *redaction, uint64_t steady_ms) {
    int error = outcome_absorb(index, &(struct row){.id = redaction->id}, OUTCOME_REDACTION, steady_ms);
    if (error != 0) return error;
    index->batch.redactions++;
    return absorb_side(index, DB_REDACTIONS, redaction->id, &redaction->base);
}

static int absorb_record(struct index *index, const struct frame_header *header, const Tarry__Record *record) {
    uint64_t steady_ms = header->steady_ns / 1000000;
    struct tally_row seen;
    if (!tally_record_row(&index->tally, record, false, &seen)) return INDEX_DAMAGED;
    switch (record->fact_case) {
    case TARRY__RECORD__FACT_PUT:
        return absorb_put(index, record->put, &seen.row, header->position);
    case TARRY__RECORD__FACT_END:
        return absorb_end(index, record->end, &seen.row, steady_ms);
    case TARRY__RECORD__FACT_QUEUE:
        index->batch.queue_dirty[queue_place(record->queue->number)] = 1;
        if (record->queue->policy != NULL && record->queue->policy->filter[0] != '\0')
            need_format(index, INDEX_FORMAT_GROUPS);
        return absorb_side(index, DB_QUEUES, record->queue->number, &record->queue->base);
    case TARRY__RECORD__FACT_PRODUCER:
        return producer_absorb(index, &(struct producer_change){.producer = record->producer->producer,
                                                                .used_ms = steady_ms,
                                                                .owner = principal_owner(record->producer->principal)});
    case TARRY__RECORD__FACT_PRODUCER_END:
        return producer_absorb(index, &(struct producer_change){.producer = record->producer_end->producer,
                                                                .used_ms = steady_ms,
                                                                .ended = true});
    case TARRY__RECORD__FACT_JOB:
        return absorb_side(index, DB_JOBS, record->job->job, &record->job->base);
    case TARRY__RECORD__FACT_JOB_END:
        return absorb_side(index, DB_JOBS, record->job_end->job, NULL);
    case TARRY__RECORD__FACT_DEFINITION:
        return definition_absorb(index, record->definition);
    case TARRY__RECORD__FACT_RECUR:
        return absorb_recur(index, record->recur);
    case TARRY__RECORD__FACT_REDACTION:
        return absorb_redaction(index, record->redaction, steady_ms);
    default:
        return 0; /* the index stores no other records: the tally keeps epoch and clock, and the rest is only
                     information */
    }
}

/* Records that this frame has the reply of a client's commit (ONCE-1). */
static int absorb_result(struct index *index, const struct frame_header *header, const Tarry__FrameBody *body) {
    struct result_change result = {body->producer, body->sequence, header->position};
    int error = producer_absorb(index, &(struct producer_change){.producer = body->producer,
                                                                 .used_ms = header->steady_ns / 1000000,
                                                                 .floor = body->oldest_unanswered});
    return error != 0 ? error : VECTOR_PUSH(&index->batch.results, result);
}

int index_absorb(struct index *index, const struct frame_header *header, const Tarry__FrameBody *body) {
    assert(header->position == index->absorbed); /* LOG-3: each frame is absorbed exactly once */
    if (index->failed != 0) return index->failed;
    if (index->batch.is_prepared) return -ENOSPC; /* the previous batch is not written yet */
    struct batch *batch = &index->batch;
    int error = 0;
    if (index->meta.known == 0 && !batch->known) {
        batch->known = true;
        batch->known_since_ms = header->steady_ns / 1000000; /* the first frame: no task can have ended before it */
    }
    for (size_t i = 0; body != NULL && i < body->n_records && error == 0; i++) {
        error = absorb_record(index, header, body->records[i]);
    }
    if (error == 0 && body != NULL && body->producer != 0) error = absorb_result(index, header, body);
    if (error != 0) {
        index->failed = error; /* the batch has only some records of the frame, so it must never be written */
        return error;
    }
    batch->records += body != NULL ? body->n_records : 0;
    index->absorbed = header->position + frame_size(header->body_size, header->blob_size);
    memcpy(index->absorbed_chain, header->chain, FRAME_CHAIN_SIZE);
    index->steady_ns = header->steady_ns;
    index->wall_ns = header->wall_ns;
    return 0;
}

size_t index_pending(const struct index *index) {
    return index->batch.records;
}

void batch_reset(struct batch *batch) {
    batch->changes.count = batch->bytes.count = batch->fresh.count = 0;
    hash_index_clear(&batch->old);
    hash_index_clear(&batch->producer_places);
    batch->outcomes.count = batch->outcome_sizes.count = batch->outcome_ends.count = 0;
    batch->producers.count = batch->results.count = batch->sides.count = 0;
    batch->definitions.count = 0;
    batch->updates.count = batch->appends.count = 0;
    batch->keys.count = batch->tail_gone.count = 0;
    batch->keys_mode = KEYS_TO_TAIL;
    batch->records = batch->redactions = 0;
    batch->format = 0;
    batch->known = false;
    batch->is_prepared = false;
    memset(batch->queue_dirty, 0, sizeof batch->queue_dirty);
}

void batch_deinit(struct batch *batch) {
    free(batch->changes.items);
    free(batch->bytes.items);
    free(batch->fresh.items);
    hash_index_deinit(&batch->old);
    hash_index_deinit(&batch->producer_places);
    free(batch->outcomes.items);
    free(batch->outcome_sizes.items);
    free(batch->outcome_ends.items);
    free(batch->producers.items);
    free(batch->results.items);
    free(batch->sides.items);
    free(batch->definitions.items);
    free(batch->updates.items);
    free(batch->appends.items);
    free(batch->keys.items);
    free(batch->tail_gone.items);
    free(batch->tail.items);
    run_drop(batch->run);
    run_drop(batch->tail_filter);
}
