/* index_window.c: the near window of a line.
 *
 * A window reads what the plan chose, keeps the soonest, and checks each against its row. Only the index thread calls
 * it, so memory (ranges) and disk say the same. */
#include "index_select.h"

#include <assert.h>
#include <stdlib.h>

#include "seeded_bug.h"

static int ended_by_ranges(void *argument, uint64_t id, bool *out) {
    *out = ranges_ended(argument, id);
    return 0;
}

bool row_waits_at(const struct row *row, const struct line *line, uint64_t due_ms) {
    return row->state == ROW_WAITING && row->due_ms == due_ms && row->queue == line->queue && row->base == line->base &&
           row->priority == line->priority;
}

/* Reads rows by rising id. What is leased has its row elsewhere, and is rare: so that is looked for once a leased task,
 * and not once a row; and a cursor that goes on finds the next row in the page where it stands. */
struct rows_reader {
    struct index *index;
    MDB_txn *txn;
    MDB_cursor *rows;
    MDB_cursor *leased;
    uint64_t next_leased; /* the lowest id of a leased task at or above what was read last; UINT64_MAX: none */
};

static int find_leased(struct rows_reader *reader, uint64_t id) {
    MDB_val key = {sizeof id, &id}, data;
    int error = db_cursor_get(reader->leased, &key, &data, MDB_SET_RANGE);
    if (error != 0 && error != MDB_NOTFOUND) return error;
    reader->next_leased = UINT64_MAX;
    if (error == 0) memcpy(&reader->next_leased, key.mv_data, sizeof reader->next_leased);
    return 0;
}

static int reader_open(struct rows_reader *reader, struct index *index, MDB_txn *txn) {
    *reader = (struct rows_reader){.index = index, .txn = txn};
    int error = db_cursor(&index->db, txn, DB_ROWS, &reader->rows);
    return error == 0 ? db_cursor(&index->db, txn, DB_LEASED, &reader->leased) : error;
}

static void reader_close(struct rows_reader *reader) {
    if (reader->rows != NULL) mdb_cursor_close(reader->rows);
    if (reader->leased != NULL) mdb_cursor_close(reader->leased);
}

/* 1: there is none. */
static int reader_get(struct rows_reader *reader, uint64_t id, struct row *out) {
    int error = reader->next_leased < id ? find_leased(reader, id) : 0;
    if (error != 0) return error;
    if (reader->next_leased == id) return row_get_leased(reader->index, reader->txn, id, out);
    MDB_val key = {sizeof id, &id}, sealed, data;
    error = db_cursor_get(reader->rows, &key, &sealed, MDB_SET);
    if (error == MDB_NOTFOUND) return 1;
    if (error == 0) error = db_unseal(&key, &sealed, &data);
    return error != 0 ? error : row_unpack(id, &data, out);
}

/* ---- a window */

struct ask {
    const struct line *line;
    struct due after;
    uint64_t until_ms;
    size_t count_max;
};

/* `pairs` (id, due), which rise, give rows in the order of due and id: (due, place) are sorted, not rows. */
static int read_in_order(struct index *index, struct rows_reader *reader, const struct ask *ask, struct pair *pairs,
                         struct pair *spare, size_t count, struct arena *arena, struct index_rows *out) {
    struct row *rows = arena_alloc(arena, count * sizeof *rows), *sorted = arena_alloc(arena, count * sizeof *rows);
    if (rows == NULL || sorted == NULL) return -ENOMEM;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        struct row row;
        const uint64_t id = pairs[i].first, due_ms = pairs[i].id;
        index_touched(index, 1);
        int error = reader_get(reader, id, &row);
        if (error != 0) return error == 1 ? INDEX_DAMAGED : error; /* I-1: it has not ended */
        if (!row_waits_at(&row, ask->line, due_ms) && !SEEDED_BUG(stale_entry_taken)) continue;
        if (kept > 0 && rows[kept - 1].id == id) continue; /* it has two entries */
        error = row_keep(&row, arena, &rows[kept]);
        if (error != 0) return error;
        pairs[kept] = (struct pair){row.due_ms, kept};
        kept++;
    }
    pairs_sort(pairs, spare, kept);
    for (size_t i = 0; i < kept; i++) sorted[i] = rows[pairs[i].id];
    out->rows = sorted;
    out->count = kept;
    return 0;
}

/* Rows of the selected entries, read in order of id (they lie so), given back in order of due. */
static int read_rows(struct index *index, MDB_txn *txn, const struct ask *ask, const struct pairs *found,
                     struct arena *arena, struct index_rows *out) {
    if (found->count == 0) return 0;
    struct rows_reader reader;
    struct pair *pairs = malloc(2 * found->count * sizeof *pairs);
    int error = pairs == NULL ? -ENOMEM : 0;
    for (size_t i = 0; i < found->count && error == 0; i++)
        pairs[i] = (struct pair){found->items[i].id, found->items[i].first};
    if (error == 0) {
        pairs_sort(pairs, pairs + found->count, found->count);
        error = reader_open(&reader, index, txn);
        if (error == 0)
            error = read_in_order(index, &reader, ask, pairs, pairs + found->count, found->count, arena, out);
        reader_close(&reader);
    }
    free(pairs);
    return error;
}

/* What is kept for the line's next windows: more than this one may have. */
static size_t read_ahead_pairs(const struct index *index) {
    size_t pairs = index->options.memory / READ_AHEAD_MEMORY_SHARE / sizeof(struct pair);
    return pairs < READ_AHEAD_PAIRS_MAX ? pairs : READ_AHEAD_PAIRS_MAX;
}

static int select_slots(struct index *index, MDB_txn *txn, const struct ask *ask, const struct plan *plan,
                        struct selection *selection, struct due *out_through) {
    size_t most = read_ahead_pairs(index);
    if (selection->count_max < most) selection->count_max = most;
    int error = selection_read(index, txn, ask->line, plan, ask->after, ask->until_ms, ended_by_ranges, &index->ranges,
                               selection);
    if (error != 0) return error;
    *out_through = selection_through(selection, plan->horizon_ms);
    if (selection->found.count > ask->count_max) read_ahead_keep(index, ask->line, selection, *out_through);
    selection->count_max = ask->count_max;
    *out_through = selection_through(selection, plan->horizon_ms);
    return 0;
}

static int select_read_ahead(struct index *index, const struct ask *ask, const struct read_ahead *read_ahead,
                             struct selection *selection, struct due *out_through) {
    int error = selection_take(selection, (const uint8_t *)read_ahead->pairs.items, read_ahead->pairs.count, ask->after,
                               read_ahead->horizon_ms, ask->until_ms, ended_by_ranges, &index->ranges);
    if (error != 0) return error;
    *out_through = selection_through(selection, read_ahead->horizon_ms);
    if (due_before(read_ahead->through, *out_through)) *out_through = read_ahead->through;
    return 0;
}

/* `plan` is void if `read_ahead` is not NULL. */
static int window_read(struct index *index, MDB_txn *txn, const struct ask *ask, const struct plan *plan,
                       const struct read_ahead *read_ahead, struct arena *arena, struct index_rows *out,
                       struct due *out_through) {
    struct selection selection = {.found = index->scratch,
                                  .count_max = ask->count_max,
                                  .bound = DUE_END,
                                  .beyond_ms = UINT64_MAX};
    struct index_rows rows = {.position = index->meta.position};
    struct due through;
    selection.found.count = 0;
    int error = read_ahead != NULL ? select_read_ahead(index, ask, read_ahead, &selection, &through)
                                   : select_slots(index, txn, ask, plan, &selection, &through);
    index->scratch = selection.found;
    if (error != 0) return error;
    if (due_before(through, ask->after)) through = ask->after;
    error = read_rows(index, txn, ask, &selection.found, arena, &rows);
    if (error != 0) return error;
    read_ahead_given(index, ask->line, through);
    *out = rows;
    *out_through = through;
    return 0;
}

int index_window(struct index *index, const struct line *line, struct due after, uint64_t until_ms, size_t count_max,
                 struct arena *arena, struct index_rows *out, struct due *out_through, bool *out_again) {
    assert(count_max > 0);
    const struct ask ask = {line, after, until_ms, count_max};
    uint64_t from_ms = after.due_ms;
    if (after.id == UINT64_MAX && from_ms < UINT64_MAX) from_ms++; /* nothing of that millisecond is left */
    MDB_txn *txn;
    int error = db_read(&index->db, &txn);
    if (error != 0) return error;
    struct plan *plan = malloc(sizeof *plan);
    struct read_ahead *read_ahead = read_ahead_find(index, line, after);
    if (plan == NULL)
        error = -ENOMEM;
    else if (read_ahead == NULL)
        error = plan_make(index, txn, line, from_ms, until_ms, plan);
    /* Whoever may not write reads large slots as a whole, every time. */
    bool again = error == 0 && read_ahead == NULL && plan->upper > WINDOW_READ_MAX && !index->options.read_only;
    if (error == 0 && !again) error = window_read(index, txn, &ask, plan, read_ahead, arena, out, out_through);
    db_read_end(&index->db, txn);
    if (again) {
        error = slots_cascade(index, line, &plan->highest);
        if (error == 0) *out = (struct index_rows){.position = index->meta.position};
    }
    free(plan);
    if (error != 0) return error;
    *out_again = again;
    db_trim(&index->db, index_pages_max(index));
    return 0;
}
