/* index_redact.c: stores redactions that were recorded and not carried out yet.
 *
 * A redaction enters the table in the transaction that absorbs its record. It leaves the table in a separate
 * transaction, when all erasures are done; after a crash in between they are repeated. Contents that the index stores
 * or stored are encrypted (keyring.h), so a redaction destroys their key. */
#include <stdlib.h>

#include "index_parts.h"

static int is_there(struct index *index, MDB_txn *txn, bool *out) {
    MDB_stat stat;
    int error = mdb_stat(txn, index->db.table[DB_REDACTIONS], &stat);
    if (error == 0) *out = stat.ms_entries > 0;
    return db_negative(error);
}

int redactions_load(struct index *index) {
    MDB_txn *txn;
    int error = db_read(&index->db, &txn);
    if (error != 0) return error;
    error = is_there(index, txn, &index->has_redactions);
    db_read_end(&index->db, txn);
    if (error == 0 && !index->has_redactions) atomic_store(&index->erased, index->meta.position);
    return error;
}

uint64_t index_erased(const struct index *index) {
    return atomic_load(&index->erased);
}

/* Reads up to `count_max` redactions into `out`. */
static int read_some(MDB_cursor *cursor, size_t count_max, struct arena *arena, Tarry__Redaction **out,
                     size_t *out_count) {
    MDB_val key, sealed, data;
    size_t count = 0;
    int found = 0, error = 0;
    while (error == 0 && count < count_max && (found = db_cursor_get(cursor, &key, &sealed, MDB_NEXT)) == 0) {
        error = db_unseal(&key, &sealed, &data);
        if (error != 0) break;
        Tarry__Redaction *redaction = tarry__redaction__unpack(&arena->pb, data.mv_size, data.mv_data);
        if (redaction == NULL) return INDEX_DAMAGED;
        bool is_own = key.mv_size == sizeof redaction->id && memcmp(key.mv_data, &redaction->id, key.mv_size) == 0;
        if (!is_own) return INDEX_DAMAGED;
        out[count++] = redaction;
    }
    *out_count = count;
    if (error != 0) return error;
    return found == 0 || found == MDB_NOTFOUND ? 0 : found;
}

int index_redactions(struct index *index, size_t count_max, struct arena *arena, Tarry__Redaction ***out,
                     size_t *out_count) {
    *out_count = 0;
    if (!index->has_redactions) return 0;
    Tarry__Redaction **redactions = arena_alloc(arena, count_max * sizeof(Tarry__Redaction *));
    if (redactions == NULL) return -ENOMEM;
    MDB_txn *txn;
    MDB_cursor *cursor;
    int error = db_read(&index->db, &txn);
    if (error != 0) return error;
    error = db_cursor(&index->db, txn, DB_REDACTIONS, &cursor);
    if (error == 0) {
        error = read_some(cursor, count_max, arena, redactions, out_count);
        mdb_cursor_close(cursor);
    }
    db_read_end(&index->db, txn);
    *out = redactions;
    return error;
}

/* Destroys the keys of the contents that may have moved to the index. */
static int destroy_keys(struct index *index, Tarry__Redaction *const *redactions, size_t count) {
    uint64_t *ids = malloc((count + 1) * sizeof *ids);
    if (ids == NULL) return -ENOMEM;
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        /* Drop the content from the cache as well, because the cache holds it unencrypted. */
        if (index->contents != NULL) content_cache_forget(index->contents, &redactions[i]->id, 1);
        bool may_be_here = redactions[i]->frame == 0 || redactions[i]->blob_at < index->meta.retired_to;
        if (may_be_here) ids[found++] = redactions[i]->id;
    }
    int error = keyring_destroy(index->keyring, ids, found);
    free(ids);
    return error;
}

struct done {
    struct index *index;
    Tarry__Redaction *const *redactions;
    size_t count;
    bool is_left;
};

static int done_body(void *argument, MDB_txn *txn) {
    struct done *done = argument;
    for (size_t i = 0; i < done->count; i++) {
        uint64_t id = done->redactions[i]->id;
        int error = db_del(&done->index->db, txn, DB_REDACTIONS, &id, sizeof id);
        if (error < 0) return error;
    }
    return is_there(done->index, txn, &done->is_left);
}

int index_redactions_done(struct index *index, Tarry__Redaction *const *redactions, size_t count) {
    if (index->failed != 0) return index->failed;
    /* A prepared batch is not on the disk yet: commit it first (index_commit). */
    if (index->batch.is_prepared) return -ENOSPC;
    int error = destroy_keys(index, redactions, count);
    struct done done = {index, redactions, count, true};
    if (error == 0) error = index_write(index, done_body, &done);
    if (error != 0) return error;
    index->has_redactions = done.is_left;
    if (!done.is_left) atomic_store(&index->erased, index->meta.position);
    return 0;
}
