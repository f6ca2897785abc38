/* index_window.c: the near window of a line.
 *
 * A window reads what the plan chose, keeps the soonest, and checks each against its row. Only the index thread calls
 * it, so memory (ranges) and disk say the same. */
#include "index_parts.h"

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
        index_touched(index, 1);
        int error = row_get(index, txn, found->items[i].id, &row);
        if (error != 0) return error == 1 ? INDEX_DAMAGED : error; /* I-1: it has not ended */
        if (!row_waits_at(&row, line, found->items[i].first) && !SEEDED_BUG(stale_entry_taken)) continue;
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
    /* Whoever may not write reads large slots as a whole, every time. */
    bool again = error == 0 && plan->upper > WINDOW_READ_MAX && !index->options.read_only;
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
    db_trim(&index->db, index_pages_max(index));
    return 0;
}
