/* pending.h: how many tasks wait or are in flight in all queues that a caller is confined to.
 *
 * A principal with `pending=` asks with each commit that schedules, and may be confined to thousands of queues. So the
 * queues are kept in the order of their names, and their counts in a Fenwick tree over that order (P. Fenwick, A New
 * Data Structure for Cumulative Frequency Tables, 1994): a question and a change look at some tens of places (CALM-1).
 * The first question makes the tree, and the first one after a queue was created makes it anew. */
#ifndef TARRY_CORE_PENDING_H
#define TARRY_CORE_PENDING_H

#include "state.h"

/* Tables of QUEUE_PLACES + 1 entries. False: out of memory. */
bool pending_init(struct pending *pending);
void pending_deinit(struct pending *pending);
/* A queue has a name that it had not. */
void pending_outdate(struct pending *pending);
/* The queue has `change` more tasks that wait or are in flight (modulo 2^64: fewer). */
void pending_changed(struct core *core, uint32_t queue, uint64_t change);
/* Of all queues that the caller may use. */
uint64_t pending_of(struct core *core, const struct core_caller *caller);
/* Asserts that the tree tells what the tally does. */
void pending_check(const struct core *core);

#endif
