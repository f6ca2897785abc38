/* query.h: answers to questions. A query changes nothing, with one exception: before any answer about an expired task,
 * it records the expiry. */
#ifndef TARRY_CORE_QUERY_H
#define TARRY_CORE_QUERY_H

#include "state.h"

/* Returns the state of a live task now, as an enum state_bit. */
uint32_t query_state_bit(const struct core *core, const struct row *row);
/* Returns the word of /v1 for the way in which a task ended; "": unknown. */
const char *query_ended_name(Tarry__Outcome outcome);
Tarry__TaskView *query_view(struct core *core, const struct row *row, struct arena *arena);

/* ---- core_look: before the step */
/* Scan one piece, and return true if the scan is complete. */
bool list_look(struct core *core, struct core_request *request);
bool stats_look(struct core *core, struct core_request *request);
void list_look_end(struct core *core, const struct core_request *request);
void stats_look_end(struct core *core);
/* While core->scan_count is not 0, call list_passes before a task moves within the overlay or leaves it, and call
 * list_saw after a task has changed. */
void list_passes(struct core *core, const struct task *task);
/* Call before a task is trimmed. A scan that has not reached the task checks it now, because the page that was read
 * from the index contains no tasks that had newer changes in memory. */
void list_trims(struct core *core, const struct task *task);
void list_saw(struct core *core, const struct task *task);

/* ---- the step */
void query_get(struct core *core, const struct core_request *request, struct core_effects *effects);
void query_list(struct core *core, const struct core_request *request, struct core_effects *effects);
void query_queues(struct core *core, const struct core_request *request, struct core_effects *effects);
void query_calendar(struct core *core, const struct core_request *request, struct core_effects *effects);
void query_consumers(struct core *core, const struct core_request *request, struct core_effects *effects);
void query_recurrences(struct core *core, const struct core_request *request, struct core_effects *effects);
void query_stats(struct core *core, const struct core_request *request, struct core_effects *effects);
void query_definitions(struct core *core, const struct core_request *request, struct core_effects *effects);

#endif
