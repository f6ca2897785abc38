/* index_producers.c: stores which commits a producer may still retry, and the positions of their replies (ONCE-1).
 *
 * A producer's results below its floor (oldest_unanswered) are deleted. When a producer ends, all its results are. */
#include "index_parts.h"

#include <assert.h>

/* Record of a producer. The field `owner` is left out if it is 0, as in records of versions without principals. */
struct producer_record {
    uint64_t used_ms;
    uint64_t floor;
    uint64_t owner;
};
#define RECORD_SIZE_LOCAL offsetof(struct producer_record, owner)

static bool record_read(const MDB_val *from, struct producer_record *out) {
    if (from->mv_size != sizeof *out && from->mv_size != RECORD_SIZE_LOCAL) return false;
    *out = (struct producer_record){0};
    memcpy(out, from->mv_data, from->mv_size);
    return from->mv_size == RECORD_SIZE_LOCAL || out->owner != 0;
}

static void result_key(uint8_t out[16], uint64_t producer, uint64_t sequence) {
    put_be64(out, producer);
    put_be64(out + 8, sequence);
}

/* Finds the batch's change of a producer. NULL: no change. */
static struct producer_change *change_of(struct batch *batch, uint64_t producer) {
    const uint32_t hash = hash_index_mix(producer);
    uint32_t number;
    for (size_t at = hash; (number = hash_index_next(&batch->producer_places, hash, &at)) != 0;)
        if (batch->producers.items[number - 1].producer == producer) return &batch->producers.items[number - 1];
    return NULL;
}

int producer_absorb(struct index *index, const struct producer_change *absorbed) {
    struct batch *batch = &index->batch;
    struct producer_change *found = change_of(batch, absorbed->producer);
    if (found == NULL) {
        struct producer_change change = {.producer = absorbed->producer};
        int error = VECTOR_PUSH(&batch->producers, change);
        if (error != 0) return error;
        uint32_t number = (uint32_t)batch->producers.count;
        if (!hash_index_add(&batch->producer_places, hash_index_mix(absorbed->producer), number)) return -ENOMEM;
        found = &batch->producers.items[number - 1];
    }
    found->used_ms = absorbed->used_ms;
    found->ended = absorbed->ended;
    if (absorbed->floor > found->floor) found->floor = absorbed->floor;
    if (absorbed->owner != 0) found->owner = absorbed->owner;
    return 0;
}

/* Deletes the producer's entries below the floor, or all entries of an ended producer. No value of `floor` can stand
 * for all entries, because a client may use every sequence number, including the highest. */
static int forget(struct index *index, MDB_txn *txn, enum db_table table, const struct producer_change *change,
                  uint64_t floor) {
    MDB_cursor *cursor;
    int error = db_cursor(&index->db, txn, table, &cursor);
    if (error != 0) return error;
    for (;;) {
        uint8_t bytes[16];
        result_key(bytes, change->producer, 0);
        MDB_val key = {sizeof bytes, bytes}, sealed;
        error = db_cursor_get(cursor, &key, &sealed, MDB_SET_RANGE);
        if (error != 0) break;
        if (key.mv_size != sizeof bytes) error = INDEX_DAMAGED;
        if (error != 0 || get_be64(key.mv_data) != change->producer) break;
        uint64_t sequence = get_be64((const uint8_t *)key.mv_data + 8);
        if (!change->ended && sequence >= floor) break;
        error = db_cursor_del(cursor);
        if (error != 0) break;
    }
    mdb_cursor_close(cursor);
    return error == MDB_NOTFOUND ? 0 : error;
}

static int write_producer(struct index *index, MDB_txn *txn, const struct producer_change *change) {
    struct producer_record record = {change->used_ms, change->floor, change->owner};
    MDB_val old;
    int error = db_get(&index->db, txn, DB_PRODUCERS, &change->producer, 8, &old);
    if (error < 0) return error;
    if (error == 0) {
        struct producer_record before;
        if (!record_read(&old, &before)) return INDEX_DAMAGED;
        if (before.floor > record.floor) record.floor = before.floor;
        if (record.owner == 0) record.owner = before.owner;
    }
    if (change->ended) {
        error = db_del(&index->db, txn, DB_PRODUCERS, &change->producer, 8);
        if (error < 0) return error; /* 1: not found, because the producer started and ended within the batch */
    } else {
        error = db_put(&index->db, txn, DB_PRODUCERS, &change->producer, 8, &record,
                       record.owner != 0 ? sizeof record : RECORD_SIZE_LOCAL, 0);
        if (error != 0) return error;
    }
    error = forget(index, txn, DB_RESULTS, change, record.floor);
    return error != 0 ? error : forget(index, txn, DB_REPLIES, change, record.floor);
}

int producers_write(struct index *index, MDB_txn *txn) {
    const struct batch *batch = &index->batch;
    for (size_t i = 0; i < batch->results.count; i++) {
        const struct result_change *result = &batch->results.items[i];
        uint8_t key[16];
        result_key(key, result->producer, result->sequence);
        int error = db_put(&index->db, txn, DB_RESULTS, key, sizeof key, &result->position, 8, 0);
        if (error != 0) return error;
    }
    for (size_t i = 0; i < batch->producers.count; i++) {
        int error = write_producer(index, txn, &batch->producers.items[i]);
        if (error != 0) return error;
    }
    return 0;
}

struct producer_each {
    int (*each)(void *argument, const struct index_producer *producer);
    void *argument;
};

static int each_producer(void *argument, MDB_txn *txn, const MDB_val *key, const MDB_val *data) {
    const struct producer_each *producer_each = argument;
    struct producer_record record;
    struct index_producer producer;
    if (key->mv_size != 8 || !record_read(data, &record)) return INDEX_DAMAGED;
    memcpy(&producer.producer, key->mv_data, 8);
    producer.used_ms = record.used_ms;
    producer.floor = record.floor;
    producer.owner = record.owner;
    return producer_each->each(producer_each->argument, &producer);
}

int index_each_producer(struct index *index, int (*each)(void *argument, const struct index_producer *producer),
                        void *argument) {
    struct producer_each producer_each = {each, argument};
    return each_value(index, DB_PRODUCERS, each_producer, &producer_each);
}

struct result_each {
    int (*each)(void *argument, uint64_t producer, uint64_t sequence, uint64_t position);
    void *argument;
};

static int each_result(void *argument, MDB_txn *txn, const MDB_val *key, const MDB_val *data) {
    const struct result_each *result_each = argument;
    uint64_t position;
    if (key->mv_size != 16 || data->mv_size != sizeof position) return INDEX_DAMAGED;
    memcpy(&position, data->mv_data, sizeof position);
    const uint8_t *bytes = key->mv_data;
    return result_each->each(result_each->argument, get_be64(bytes), get_be64(bytes + 8), position);
}

int index_each_result(struct index *index,
                      int (*each)(void *argument, uint64_t producer, uint64_t sequence, uint64_t position),
                      void *argument) {
    struct result_each result_each = {each, argument};
    return each_value(index, DB_RESULTS, each_result, &result_each);
}
