/* verdict.h: log times, and how deliveries ended; shared by life.h and asked.h. */
#ifndef TARRY_TOOL_VERDICT_H
#define TARRY_TOOL_VERDICT_H

#include <stdint.h>

#include "frame.h"

struct logical_time { /* logical time of the broker (struct instant in core.h) */
    uint64_t steady_ns;
    uint64_t wall_ns;
};

static inline struct logical_time moment_of(const struct frame_header *header) {
    return (struct logical_time){header->steady_ns, header->wall_ns};
}

enum verdict {
    /* The log has no end of the delivery: it was in progress at the log's end, or another client ended the task. */
    VERDICT_NONE,
    VERDICT_ACK,
    VERDICT_NACK,         /* nack: the task was ready again after the queue's backoff */
    VERDICT_NACK_DELAYED, /* nack with a delay of its own */
    VERDICT_BURY,
    VERDICT_RELEASE,
    VERDICT_RUNS_OUT, /* the consumer did not answer before the lease ended */
    VERDICT_LOST,     /* the consumer disconnected */
    VERDICT_COMMIT,   /* settled in an atomic commit with other operations */
};

#endif
