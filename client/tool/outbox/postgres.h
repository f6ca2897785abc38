/* postgres.h: a connection to PostgreSQL, by libpq, which is loaded when it is needed: the tool does not depend on it.
 */
#ifndef TARRY_TOOL_OUTBOX_POSTGRES_H
#define TARRY_TOOL_OUTBOX_POSTGRES_H

#include <libpq-fe.h>
#include <stdbool.h>

/* The functions of libpq that the tool uses, without their prefix PQ. */
#define POSTGRES_FUNCTIONS(X)                                                                                          \
    X(connectdb)                                                                                                       \
    X(status)                                                                                                          \
    X(errorMessage)                                                                                                    \
    X(finish)                                                                                                          \
    X(execParams)                                                                                                      \
    X(resultStatus)                                                                                                    \
    X(ntuples)                                                                                                         \
    X(getvalue)                                                                                                        \
    X(getlength)                                                                                                       \
    X(clear)                                                                                                           \
    X(socket)                                                                                                          \
    X(consumeInput)                                                                                                    \
    X(notifies)                                                                                                        \
    X(freemem)                                                                                                         \
    X(escapeIdentifier)

#define POSTGRES_MEMBER(name) __typeof__(PQ##name) *name;
struct postgres_library {
    POSTGRES_FUNCTIONS(POSTGRES_MEMBER)
};
#undef POSTGRES_MEMBER

extern struct postgres_library pq;

/* Loads libpq. Returns NULL, or why it cannot be loaded. Called by one thread. */
const char *postgres_load(void);

#endif
