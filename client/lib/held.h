/* held.h: set of the leases that a consumer holds, from the arrival of a delivery until the broker replies to its
 * settling. Not thread-safe.
 *
 * After a restart the broker sends all tasks of a resumed session again. A delivery of a task in this set is a
 * duplicate and is dropped. A duplicate may also arrive after the reply to the settling. So for a lease that was held
 * when the session resumed, settling keeps the entry and sets `settled`; such an entry is called a mark. The mark is
 * removed when the lease expires, or when the session resumes again. There are at most as many marks as there were
 * leases when the session resumed. When the session ends, the set tells the broker which tasks the program has seen. */
#ifndef TARRY_HELD_H
#define TARRY_HELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tarry.h"

struct held_entry {
    uint64_t id; /* 0: the entry is free */
    struct tarry_token token;
    uint64_t until_ms; /* CLOCK_MONOTONIC; the lease has expired then, unless it was extended */
    bool seen;         /* the task was handed out to the program */
    bool may_return;   /* held when the session resumed: the broker may send it again */
    bool settled;      /* true: the lease was settled; the entry stays as a mark against duplicates */
};

struct held {
    struct held_entry *entries;
    size_t capacity; /* number of places in the table, a power of two; 0: no table yet */
    size_t count;
};

void held_deinit(struct held *held);
struct held_entry *held_find(const struct held *held, uint64_t id);
/* Adds the lease of a delivery. False: the set has this lease or a later one of the task (FENCE-1), or memory is
 * full. */
bool held_take(struct held *held, struct held_entry entry);
/* Removes the lease of the task, or turns it into a mark, if `token` is the lease's or a later one. */
void held_settle(struct held *held, uint64_t id, struct tarry_token token);
/* Marks all held leases as possibly sent again, because the session has resumed. */
void held_resume(struct held *held);
void held_clear(struct held *held);
/* Removes entries that expired before `now_ms`. */
void held_sweep(struct held *held, uint64_t now_ms);

#endif
