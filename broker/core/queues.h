/* queues.h: the table of queues, by name and number. */
#ifndef TARRY_CORE_QUEUES_H
#define TARRY_CORE_QUEUES_H

#include "state.h"

/* NULL: there is none, and never was. One that was deleted is found: what has ended in it is still told of. */
struct queue *queue_find(const struct core *core, const char *name);
/* NULL: there is none. */
struct queue *queue_find_live(const struct core *core, const char *name);
int queue_apply(struct core *core, const Tarry__QueuePut *put);
#endif
