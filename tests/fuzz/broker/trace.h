/* trace.h: records a stranger's actions step by step, so that they can be replayed to another broker.
 *
 * A seed is not enough: the requests depend on the answers and their times. A trace has the bytes themselves. A step
 * is, little-endian: kind (1 byte), connection (4), number (4); after a SAY follow `number` bytes. shrink.py reads
 * this format too. */
#ifndef TARRY_TESTS_FUZZ_BROKER_TRACE_H
#define TARRY_TESTS_FUZZ_BROKER_TRACE_H

#include <stdint.h>
#include <stdio.h>

#include "pass.h"

enum trace_kind {
    TRACE_OPEN = 'O', /* a connection is opened; `number` is the index of its port */
    TRACE_SAY = 'S',
    TRACE_HEARD =
        'H', /* messages have arrived on the connection; `number` is their count since the connection was opened */
    TRACE_CLOSE = 'C', /* a connection is closed; `number` is 1 if it is closed with a TCP reset */
    TRACE_PASS = 'P',  /* `number` is the count of seconds that pass at once in the brokers; `connection` is 0 */
};

struct trace {
    FILE *file; /* file of the trace; NULL: nothing is recorded */
};

/* Opens the file; ends the process if it cannot be written. */
void trace_open(struct trace *trace, const char *path);
void trace_step(struct trace *trace, enum trace_kind kind, uint32_t connection, uint32_t number);
void trace_say(struct trace *trace, uint32_t connection, const void *data, uint32_t size);
/* Flushes the trace to the file. */
void trace_close(struct trace *trace);

/* Replays a file to brokers. Returns the exit status of the process: 0, or 2 if the file is not a trace. */
int trace_replay(const char *path, const uint16_t *ports, size_t port_count, struct pass *pass);

#endif
