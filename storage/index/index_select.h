/* index_select.h: how windows and lists read slots, and the entries that a window keeps for the next window. Private to
 * storage/index. */
#ifndef TARRY_STORAGE_INDEX_SELECT_H
#define TARRY_STORAGE_INDEX_SELECT_H

#include "index_parts.h"

/* ---- index_select.c: which slots to read, and the soonest entries in them */
struct plan {
    struct slot_view chosen[PLAN_SLOTS_MAX];
    size_t count;
    uint64_t horizon_ms;      /* time before which every entry is in the chosen slots; UINT64_MAX: all entries are */
    uint64_t upper;           /* number of entries in the first chosen slots, those above level 0 */
    struct slot_view highest; /* the highest of the chosen slots */
};
int plan_make(struct index *index, MDB_txn *txn, const struct line *line, uint64_t from_ms, uint64_t until_ms,
              struct plan *out);
/* The `count_max` smallest entries seen so far. */
struct selection {
    struct pairs found;
    size_t count_max;
    bool is_cut;        /* true: more than count_max entries were offered */
    struct due bound;   /* entries at or after this due time and id are ignored */
    uint64_t beyond_ms; /* earliest due time after until_ms among the offered entries */
};
typedef int selection_ended(void *argument, uint64_t id, bool *out);
/* Offers `count` pairs at `items` to the selection. Takes the pairs that are due after `after` and before the horizon.
 */
int selection_take(struct selection *selection, const uint8_t *items, size_t count, struct due after,
                   uint64_t horizon_ms, uint64_t until_ms, selection_ended *ended, void *argument);
int selection_read(struct index *index, MDB_txn *txn, const struct line *line, const struct plan *plan,
                   struct due after, uint64_t until_ms, selection_ended *ended, void *argument,
                   struct selection *selection);
/* Returns the point up to which the selection is complete. Cuts the selection to count_max entries, in any order. */
struct due selection_through(struct selection *selection, uint64_t horizon_ms);
/* Like selection_through, and sorts the entries and removes duplicates. */
void selection_finish(struct selection *selection, const struct plan *plan, struct due *out_through);

/* ---- index_read_ahead.c: entries that a window read and did not return */
/* Finds the kept entries of the line that start at `after`; NULL: the caller must read the slots. */
struct read_ahead *read_ahead_find(struct index *index, const struct line *line, struct due after);
/* Makes a read-ahead of the selected entries, which are all entries of the line after `after` up to `through`. Reads no
 * rows yet. -ENOMEM. */
int read_ahead_make(const struct line *line, const struct selection *selection, struct due after, struct due through,
                    struct read_ahead *out);
/* Records that a window returned the entries before index `next`, and that they are all entries of the line up to
 * `through`. Drops the read-ahead if it is used up. */
void read_ahead_given(struct index *index, struct read_ahead *read_ahead, size_t next, struct due through);
/* Takes ownership of a new read-ahead. Drops it at once if it is empty, or while a commit waits for disk space. */
void read_ahead_keep(struct index *index, struct read_ahead *read_ahead);
void read_ahead_drop(struct read_ahead *read_ahead);
/* Returns the maximum size in bytes of the rows that this read-ahead keeps. */
size_t read_ahead_room(const struct index *index, const struct read_ahead *read_ahead);
size_t read_aheads_bytes(const struct index *index);
/* Updates the read-ahead before a commit puts this entry into a slot. */
void read_ahead_entry(struct index *index, const struct slot_entry *entry);
/* Updates the read-ahead before a commit changes or ends this task. */
void read_ahead_change(struct index *index, const struct change *change);
void read_aheads_deinit(struct index *index);

#endif
