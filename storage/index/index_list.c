/* index_list.c: lists rows of a queue in order of (due, id), for operators. Any thread.
 *
 * Waiting tasks come from the slots of the queue's twenty lines (two time bases, ten priorities). Leased and dead tasks
 * come from DB_HELD. Each source reports up to where it was read; rows beyond the lowest of these points are left to
 * the next call. A list does not write: it reads a large slot as a whole, and keeps only the soonest entries. */
#include "index_select.h"

#include <assert.h>
#include <stdlib.h>

struct listing {
    struct reading reading;
    const struct index_query *query;
    struct due after; /* start of the list: the later one of query.after and due_from */
    uint64_t until_ms;
    size_t examine_max;
    struct pairs candidates;
    struct due through;
};

static int ended_by_view(void *argument, uint64_t id, bool *out) {
    struct reading *reading = argument;
    return range_view_ended(reading->index, reading->txn, &reading->view, id, out);
}

static int list_line(struct listing *listing, const struct line *line, struct plan *plan) {
    struct reading *reading = &listing->reading;
    uint64_t from_ms = listing->after.due_ms;
    if (listing->after.id == UINT64_MAX && from_ms < UINT64_MAX) from_ms++;
    int error = plan_make(reading->index, reading->txn, line, from_ms, listing->until_ms, plan);
    if (error != 0) return error;
    struct selection selection = {.count_max = listing->examine_max, .bound = DUE_END, .beyond_ms = UINT64_MAX};
    error = selection_read(reading->index, reading->txn, line, plan, listing->after, listing->until_ms, ended_by_view,
                           reading, &selection);
    if (error == 0) {
        struct due through;
        selection_finish(&selection, plan, &through);
        if (due_before(through, listing->through)) listing->through = through;
        error = VECTOR_RESERVE(&listing->candidates, selection.found.count);
    }
    if (error == 0 && selection.found.count > 0) {
        memcpy(listing->candidates.items + listing->candidates.count, selection.found.items,
               selection.found.count * sizeof(struct pair));
        listing->candidates.count += selection.found.count;
    }
    free(selection.found.items);
    return error;
}

static int list_waiting(struct listing *listing) {
    struct plan *plan = malloc(sizeof *plan);
    if (plan == NULL) return -ENOMEM;
    int error = 0;
    for (uint8_t base = 0; base < ROW_BASES && error == 0; base++) {
        for (uint8_t priority = 0; priority < PRIORITY_COUNT && error == 0; priority++) {
            struct line line = {listing->query->queue, base, priority};
            error = list_line(listing, &line, plan);
        }
    }
    free(plan);
    return error;
}

static int list_held(struct listing *listing, uint8_t state) {
    struct reading *reading = &listing->reading;
    MDB_cursor *cursor;
    int error = db_cursor(&reading->index->db, reading->txn, DB_HELD, &cursor);
    if (error != 0) return error;
    uint8_t bytes[HELD_KEY_SIZE];
    held_key_encode(bytes, state, listing->query->queue, listing->after.due_ms, listing->after.id);
    MDB_val key = {sizeof bytes, bytes}, sealed;
    int found = db_cursor_get(cursor, &key, &sealed, MDB_SET_RANGE);
    for (size_t taken = 0; found == 0; found = db_cursor_get(cursor, &key, &sealed, MDB_NEXT)) {
        const uint8_t *at = key.mv_data;
        if (key.mv_size != HELD_KEY_SIZE) error = INDEX_DAMAGED;
        if (error != 0 || at[0] != state || get_be32(at + 1) != listing->query->queue) break;
        struct due due = {get_be64(at + 5), get_be64(at + 13)};
        if (due.due_ms > listing->until_ms) break;
        if (!due_before(listing->after, due)) continue;
        error = VECTOR_PUSH(&listing->candidates, (struct pair){due.due_ms, due.id});
        if (error != 0) break;
        if (++taken == listing->examine_max) {
            if (due_before(due, listing->through)) listing->through = due;
            break;
        }
    }
    mdb_cursor_close(cursor);
    if (error == 0 && found != 0 && found != MDB_NOTFOUND) error = found;
    return error;
}

/* Reads the row of an entry. 1: the entry is stale or does not match the query. */
static int list_match(struct listing *listing, struct pair pair, struct row *out) {
    const struct index_query *query = listing->query;
    struct reading *reading = &listing->reading;
    index_touched(reading->index, 1);
    int error = row_get_live(reading->index, reading->txn, &reading->view, reading->meta.next_id, pair.id, out);
    if (error != 0) return error;
    if (out->due_ms != pair.first || out->queue != query->queue || !(query->states >> out->state & 1)) return 1;
    if (out->key_size < query->prefix_size) return 1;
    return query->prefix_size > 0 && memcmp(out->key, query->prefix, query->prefix_size) != 0;
}

static int list_rows(struct listing *listing) {
    struct pairs *candidates = &listing->candidates;
    if (candidates->count > 1) qsort(candidates->items, candidates->count, sizeof(struct pair), pairs_compare);
    for (size_t i = 0, examined = 0; i < candidates->count; i++) {
        struct pair pair = candidates->items[i];
        struct due due = {pair.first, pair.id};
        if (due_before(listing->through, due)) break;
        if (i > 0 && pairs_compare(&candidates->items[i - 1], &pair) == 0) continue; /* duplicate entry */
        struct row row;
        int error = list_match(listing, pair, &row);
        if (error == 0) error = reading_keep(&listing->reading, &row);
        if (error < 0) return error;
        if (listing->reading.rows.count == listing->query->count_max || ++examined == listing->examine_max) {
            if (i + 1 < candidates->count || due_before(due, listing->through)) listing->through = due;
            break;
        }
    }
    return 0;
}

int index_list(struct index *index, const struct index_query *query, struct arena *arena, struct index_rows *out,
               struct due *out_through) {
    assert(query->count_max > 0);
    struct listing *listing = calloc(1, sizeof *listing);
    if (listing == NULL) return -ENOMEM;
    listing->query = query;
    listing->after = query->after;
    listing->through = DUE_END;
    listing->examine_max = query->count_max;
    if (query->prefix_size > 0 && listing->examine_max < PREFIX_EXAMINE) listing->examine_max = PREFIX_EXAMINE;
    if (listing->after.due_ms < query->due_from_ms) listing->after = (struct due){query->due_from_ms, 0};
    listing->until_ms = query->due_to_ms == 0 ? UINT64_MAX : query->due_to_ms - 1; /* due_to_ms 0 means no end */
    int error = reading_begin(&listing->reading, index, arena, false);
    if (error == 0) {
        if (query->states & 1u << ROW_WAITING) error = list_waiting(listing);
        if (error == 0 && (query->states & 1u << ROW_LEASED)) error = list_held(listing, ROW_LEASED);
        if (error == 0 && (query->states & 1u << ROW_BURIED)) error = list_held(listing, ROW_BURIED);
        if (error == 0) error = list_rows(listing);
        if (error == 0) error = reading_give(&listing->reading, out);
        reading_end(&listing->reading);
    }
    if (error == 0) {
        /* The list is complete if it reaches `until_ms`, the last millisecond before due_to_ms. */
        bool done = query->due_to_ms != 0 && !due_before(listing->through, (struct due){listing->until_ms, UINT64_MAX});
        *out_through = done ? DUE_END : listing->through;
    }
    free(listing->candidates.items);
    free(listing);
    return error;
}
