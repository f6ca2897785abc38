/* pending.h: number of tasks that wait or are in flight in all queues that a caller may use.
 *
 * A principal with `pending=` needs this number for each commit that schedules, and may use thousands of queues. So the
 * queues are sorted by name, and a Fenwick tree has their counts in this order (P. Fenwick, A New Data Structure for
 * Cumulative Frequency Tables, 1994). A query or a change visits only some tens of entries (CALM-1). The first query
 * builds the tree; the first query after a queue was created builds it again. */
#ifndef TARRY_CORE_PENDING_H
#define TARRY_CORE_PENDING_H

#include "state.h"

/* Allocates tables of QUEUE_PLACES + 1 entries. Returns false if out of memory. */
bool pending_init(struct pending *pending);
void pending_deinit(struct pending *pending);
/* Marks the tree as outdated, because a queue has a new name. */
void pending_outdate(struct pending *pending);
/* Adds `change` to the queue's number of tasks that wait or are in flight (modulo 2^64, so it may be negative). */
void pending_changed(struct core *core, uint32_t queue, uint64_t change);
/* Returns the number of tasks that wait or are in flight in all queues that the caller may use. */
uint64_t pending_of(struct core *core, const struct core_caller *caller);
/* Asserts that the tree and the tally agree. */
void pending_check(const struct core *core);

#endif
