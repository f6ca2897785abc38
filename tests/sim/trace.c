/* trace.c: see trace.h. */
#include "trace.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../must.h"
#include "world.h"

#define LINE_SIZE_MAX 400

void trace_line(struct world *world, const char *who, const char *format, ...) {
    struct trace *trace = &world->trace;
    char line[LINE_SIZE_MAX];
    static const char *const nodes[HOSTS_MAX] = {"node 0", "node 1"};
    bool is_node = world->host_count > 1 && strcmp(who, "broker") == 0;
    if (is_node) who = nodes[world->host->number];
    int size = snprintf(line, sizeof line, "[%4" PRIu64 "] %s ", world->now_ns / 1000000, who);
    va_list arguments;
    va_start(arguments, format);
    size += vsnprintf(line + size, sizeof line - (size_t)size, format, arguments);
    va_end(arguments);
    size_t used = (size_t)size < sizeof line - 1 ? (size_t)size : sizeof line - 2;
    line[used++] = '\n';
    line[used] = 0;
    if (trace->live) (void)fputs(line, stderr);
    if (trace->size + used + 1 > trace->room) {
        trace->room = 2 * (trace->size + used + 1);
        trace->text = realloc(trace->text, trace->room);
        MUST(trace->text);
    }
    memcpy(trace->text + trace->size, line, used + 1);
    trace->size += used;
}

const char *trace_take(struct world *world) {
    struct trace *trace = &world->trace;
    if (!trace->size) return "";
    trace->size = 0;
    return trace->text;
}

void trace_print_last(const struct trace *trace) {
    if (!trace->size || trace->live) return;
    const char *from = trace->text + trace->size - 1;
    for (int lines = 0; from > trace->text; from--) {
        if (from[-1] == '\n' && ++lines == TRACE_LAST_LINES) break;
    }
    (void)fputs(from, stderr);
}

void trace_free(struct trace *trace) {
    free(trace->text);
    *trace = (struct trace){0};
}
