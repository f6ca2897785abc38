/* held.h: the leases that a consumer holds: from a delivery's arrival until its settling is answered. Not thread-safe.
 *
 * After a restart the broker sends again what the resumed session holds; what is in this set is already here and is
 * dropped then. Such a message may be under way while the settling is answered, and arrive after it: so what was held
 * when the session came back leaves a mark when it is settled, until its lease has run out or the session comes back
 * again. There are never more marks than there were leases then. What the set still holds at the end tells the broker
 * what has been seen. */
#ifndef TARRY_HELD_H
#define TARRY_HELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tarry.h"

struct held_entry {
    uint64_t id; /* 0: free */
    struct tarry_token token;
    uint64_t until_ms; /* CLOCK_MONOTONIC; the lease has run out for certain unless it was extended */
    bool seen;         /* handed to the user */
    bool may_return;   /* held when the session came back: the broker may be sending it again */
    bool settled;      /* a mark: no longer held */
};

struct held {
    struct held_entry *entries;
    size_t capacity; /* 0 or a power of two */
    size_t count;
};

void held_deinit(struct held *held);
struct held_entry *held_find(const struct held *held, uint64_t id);
/* A delivery has arrived. False: it was here already, under this very lease or a later one (FENCE-1), or there is no
 * memory for it. */
bool held_take(struct held *held, struct held_entry entry);
/* The settling of this lease, or of a later one of the task, was answered. */
void held_settle(struct held *held, uint64_t id, struct tarry_token token);
/* The session came back: everything that is held may be sent again. */
void held_resume(struct held *held);
void held_clear(struct held *held);
/* Forgets what ran out before `now_ms`. */
void held_sweep(struct held *held, uint64_t now_ms);

#endif
