/* index_calendar_writer.c: collects changes to the calendar, sorts them by chunk and writes them. See index_calendar.h.
 */
#include <stdlib.h>

#include "index_calendar.h"

static bool same_key(const struct calendar_key *a, const struct calendar_key *b) {
    return a->chunk == b->chunk && a->line == b->line && a->level == b->level;
}

static uint32_t hash_of(const struct calendar_key *key) {
    return hash_index_mix(key->chunk ^ (uint64_t)key->line << 40 ^ (uint64_t)key->level << 60);
}

static int bucket_of(struct calendar_writer *writer, const struct calendar_key *key, uint32_t *out) {
    *out = writer->last;
    if (writer->buckets.count > 0 && same_key(&writer->buckets.items[writer->last].key, key)) return 0;
    const uint32_t hash = hash_of(key);
    uint32_t number;
    for (size_t at = hash; (number = hash_index_next(&writer->index, hash, &at)) != 0;) {
        *out = writer->last = number - 1;
        if (same_key(&writer->buckets.items[number - 1].key, key)) return 0;
    }
    int error = VECTOR_RESERVE(&writer->buckets, 1);
    if (error != 0) return error;
    number = (uint32_t)writer->buckets.count + 1;
    if (!hash_index_add(&writer->index, hash, number)) return -ENOMEM;
    *out = writer->last = number - 1;
    return VECTOR_PUSH(&writer->buckets, (struct calendar_bucket){.key = *key});
}

int calendar_add(struct calendar_writer *writer, uint32_t line, uint8_t level, uint64_t at, int32_t change) {
    const struct calendar_key key = {line, level, at / CALENDAR_CELLS};
    uint32_t bucket;
    int error = bucket_of(writer, &key, &bucket);
    if (error == 0) error = VECTOR_PUSH(&writer->places, bucket);
    if (error == 0) error = VECTOR_PUSH(&writer->entries, (struct calendar_entry){at % CALENDAR_CELLS, change});
    if (error == 0) writer->buckets.items[bucket].count++;
    return error;
}

/* Compares chunks first, so all lines of a chunk come together. */
static int compare_buckets(const void *a, const void *b) {
    const struct calendar_key *x = &((const struct calendar_bucket *)a)->key;
    const struct calendar_key *y = &((const struct calendar_bucket *)b)->key;
    if (x->chunk != y->chunk) return x->chunk < y->chunk ? -1 : 1;
    return x->line < y->line ? -1 : x->line > y->line;
}

int calendar_sort(struct calendar_writer *writer) {
    size_t count = writer->entries.count;
    writer->sorted.count = 0;
    int error = VECTOR_RESERVE(&writer->sorted, count);
    if (error != 0) return error;
    uint32_t start = 0;
    for (size_t i = 0; i < writer->buckets.count; i++) {
        struct calendar_bucket *bucket = &writer->buckets.items[i];
        bucket->start = start;
        start += bucket->count;
        bucket->count = 0;
    }
    for (size_t i = 0; i < count; i++) {
        struct calendar_bucket *bucket = &writer->buckets.items[writer->places.items[i]];
        writer->sorted.items[bucket->start + bucket->count++] = writer->entries.items[i];
    }
    writer->sorted.count = count;
    size_t buckets = writer->buckets.count;
    if (buckets > 1) qsort(writer->buckets.items, buckets, sizeof *writer->buckets.items, compare_buckets);
    return 0;
}

/* Computes the net changes of a bucket's cells. */
static void net_changes(const struct calendar_writer *writer, const struct calendar_bucket *bucket,
                        int32_t out[CALENDAR_CELLS]) {
    memset(out, 0, CALENDAR_CELLS * sizeof *out);
    const struct calendar_entry *entries = &writer->sorted.items[bucket->start];
    for (uint32_t i = 0; i < bucket->count; i++) out[entries[i].cell] += entries[i].change;
}

static int hours_of(const struct calendar_key *key, const int32_t changes[CALENDAR_CELLS],
                    struct calendar_writer *hours) {
    const uint64_t minutes = CALENDAR_HOUR_MS / CALENDAR_MINUTE_MS, first = key->chunk * CALENDAR_CELLS;
    int error = 0;
    for (unsigned i = 0; i < CALENDAR_CELLS && error == 0;) {
        uint64_t hour = (first + i) / minutes;
        int32_t change = 0;
        for (; i < CALENDAR_CELLS && first + i < (hour + 1) * minutes; i++) change += changes[i];
        if (change != 0) error = calendar_add(hours, key->line, 1, hour, change);
    }
    return error;
}

int calendar_hours(const struct calendar_writer *minutes, struct calendar_writer *hours) {
    int32_t changes[CALENDAR_CELLS];
    int error = 0;
    for (size_t i = 0; i < minutes->buckets.count && error == 0; i++) {
        net_changes(minutes, &minutes->buckets.items[i], changes);
        error = hours_of(&minutes->buckets.items[i].key, changes, hours);
    }
    return error == 0 ? calendar_sort(hours) : error;
}

/* Changes a chunk. A count below zero is damage, because the disk then disagrees with the log. */
static int chunk_change(struct index *index, MDB_txn *txn, const struct calendar_key *key,
                        const int32_t changes[CALENDAR_CELLS]) {
    uint8_t bytes[CALENDAR_KEY_SIZE], packed[CALENDAR_PACKED_MAX];
    uint64_t cells[CALENDAR_CELLS], total;
    MDB_val data;
    calendar_key_encode(key, bytes);
    int found = db_get(&index->db, txn, DB_CALENDAR, bytes, sizeof bytes, &data);
    if (found < 0) return found;
    int error = 0;
    if (found == 0)
        error = calendar_unpack(&data, cells, &total);
    else
        memset(cells, 0, sizeof cells);
    if (error != 0) return error;
    for (unsigned i = 0; i < CALENDAR_CELLS; i++) {
        int64_t change = changes[i];
        if (change < 0 && cells[i] < (uint64_t)-change) return INDEX_DAMAGED;
        cells[i] += (uint64_t)change;
    }
    size_t size = calendar_pack(cells, packed);
    if (size > 0) return db_put(&index->db, txn, DB_CALENDAR, bytes, sizeof bytes, packed, size, 0);
    return found == 0 ? db_del(&index->db, txn, DB_CALENDAR, bytes, sizeof bytes) : 0;
}

int calendar_writer_write(struct index *index, MDB_txn *txn, const struct calendar_writer *writer) {
    int32_t changes[CALENDAR_CELLS], of_all[CALENDAR_CELLS] = {0};
    int error = 0;
    for (size_t i = 0; i < writer->buckets.count && error == 0; i++) {
        const struct calendar_key *key = &writer->buckets.items[i].key;
        net_changes(writer, &writer->buckets.items[i], changes);
        error = chunk_change(index, txn, key, changes);
        for (unsigned j = 0; j < CALENDAR_CELLS; j++) of_all[j] += changes[j];
        bool is_last = i + 1 == writer->buckets.count || writer->buckets.items[i + 1].key.chunk != key->chunk;
        if (error != 0 || !is_last) continue;
        error = chunk_change(index, txn, &(struct calendar_key){CALENDAR_ALL, key->level, key->chunk}, of_all);
        memset(of_all, 0, sizeof of_all);
    }
    return error;
}

void calendar_writer_reset(struct calendar_writer *writer) {
    hash_index_clear(&writer->index);
    writer->buckets.count = writer->places.count = writer->entries.count = writer->sorted.count = 0;
    writer->last = 0;
}

void calendar_writer_deinit(struct calendar_writer *writer) {
    free(writer->buckets.items);
    free(writer->places.items);
    free(writer->entries.items);
    free(writer->sorted.items);
    hash_index_deinit(&writer->index);
    *writer = (struct calendar_writer){0};
}

size_t calendar_writer_bytes(const struct calendar_writer *writer) {
    return writer->buckets.capacity * sizeof(struct calendar_bucket) + writer->places.capacity * sizeof(uint32_t) +
           (writer->entries.capacity + writer->sorted.capacity) * sizeof(struct calendar_entry) +
           hash_index_bytes(&writer->index);
}
