/* guard.h: decides which requests a stranger (a fuzzing client) must not send. Here the wire protocol has no
 * credentials: a client that knows a task's number may cancel the task, and a client that knows a session may end it.
 * The broker would be right to do so, so a request that hits an honest client's task shows no defect. Every id, session
 * and producer in a request must therefore be the stranger's own, or higher than any number of a short run.
 *
 * A request with a lease's token may name any task, if the broker cannot have given out this token. Such a request must
 * have no effect (FENCE-1). */
#ifndef TARRY_TESTS_FUZZ_BROKER_GUARD_H
#define TARRY_TESTS_FUZZ_BROKER_GUARD_H

#include "know.h"

struct guard {
    const struct know *know;
    const char *without; /* name of a body of Request that is never sent; NULL: none */
    bool promotes; /* true: Pair requests may change the leader; operator's commands stay forbidden, because a false one
                      may lose any data */
};

/* Decides about a request as the broker would unpack it. A request that cannot be unpacked is harmless. */
bool guard_allows(const struct guard *guard, const void *data, size_t size);

#endif
