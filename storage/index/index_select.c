/* index_select.c: selects the slots to read for a range of due times of a line, and the soonest entries in these slots.
 *
 * Slots of several levels overlap. A plan is a list of slots to read. It has the slots that overlap the start of the
 * range, whatever their size. Then further slots are added in order of time, while the number of entries stays bounded.
 * The plan's horizon is the time before which every entry is in the plan's slots. A selection keeps only the count_max
 * soonest entries, so memory does not grow with a slot. */
#include "index_select.h"

#include <assert.h>
#include <stdlib.h>

static bool is_in(const struct slot_key *key, const struct line *line, unsigned level) {
    return key->line.queue == line->queue && key->line.base == line->base && key->line.priority == line->priority &&
           key->level == level;
}

/* Finds the first slot at or after `slot`, and counts its entries up to WINDOW_READ_MAX. */
static int slot_next(MDB_cursor *cursor, const struct line *line, unsigned level, uint64_t slot,
                     struct slot_view *out) {
    struct slot_key from = {*line, (uint8_t)level, slot, 0}, at;
    uint8_t bytes[SLOT_KEY_SIZE];
    slot_key_encode(&from, bytes);
    MDB_val key = {sizeof bytes, bytes}, sealed;
    *out = (struct slot_view){.level = (uint8_t)level};
    int found = db_cursor_get(cursor, &key, &sealed, MDB_SET_RANGE);
    while (found == 0) {
        if (!slot_key_decode(&key, &at)) return INDEX_DAMAGED;
        if (!is_in(&at, line, level) || (out->is_there && at.slot != out->slot)) return 0;
        out->is_there = true;
        out->slot = at.slot;
        out->entries += (sealed.mv_size - DB_SEAL_SIZE) / sizeof(struct pair);
        if (out->entries > WINDOW_READ_MAX) return 0;
        found = db_cursor_get(cursor, &key, &sealed, MDB_NEXT);
    }
    return found == MDB_NOTFOUND ? 0 : found;
}

static uint64_t slot_start(const struct slot_view *view) {
    return view->slot << slot_shift(view->level);
}

/* Returns the slot that starts first, or NULL. */
static struct slot_view *first_of(struct slot_view *views) {
    struct slot_view *first = NULL;
    for (unsigned level = 0; level < SLOT_LEVELS; level++) {
        if (!views[level].is_there) continue;
        if (first == NULL || slot_start(&views[level]) < slot_start(first)) first = &views[level];
    }
    return first;
}

static int plan_take(MDB_cursor *cursor, const struct line *line, struct plan *plan, struct slot_view *view) {
    assert(plan->count < PLAN_SLOTS_MAX);
    plan->chosen[plan->count++] = *view;
    return slot_next(cursor, line, view->level, view->slot + 1, view);
}

static int plan_fill(MDB_cursor *cursor, const struct line *line, uint64_t from_ms, uint64_t until_ms,
                     struct plan *plan) {
    struct slot_view next[SLOT_LEVELS];
    for (unsigned level = 0; level < SLOT_LEVELS; level++) {
        int error = slot_next(cursor, line, level, from_ms >> slot_shift(level), &next[level]);
        if (error != 0) return error;
    }
    struct slot_view *first = first_of(next);
    uint64_t point_ms = first == NULL ? 0 : slot_start(first) > from_ms ? slot_start(first) : from_ms;
    uint64_t total = 0;
    for (unsigned level = 0; first != NULL && point_ms <= until_ms && level < SLOT_LEVELS; level++) {
        if (!next[level].is_there || slot_start(&next[level]) > point_ms) continue;
        total += next[level].entries;
        if (level > 0) {
            plan->upper += next[level].entries;
            plan->highest = next[level];
        }
        int error = plan_take(cursor, line, plan, &next[level]);
        if (error != 0) return error;
    }
    while ((first = first_of(next)) != NULL && slot_start(first) <= until_ms && plan->count < PLAN_SLOTS_MAX) {
        total += first->entries;
        if (total > WINDOW_READ_MAX) break;
        int error = plan_take(cursor, line, plan, first);
        if (error != 0) return error;
    }
    first = first_of(next);
    plan->horizon_ms = first == NULL ? UINT64_MAX : slot_start(first);
    return 0;
}

int plan_make(struct index *index, MDB_txn *txn, const struct line *line, uint64_t from_ms, uint64_t until_ms,
              struct plan *out) {
    MDB_cursor *cursor;
    int error = db_cursor(&index->db, txn, DB_SLOTS, &cursor);
    if (error != 0) return error;
    out->count = 0;
    out->upper = 0;
    out->highest = (struct slot_view){0};
    error = plan_fill(cursor, line, from_ms, until_ms, out);
    mdb_cursor_close(cursor);
    return error;
}

static bool pair_before(struct pair a, struct pair b) {
    return a.first != b.first ? a.first < b.first : a.id < b.id;
}

/* Moves the `count` smallest of `size` pairs to the front, in any order. */
static void nth_element(struct pair *pairs, size_t size, size_t count) {
    size_t low = 0, high = size;
    while (high - low > 1) {
        struct pair a = pairs[low], b = pairs[low + (high - low) / 2], c = pairs[high - 1];
        struct pair pivot = pair_before(a, b) ? (pair_before(b, c)   ? b
                                                 : pair_before(a, c) ? c
                                                                     : a)
                                              : (pair_before(a, c)   ? a
                                                 : pair_before(b, c) ? c
                                                                     : b);
        size_t i = low, j = high - 1;
        for (;;) {
            while (pair_before(pairs[i], pivot)) i++;
            while (pair_before(pivot, pairs[j])) j--;
            if (i >= j) break;
            struct pair swap = pairs[i];
            pairs[i++] = pairs[j];
            pairs[j--] = swap;
        }
        size_t split = j + 1; /* now the pairs in [low, split) are ≤ pivot, and those in [split, high) ≥ pivot */
        if (split == high) split--;
        if (count <= split)
            high = split;
        else
            low = split;
        if (count == split) return;
    }
}

int pairs_compare(const void *a, const void *b) {
    const struct pair *x = a, *y = b;
    return pair_before(*x, *y) ? -1 : pair_before(*y, *x);
}

static void selection_shrink(struct selection *selection) {
    struct pair *items = selection->found.items;
    nth_element(items, selection->found.count, selection->count_max);
    selection->found.count = selection->count_max;
    selection->is_cut = true;
    struct pair last = items[0];
    for (size_t i = 1; i < selection->count_max; i++) {
        if (pair_before(last, items[i])) last = items[i];
    }
    selection->bound = (struct due){last.first, last.id};
}

int selection_take(struct selection *selection, const uint8_t *items, size_t count, struct due after,
                   uint64_t horizon_ms, uint64_t until_ms, selection_ended *ended, void *argument) {
    int error = VECTOR_RESERVE(&selection->found, count);
    if (error != 0) return error;
    struct pair low = {after.due_ms, after.id}, bound = {selection->bound.due_ms, selection->bound.id};
    for (size_t i = 0; i < count; i++) {
        struct pair pair = pair_at(items, i);
        if (pair.first >= horizon_ms || !pair_before(low, pair) || !pair_before(pair, bound)) continue;
        bool is_ended;
        error = ended(argument, pair.id, &is_ended);
        if (error != 0) return error;
        if (is_ended) continue;
        if (pair.first > until_ms) {
            if (pair.first < selection->beyond_ms) selection->beyond_ms = pair.first;
            continue;
        }
        selection->found.items[selection->found.count++] = pair;
    }
    if (selection->found.count >= selection->count_max * 2 + PAIRS_PER_CHUNK) selection_shrink(selection);
    return 0;
}

int selection_read(struct index *index, MDB_txn *txn, const struct line *line, const struct plan *plan,
                   struct due after, uint64_t until_ms, selection_ended *ended, void *argument,
                   struct selection *selection) {
    MDB_cursor *cursor;
    int error = db_cursor(&index->db, txn, DB_SLOTS, &cursor);
    if (error != 0) return error;
    for (size_t i = 0; i < plan->count && error == 0; i++) {
        struct slot_key from = {*line, plan->chosen[i].level, plan->chosen[i].slot, 0}, at;
        uint8_t bytes[SLOT_KEY_SIZE];
        slot_key_encode(&from, bytes);
        MDB_val key = {sizeof bytes, bytes}, sealed, data;
        int found = db_cursor_get(cursor, &key, &sealed, MDB_SET_RANGE);
        for (; found == 0 && error == 0; found = db_cursor_get(cursor, &key, &sealed, MDB_NEXT)) {
            if (!slot_key_decode(&key, &at))
                error = INDEX_DAMAGED;
            else if (!is_in(&at, line, from.level) || at.slot != from.slot)
                break;
            else
                error = db_unseal(&key, &sealed, &data);
            if (error != 0) break;
            index_touched(index, 1);
            size_t count = pairs_in(&data);
            error = count == 0 ? INDEX_DAMAGED
                               : selection_take(selection, data.mv_data, count, after, plan->horizon_ms, until_ms,
                                                ended, argument);
        }
        if (error == 0 && found != 0 && found != MDB_NOTFOUND) error = found;
    }
    mdb_cursor_close(cursor);
    return error;
}

struct due selection_through(struct selection *selection, uint64_t horizon_ms) {
    if (selection->found.count > selection->count_max) selection_shrink(selection);
    if (selection->is_cut) return selection->bound;
    uint64_t end_ms = horizon_ms < selection->beyond_ms ? horizon_ms : selection->beyond_ms;
    return end_ms == UINT64_MAX ? DUE_END : (struct due){end_ms - 1, UINT64_MAX};
}

void selection_finish(struct selection *selection, const struct plan *plan, struct due *out_through) {
    *out_through = selection_through(selection, plan->horizon_ms);
    struct pairs *found = &selection->found;
    if (found->count > 1) qsort(found->items, found->count, sizeof(struct pair), pairs_compare);
    size_t kept = 0;
    for (size_t i = 0; i < found->count; i++) {
        if (kept > 0 && found->items[kept - 1].first == found->items[i].first &&
            found->items[kept - 1].id == found->items[i].id) {
            continue;
        }
        found->items[kept++] = found->items[i];
    }
    found->count = kept;
}
