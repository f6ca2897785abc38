/* queues.h: the table of queues, by name and number. */
#ifndef TARRY_CORE_QUEUES_H
#define TARRY_CORE_QUEUES_H

#include "state.h"

/* NULL: there is none, and never was. One that was deleted is found: what has ended in it is still told of. */
struct queue *queue_find(const struct core *core, const char *name);
/* NULL: there is none. */
struct queue *queue_find_live(const struct core *core, const char *name);
/* Live tasks that have not been given out, ready ones and what is leased ahead of time (ahead.h) among them; and those
 * that have. For answers: the tally counts what is leased ahead as leased. */
uint64_t queue_waiting(const struct core *core, const struct queue *queue);
uint64_t queue_in_flight(const struct core *core, const struct queue *queue);
/* Has the queue of this number its place, live or deleted? Otherwise there was none, or another queue took the place.
 */
bool queue_has_place(const struct core *core, uint32_t number);
/* The number of a new queue; 0: the table is full. A place that was never used comes first; then the place of the queue
 * that was deleted longest ago, among those of which no ending is remembered. */
uint32_t queue_new_number(const struct core *core, bool is_own);
/* Live queues that the principal has created; of a local one (""), those of which no creator is recorded. */
uint32_t queue_count_of(const struct core *core, const char *principal);
int queue_apply(struct core *core, const Tarry__QueuePut *put);

#endif
