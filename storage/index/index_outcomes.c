/* index_outcomes.c: stores recent endings, so replies about ended tasks stay definite (TRUE-1). Limited by count and
 * age; the oldest are deleted first, in whole chunks. `known_since` is the time from which all endings are stored. */
#include "index_parts.h"

#include <assert.h>
#include <stdlib.h>

struct packed_outcome {
    uint64_t id;
    uint64_t ended_ms;
    uint64_t due_ms;
    uint64_t session;
    uint64_t delivered_ms;
    uint32_t queue;
    uint32_t deliveries;
    uint16_t cause;
    uint8_t priority;
    uint8_t key_size;
} __attribute__((packed));

#define OUTCOME_SIZE_MAX (sizeof(struct packed_outcome) + KEY_SIZE_MAX)
/* Chunk: count u32, ending time of its youngest outcome u64, outcomes. */
#define CHUNK_HEAD 12u

int outcome_absorb(struct index *index, const struct row *row, uint16_t cause, uint64_t ended_ms) {
    struct batch *batch = &index->batch;
    struct packed_outcome packed = {
        .id = row->id,
        .ended_ms = ended_ms,
        .due_ms = row->due_ms,
        .session = row->session,
        .delivered_ms = row->delivered_ms,
        .queue = row->queue,
        .deliveries = row->deliveries,
        .cause = cause,
        .priority = row->priority,
        .key_size = row->key_size,
    };
    int error = VECTOR_RESERVE(&batch->outcomes, OUTCOME_SIZE_MAX);
    if (error == 0) error = VECTOR_PUSH(&batch->outcome_ends, ended_ms);
    if (error == 0) error = VECTOR_PUSH(&batch->outcome_sizes, (uint32_t)(sizeof packed + row->key_size));
    if (error != 0) return error;
    memcpy(batch->outcomes.items + batch->outcomes.count, &packed, sizeof packed);
    if (row->key_size > 0) {
        memcpy(batch->outcomes.items + batch->outcomes.count + sizeof packed, row->key, row->key_size);
    }
    batch->outcomes.count += sizeof packed + row->key_size;
    return 0;
}

/* Sets known_since to the next millisecond, because a reply "unknown" promises that the task did not end *since* then
 * (TRUE-1). */
static void forget(struct meta_record *meta, uint64_t ended_ms) {
    if (ended_ms >= meta->known_since_ms) meta->known_since_ms = ended_ms + 1;
}

/* Writes the batch's outcomes in chunks, except those that would be deleted at once. */
static int write_new(struct index *index, MDB_txn *txn, struct meta_record *meta) {
    const struct batch *batch = &index->batch;
    uint8_t chunk[DB_CHUNK_SIZE - DB_SEAL_SIZE];
    size_t count = batch->outcome_sizes.count, i = 0, offset = 0;
    for (; count - i > index->options.outcomes_max; i++) {
        forget(meta, batch->outcome_ends.items[i]);
        offset += batch->outcome_sizes.items[i];
    }
    while (i < count) {
        uint32_t in_chunk = 0;
        size_t size = CHUNK_HEAD;
        while (i < count && size + batch->outcome_sizes.items[i] <= sizeof chunk) {
            memcpy(chunk + size, batch->outcomes.items + offset, batch->outcome_sizes.items[i]);
            size += batch->outcome_sizes.items[i];
            offset += batch->outcome_sizes.items[i];
            in_chunk++;
            i++;
        }
        memcpy(chunk, &in_chunk, 4);
        memcpy(chunk + 4, &batch->outcome_ends.items[i - 1], 8);
        uint64_t key = meta->next_outcome++;
        int error = db_put(&index->db, txn, DB_OUTCOMES, &key, sizeof key, chunk, size, MDB_APPEND);
        if (error != 0) return error;
        meta->outcomes += in_chunk;
    }
    return 0;
}

static int read_head(const MDB_val *data, uint32_t *out_count, uint64_t *out_ended_ms) {
    if (data->mv_size < CHUNK_HEAD) return INDEX_DAMAGED;
    memcpy(out_count, data->mv_data, 4);
    memcpy(out_ended_ms, (const uint8_t *)data->mv_data + 4, 8);
    return 0;
}

static int drop_old(struct index *index, MDB_txn *txn, struct meta_record *meta) {
    uint64_t now_ms = index->steady_ns / 1000000, retention_ms = index->options.outcome_retention_ms;
    uint64_t oldest_ms = now_ms > retention_ms ? now_ms - retention_ms : 0;
    MDB_cursor *cursor;
    int error = db_cursor(&index->db, txn, DB_OUTCOMES, &cursor);
    if (error != 0) return error;
    for (;;) {
        MDB_val key, sealed, data;
        uint32_t count;
        uint64_t ended_ms;
        error = db_cursor_get(cursor, &key, &sealed, MDB_FIRST);
        if (error == 0) error = db_unseal(&key, &sealed, &data);
        if (error == 0) error = read_head(&data, &count, &ended_ms);
        if (error != 0) break;
        if (count > meta->outcomes) error = INDEX_DAMAGED;
        if (error != 0) break;
        if (meta->outcomes - count < index->options.outcomes_max && ended_ms >= oldest_ms) break;
        forget(meta, ended_ms);
        meta->outcomes -= count;
        error = db_cursor_del(cursor);
        if (error != 0) break;
    }
    mdb_cursor_close(cursor);
    return error == MDB_NOTFOUND ? 0 : error;
}

int outcomes_write(struct index *index, MDB_txn *txn, struct meta_record *meta) {
    if (index->batch.outcome_sizes.count == 0 && meta->outcomes == 0) return 0;
    int error = write_new(index, txn, meta);
    return error != 0 ? error : drop_old(index, txn, meta);
}

static int each_in_chunk(const MDB_val *data, uint32_t count,
                         int (*each)(void *argument, const struct outcome *outcome), void *argument) {
    const uint8_t *at = data->mv_data, *end = at + data->mv_size;
    at += CHUNK_HEAD;
    for (uint32_t i = 0; i < count; i++) {
        struct packed_outcome packed;
        if ((size_t)(end - at) < sizeof packed) return INDEX_DAMAGED;
        memcpy(&packed, at, sizeof packed);
        at += sizeof packed;
        if ((size_t)(end - at) < packed.key_size) return INDEX_DAMAGED;
        struct outcome outcome = {
            .id = packed.id,
            .ended_ms = packed.ended_ms,
            .due_ms = packed.due_ms,
            .session = packed.session,
            .delivered_ms = packed.delivered_ms,
            .queue = packed.queue,
            .deliveries = packed.deliveries,
            .cause = packed.cause,
            .priority = packed.priority,
            .key_size = packed.key_size,
            .key = (const char *)at,
        };
        at += packed.key_size;
        int result = each(argument, &outcome);
        if (result != 0) return result;
    }
    return at == end ? 0 : INDEX_DAMAGED;
}

struct outcome_each {
    int (*each)(void *argument, const struct outcome *outcome);
    void *argument;
};

static int each_chunk(void *argument, MDB_txn *txn, const MDB_val *key, const MDB_val *data) {
    const struct outcome_each *outcome_each = argument;
    uint32_t count;
    uint64_t ended_ms;
    int error = read_head(data, &count, &ended_ms);
    return error != 0 ? error : each_in_chunk(data, count, outcome_each->each, outcome_each->argument);
}

int index_each_outcome(struct index *index, int (*each)(void *argument, const struct outcome *outcome),
                       void *argument) {
    struct outcome_each outcome_each = {each, argument};
    return each_value(index, DB_OUTCOMES, each_chunk, &outcome_each);
}
