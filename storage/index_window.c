/* index_window.c: the near window of a line, and the sweep of slots that lie below what the core still wants.
 *
 * A window reads what the plan chose, keeps the soonest, and checks each against its row. Only the index thread calls
 * it, so memory (ranges) and disk say the same. */
#include "index_parts.h"

#include <assert.h>
#include <stdlib.h>

static int ended_by_ranges(void *argument, uint64_t id, bool *out) {
    *out = ranges_ended(argument, id);
    return 0;
}

static bool is_waiting_at(const struct row *row, const struct line *line, uint64_t due_ms) {
    return row->state == ROW_WAITING && row->due_ms == due_ms && row->queue == line->queue && row->base == line->base &&
           row->priority == line->priority;
}

static int compare_ids(const void *a, const void *b) {
    const struct pair *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int compare_rows(const void *a, const void *b) {
    const struct row *x = a, *y = b;
    if (x->due_ms != y->due_ms) return x->due_ms < y->due_ms ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Rows of the selected entries, read in order of id (they lie so), given back in order of due. */
static int read_rows(struct index *index, MDB_txn *txn, const struct line *line, struct pairs *found,
                     struct arena *arena, struct index_rows *out) {
    if (found->count == 0) return 0;
    qsort(found->items, found->count, sizeof(struct pair), compare_ids);
    struct row *rows = arena_alloc(arena, found->count * sizeof *rows);
    if (rows == NULL) return -ENOMEM;
    size_t count = 0;
    for (size_t i = 0; i < found->count; i++) {
        struct row row;
        int error = row_get(index, txn, found->items[i].id, &row);
        if (error != 0) return error == 1 ? INDEX_DAMAGED : error; /* I-1: it has not ended */
        if (!is_waiting_at(&row, line, found->items[i].first)) continue;
        error = row_keep(&row, arena, &rows[count]);
        if (error != 0) return error;
        count++;
    }
    if (count > 1) qsort(rows, count, sizeof *rows, compare_rows);
    out->rows = rows;
    out->count = count;
    return 0;
}

static int window_read(struct index *index, MDB_txn *txn, const struct line *line, struct due after, uint64_t until_ms,
                       struct selection *selection, const struct plan *plan, struct arena *arena,
                       struct index_rows *out, struct due *out_through) {
    int error = selection_read(index, txn, line, plan, after, until_ms, ended_by_ranges, &index->ranges, selection);
    if (error != 0) return error;
    struct due through;
    selection_finish(selection, plan, &through);
    if (due_before(through, after)) through = after;
    struct index_rows rows = {.position = index->meta.position};
    error = read_rows(index, txn, line, &selection->found, arena, &rows);
    if (error != 0) return error;
    *out = rows;
    *out_through = through;
    return 0;
}

int index_window(struct index *index, const struct line *line, struct due after, uint64_t until_ms, size_t count_max,
                 struct arena *arena, struct index_rows *out, struct due *out_through, bool *out_again) {
    assert(count_max > 0);
    uint64_t from_ms = after.due_ms;
    if (after.id == UINT64_MAX && from_ms < UINT64_MAX) from_ms++; /* nothing of that millisecond is left */
    MDB_txn *txn;
    int error = db_read(&index->db, &txn);
    if (error != 0) return error;
    struct plan *plan = malloc(sizeof *plan);
    error = plan == NULL ? -ENOMEM : plan_make(index, txn, line, from_ms, until_ms, plan);
    bool again = error == 0 && plan->upper > WINDOW_READ_MAX;
    if (error == 0 && !again) {
        struct selection selection = {.found = index->scratch,
                                      .count_max = count_max,
                                      .bound = DUE_END,
                                      .beyond_ms = UINT64_MAX};
        selection.found.count = 0;
        error = window_read(index, txn, line, after, until_ms, &selection, plan, arena, out, out_through);
        index->scratch = selection.found;
    }
    db_read_end(&index->db, txn);
    if (again) {
        error = slots_cascade(index, line, &plan->highest);
        if (error == 0) *out = (struct index_rows){.position = index->meta.position};
    }
    free(plan);
    if (error != 0) return error;
    *out_again = again;
    db_trim(&index->db, index->options.memory);
    return 0;
}

void index_advise_low(struct index *index, const struct line *line, struct due low) {
    struct low *found = NULL;
    for (size_t i = 0; i < index->lows.count; i++) {
        const struct line *other = &index->lows.items[i].line;
        if (other->queue == line->queue && other->base == line->base && other->priority == line->priority) {
            found = &index->lows.items[i];
        }
    }
    if (found == NULL) {
        struct low new_low = {.line = *line};
        if (VECTOR_PUSH(&index->lows, new_low) != 0) return; /* advice only: it comes again */
        found = &index->lows.items[index->lows.count - 1];
    }
    if (!due_before(found->low, low)) return;
    found->low = low;
    found->is_wanted = true;
    found->pause = 0;
}

struct slot_sweep {
    struct index *index;
    struct low *low;
    struct meta_record meta;
    unsigned level;
    uint64_t slot, chunk; /* where the pass goes on */
    bool kept, done;
    bool is_changed; /* otherwise there is nothing to write */
};

/* Rewrites one chunk without its stale entries. */
static int sweep_chunk(struct slot_sweep *sweep, MDB_txn *txn, const MDB_val *key, const MDB_val *sealed) {
    struct index *index = sweep->index;
    struct pair left[PAIRS_PER_CHUNK];
    uint8_t key_bytes[SLOT_KEY_SIZE];
    size_t count = 0;
    MDB_val data;
    int error = db_unseal(key, sealed, &data);
    if (error != 0) return error;
    size_t before = data.mv_size / sizeof(struct pair);
    if (before > PAIRS_PER_CHUNK) return INDEX_DAMAGED;
    for (size_t i = 0; i < before; i++) {
        struct pair pair = pair_at(data.mv_data, i);
        if (ranges_ended(&index->ranges, pair.id)) continue;
        struct row row;
        error = row_get(index, txn, pair.id, &row);
        if (error != 0) return error == 1 ? INDEX_DAMAGED : error;
        if (is_waiting_at(&row, &sweep->low->line, pair.first)) left[count++] = pair;
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

/* The next chunk of the pass, or done. The position is sought anew each time: the last step may have deleted. */
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
        /* Only slots that end below the advice: the others may hold what is still wanted. */
        if (!is_ours || at.slot >= sweep->low->low.due_ms >> slot_shift(sweep->level)) continue;
        sweep->slot = at.slot;
        sweep->chunk = at.chunk + 1;
        return 0;
    }
    sweep->done = true;
    return 0;
}

static int slot_sweep_body(void *argument, MDB_txn *txn) {
    struct slot_sweep *sweep = argument;
    struct index *index = sweep->index;
    sweep->meta = index->meta;
    sweep->level = sweep->low->level;
    sweep->slot = sweep->low->slot;
    sweep->chunk = sweep->low->chunk;
    sweep->kept = sweep->low->kept;
    sweep->done = sweep->is_changed = false;
    MDB_cursor *cursor;
    int error = db_cursor(&index->db, txn, DB_SLOTS, &cursor);
    if (error != 0) return error;
    for (unsigned i = 0; i < SWEEP_STEP_CHUNKS && error == 0; i++) {
        MDB_val key, sealed;
        error = sweep_next(sweep, cursor, &key, &sealed);
        if (error != 0 || sweep->done) break;
        error = sweep_chunk(sweep, txn, &key, &sealed);
    }
    mdb_cursor_close(cursor);
    if (error != 0) return error;
    return sweep->is_changed ? meta_put(index, txn, &sweep->meta) : 1;
}

/* A pass over a line is wanted when its advice grew, or when the last pass left something and commits came since: the
 * index trails the core, so a lease or an ending that the advice rests on may come later. */
static struct low *low_wanted(struct index *index) {
    for (size_t i = 0; i < index->lows.count; i++) {
        struct low *low = &index->lows.items[i];
        if (low->is_open) return low;
        if (low->is_wanted && index->meta.position >= low->not_before) return low;
    }
    return NULL;
}

bool slots_sweep_wanted(struct index *index) {
    return low_wanted(index) != NULL;
}

int slots_sweep(struct index *index, bool *out_did) {
    struct low *low = low_wanted(index);
    *out_did = low != NULL;
    if (low == NULL) return 0;
    if (!low->is_open) {
        low->is_open = true;
        low->is_wanted = false;
        low->kept = false;
        low->level = 0;
        low->slot = low->chunk = 0;
    }
    struct slot_sweep sweep = {.index = index, .low = low};
    int error = index_write(index, slot_sweep_body, &sweep);
    if (error < 0) return error; /* 1: nothing was stale, nothing was written */
    index->meta = sweep.meta;
    low->level = (uint8_t)sweep.level;
    low->slot = sweep.slot;
    low->chunk = sweep.chunk;
    low->kept = sweep.kept;
    if (sweep.done) {
        low->is_open = false;
        low->is_wanted = low->is_wanted || sweep.kept;
        /* What it left will be looked at again, but ever more seldom while the advice stands still. */
        low->pause = low->pause == 0 ? LOW_PAUSE_BYTES : low->pause * 2;
        low->not_before = sweep.kept ? index->meta.position + low->pause : 0;
    }
    return 0;
}
