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
    TRACE_OPEN = 'O', /* number: index of the port, 0 the first */
    TRACE_SAY = 'S',
    TRACE_HEARD = 'H', /* number: messages that had arrived in all before the next step */
    TRACE_CLOSE = 'C', /* number: 1 for a reset */
    TRACE_PASS = 'P',  /* number: seconds that pass at once in the brokers; not a connection's step */
};

struct trace {
    FILE *file; /* NULL: nothing is recorded */
};

/* Opens the file. Ends the process if it cannot be written. */
void trace_open(struct trace *trace, const char *path);
void trace_step(struct trace *trace, enum trace_kind kind, uint32_t connection, uint32_t number);
void trace_say(struct trace *trace, uint32_t connection, const void *data, uint32_t size);
/* Flushes the trace to the file. */
void trace_close(struct trace *trace);

/* Replays a file. Returns the exit status of the process: 0, or 2 if the file is no trace. */
int trace_replay(const char *path, const uint16_t *ports, size_t port_count, struct pass *pass);

#endif
