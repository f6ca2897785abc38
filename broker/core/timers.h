/* timers.h: actions of expired timers. */
#ifndef TARRY_CORE_TIMERS_H
#define TARRY_CORE_TIMERS_H

#include "state.h"

/* Handles expired timers, a bounded number per call. Returns true if more have expired. */
bool timers_run(struct core *core, struct core_effects *effects);
/* For CORE_INSPECT: makes due tasks ready and drops all other expired timers, because no task may end. */
void timers_make_ready(struct core *core);

#endif
