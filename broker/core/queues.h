/* queues.h: the table of queues, by name and number. */
#ifndef TARRY_CORE_QUEUES_H
#define TARRY_CORE_QUEUES_H

#include "state.h"

struct queue *queue_find(const struct core *core, const char *name); /* NULL: there is none */
int queue_apply(struct core *core, const Tarry__QueuePut *put);
#endif
