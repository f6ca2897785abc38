/* trace.h: what a stranger did, step by step, so that it can be done again to another broker.
 *
 * A seed alone does not say it: what is said depends on what was answered, and when. A trace has the bytes themselves.
 * Steps, little-endian: kind (1 byte), connection (4), number (4); of a SAY `number` bytes follow. shrink.py knows
 * this. */
#ifndef TARRY_TESTS_FUZZ_BROKER_TRACE_H
#define TARRY_TESTS_FUZZ_BROKER_TRACE_H

#include <stdint.h>
#include <stdio.h>

enum trace_kind {
    TRACE_OPEN = 'O', /* number: of the port, 0 the first */
    TRACE_SAY = 'S',
    TRACE_HEARD = 'H', /* number: so many messages have come in all, before what follows was done */
    TRACE_CLOSE = 'C', /* number: 1 with a reset */
};

struct trace {
    FILE *file; /* NULL: nothing is kept */
};

/* Ends the process if the file cannot be written. */
void trace_open(struct trace *trace, const char *path);
void trace_step(struct trace *trace, enum trace_kind kind, uint32_t connection, uint32_t number);
void trace_say(struct trace *trace, uint32_t connection, const void *data, uint32_t size);
/* All of it is in the file. */
void trace_close(struct trace *trace);

/* Does again what the file says. Exit status of the process: 0, or 2 if the file is none. */
int trace_replay(const char *path, const uint16_t *ports, size_t port_count);

#endif
