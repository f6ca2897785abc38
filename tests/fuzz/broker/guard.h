/* guard.h: decides which requests a stranger must not send, because the broker would be right to carry them out. The
 * wire protocol has no credentials here: a client that knows a task's number may cancel the task, and one that knows a
 * session may end it. A request that could hit an honest client's task proves nothing about the broker, so it is not
 * sent. Every id, session and producer must be the stranger's own, or higher than any number of a short life. Requests
 * with a lease's token are different: they may name any task, if the token is not one that the broker may have given
 * out (FENCE-1: such a request must have no effect). */
#ifndef TARRY_TESTS_FUZZ_BROKER_GUARD_H
#define TARRY_TESTS_FUZZ_BROKER_GUARD_H

#include "know.h"

struct guard {
    const struct know *know;
    const char *without; /* name of a body of Request that is never sent; NULL: none */
    bool promotes; /* Pair requests may change the leader, but not by an operator's command: a false command may lose
                      any data */
};

/* Decides about a request as the broker would unpack it. A request that cannot be unpacked is harmless. */
bool guard_allows(const struct guard *guard, const void *data, size_t size);

#endif
