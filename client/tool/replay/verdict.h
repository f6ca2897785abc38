/* verdict.h: when something was recorded, and how a delivery ended: the words that lives and what was asked share. */
#ifndef TARRY_TOOL_VERDICT_H
#define TARRY_TOOL_VERDICT_H

#include <stdint.h>

#include "frame.h"

struct logical_time { /* logical time (core.h, struct instant) */
    uint64_t steady_ns;
    uint64_t wall_ns;
};

static inline struct logical_time moment_of(const struct frame_header *header) {
    return (struct logical_time){header->steady_ns, header->wall_ns};
}

enum verdict {
    VERDICT_NONE, /* the record does not say: it is under way at its end, or another client ended the task */
    VERDICT_ACK,
    VERDICT_NACK,         /* after the queue's backoff */
    VERDICT_NACK_DELAYED, /* after a delay of its own */
    VERDICT_BURY,
    VERDICT_RELEASE,
    VERDICT_RUNS_OUT, /* nothing was heard until the lease's deadline */
    VERDICT_LOST,     /* the consumer went away */
    VERDICT_COMMIT,   /* by an atomic commit, with other operations */
};

#endif
