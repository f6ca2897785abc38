/* callers.h: the owners of sessions, leases and producers, and the queues that a caller is confined to (core.h,
 * core_caller). */
#ifndef TARRY_CORE_CALLERS_H
#define TARRY_CORE_CALLERS_H

#include "state.h"

bool caller_is_confined(const struct core_caller *caller);
/* No queue is closed to the caller, the broker's own included. */
bool caller_may_all(const struct core_caller *caller);
bool caller_covers(const struct core_caller *caller, const char *queue_name);
/* A session of before a restart that has not come back belongs to any caller that knows its leases' tokens. */
bool caller_is_owner(const struct core_caller *caller, const struct session *session);
/* NULL: there is none, or it is another caller's, and it is not told which (ONCE-1). */
struct producer *producer_of_caller(const struct core *core, uint64_t id, const struct core_caller *caller);

#endif
