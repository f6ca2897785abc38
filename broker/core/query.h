/* query.h: looking. A query changes nothing, but for expiry, which is recorded before any answer about the task. */
#ifndef TARRY_CORE_QUERY_H
#define TARRY_CORE_QUERY_H

#include "state.h"

void query_get(struct core *core, const struct core_event *event, struct core_effects *effects);
void query_list(struct core *core, const struct core_event *event, struct core_effects *effects);
void query_queues(struct core *core, const struct core_event *event, struct core_effects *effects);
void query_stats(struct core *core, const struct core_event *event, struct core_effects *effects);

#endif
