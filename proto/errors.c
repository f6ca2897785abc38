/* errors.c: see errors.h. One table for each enum of tarry.proto. A name is the enumerator in lower case, unless
 * tarry.proto gives another printed name. */
#include "errors.h"

#include <stddef.h>

#define CODES(X)                                                                                                       \
    X(OK, "ok", "done")                                                                                                \
    X(INVALID, "invalid", "the request is malformed or out of range")                                                  \
    X(TOO_LARGE, "too_large", "the request is over a size limit")                                                      \
    X(UNSUPPORTED, "unsupported", "the broker does not know this operation")                                           \
    X(NO_SUCH_QUEUE, "no_such_queue", "the queue does not exist, and queues are not created on first use")             \
    X(EXISTS, "exists", "a live task has this key")                                                                    \
    X(NOT_DONE, "not_done", "the task is not in a state that allows this")                                             \
    X(STALE_TOKEN, "stale_token", "the lease has ended or belongs to another consumer")                                \
    X(ABORTED, "aborted", "another operation of the atomic commit was refused, so nothing took effect")                \
    X(FORGOTTEN, "forgotten", "the broker no longer remembers this commit; whether it took effect is unknown")         \
    X(BUSY, "busy", "the broker is at a limit; nothing was decided, try again")                                        \
    X(STOPPING, "stopping", "the broker is stopping; nothing was decided, try again")                                  \
    X(NO_SUCH_SESSION, "no_such_session", "the session has ended; subscribe again")                                    \
    X(NOT_PRIMARY, "not_primary", "this broker is not the primary; nothing was decided")                               \
    X(FAILED, "failed", "the broker's disk failed; whether the request took effect is unknown")                        \
    X(DENIED, "denied", "the principal may not do this")                                                               \
    X(BEHIND, "behind", "the broker's data are older than requested, so it did not answer")                            \
    X(TOO_OLD, "too_old", "the follower cannot prove that its data are recent enough, so it did not answer")

#define OUTCOMES(X)                                                                                                    \
    X(NONE, "none")                                                                                                    \
    X(SCHEDULED, "scheduled")                                                                                          \
    X(REPLACED, "replaced")                                                                                            \
    X(KEPT, "kept")                                                                                                    \
    X(LIVE, "exists")                                                                                                  \
    X(MOVED, "moved")                                                                                                  \
    X(CANCELLED, "cancelled")                                                                                          \
    X(ALREADY_CANCELLED, "already_cancelled")                                                                          \
    X(IN_FLIGHT, "in_flight")                                                                                          \
    X(DEAD, "dead")                                                                                                    \
    X(ACKED, "acked")                                                                                                  \
    X(EXPIRED, "expired")                                                                                              \
    X(DROPPED, "dropped")                                                                                              \
    X(UNKNOWN, "unknown")                                                                                              \
    X(NACKED, "nacked")                                                                                                \
    X(BURIED, "buried")                                                                                                \
    X(EXTENDED, "extended")                                                                                            \
    X(RELEASED, "released")                                                                                            \
    X(REQUEUED, "requeued")                                                                                            \
    X(DONE, "done")                                                                                                    \
    X(PENDING, "pending")                                                                                              \
    X(REDACTED, "redacted")                                                                                            \
    X(SHARED, "shared")                                                                                                \
    X(UNMATCHED, "unmatched")

/* With -Wswitch the compiler reports a missing enumerator. */
const char *code_name(Tarry__Code code) {
    switch (code) {
#define X(symbol, name, sentence)                                                                                      \
    case TARRY__CODE__##symbol:                                                                                        \
        return name;
        CODES(X)
#undef X
    case _TARRY__CODE_IS_INT_SIZE:
        break;
    }
    return "unknown";
}

const char *code_sentence(Tarry__Code code) {
    switch (code) {
#define X(symbol, name, sentence)                                                                                      \
    case TARRY__CODE__##symbol:                                                                                        \
        return sentence;
        CODES(X)
#undef X
    case _TARRY__CODE_IS_INT_SIZE:
        break;
    }
    return "the broker replied with a code that this program does not know; the broker may be newer";
}

const char *outcome_name(Tarry__Outcome outcome) {
    switch (outcome) {
#define X(symbol, name)                                                                                                \
    case TARRY__OUTCOME__##symbol:                                                                                     \
        return name;
        OUTCOMES(X)
#undef X
    case _TARRY__OUTCOME_IS_INT_SIZE:
        break;
    }
    return "unknown";
}
