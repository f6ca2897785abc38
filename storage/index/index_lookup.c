/* index_lookup.c: reads rows by id and key, rows in order of id, and contents and replies of retired segments. Any
 * thread; each call has its own snapshot. */
#include "index_parts.h"

#include <assert.h>
#include <stdlib.h>

#define DEAD_MATCHES_MAX 16 /* limit of dead rows per key, youngest first; the live row is always returned */

int reading_begin(struct reading *reading, struct index *index, struct arena *arena, bool with_filter) {
    *reading = (struct reading){.index = index, .arena = arena, .view.number = UINT64_MAX};
    for (;;) {
        int error = db_read(&index->db, &reading->txn);
        if (error != 0) return error;
        error = meta_read(index, reading->txn, &reading->meta);
        if (error == 0 && with_filter) {
            reading->filter = filters_hold_version(index, reading->meta.filters_version);
        }
        if (error == 0 && (!with_filter || reading->filter != NULL)) return 0;
        db_read_end(&index->db, reading->txn);
        if (error != 0) return error == 1 ? INDEX_DAMAGED : error;
        /* Two commits happened after this snapshot began, so the filters that belong to it no longer exist. Take a
         * newer snapshot. */
    }
}

void reading_end(struct reading *reading) {
    db_read_end(&reading->index->db, reading->txn);
    if (reading->filter != NULL) index_filter_drop(reading->filter);
    free(reading->ids.items);
    free(reading->rows.items);
}

int reading_keep(struct reading *reading, const struct row *row) {
    struct row kept;
    int error = row_keep(row, reading->arena, &kept);
    return error != 0 ? error : VECTOR_PUSH(&reading->rows, kept);
}

int reading_give(struct reading *reading, struct index_rows *out) {
    struct index_rows rows = {.count = reading->rows.count, .position = reading->meta.position};
    if (rows.count > 0) {
        rows.rows = arena_alloc(reading->arena, rows.count * sizeof(struct row));
        if (rows.rows == NULL) return -ENOMEM;
        memcpy(rows.rows, reading->rows.items, rows.count * sizeof(struct row));
    }
    *out = rows;
    return 0;
}

static int by_id(struct reading *reading, uint64_t id) {
    struct row row;
    index_touched(reading->index, 1);
    int error = row_get_live(reading->index, reading->txn, &reading->view, reading->meta.next_id, id, &row);
    if (error != 0) return error == 1 ? 0 : error;
    return reading_keep(reading, &row);
}

static int compare_youngest(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x > y ? -1 : x < y;
}

static int by_key(struct reading *reading, const struct want *want) {
    uint64_t hash = row_key_hash(want->queue, want->key, want->key_size);
    reading->ids.count = 0;
    int error = keys_find(reading->index, reading->txn, reading->filter, hash, &reading->ids);
    if (error != 0) return error;
    struct numbers *ids = &reading->ids;
    if (ids->count > 1) qsort(ids->items, ids->count, sizeof *ids->items, compare_youngest);
    index_touched(reading->index, 2 + ids->count);
    unsigned dead = 0;
    for (size_t i = 0; i < ids->count; i++) {
        struct row row;
        error = row_get_live(reading->index, reading->txn, &reading->view, reading->meta.next_id, ids->items[i], &row);
        if (error < 0) return error;
        if (error == 1) continue;
        if (row.queue != want->queue || row.key_size != want->key_size) continue;
        if (memcmp(row.key, want->key, want->key_size) != 0) continue;
        /* Continue to the live row: it may be older than the dead ones, because a dead task can be requeued. */
        if (row.state == ROW_BURIED && (want->live_only || dead++ >= DEAD_MATCHES_MAX)) continue;
        error = reading_keep(reading, &row);
        if (error != 0 || want->live_only) return error; /* at most one live task has the key, so the search ends */
    }
    return 0;
}

/* Returns true if the rows read so far and their copies in the arena exceed `size_max`. */
static bool is_too_much(const struct reading *reading, size_t used, size_t size_max) {
    size_t size = reading->arena->used - used + reading->rows.count * sizeof(struct row);
    return size > size_max;
}

int index_lookup(struct index *index, const struct want *wants, size_t want_count, size_t size_max, struct arena *arena,
                 struct index_rows *out) {
    struct reading reading;
    int error = reading_begin(&reading, index, arena, true);
    if (error != 0) return error;
    const size_t used = arena->used;
    for (size_t i = 0; i < want_count && error == 0; i++) {
        if (wants[i].id != 0)
            error = by_id(&reading, wants[i].id);
        else if (wants[i].key_size > 0)
            error = by_key(&reading, &wants[i]);
        if (error == 0 && is_too_much(&reading, used, size_max)) error = 1;
    }
    if (error == 0) error = reading_give(&reading, out);
    reading_end(&reading);
    return error;
}

static int scan(struct reading *reading, uint32_t queue, uint64_t after_id, uint64_t id_end, size_t count_max,
                size_t examine_max, uint64_t *out_next) {
    MDB_cursor *cursor;
    int error = db_cursor(&reading->index->db, reading->txn, DB_ROWS, &cursor);
    if (error != 0) return error;
    uint64_t id = after_id + 1;
    MDB_val key = {sizeof id, &id}, sealed, data;
    *out_next = UINT64_MAX;
    int found = db_cursor_get(cursor, &key, &sealed, MDB_SET_RANGE);
    for (size_t examined = 0; found == 0; examined++) {
        bool ended;
        struct row row;
        if (key.mv_size != sizeof id) error = INDEX_DAMAGED;
        if (error != 0) break;
        memcpy(&id, key.mv_data, sizeof id);
        if (id >= id_end) break;
        if (examined >= examine_max || reading->rows.count >= count_max) {
            *out_next = id - 1;
            break;
        }
        index_touched(reading->index, 1);
        error = range_view_ended(reading->index, reading->txn, &reading->view, id, &ended);
        if (error == 0 && !ended) {
            error = row_get_leased(reading->index, reading->txn, id, &row);
            if (error == 1) {
                error = db_unseal(&key, &sealed, &data);
                if (error == 0) error = row_unpack(id, &data, &row);
            }
            if (error == 0 && (queue == 0 || row.queue == queue)) error = reading_keep(reading, &row);
        }
        if (error != 0) break;
        found = db_cursor_get(cursor, &key, &sealed, MDB_NEXT);
    }
    mdb_cursor_close(cursor);
    if (error == 0 && found != 0 && found != MDB_NOTFOUND) error = found;
    return error;
}

int index_scan(struct index *index, uint32_t queue, uint64_t after_id, uint64_t id_end, size_t count_max,
               size_t examine_max, struct arena *arena, struct index_rows *out, uint64_t *out_next) {
    assert(count_max > 0 && examine_max > 0);
    struct reading reading;
    int error = reading_begin(&reading, index, arena, false);
    if (error != 0) return error;
    uint64_t next = UINT64_MAX;
    if (after_id < UINT64_MAX) {
        error = scan(&reading, queue, after_id, id_end, count_max, examine_max, &next);
    }
    if (error == 0) error = reading_give(&reading, out);
    reading_end(&reading);
    if (error == 0) *out_next = next;
    return error;
}

static int read_bytes(struct index *index, enum db_table table, const void *key, size_t key_size, struct arena *arena,
                      void **out, size_t *out_size) {
    MDB_txn *txn;
    int error = db_read(&index->db, &txn);
    if (error != 0) return error;
    MDB_val data;
    error = db_get(&index->db, txn, table, key, key_size, &data);
    if (error == 0) {
        void *copy = arena_alloc(arena, data.mv_size > 0 ? data.mv_size : 1);
        if (copy == NULL) {
            error = -ENOMEM;
        } else {
            memcpy(copy, data.mv_data, data.mv_size);
            *out = copy;
            *out_size = data.mv_size;
        }
    }
    db_read_end(&index->db, txn);
    return error;
}

int index_blob_now(struct index *index, uint64_t id, struct arena *arena, void **out, size_t *out_size) {
    if (index->contents == NULL) return -EAGAIN;
    int error = content_cache_get(index->contents, id, arena, out, out_size);
    return error == 1 ? -EAGAIN : error;
}

void index_blobs_prefetch(struct index *index, const uint64_t *ids, size_t count) {
    if (index->contents != NULL && count > 0) content_cache_prefetch(index->contents, ids, count);
}

int index_blob(struct index *index, uint64_t id, struct arena *arena, void **out, size_t *out_size) {
    int error = index_blob_now(index, id, arena, out, out_size);
    if (error != -EAGAIN) return error;
    error = read_bytes(index, DB_BLOBS, &id, sizeof id, arena, out, out_size);
    return error == 0 ? keyring_apply(index->keyring, id, *out, *out_size) : error;
}

int index_result(struct index *index, uint64_t producer, uint64_t sequence, struct arena *arena, void **out,
                 size_t *out_size) {
    uint8_t key[16];
    put_be64(key, producer);
    put_be64(key + 8, sequence);
    return read_bytes(index, DB_REPLIES, key, sizeof key, arena, out, out_size);
}
