/* queues.h: queues by name and number, their policies, pauses and jobs. */
#ifndef TARRY_CORE_QUEUES_H
#define TARRY_CORE_QUEUES_H

#include "draft.h"
#include "state.h"

struct queue *queue_find(const struct core *core, const char *name); /* NULL: there is none */
int queue_apply(struct core *core, const Tarry__QueuePut *put);
/* The queue, brought into being by a frame of its own if it must be and may be. NULL: *out_code, *out_message say why.
 */
struct queue *queue_need(struct core *core, const char *name, struct core_effects *effects, Tarry__Code *out_code,
                         const char **out_message);
/* A timed pause is over. */
void queue_pause_over(struct core *core, struct queue *queue, struct core_effects *effects);

struct job *job_find(struct core *core, uint64_t id);
int job_apply_put(struct core *core, const Tarry__JobPut *put);
int job_apply_end(struct core *core, uint64_t id);
/* Asks for the next page of every job that waits for one and whose tasks the index has. */
void jobs_run(struct core *core, struct core_effects *effects);
void job_page(struct core *core, const struct core_event *event, struct core_effects *effects);

#endif
