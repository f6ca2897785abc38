/* held.h: the leases that a consumer holds: from a delivery's arrival until its settling is answered. Not thread-safe.
 *
 * After a restart the broker sends again what the resumed session holds; what is in this set is already here and is
 * dropped then. What it still has at the end tells the broker what has been seen. */
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
};

struct held {
    struct held_entry *entries;
    size_t capacity; /* 0 or a power of two */
    size_t count;
};

void held_deinit(struct held *held);
struct held_entry *held_find(const struct held *held, uint64_t id);
/* Adds or replaces. False: out of memory. */
bool held_put(struct held *held, struct held_entry entry);
void held_remove(struct held *held, uint64_t id);
void held_clear(struct held *held);
/* Forgets what ran out before `now_ms`. */
void held_sweep(struct held *held, uint64_t now_ms);

#endif
