/* index_ahead.c: what a window read and did not give.
 *
 * A slot of a second with a million entries was read as a whole for every 16,384 of them. Now a window keeps the
 * soonest AHEAD_PAIRS_MAX entries that it saw, for the next window of that line.
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

static bool is_over(const struct ahead *ahead) {
    return !due_before(ahead->after, ahead->through) || ahead->after.due_ms + 1 >= ahead->horizon_ms;
}

static void ahead_drop(struct ahead *ahead) {
    free(ahead->pairs.items);
    *ahead = (struct ahead){0};
}

struct ahead *ahead_find(struct index *index, const struct line *line, struct due after) {
    for (size_t i = 0; i < AHEADS_MAX; i++) {
        struct ahead *ahead = &index->aheads[i];
        if (ahead->pairs.count == 0 || !is_same_line(&ahead->line, line)) continue;
        if (ahead->after.due_ms == after.due_ms && ahead->after.id == after.id && !is_over(ahead)) return ahead;
        ahead_drop(ahead); /* somebody looks elsewhere in the line */
    }
    return NULL;
}

void ahead_keep(struct index *index, const struct line *line, const struct selection *selection, struct due through) {
    struct ahead *ahead = &index->aheads[0];
    for (size_t i = 1; i < AHEADS_MAX; i++) {
        if (index->aheads[i].used < ahead->used) ahead = &index->aheads[i];
    }
    ahead_drop(ahead);
    size_t size = selection->found.count * sizeof(struct pair);
    struct pair *items = malloc(size);
    if (items == NULL) return; /* the next window reads again */
    memcpy(items, selection->found.items, size);
    *ahead = (struct ahead){.line = *line,
                            .pairs = {items, selection->found.count, selection->found.count},
                            .through = through,
                            .horizon_ms = UINT64_MAX,
                            .used = ++index->aheads_used};
}

void ahead_given(struct index *index, const struct line *line, struct due through) {
    for (size_t i = 0; i < AHEADS_MAX; i++) {
        struct ahead *ahead = &index->aheads[i];
        if (ahead->pairs.count == 0 || !is_same_line(&ahead->line, line)) continue;
        ahead->after = through;
        ahead->used = ++index->aheads_used;
        if (is_over(ahead)) ahead_drop(ahead);
    }
}

void ahead_entry(struct index *index, const struct slot_entry *entry) {
    if (SEEDED_BUG(read_ahead_kept)) return;
    for (size_t i = 0; i < AHEADS_MAX; i++) {
        struct ahead *ahead = &index->aheads[i];
        if (ahead->pairs.count == 0 || !is_same_line(&ahead->line, &entry->line)) continue;
        if (!due_before(ahead->after, (struct due){entry->due_ms, entry->id})) continue;
        if (entry->due_ms < ahead->horizon_ms) ahead->horizon_ms = entry->due_ms;
    }
}

void aheads_deinit(struct index *index) {
    for (size_t i = 0; i < AHEADS_MAX; i++) ahead_drop(&index->aheads[i]);
}
