/* queues.h: the table of queues, by name and number. */
#ifndef TARRY_CORE_QUEUES_H
#define TARRY_CORE_QUEUES_H

#include "state.h"

/* Finds a queue by name, including a deleted one, because outcomes of its tasks are still reported. NULL: such a queue
 * never existed. */
struct queue *queue_find(const struct core *core, const char *name);
/* Finds a queue that is not deleted; NULL: none. */
struct queue *queue_find_live(const struct core *core, const char *name);
/* queue_waiting counts live tasks that have not been delivered, including ready tasks and leases ahead of time
 * (ahead.h). queue_in_flight counts live tasks that have been delivered. Use these functions for answers, and not the
 * queue's tally, because the tally counts leases ahead of time as leased. */
uint64_t queue_waiting(const struct core *core, const struct queue *queue);
uint64_t queue_in_flight(const struct core *core, const struct queue *queue);
/* Returns true if the queue with this number, live or deleted, still has its place. Returns false if it never existed,
 * or another queue has taken the place. */
bool queue_has_place(const struct core *core, uint32_t number);
/* Returns the number for a new queue; 0: the table is full. A place that was never used is chosen first. Otherwise the
 * place of a deleted queue without remembered outcomes is chosen: the one that was deleted longest ago. */
uint32_t queue_new_number(struct core *core, bool is_own);
/* Returns the number of live queues that the principal created; for a local caller (""), of queues without a recorded
 * creator. */
uint32_t queue_count_of(struct core *core, const char *principal);
int queue_apply(struct core *core, const Tarry__QueuePut *put);

#endif
