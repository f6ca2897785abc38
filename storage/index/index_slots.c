/* index_slots.c: due slots, the timing wheel's part on disk.
 *
 *   level   0      1      2       3        4         5
 *   width   1 s    65 s   70 min  3 days   199 days  35 years      (powers of two of milliseconds)
 *
 * A slot has the entries (due, id) of the tasks of one line that are due in one span of time; `width` is the length of
 * that span. An entry goes to the level at which its due time is less than 64 slots from now, so a batch writes few
 * slots. Entries of one slot are written together, as chunks of up to one page, in order of arrival. A large slot moves
 * to lower levels in bounded steps when its time is near. An entry is stale if its row has ended, does not wait, or has
 * another line or due time. A change of a task does not search for the task's old entry. */
#include "index_parts.h"

#include <assert.h>
#include <stdlib.h>

void slot_key_encode(const struct slot_key *key, uint8_t out[SLOT_KEY_SIZE]) {
    put_be32(out, key->line.queue);
    out[4] = key->line.base;
    out[5] = key->line.priority;
    out[6] = key->level;
    put_be64(out + 7, key->slot);
    put_be64(out + 15, key->chunk);
}

bool slot_key_decode(const MDB_val *in, struct slot_key *out) {
    if (in->mv_size != SLOT_KEY_SIZE) return false;
    const uint8_t *data = in->mv_data;
    out->line = (struct line){get_be32(data), data[4], data[5]};
    out->level = data[6];
    out->slot = get_be64(data + 7);
    out->chunk = get_be64(data + 15);
    return out->level < SLOT_LEVELS && out->line.base < ROW_BASES && out->line.priority < PRIORITY_COUNT;
}

static unsigned slot_level(uint64_t due_ms, uint64_t now_ms) {
    uint64_t distance = due_ms > now_ms ? due_ms - now_ms : now_ms - due_ms;
    unsigned level = 0;
    while (level + 1 < SLOT_LEVELS && distance >> slot_shift(level) >= SLOT_SPAN) level++;
    return level;
}

static bool same_line(const struct line *a, const struct line *b) {
    return a->queue == b->queue && a->base == b->base && a->priority == b->priority;
}

static uint32_t bucket_hash(const struct line *line, unsigned level, uint64_t slot) {
    uint64_t hash = ((uint64_t)line->queue << 16 | (uint64_t)line->base << 12 | line->priority << 4 | level) + 1;
    return (uint32_t)(((hash * 0x9E3779B97F4A7C15ull ^ slot) * 0xD6E8FEB86659FD93ull) >> 32);
}

static int bucket_of(struct slot_writer *writer, const struct line *line, unsigned level, uint64_t slot,
                     uint32_t *out) {
    const uint32_t hash = bucket_hash(line, level, slot);
    uint32_t number;
    for (size_t at = hash; (number = hash_index_next(&writer->index, hash, &at)) != 0;) {
        const struct bucket *bucket = &writer->buckets.items[number - 1];
        *out = number - 1;
        if (bucket->slot == slot && bucket->level == level && same_line(&bucket->line, line)) return 0;
    }
    struct bucket bucket = {.line = *line, .level = (uint8_t)level, .slot = slot};
    int error = VECTOR_RESERVE(&writer->buckets, 1);
    if (error != 0) return error;
    *out = (uint32_t)writer->buckets.count;
    if (!hash_index_add(&writer->index, hash, *out + 1)) return -ENOMEM;
    return VECTOR_PUSH(&writer->buckets, bucket);
}

int slot_writer_add(struct slot_writer *writer, const struct slot_entry *entry, uint64_t now_ms) {
    unsigned level = slot_level(entry->due_ms, now_ms);
    uint32_t bucket;
    int error = bucket_of(writer, &entry->line, level, entry->due_ms >> slot_shift(level), &bucket);
    if (error == 0) error = VECTOR_PUSH(&writer->places, bucket);
    if (error == 0) error = VECTOR_PUSH(&writer->entries, *entry);
    if (error == 0) writer->buckets.items[bucket].count++;
    return error;
}

/* Compares buckets by the order of their keys on disk. */
static int compare_buckets(const void *a, const void *b) {
    const struct bucket *x = a, *y = b;
    struct slot_key x_key = {x->line, x->level, x->slot, 0}, y_key = {y->line, y->level, y->slot, 0};
    uint8_t x_bytes[SLOT_KEY_SIZE], y_bytes[SLOT_KEY_SIZE];
    slot_key_encode(&x_key, x_bytes);
    slot_key_encode(&y_key, y_bytes);
    return memcmp(x_bytes, y_bytes, SLOT_KEY_SIZE);
}

int slot_writer_sort(struct slot_writer *writer) {
    size_t count = writer->entries.count;
    writer->sorted.count = 0;
    int error = VECTOR_RESERVE(&writer->sorted, count);
    if (error != 0) return error;
    uint32_t start = 0;
    for (size_t i = 0; i < writer->buckets.count; i++) {
        writer->buckets.items[i].start = start;
        start += writer->buckets.items[i].count;
        writer->buckets.items[i].count = 0;
    }
    for (size_t i = 0; i < count; i++) {
        struct bucket *bucket = &writer->buckets.items[writer->places.items[i]];
        const struct slot_entry *entry = &writer->entries.items[i];
        writer->sorted.items[bucket->start + bucket->count++] = (struct pair){entry->due_ms, entry->id};
    }
    writer->sorted.count = count;
    if (writer->buckets.count > 1) {
        qsort(writer->buckets.items, writer->buckets.count, sizeof(struct bucket), compare_buckets);
    }
    return 0;
}

int slot_writer_write(struct index *index, MDB_txn *txn, struct slot_writer *writer, uint64_t *next_chunk) {
    for (size_t i = 0; i < writer->buckets.count; i++) {
        const struct bucket *bucket = &writer->buckets.items[i];
        for (uint32_t done = 0; done < bucket->count;) {
            uint32_t count = bucket->count - done;
            if (count > PAIRS_PER_CHUNK) count = PAIRS_PER_CHUNK;
            struct slot_key key = {bucket->line, bucket->level, bucket->slot, (*next_chunk)++};
            uint8_t bytes[SLOT_KEY_SIZE];
            slot_key_encode(&key, bytes);
            int error = db_put(&index->db, txn, DB_SLOTS, bytes, sizeof bytes,
                               &writer->sorted.items[bucket->start + done], count * sizeof(struct pair), 0);
            if (error != 0) return error;
            done += count;
        }
    }
    return 0;
}

void slot_writer_reset(struct slot_writer *writer) {
    hash_index_clear(&writer->index);
    writer->buckets.count = writer->places.count = writer->entries.count = writer->sorted.count = 0;
}

void slot_writer_deinit(struct slot_writer *writer) {
    free(writer->buckets.items);
    free(writer->places.items);
    free(writer->entries.items);
    hash_index_deinit(&writer->index);
    free(writer->sorted.items);
    *writer = (struct slot_writer){0};
}

struct cascade {
    struct index *index;
    const struct line *line;
    const struct slot_view *view;
    struct meta_record meta;
};

/* Reads up to CASCADE_STEP_CHUNKS chunks of the slot into the writer, and their keys into `chunks`. */
static int cascade_read(struct cascade *cascade, MDB_cursor *cursor, struct numbers *chunks) {
    struct index *index = cascade->index;
    const struct slot_view *view = cascade->view;
    const struct line *line = cascade->line;
    uint64_t start_ms = view->slot << slot_shift(view->level);
    uint64_t now_ms = (line->base == ROW_STEADY ? index->meta.steady_ns : index->meta.wall_ns) / 1000000;
    uint64_t end_ms = start_ms + (1ull << slot_shift(view->level)) - 1;
    uint64_t from_ms = now_ms < start_ms ? start_ms : now_ms > end_ms ? end_ms : now_ms;
    struct slot_key from = {*line, view->level, view->slot, 0}, at;
    uint8_t bytes[SLOT_KEY_SIZE];
    slot_key_encode(&from, bytes);
    MDB_val key = {sizeof bytes, bytes}, sealed, data;
    int found = db_cursor_get(cursor, &key, &sealed, MDB_SET_RANGE);
    while (found == 0 && chunks->count < CASCADE_STEP_CHUNKS) {
        if (!slot_key_decode(&key, &at)) return INDEX_DAMAGED;
        if (!same_line(&at.line, line) || at.level != view->level || at.slot != view->slot) break;
        int error = db_unseal(&key, &sealed, &data);
        if (error == 0 && pairs_in(&data) == 0) error = INDEX_DAMAGED;
        if (error == 0) error = VECTOR_PUSH(chunks, at.chunk);
        if (error != 0) return error;
        for (size_t i = 0; i < pairs_in(&data); i++) {
            struct pair pair = pair_at(data.mv_data, i);
            if (ranges_ended(&index->ranges, pair.id)) {
                cascade->meta.slot_entries--;
                continue;
            }
            struct slot_entry entry = {*line, pair.first, pair.id};
            error = slot_writer_add(&index->writer, &entry, from_ms);
            if (error != 0) return error;
        }
        found = db_cursor_get(cursor, &key, &sealed, MDB_NEXT);
    }
    return found == MDB_NOTFOUND ? 0 : found;
}

static int cascade_body(void *argument, MDB_txn *txn) {
    struct cascade *cascade = argument;
    struct index *index = cascade->index;
    struct numbers chunks = {0};
    MDB_cursor *cursor = NULL;
    slot_writer_reset(&index->writer);
    cascade->meta = index->meta;
    int error = db_cursor(&index->db, txn, DB_SLOTS, &cursor);
    if (error == 0) error = cascade_read(cascade, cursor, &chunks);
    if (cursor != NULL) mdb_cursor_close(cursor);
    for (size_t i = 0; i < chunks.count && error == 0; i++) {
        struct slot_key key = {*cascade->line, cascade->view->level, cascade->view->slot, chunks.items[i]};
        uint8_t bytes[SLOT_KEY_SIZE];
        slot_key_encode(&key, bytes);
        error = db_del(&index->db, txn, DB_SLOTS, bytes, sizeof bytes);
        if (error == 1) error = INDEX_DAMAGED;
    }
    free(chunks.items);
    if (error == 0) error = slot_writer_sort(&index->writer);
    if (error == 0) error = slot_writer_write(index, txn, &index->writer, &cascade->meta.next_chunk);
    if (error == 0) error = meta_put(index, txn, &cascade->meta);
    return error;
}

int slots_cascade(struct index *index, const struct line *line, const struct slot_view *view) {
    assert(view->level > 0);
    /* A prepared batch is not on the disk yet: commit it first (index_commit). */
    if (index->batch.is_prepared) return -ENOSPC;
    struct cascade cascade = {.index = index, .line = line, .view = view};
    int error = index_write(index, cascade_body, &cascade);
    slot_writer_reset(&index->writer);
    if (error == 0) index->meta = cascade.meta;
    return error;
}
