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
int queue_apply(struct core *core, const Tarry__QueuePut *put);
#endif
