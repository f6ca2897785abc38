/* index_read_ahead.c: keeps entries that a window read and did not return.
 *
 * Before this file existed, each window of 16,384 entries read the whole slot. For a slot of one second with a million
 * entries, a window also read nearly every page of the rows. Now a window keeps the soonest of the entries that it does
 * not return, for the line's next windows. It also keeps as many of their rows as fit.
 *
 * Invariants, as of the index's position: a waiting task of the line after `after` and up to `through` has an entry in
 * `pairs` from `next` on, or is due at `horizon_ms` or later. A commit that adds another entry in that span lowers
 * `horizon_ms` to the entry's due time. A kept row equals the row on disk: a commit that changes a row drops the kept
 * row, and the next use reads it again. */
#include "index_select.h"

#include <stdlib.h>

static bool is_same_line(const struct line *a, const struct line *b) {
    return a->queue == b->queue && a->base == b->base && a->priority == b->priority;
}

static bool is_over(const struct read_ahead *read_ahead) {
    return read_ahead->next == read_ahead->pairs.count || !due_before(read_ahead->after, read_ahead->through) ||
           read_ahead->after.due_ms + 1 >= read_ahead->horizon_ms;
}

void read_ahead_drop(struct read_ahead *read_ahead) {
    free(read_ahead->pairs.items);
    free(read_ahead->places);
    free(read_ahead->rows.items);
    *read_ahead = (struct read_ahead){0};
}

struct read_ahead *read_ahead_find(struct index *index, const struct line *line, struct due after) {
    for (size_t i = 0; i < READ_AHEADS_MAX; i++) {
        struct read_ahead *read_ahead = &index->read_aheads[i];
        if (read_ahead->pairs.count == 0 || !is_same_line(&read_ahead->line, line)) continue;
        if (read_ahead->after.due_ms == after.due_ms && read_ahead->after.id == after.id && !is_over(read_ahead))
            return read_ahead;
        read_ahead_drop(read_ahead); /* the next window starts elsewhere in the line, so the kept entries are useless */
    }
    return NULL;
}

/* Sorts pairs by due time and id, and removes duplicates. */
static void sort_pairs(struct pair *pairs, struct pair *spare, size_t *count) {
    size_t kept = 0;
    for (size_t i = 0; i < *count; i++) pairs[i] = (struct pair){pairs[i].id, pairs[i].first};
    pairs_sort(pairs, spare, *count);
    for (size_t i = 0; i < *count; i++) pairs[i] = (struct pair){pairs[i].id, pairs[i].first};
    pairs_sort(pairs, spare, *count);
    for (size_t i = 0; i < *count; i++) {
        if (kept > 0 && pairs[kept - 1].first == pairs[i].first && pairs[kept - 1].id == pairs[i].id) continue;
        pairs[kept++] = pairs[i];
    }
    *count = kept;
}

int read_ahead_make(const struct line *line, const struct selection *selection, struct due after, struct due through,
                    struct read_ahead *out) {
    size_t count = selection->found.count, capacity = count > 0 ? count : 1;
    struct pair *pairs = malloc(capacity * sizeof *pairs), *spare = malloc(capacity * sizeof *spare);
    uint32_t *places = malloc(capacity * sizeof *places);
    if (pairs == NULL || spare == NULL || places == NULL) {
        free(pairs);
        free(spare);
        free(places);
        return -ENOMEM;
    }
    if (count > 0) memcpy(pairs, selection->found.items, count * sizeof *pairs);
    sort_pairs(pairs, spare, &count);
    free(spare);
    for (size_t i = 0; i < count; i++) places[i] = ROW_UNREAD;
    *out = (struct read_ahead){.line = *line,
                               .pairs = {pairs, count, capacity},
                               .places = places,
                               .after = after,
                               .through = through,
                               .horizon_ms = UINT64_MAX};
    return 0;
}

void read_ahead_given(struct index *index, struct read_ahead *read_ahead, size_t next, struct due through) {
    read_ahead->next = next;
    read_ahead->after = through;
    read_ahead->used = ++index->read_aheads_used;
    if (is_over(read_ahead)) read_ahead_drop(read_ahead);
}

/* Keeps nothing while a commit waits for disk space, because the commit's retry does not report its changes again. */
void read_ahead_keep(struct index *index, struct read_ahead *read_ahead) {
    struct read_ahead *place = &index->read_aheads[0];
    if (read_ahead->pairs.count == 0) return;
    if (index->batch.is_prepared) {
        read_ahead_drop(read_ahead);
        return;
    }
    for (size_t i = 1; i < READ_AHEADS_MAX; i++) {
        if (index->read_aheads[i].used < place->used) place = &index->read_aheads[i];
    }
    read_ahead_drop(place);
    *place = *read_ahead;
}

size_t read_ahead_room(const struct index *index, const struct read_ahead *read_ahead) {
    size_t room = index->options.memory / READ_AHEAD_ROWS_SHARE;
    if (room > READ_AHEAD_BYTES_MAX) room = READ_AHEAD_BYTES_MAX;
    for (size_t i = 0; i < READ_AHEADS_MAX; i++) {
        const struct read_ahead *other = &index->read_aheads[i];
        size_t taken = other == read_ahead ? 0 : other->rows.capacity;
        room -= taken < room ? taken : room;
    }
    return room;
}

size_t read_aheads_bytes(const struct index *index) {
    size_t bytes = 0;
    for (size_t i = 0; i < READ_AHEADS_MAX; i++) {
        const struct read_ahead *read_ahead = &index->read_aheads[i];
        bytes += read_ahead->pairs.capacity * (sizeof(struct pair) + sizeof *read_ahead->places);
        bytes += read_ahead->rows.capacity;
    }
    return bytes;
}

/* ---- changes that a commit will make */

void read_ahead_entry(struct index *index, const struct slot_entry *entry) {
    for (size_t i = 0; i < READ_AHEADS_MAX; i++) {
        struct read_ahead *read_ahead = &index->read_aheads[i];
        if (read_ahead->pairs.count == 0 || !is_same_line(&read_ahead->line, &entry->line)) continue;
        if (!due_before(read_ahead->after, (struct due){entry->due_ms, entry->id})) continue;
        if (entry->due_ms < read_ahead->horizon_ms) read_ahead->horizon_ms = entry->due_ms;
    }
}

/* Finds the entry (due, id) among those not returned yet; SIZE_MAX: not found. */
static size_t place_of(const struct read_ahead *read_ahead, struct due due) {
    size_t low = read_ahead->next, high = read_ahead->pairs.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct pair *pair = &read_ahead->pairs.items[middle];
        if (due_before((struct due){pair->first, pair->id}, due))
            low = middle + 1;
        else
            high = middle;
    }
    bool is_there = low < read_ahead->pairs.count && read_ahead->pairs.items[low].first == due.due_ms &&
                    read_ahead->pairs.items[low].id == due.id;
    return is_there ? low : SIZE_MAX;
}

void read_ahead_change(struct index *index, const struct change *change) {
    if ((change->flags & CHANGE_FRESH) || change->first_state != ROW_WAITING) return;
    const struct line line = {change->queue, change->first_base, change->first_priority};
    const struct due due = {change->first_due_ms, change->id};
    for (size_t i = 0; i < READ_AHEADS_MAX; i++) {
        struct read_ahead *read_ahead = &index->read_aheads[i];
        if (read_ahead->pairs.count == 0 || !is_same_line(&read_ahead->line, &line)) continue;
        if (!due_before(read_ahead->after, due) || due_before(read_ahead->through, due)) continue;
        size_t place = place_of(read_ahead, due);
        if (place != SIZE_MAX) read_ahead->places[place] = change->flags & CHANGE_ENDED ? ROW_GONE : ROW_UNREAD;
    }
}

void read_aheads_deinit(struct index *index) {
    for (size_t i = 0; i < READ_AHEADS_MAX; i++) read_ahead_drop(&index->read_aheads[i]);
}
