/* timers.h: what time brings about. */
#ifndef TARRY_CORE_TIMERS_H
#define TARRY_CORE_TIMERS_H

#include "state.h"

/* Handles what is due by now, a bounded number per call. True: there is more. */
bool timers_run(struct core *core, struct core_effects *effects);
/* What is due by now is ready; whatever else has come is forgotten, for nothing ends any more (CORE_INSPECT). */
void timers_make_ready(struct core *core);

#endif
