/* trace.h: the trace of a history for human readers: one line per event, with virtual milliseconds and the actor.
 *
 *     [   0] shop > schedule orders order-1 in 500 ms #1
 *     [   1] broker append 4288
 *     [  11] broker durable 4496
 *     [  12] shop < scheduled 1
 *
 * The trace costs nothing while it is off: a failing seed is played again with the trace on. */
#ifndef TARRY_TESTS_SIM_TRACE_H
#define TARRY_TESTS_SIM_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRACE_LAST_LINES 60

struct trace {
    bool on;
    bool live;  /* prints each line to standard error at once (SIM_TRACE=1) */
    char *text; /* the lines since the last trace_take; the block grows */
    size_t size;
    size_t room;
};

struct world;
void trace_line(struct world *world, const char *who, const char *format, ...) __attribute__((format(printf, 3, 4)));
#define TRACE(world, ...)                                                                                              \
    do {                                                                                                               \
        if ((world)->trace.on) trace_line(world, __VA_ARGS__);                                                         \
    } while (0)

/* Returns the lines since the last call; "" if there are none. Valid until a line is added. */
const char *trace_take(struct world *world);
/* Prints the last TRACE_LAST_LINES lines to standard error. */
void trace_print_last(const struct trace *trace);
void trace_free(struct trace *trace);

#endif
