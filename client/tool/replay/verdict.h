/* verdict.h: log times, and how deliveries ended; shared by life.h and asked.h. */
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
    VERDICT_NONE, /* the log does not say: the delivery was in progress at its end, or another client ended the task */
    VERDICT_ACK,
    VERDICT_NACK,         /* after the queue's backoff */
    VERDICT_NACK_DELAYED, /* after the delay of the request */
    VERDICT_BURY,
    VERDICT_RELEASE,
    VERDICT_RUNS_OUT, /* the lease ended without an answer */
    VERDICT_LOST,     /* the consumer disconnected */
    VERDICT_COMMIT,   /* settled in an atomic commit with other operations */
};

#endif
