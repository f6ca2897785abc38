/* index_window.c: reads a line's near window: the soonest waiting tasks of one queue, time base and priority.
 *
 * A plan (index_select.h) lists the slots of the timing wheel that may have these tasks. A window reads those slots,
 * selects the soonest entries, and checks each entry against its row. Entries that the window does not return are kept
 * for the line's next windows (index_read_ahead.c). Only the index thread calls index_window, so the ranges in memory
 * agree with the disk. */
#include "index_select.h"

#include <assert.h>
#include <stdlib.h>

static int ended_by_ranges(void *argument, uint64_t id, bool *out) {
    *out = ranges_ended(argument, id);
    return 0;
}

bool row_waits_at(const struct row *row, const struct line *line, uint64_t due_ms) {
    return row->state == ROW_WAITING && row->due_ms == due_ms && row->queue == line->queue && row->base == line->base &&
           row->priority == line->priority;
}

#define PREFETCH_ROWS 8u /* number of rows to prefetch: rows are stored by id, but returned by due time */

/* Reads rows in ascending order of id. Leased rows are in DB_LEASED and rare, so the reader searches that table once
 * per leased task, not once per row. A cursor that moves forward usually finds the next row on the same page. */
struct rows_reader {
    struct index *index;
    MDB_txn *txn;
    MDB_cursor *rows;
    MDB_cursor *leased;
    /* Id of the next leased task, at or above the id of the row read last; UINT64_MAX: no such task. */
    uint64_t next_leased;
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

/* Reads a row. 1: not found. */
static int reader_get(struct rows_reader *reader, uint64_t id, struct row *out, MDB_val *out_packed) {
    int error = reader->next_leased < id ? find_leased(reader, id) : 0;
    if (error != 0) return error;
    const bool is_leased = reader->next_leased == id;
    MDB_val key = {sizeof id, &id}, sealed;
    error = db_cursor_get(is_leased ? reader->leased : reader->rows, &key, &sealed, MDB_SET);
    if (error == MDB_NOTFOUND) return 1;
    if (error == 0) error = db_unseal(&key, &sealed, out_packed);
    if (error == 0) error = row_unpack(id, out_packed, out);
    return error == 0 && is_leased && out->state != ROW_LEASED ? INDEX_DAMAGED : error;
}

/* ---- rows of a read-ahead */

/* Reads the row of the task that `read_ahead->pairs.items[place]` names. The task may have ended or moved since the
 * slot was written. */
static int read_row(struct rows_reader *reader, struct read_ahead *read_ahead, size_t place) {
    const struct pair pair = read_ahead->pairs.items[place];
    struct row row;
    MDB_val packed;
    read_ahead->places[place] = ROW_GONE;
    if (ranges_ended(&reader->index->ranges, pair.id)) return 0;
    index_touched(reader->index, 1);
    int error = reader_get(reader, pair.id, &row, &packed);
    if (error != 0) return error == 1 ? INDEX_DAMAGED : error; /* I-1: a task that has not ended must have a row */
    if (!row_waits_at(&row, &read_ahead->line, pair.first)) return 0;
    const uint16_t size = (uint16_t)packed.mv_size;
    error = VECTOR_RESERVE(&read_ahead->rows, sizeof size + size);
    if (error != 0) return error;
    read_ahead->places[place] = (uint32_t)read_ahead->rows.count;
    memcpy(read_ahead->rows.items + read_ahead->rows.count, &size, sizeof size);
    memcpy(read_ahead->rows.items + read_ahead->rows.count + sizeof size, packed.mv_data, size);
    read_ahead->rows.count += sizeof size + size;
    return 0;
}

/* Reads the missing rows of the entries from `from` to `to` (exclusive) in order of id, which is their order on disk.
 * Stops when the rows fill `room` bytes. */
static int read_rows(struct index *index, MDB_txn *txn, struct read_ahead *read_ahead, size_t from, size_t to,
                     size_t room) {
    size_t count = 0, unread_count = 0;
    for (size_t i = from; i < to; i++) count += read_ahead->places[i] == ROW_UNREAD;
    if (count == 0) return 0;
    struct rows_reader reader;
    struct pair *unread = malloc(2 * count * sizeof *unread);
    if (unread == NULL) return -ENOMEM;
    for (size_t i = from; i < to; i++) {
        if (read_ahead->places[i] != ROW_UNREAD) continue;
        unread[unread_count++] = (struct pair){read_ahead->pairs.items[i].id, i};
    }
    pairs_sort(unread, unread + count, count);
    int error = reader_open(&reader, index, txn);
    for (size_t i = 0; i < count && error == 0 && read_ahead->rows.count < room; i++)
        error = read_row(&reader, read_ahead, unread[i].id);
    reader_close(&reader);
    free(unread);
    return error;
}

/* ---- a window */

struct ask {
    const struct line *line;
    struct due after;
    uint64_t until_ms;
    size_t count_max;
};

/* Reads rows for several windows at once. With a million tasks and random due times, the rows of one window are on
 * nearly every page. */
static int read_further(struct index *index, MDB_txn *txn, const struct ask *ask, struct read_ahead *read_ahead) {
    if (read_ahead->next < read_ahead->looked) return 0;
    size_t to = read_ahead->next, most = to + READ_AHEAD_ROWS_MAX;
    if (most > read_ahead->pairs.count) most = read_ahead->pairs.count;
    while (to < most && read_ahead->pairs.items[to].first <= ask->until_ms) to++;
    read_ahead->looked = to;
    read_ahead->rows.count = 0;
    return read_rows(index, txn, read_ahead, read_ahead->next, to, read_ahead_room(index, read_ahead));
}

/* Returns the index behind the last entry that the window returns. The window is complete up to the due time and id
 * `*out_through`. */
static size_t window_end(const struct read_ahead *read_ahead, const struct ask *ask, struct due *out_through) {
    const struct pair *pairs = read_ahead->pairs.items;
    const uint64_t horizon_ms = read_ahead->horizon_ms;
    size_t end = read_ahead->next, count = 0;
    for (; end < read_ahead->looked && count < ask->count_max; end++) {
        if (pairs[end].first >= horizon_ms || pairs[end].first > ask->until_ms) break;
        count += read_ahead->places[end] != ROW_GONE;
    }
    uint64_t next_ms = end < read_ahead->pairs.count ? pairs[end].first : UINT64_MAX;
    if (end > read_ahead->next && next_ms <= ask->until_ms && next_ms < horizon_ms) {
        *out_through = (struct due){pairs[end - 1].first, pairs[end - 1].id}; /* more entries follow `end` */
        return end;
    }
    if (horizon_ms < next_ms) next_ms = horizon_ms;
    *out_through = read_ahead->through;
    struct due before = {next_ms - 1, UINT64_MAX};
    if (next_ms < UINT64_MAX && due_before(before, *out_through)) *out_through = before;
    return end;
}

/* Returns the rows of the entries up to `end`, in order of the entries. */
static int give_rows(const struct read_ahead *read_ahead, size_t end, struct arena *arena, struct index_rows *out) {
    size_t count = 0;
    for (size_t i = read_ahead->next; i < end; i++) count += read_ahead->places[i] != ROW_GONE;
    if (count == 0) return 0;
    struct row *rows = arena_alloc(arena, count * sizeof *rows);
    if (rows == NULL) return -ENOMEM;
    out->rows = rows;
    for (size_t i = read_ahead->next; i < end; i++) {
        if (i + PREFETCH_ROWS < end && read_ahead->places[i + PREFETCH_ROWS] < ROW_GONE)
            __builtin_prefetch(read_ahead->rows.items + read_ahead->places[i + PREFETCH_ROWS]);
        if (read_ahead->places[i] == ROW_GONE) continue;
        const uint8_t *at = read_ahead->rows.items + read_ahead->places[i];
        struct row row;
        uint16_t size;
        memcpy(&size, at, sizeof size);
        const MDB_val packed = {size, (void *)(at + sizeof size)};
        int error = row_unpack(read_ahead->pairs.items[i].id, &packed, &row);
        if (error == 0) error = row_keep(&row, arena, &rows[out->count]);
        if (error != 0) return error;
        out->count++;
    }
    return 0;
}

static int window_give(struct index *index, MDB_txn *txn, const struct ask *ask, struct read_ahead *read_ahead,
                       struct arena *arena, struct index_rows *out, struct due *out_through) {
    struct index_rows rows = {.position = index->meta.position};
    struct due through;
    int error = read_further(index, txn, ask, read_ahead);
    if (error != 0) return error;
    const size_t end = window_end(read_ahead, ask, &through), kept = read_ahead->rows.count;
    /* Reads rows that a commit changed, and rows for which the last read-ahead had no room. */
    error = read_rows(index, txn, read_ahead, read_ahead->next, end, SIZE_MAX);
    if (error == 0) error = give_rows(read_ahead, end, arena, &rows);
    read_ahead->rows.count = kept;
    if (error != 0) return error;
    if (due_before(through, ask->after)) through = ask->after;
    read_ahead_given(index, read_ahead, end, through);
    *out = rows;
    *out_through = through;
    return 0;
}

/* Returns the number of entries to select, including those kept for the line's next windows. */
static size_t read_ahead_pairs(const struct index *index) {
    size_t pairs = index->options.memory / READ_AHEAD_MEMORY_SHARE / sizeof(struct pair);
    return pairs < READ_AHEAD_PAIRS_MAX ? pairs : READ_AHEAD_PAIRS_MAX;
}

/* Reads a window from the slots. */
static int window_read(struct index *index, MDB_txn *txn, const struct ask *ask, const struct plan *plan,
                       struct arena *arena, struct index_rows *out, struct due *out_through) {
    struct selection selection = {.found = index->scratch,
                                  .count_max = read_ahead_pairs(index),
                                  .bound = DUE_END,
                                  .beyond_ms = UINT64_MAX};
    struct read_ahead read_ahead;
    selection.found.count = 0;
    if (selection.count_max < ask->count_max) selection.count_max = ask->count_max;
    int error = selection_read(index, txn, ask->line, plan, ask->after, ask->until_ms, ended_by_ranges, &index->ranges,
                               &selection);
    if (error == 0) {
        struct due through = selection_through(&selection, plan->horizon_ms);
        error = read_ahead_make(ask->line, &selection, ask->after, through, &read_ahead);
    }
    index->scratch = selection.found;
    if (error != 0) return error;
    error = window_give(index, txn, ask, &read_ahead, arena, out, out_through);
    if (error == 0)
        read_ahead_keep(index, &read_ahead);
    else
        read_ahead_drop(&read_ahead);
    return error;
}

int index_window(struct index *index, const struct line *line, struct due after, uint64_t until_ms, size_t count_max,
                 struct arena *arena, struct index_rows *out, struct due *out_through, bool *out_again) {
    assert(count_max > 0);
    const struct ask ask = {line, after, until_ms, count_max};
    uint64_t from_ms = after.due_ms;
    if (after.id == UINT64_MAX && from_ms < UINT64_MAX)
        from_ms++; /* `after` is behind the last possible id of its millisecond, so start at the next millisecond */
    MDB_txn *txn;
    int error = db_read(&index->db, &txn);
    if (error != 0) return error;
    struct plan *plan = malloc(sizeof *plan);
    struct read_ahead *read_ahead = read_ahead_find(index, line, after);
    if (plan == NULL)
        error = -ENOMEM;
    else if (read_ahead == NULL)
        error = plan_make(index, txn, line, from_ms, until_ms, plan);
    /* A read-only index cannot cascade (move a large slot's entries to finer slots), so each window reads large slots
     * as a whole. */
    bool again = error == 0 && read_ahead == NULL && plan->upper > WINDOW_READ_MAX && !index->options.read_only;
    if (error == 0 && read_ahead != NULL)
        error = window_give(index, txn, &ask, read_ahead, arena, out, out_through);
    else if (error == 0 && !again)
        error = window_read(index, txn, &ask, plan, arena, out, out_through);
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
