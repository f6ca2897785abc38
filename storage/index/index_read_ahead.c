/* index_read_ahead.c: what a window read and did not give.
 *
 * A slot of a second with a million entries was read as a whole for every 16,384 of them. Now a window keeps the
 * soonest READ_AHEAD_PAIRS_MAX entries that it saw, for the next window of that line.
 *
 * Invariant: of a line's waiting tasks after `after` and up to `through`, as of the index's position, each has an entry
 * in `pairs` or is due at `horizon_ms` or later. A commit that gives one of them an entry moves the horizon before it.
 * That somebody ended, left, or has two entries is no matter: the row is looked at, as with a slot. */
#include "index_select.h"

#include <stdlib.h>

#include "seeded_bug.h"

static bool is_same_line(const struct line *a, const struct line *b) {
    return a->queue == b->queue && a->base == b->base && a->priority == b->priority;
}

static bool is_over(const struct read_ahead *read_ahead) {
    return !due_before(read_ahead->after, read_ahead->through) ||
           read_ahead->after.due_ms + 1 >= read_ahead->horizon_ms;
}

static void read_ahead_drop(struct read_ahead *read_ahead) {
    free(read_ahead->pairs.items);
    *read_ahead = (struct read_ahead){0};
}

struct read_ahead *read_ahead_find(struct index *index, const struct line *line, struct due after) {
    for (size_t i = 0; i < READ_AHEADS_MAX; i++) {
        struct read_ahead *read_ahead = &index->read_aheads[i];
        if (read_ahead->pairs.count == 0 || !is_same_line(&read_ahead->line, line)) continue;
        if (read_ahead->after.due_ms == after.due_ms && read_ahead->after.id == after.id && !is_over(read_ahead))
            return read_ahead;
        read_ahead_drop(read_ahead); /* somebody looks elsewhere in the line */
    }
    return NULL;
}

void read_ahead_keep(struct index *index, const struct line *line, const struct selection *selection,
                     struct due through) {
    struct read_ahead *read_ahead = &index->read_aheads[0];
    for (size_t i = 1; i < READ_AHEADS_MAX; i++) {
        if (index->read_aheads[i].used < read_ahead->used) read_ahead = &index->read_aheads[i];
    }
    read_ahead_drop(read_ahead);
    size_t size = selection->found.count * sizeof(struct pair);
    struct pair *items = malloc(size);
    if (items == NULL) return; /* the next window reads again */
    memcpy(items, selection->found.items, size);
    *read_ahead = (struct read_ahead){.line = *line,
                                      .pairs = {items, selection->found.count, selection->found.count},
                                      .through = through,
                                      .horizon_ms = UINT64_MAX,
                                      .used = ++index->read_aheads_used};
}

void read_ahead_given(struct index *index, const struct line *line, struct due through) {
    for (size_t i = 0; i < READ_AHEADS_MAX; i++) {
        struct read_ahead *read_ahead = &index->read_aheads[i];
        if (read_ahead->pairs.count == 0 || !is_same_line(&read_ahead->line, line)) continue;
        read_ahead->after = through;
        read_ahead->used = ++index->read_aheads_used;
        if (is_over(read_ahead)) read_ahead_drop(read_ahead);
    }
}

void read_ahead_entry(struct index *index, const struct slot_entry *entry) {
    if (SEEDED_BUG(read_ahead_kept)) return;
    for (size_t i = 0; i < READ_AHEADS_MAX; i++) {
        struct read_ahead *read_ahead = &index->read_aheads[i];
        if (read_ahead->pairs.count == 0 || !is_same_line(&read_ahead->line, &entry->line)) continue;
        if (!due_before(read_ahead->after, (struct due){entry->due_ms, entry->id})) continue;
        if (entry->due_ms < read_ahead->horizon_ms) read_ahead->horizon_ms = entry->due_ms;
    }
}

void read_aheads_deinit(struct index *index) {
    for (size_t i = 0; i < READ_AHEADS_MAX; i++) read_ahead_drop(&index->read_aheads[i]);
}
