/* query.h: looking. A query changes nothing, but for expiry, which is recorded before any answer about the task. */
#ifndef TARRY_CORE_QUERY_H
#define TARRY_CORE_QUERY_H

#include "state.h"

/* enum state_bit of a live task, now. */
uint32_t query_state_bit(const struct core *core, const struct row *row);
Tarry__TaskView *query_view(struct core *core, const struct row *row, struct arena *arena);

/* ---- core_look: before the step */
/* True: there is nothing more to be looked through. */
bool list_look(struct core *core, struct core_event *event);
bool stats_look(struct core *core, struct core_event *event);
void list_look_end(struct core *core, const struct core_event *event);
void stats_look_end(struct core *core);
/* For code that changes the overlay while core->scan_count is not 0: a task leaves its place there; has changed. */
void list_passes(struct core *core, const struct task *task);
/* … or is trimmed: what was not looked at yet is, for the page that was read leaves out what memory knew better. */
void list_trims(struct core *core, const struct task *task);
void list_saw(struct core *core, const struct task *task);

/* ---- the step */
void query_get(struct core *core, const struct core_event *event, struct core_effects *effects);
void query_list(struct core *core, const struct core_event *event, struct core_effects *effects);
void query_queues(struct core *core, const struct core_event *event, struct core_effects *effects);
void query_calendar(struct core *core, const struct core_event *event, struct core_effects *effects);
void query_stats(struct core *core, const struct core_event *event, struct core_effects *effects);

#endif
