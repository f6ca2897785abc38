/* index_sweep.c: deletes stale entries of slots.
 *
 * There are two kinds of sweep. Both work in bounded steps, and check an entry's row before they delete the entry:
 *   advised  the slots of a line below the point that the core named (index_advise_low)
 *   whole    all slots, when there are more than twice as many entries as live tasks, so that more than half of them
 *            are stale
 *
 * Without the second kind, the stale entry of a task that was moved or cancelled long before its due time would use
 * space until that time. */
#include "index_parts.h"

#include <assert.h>
#include <stdlib.h>

#define LINES_MAX ((size_t)(QUEUE_PLACES + 1) * ROW_BASES * PRIORITY_COUNT)
#define LOWS_PER_LOOK 64u /* number of lines that one search examines for a line whose sweep may start */

static size_t low_place(const struct line *line) {
    return ((size_t)queue_place(line->queue) * ROW_BASES + line->base) * PRIORITY_COUNT + line->priority;
}

/* Returns the advice of a line. NULL: out of memory, or the line belongs to a deleted queue. */
static struct low *low_of(struct index *index, const struct line *line) {
    if (index->low_places == NULL) index->low_places = calloc(LINES_MAX, sizeof *index->low_places);
    if (index->low_places == NULL) return NULL;
    uint32_t *place = &index->low_places[low_place(line)];
    if (*place == 0) {
        struct low new_low = {.line = *line};
        if (VECTOR_PUSH(&index->lows, new_low) != 0) return NULL;
        *place = (uint32_t)index->lows.count;
    }
    struct low *low = &index->lows.items[*place - 1];
    if (low->line.queue != line->queue) { /* the place in the table of queues now has another queue */
        if (queue_generation(low->line.queue) > queue_generation(line->queue)) return NULL;
        *low = (struct low){.line = *line, .next = low->next, .is_listed = low->is_listed};
    }
    return low;
}

static void list_low(struct index *index, struct low *low) {
    if (low->is_listed) return;
    uint32_t number = (uint32_t)(low - index->lows.items) + 1;
    if (index->lows_wanted.first == 0)
        index->lows_wanted.first = number;
    else
        index->lows.items[index->lows_wanted.last - 1].next = number;
    index->lows_wanted.last = number;
    low->next = 0;
    low->is_listed = true;
}

/* Removes the first line from the list. If the line still needs a sweep, moves it to the end instead. */
static void pass_turn(struct index *index) {
    struct low *first = &index->lows.items[index->lows_wanted.first - 1];
    index->lows_wanted.first = first->next;
    first->is_listed = false;
    if (first->is_wanted) list_low(index, first);
}

void index_advise_low(struct index *index, const struct line *line, struct due low) {
    struct low *found = low_of(index, line);
    if (found == NULL) return; /* without memory, drop the advice; the core repeats it */
    if (!due_before(found->low, low)) return;
    found->low = low;
    found->is_wanted = true;
    found->pause = 0;
    list_low(index, found);
}

struct slot_sweep {
    struct index *index;
    struct low *low;    /* advice of the swept line; NULL: a sweep over all slots */
    struct slot_key at; /* position of a sweep of all slots: continue after this chunk */
    struct meta_record meta;
    unsigned level;
    uint64_t slot, chunk; /* slot and chunk at which the sweep of slots continues */
    bool kept, done;
    bool is_changed; /* false: the step has nothing to write */
};

/* Rewrites one chunk without its stale entries. */
static int sweep_chunk(struct slot_sweep *sweep, MDB_txn *txn, const MDB_val *key, const MDB_val *sealed) {
    struct index *index = sweep->index;
    struct pair left[PAIRS_PER_CHUNK];
    uint8_t key_bytes[SLOT_KEY_SIZE];
    size_t count = 0;
    MDB_val data;
    struct slot_key at;
    int error = db_unseal(key, sealed, &data);
    if (error != 0) return error;
    if (!slot_key_decode(key, &at)) return INDEX_DAMAGED;
    size_t before = pairs_in(&data);
    if (before == 0 || before > PAIRS_PER_CHUNK) return INDEX_DAMAGED;
    for (size_t i = 0; i < before; i++) ranges_prefetch(&index->ranges, pair_at(data.mv_data, i).id);
    for (size_t i = 0; i < before; i++) {
        struct pair pair = pair_at(data.mv_data, i);
        if (ranges_ended(&index->ranges, pair.id)) continue;
        struct row row;
        error = row_get(index, txn, pair.id, &row);
        if (error != 0) return error == 1 ? INDEX_DAMAGED : error;
        if (row_waits_at(&row, &at.line, pair.first)) left[count++] = pair;
    }
    sweep->kept = sweep->kept || count > 0;
    sweep->meta.slot_entries -= before - count;
    if (count == before) return 0;
    sweep->is_changed = true;
    memcpy(key_bytes, key->mv_data, sizeof key_bytes);
    if (count == 0) {
        error = db_del(&index->db, txn, DB_SLOTS, key_bytes, sizeof key_bytes);
        return error == 1 ? INDEX_DAMAGED : error;
    }
    return db_put(&index->db, txn, DB_SLOTS, key_bytes, sizeof key_bytes, left, count * sizeof(struct pair), 0);
}

/* Finds the next chunk of the sweep, or the end. Searches again each time, because the last step may have deleted
 * chunks. */
static int sweep_next(struct slot_sweep *sweep, MDB_cursor *cursor, MDB_val *key, MDB_val *sealed) {
    const struct line *line = &sweep->low->line;
    for (; sweep->level < SLOT_LEVELS; sweep->level++, sweep->slot = sweep->chunk = 0) {
        struct slot_key from = {*line, (uint8_t)sweep->level, sweep->slot, sweep->chunk}, at;
        uint8_t bytes[SLOT_KEY_SIZE];
        slot_key_encode(&from, bytes);
        *key = (MDB_val){sizeof bytes, bytes};
        int found = db_cursor_get(cursor, key, sealed, MDB_SET_RANGE);
        if (found != 0 && found != MDB_NOTFOUND) return found;
        if (found == MDB_NOTFOUND) continue;
        if (!slot_key_decode(key, &at)) return INDEX_DAMAGED;
        bool is_ours = at.line.queue == line->queue && at.line.base == line->base &&
                       at.line.priority == line->priority && at.level == sweep->level;
        /* A sweep of a line covers only slots that end before `low` (index_advise_low), because the core may still need
         * later entries. */
        if (!is_ours || at.slot >= sweep->low->low.due_ms >> slot_shift(sweep->level)) continue;
        sweep->slot = at.slot;
        sweep->chunk = at.chunk + 1;
        return 0;
    }
    sweep->done = true;
    return 0;
}

/* Finds the next chunk of the whole table, or the end. */
static int whole_next(struct slot_sweep *sweep, MDB_cursor *cursor, MDB_val *key, MDB_val *sealed) {
    uint8_t bytes[SLOT_KEY_SIZE];
    slot_key_encode(&sweep->at, bytes);
    *key = (MDB_val){sizeof bytes, bytes};
    int found = db_cursor_get(cursor, key, sealed, MDB_SET_RANGE);
    if (found == MDB_NOTFOUND) {
        sweep->done = true;
        return 0;
    }
    if (found == 0 && !slot_key_decode(key, &sweep->at)) return INDEX_DAMAGED;
    sweep->at.chunk++;
    return found;
}

static int slot_sweep_body(void *argument, MDB_txn *txn) {
    struct slot_sweep *sweep = argument;
    struct index *index = sweep->index;
    sweep->meta = index->meta;
    sweep->done = sweep->is_changed = false;
    if (sweep->low != NULL) {
        sweep->level = sweep->low->level;
        sweep->slot = sweep->low->slot;
        sweep->chunk = sweep->low->chunk;
        sweep->kept = sweep->low->kept;
    } else {
        sweep->at = index->whole.at;
    }
    MDB_cursor *cursor;
    int error = db_cursor(&index->db, txn, DB_SLOTS, &cursor);
    if (error != 0) return error;
    for (unsigned i = 0; i < SWEEP_STEP_CHUNKS && error == 0; i++) {
        MDB_val key, sealed;
        error =
            sweep->low != NULL ? sweep_next(sweep, cursor, &key, &sealed) : whole_next(sweep, cursor, &key, &sealed);
        if (error != 0 || sweep->done) break;
        error = sweep_chunk(sweep, txn, &key, &sealed);
    }
    mdb_cursor_close(cursor);
    if (error != 0) return error;
    return sweep->is_changed ? meta_put(index, txn, &sweep->meta) : 1;
}

/* Returns a line that needs a sweep. Either index_advise_low raised the line's `low`, or the last sweep left entries in
 * place and commits have followed. The index is behind the core. So at the time of a sweep, the index may not have
 * absorbed the leases and endings that the core knew when it called index_advise_low. */
static struct low *low_wanted(struct index *index) {
    for (unsigned i = 0; i < LOWS_PER_LOOK && index->lows_wanted.first != 0; i++) {
        struct low *low = &index->lows.items[index->lows_wanted.first - 1];
        if (low->is_open || (low->is_wanted && index->meta.position >= low->not_before)) return low;
        pass_turn(index);
    }
    return NULL;
}

static bool whole_wanted(const struct index *index) {
    uint64_t entries = index->meta.slot_entries;
    return index->whole.is_open ||
           (entries > 2 * index->meta.live + SLOT_SLACK && entries / 2 > index->whole.entries_after);
}

bool slots_sweep_wanted(struct index *index) {
    return low_wanted(index) != NULL || whole_wanted(index);
}

static int sweep_whole(struct index *index, bool *out_did) {
    *out_did = whole_wanted(index);
    if (!*out_did) return 0;
    if (!index->whole.is_open) index->whole.at = (struct slot_key){0};
    index->whole.is_open = true;
    struct slot_sweep sweep = {.index = index};
    int error = index_write(index, slot_sweep_body, &sweep);
    if (error < 0) return error; /* 1: no entry was stale, so nothing was written */
    index->meta = sweep.meta;
    index->whole.at = sweep.at;
    if (sweep.done) {
        index->whole.is_open = false;
        /* The remaining entries are valid, or duplicates. The next sweep starts when their number has doubled. */
        index->whole.entries_after = index->meta.slot_entries;
    }
    return 0;
}

int slots_sweep(struct index *index, bool *out_did) {
    struct low *low = low_wanted(index);
    if (low == NULL) return sweep_whole(index, out_did);
    *out_did = true;
    if (!low->is_open) {
        low->is_open = true;
        low->is_wanted = false;
        low->kept = false;
        low->level = 0;
        low->slot = low->chunk = 0;
    }
    struct slot_sweep sweep = {.index = index, .low = low};
    int error = index_write(index, slot_sweep_body, &sweep);
    if (error < 0) return error; /* 1: no entry was stale, so nothing was written */
    index->meta = sweep.meta;
    low->level = (uint8_t)sweep.level;
    low->slot = sweep.slot;
    low->chunk = sweep.chunk;
    low->kept = sweep.kept;
    if (sweep.done) {
        low->is_open = false;
        low->is_wanted = low->is_wanted || sweep.kept;
        /* Sweep the remaining entries again later; double the pause while the advice does not change. */
        low->pause = low->pause == 0 ? LOW_PAUSE_BYTES : low->pause * 2;
        low->not_before = sweep.kept ? index->meta.position + low->pause : 0;
        pass_turn(index);
    }
    return 0;
}
