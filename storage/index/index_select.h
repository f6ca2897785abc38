/* index_select.h: what windows and lists read of the slots, and what a window keeps of that for the next one. Private
 * to storage/index. */
#ifndef TARRY_STORAGE_INDEX_SELECT_H
#define TARRY_STORAGE_INDEX_SELECT_H

#include "index_parts.h"

/* ---- index_select.c: which slots to read, and the soonest entries in them */
struct plan {
    struct slot_view chosen[PLAN_SLOTS_MAX];
    size_t count;
    uint64_t horizon_ms;      /* every entry due before it lies in a chosen slot; UINT64_MAX: all */
    uint64_t upper;           /* entries of the first slots above level 0 */
    struct slot_view highest; /* of them */
};
int plan_make(struct index *index, MDB_txn *txn, const struct line *line, uint64_t from_ms, uint64_t until_ms,
              struct plan *out);
/* The `count_max` smallest entries seen so far. */
struct selection {
    struct pairs found;
    size_t count_max;
    bool is_cut;        /* there were more */
    struct due bound;   /* only entries below it matter */
    uint64_t beyond_ms; /* the soonest due above until */
};
typedef int selection_ended(void *argument, uint64_t id, bool *out);
/* Those of `count` pairs at `items` that are due after `after` and before the horizon. */
int selection_take(struct selection *selection, const uint8_t *items, size_t count, struct due after,
                   uint64_t horizon_ms, uint64_t until_ms, selection_ended *ended, void *argument);
int selection_read(struct index *index, MDB_txn *txn, const struct line *line, const struct plan *plan,
                   struct due after, uint64_t until_ms, selection_ended *ended, void *argument,
                   struct selection *selection);
/* Up to where it is complete; from then on there are count_max at most, in any order. */
struct due selection_through(struct selection *selection, uint64_t horizon_ms);
/* The same, and sorts, and drops duplicates. */
void selection_finish(struct selection *selection, const struct plan *plan, struct due *out_through);

/* ---- index_read_ahead.c: what a window read and did not give */
/* For the line and from `after` on; NULL: the slots are to be read. */
struct read_ahead *read_ahead_find(struct index *index, const struct line *line, struct due after);
/* Of all that was selected after `after`, complete up to `through`; no row of it is read yet. -ENOMEM. */
int read_ahead_make(const struct line *line, const struct selection *selection, struct due after, struct due through,
                    struct read_ahead *out);
/* A window gave the entries before `next`, and is complete up to `through`. What is over is dropped. */
void read_ahead_given(struct index *index, struct read_ahead *read_ahead, size_t next, struct due through);
/* Takes what was made over from the caller, unless it is over. */
void read_ahead_keep(struct index *index, struct read_ahead *read_ahead);
void read_ahead_drop(struct read_ahead *read_ahead);
/* Bytes that its rows may take. */
size_t read_ahead_room(const struct index *index, const struct read_ahead *read_ahead);
size_t read_aheads_bytes(const struct index *index);
/* A commit is about to put this into a slot. */
void read_ahead_entry(struct index *index, const struct slot_entry *entry);
/* A commit is about to change or end this. */
void read_ahead_change(struct index *index, const struct change *change);
void read_aheads_deinit(struct index *index);

#endif
