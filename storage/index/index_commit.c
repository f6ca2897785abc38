/* index_commit.c: writes the batch in one synced transaction.
 *
 * A commit has three phases:
 *   1. Prepare, once: sorts the changes, marks ended ids in memory, makes a run of the keys.
 *   2. Write, again from the start if the map must grow: writes the changes into the tables (db.h), and last the
 *      record with the totals.
 *   3. Arrive, after the sync: updates memory, publishes the filters, and then raises the position. */
#include "index_select.h"

#include <assert.h>
#include <stdlib.h>

static int prepare_rows(struct index *index) {
    struct batch *batch = &index->batch;
    int error = VECTOR_RESERVE(&batch->appends, batch->changes.count);
    if (error == 0) error = VECTOR_RESERVE(&batch->updates, batch->changes.count);
    if (error != 0) return error;
    index->scratch.count = 0;
    error = VECTOR_RESERVE(&index->scratch, 2 * batch->changes.count);
    if (error != 0) return error;
    uint64_t last = 0;
    for (size_t i = 0; i < batch->changes.count; i++) {
        const struct change *change = &batch->changes.items[i];
        bool is_fresh = change->flags & CHANGE_FRESH, is_leased = !is_fresh && change->first_state == ROW_LEASED;
        if ((change->flags & CHANGE_ENDED) && !is_leased) continue;
        if (is_fresh) {
            assert(change->id > last); /* the tally has already checked the order of ids */
            last = change->id;
            batch->appends.items[batch->appends.count++] = (uint32_t)i;
        } else {
            index->scratch.items[index->scratch.count++] = (struct pair){change->id, i};
        }
    }
    struct pair *pairs = index->scratch.items;
    size_t count = index->scratch.count;
    pairs_sort(pairs, pairs + count, count);
    for (size_t i = 0; i < count; i++) batch->updates.items[batch->updates.count++] = (uint32_t)pairs[i].id;
    return 0;
}

/* Returns true if the task waits and the slots on disk have no entry for its present line and due time. */
static bool wants_entry(const struct change *change) {
    if ((change->flags & CHANGE_ENDED) || change->state != ROW_WAITING) return false;
    return (change->flags & CHANGE_FRESH) || change->first_state != ROW_WAITING ||
           change->first_due_ms != change->due_ms || change->first_base != change->base ||
           change->first_priority != change->priority;
}

static int prepare_slots(struct index *index) {
    struct batch *batch = &index->batch;
    uint64_t now_ms[ROW_BASES] = {index->steady_ns / 1000000, index->wall_ns / 1000000};
    slot_writer_reset(&index->writer);
    for (size_t i = 0; i < batch->changes.count; i++) {
        const struct change *change = &batch->changes.items[i];
        read_ahead_change(index, change);
        if (!wants_entry(change)) continue;
        struct slot_entry entry = {{change->queue, change->base, change->priority}, change->due_ms, change->id};
        read_ahead_entry(index, &entry);
        int error = slot_writer_add(&index->writer, &entry, now_ms[change->base]);
        if (error != 0) return error;
    }
    return slot_writer_sort(&index->writer);
}

static int prepare(struct index *index) {
    int error = prepare_rows(index);
    if (error == 0) error = ranges_apply(index);
    if (error == 0) error = prepare_slots(index);
    if (error == 0) error = calendar_prepare(index);
    if (error == 0) error = keys_prepare(index);
    index->batch.is_prepared = error == 0;
    return error;
}

/* Cursors of both row tables. Changes are applied in order of id, so each page is found once. */
struct row_tables {
    MDB_cursor *rows;
    MDB_cursor *leased;
};

static int write_update(const struct batch *batch, const struct row_tables *tables, const struct change *change) {
    bool is_ended = change->flags & CHANGE_ENDED, is_leased = !is_ended && change->state == ROW_LEASED;
    int error = 0;
    if (!is_ended)
        error = db_put_at(is_leased ? tables->leased : tables->rows, &change->id, sizeof change->id,
                          batch->bytes.items + change->offset, change->size, 0);
    bool is_over = change->first_state == ROW_LEASED && !is_leased;
    if (error != 0 || !is_over) return error;
    error = db_del_at(tables->leased, &change->id, sizeof change->id);
    /* 1: the task was scheduled and leased within this batch, so only DB_ROWS has its row. */
    return error == 1 ? 0 : error;
}

static int write_into(const struct batch *batch, const struct row_tables *tables) {
    int error = 0;
    for (size_t i = 0; i < batch->updates.count && error == 0; i++)
        error = write_update(batch, tables, &batch->changes.items[batch->updates.items[i]]);
    for (size_t i = 0; i < batch->appends.count && error == 0; i++) {
        const struct change *change = &batch->changes.items[batch->appends.items[i]];
        error = db_put_at(tables->rows, &change->id, sizeof change->id, batch->bytes.items + change->offset,
                          change->size, MDB_APPEND);
        if (error == MDB_KEYEXIST) error = INDEX_DAMAGED;
    }
    return error;
}

static int write_rows(struct index *index, MDB_txn *txn) {
    struct row_tables tables = {0};
    int error = db_cursor(&index->db, txn, DB_ROWS, &tables.rows);
    if (error == 0) error = db_cursor(&index->db, txn, DB_LEASED, &tables.leased);
    if (error == 0) error = write_into(&index->batch, &tables);
    if (tables.rows != NULL) mdb_cursor_close(tables.rows);
    if (tables.leased != NULL) mdb_cursor_close(tables.leased);
    return error;
}

void held_key_encode(uint8_t out[HELD_KEY_SIZE], uint8_t state, uint32_t queue, uint64_t due_ms, uint64_t id) {
    out[0] = state;
    put_be32(out + 1, queue);
    put_be64(out + 5, due_ms);
    put_be64(out + 13, id);
}

/* Returns true if the task was leased or dead before the batch, so it has an entry in DB_HELD. */
static bool was_held(const struct change *change) {
    return !(change->flags & CHANGE_FRESH) && change->first_state != ROW_WAITING;
}

static bool is_held(const struct change *change) {
    return !(change->flags & CHANGE_ENDED) && change->state != ROW_WAITING;
}

static bool stays_held(const struct change *change) {
    return was_held(change) && is_held(change) && change->first_state == change->state &&
           change->first_due_ms == change->due_ms;
}

/* Deletes all old entries, then adds all new ones. Each group is contiguous, because tasks are leased and settled in
 * order of due time. */
static int write_held_into(const struct batch *batch, MDB_cursor *cursor) {
    uint8_t key[HELD_KEY_SIZE];
    int error = 0;
    for (size_t i = 0; i < batch->changes.count && error == 0; i++) {
        const struct change *change = &batch->changes.items[i];
        if (!was_held(change) || stays_held(change)) continue;
        held_key_encode(key, change->first_state, change->queue, change->first_due_ms, change->id);
        error = db_del_at(cursor, key, sizeof key);
        if (error == 1) error = INDEX_DAMAGED;
    }
    for (size_t i = 0; i < batch->changes.count && error == 0; i++) {
        const struct change *change = &batch->changes.items[i];
        if (!is_held(change) || stays_held(change)) continue;
        held_key_encode(key, change->state, change->queue, change->due_ms, change->id);
        error = db_put_at(cursor, key, sizeof key, NULL, 0, 0);
    }
    return error;
}

static int write_held(struct index *index, MDB_txn *txn) {
    MDB_cursor *cursor;
    int error = db_cursor(&index->db, txn, DB_HELD, &cursor);
    if (error != 0) return error;
    error = write_held_into(&index->batch, cursor);
    mdb_cursor_close(cursor);
    return error;
}

/* Deletes large contents of ended tasks if they were copied from a retired segment, because they fill whole pages. The
 * sweep deletes small contents with the rows (ranges_sweep). Deleting small ones here dirtied one page each, and took a
 * fifth of a CPU core at 18,000 endings per second with 12 million tasks. */
static int write_blobs(struct index *index, MDB_txn *txn) {
    const struct batch *batch = &index->batch;
    for (size_t i = 0; i < batch->changes.count; i++) {
        const struct change *change = &batch->changes.items[i];
        bool may_be_copied = change->large_blob_at < index->meta.retired_to;
        if (!(change->flags & CHANGE_ENDED) || !may_be_copied) continue;
        int error = db_del(&index->db, txn, DB_BLOBS, &change->id, sizeof change->id);
        if (error < 0) return error;
    }
    return 0;
}

static int write_sides(struct index *index, MDB_txn *txn) {
    const struct batch *batch = &index->batch;
    for (size_t i = 0; i < batch->sides.count; i++) {
        const struct side_change *side = &batch->sides.items[i];
        uint8_t key[8];
        /* Queue keys are 4 bytes, in order of number. Job keys are 8 bytes: a native integer, in order of position. */
        size_t key_size = side->table == DB_QUEUES ? 4 : 8;
        if (side->table == DB_QUEUES)
            put_be32(key, (uint32_t)side->number);
        else
            memcpy(key, &side->number, sizeof key);
        int error;
        if (side->size == 0) {
            error = db_del(&index->db, txn, side->table, key, key_size);
            if (error == 1) error = INDEX_DAMAGED;
        } else {
            error =
                db_put(&index->db, txn, side->table, key, key_size, batch->bytes.items + side->offset, side->size, 0);
        }
        if (error != 0) return error;
    }
    return 0;
}

uint32_t index_number_at(const struct index *index, uint32_t place) {
    return index->queues[place].number != 0 ? index->queues[place].number : place;
}

/* Writes the counts of each changed place under the number of its current queue. */
static int write_tallies(struct index *index, MDB_txn *txn) {
    for (uint32_t place = 1; place <= QUEUE_PLACES; place++) {
        if (!index->batch.queue_dirty[place]) continue;
        const uint32_t number = index_number_at(index, place), former = index->tally_keys[place];
        uint8_t key[4];
        int error = 0;
        if (former != 0 && former != number) {
            put_be32(key, former);
            error = db_del(&index->db, txn, DB_TALLIES, key, sizeof key);
            if (error == 1) error = INDEX_DAMAGED;
        }
        put_be32(key, number);
        if (error == 0)
            error = db_put(&index->db, txn, DB_TALLIES, key, sizeof key, &index->queues[place], QUEUE_COUNTS_SIZE, 0);
        if (error != 0) return error;
    }
    return 0;
}

static void tallies_written(struct index *index) {
    for (uint32_t place = 1; place <= QUEUE_PLACES; place++)
        if (index->batch.queue_dirty[place]) index->tally_keys[place] = index_number_at(index, place);
}

/* If DB_QUEUES has more than QUEUES_FORMER_MAX rows of deleted queues, deletes those with the lowest numbers, which
 * were deleted first. The other rows stay, because log and archive have only a queue's number, and the row has its
 * name. */
static int drop_former(struct index *index, MDB_txn *txn) {
    const size_t most = FORMER_MAX + index->tally.next_queue - 1;
    MDB_cursor *cursor;
    MDB_val key, sealed;
    MDB_stat stat;
    int error = db_negative(mdb_stat(txn, index->db.table[DB_QUEUES], &stat));
    if (error != 0 || stat.ms_entries <= most) return error;
    size_t count = stat.ms_entries - most;
    error = db_cursor(&index->db, txn, DB_QUEUES, &cursor);
    if (error != 0) return error;
    while (error == 0 && count > 0 && (error = db_cursor_get(cursor, &key, &sealed, MDB_NEXT)) == 0) {
        if (key.mv_size != 4) error = INDEX_DAMAGED;
        const uint32_t number = error == 0 ? get_be32(key.mv_data) : 0;
        if (error != 0 || number == index_number_at(index, queue_place(number))) continue;
        error = db_cursor_del(cursor);
        count--;
    }
    mdb_cursor_close(cursor);
    return error;
}

struct commit {
    struct index *index;
    struct meta_record meta;
};

static void commit_meta(struct index *index, struct meta_record *meta) {
    *meta = index->meta;
    meta->position = index->absorbed;
    memcpy(meta->chain, index->absorbed_chain, sizeof meta->chain);
    meta->steady_ns = index->steady_ns;
    meta->wall_ns = index->wall_ns;
    meta->digest = index->tally.digest;
    meta->live = index->tally.live;
    meta->next_id = index->tally.next_id;
    meta->next_queue = index->tally.next_queue;
    meta->epoch = index->tally.epoch;
    if (index->batch.format > meta->format) meta->format = index->batch.format;
    meta->slot_entries += index->writer.entries.count;
    if (index->batch.known) {
        meta->known = 1;
        meta->known_since_ms = index->batch.known_since_ms;
    }
}

static int commit_body(void *argument, MDB_txn *txn) {
    struct commit *commit = argument;
    struct index *index = commit->index;
    struct meta_record *meta = &commit->meta;
    commit_meta(index, meta);
    int error = write_rows(index, txn);
    if (error == 0) error = ranges_write(index, txn);
    if (error == 0) error = slot_writer_write(index, txn, &index->writer, &meta->next_chunk);
    if (error == 0) error = keys_write(index, txn, meta);
    if (error == 0) error = write_held(index, txn);
    if (error == 0) error = write_blobs(index, txn);
    if (error == 0) error = calendar_write(index, txn, meta->position);
    if (error == 0) error = outcomes_write(index, txn, meta);
    if (error == 0) error = producers_write(index, txn);
    if (error == 0) error = write_sides(index, txn);
    if (error == 0) error = definitions_write(index, txn);
    if (error == 0) error = write_tallies(index, txn);
    if (error == 0) error = drop_former(index, txn);
    if (error == 0) error = meta_put(index, txn, meta); /* LOG-3 */
    return error;
}

#define FORGOTTEN_AT_ONCE 128u
/* Removes the contents of ended tasks from the cache. No content of an ended task moves to the index later
 * (ranges_ended). */
static void forget_contents(struct index *index) {
    const struct batch *batch = &index->batch;
    uint64_t ids[FORGOTTEN_AT_ONCE];
    size_t count = 0;
    for (size_t i = 0; index->contents != NULL && i < batch->changes.count; i++) {
        const struct change *change = &batch->changes.items[i];
        if ((change->flags & CHANGE_ENDED) && !(change->flags & CHANGE_FRESH)) ids[count++] = change->id;
        if (count < FORGOTTEN_AT_ONCE && i + 1 < batch->changes.count) continue;
        content_cache_forget(index->contents, ids, count);
        count = 0;
    }
}

int index_commit(struct index *index) {
    if (index->failed != 0) return index->failed;
    if (index->absorbed == index->meta.position) return 0;
    int error = index->batch.is_prepared ? 0 : prepare(index);
    if (error != 0) {
        index->failed = error; /* the commit cannot be repeated, because memory may be ahead of the disk */
        return error;
    }
    struct commit commit = {.index = index};
    error = index_write(index, commit_body, &commit);
    if (error != 0) return error;
    size_t keys = index->batch.keys.count;
    index->meta = commit.meta;
    index->has_redactions |= index->batch.redactions > 0;
    ranges_clean(index);
    keys_clean(index);
    slot_writer_reset(&index->writer);
    calendar_arrive(index);
    forget_contents(index);
    tallies_written(index);
    batch_reset(&index->batch);
    index->batch.first_id = index->tally.next_id;
    atomic_store(&index->position, index->meta.position);
    if (!index->has_redactions) atomic_store(&index->erased, index->meta.position);
    index_account(index);
    if (index->runs.list.count > RUNS_BEHIND) {
        /* Merge key runs here, because too many runs exist and this commit adds keys. */
        bool did;
        error = runs_merge(index, 3 * keys + RUN_KEYS_MIN, &did);
        if (error == -ENOSPC) error = 0; /* the commit itself has succeeded, so a full disk is no error here */
    }
    db_trim(&index->db, index_pages_max(index));
    return error;
}
