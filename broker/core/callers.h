/* callers.h: owners of sessions, leases and producers, and the queues that a caller may use (core.h, core_caller). */
#ifndef TARRY_CORE_CALLERS_H
#define TARRY_CORE_CALLERS_H

#include "state.h"

bool caller_is_confined(const struct core_caller *caller);
/* Returns true if the caller may use every queue, including the broker's own queues. */
bool caller_may_all(const struct core_caller *caller);
bool caller_covers(const struct core_caller *caller, const char *queue_name);
/* Returns true if the caller owns the session. If the session existed before a restart and has not been resumed, any
 * caller that knows its leases' tokens counts as owner. */
bool caller_is_owner(const struct core_caller *caller, const struct session *session);
/* Returns the caller's producer. Returns NULL both if it does not exist and if another caller owns it; the reply does
 * not tell which (ONCE-1). */
struct producer *producer_of_caller(const struct core *core, uint64_t id, const struct core_caller *caller);

#endif
