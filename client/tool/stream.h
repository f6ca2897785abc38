/* stream.h: NDJSON in, one answer for every line out, in input order, each as soon as it is durable.
 *
 * Three parties share a ring of slots: the reader (the caller's thread) fills the tail, the library's completions mark
 * slots done, the printer writes from the head as far as slots are done. The ring and the bytes of its lines are
 * bounded; the reader waits when either is full, so a slow broker or a slow reader of the output slows the input. */
#ifndef TARRY_TOOL_STREAM_H
#define TARRY_TOOL_STREAM_H

#include "fields.h"
#include "tool.h"

/* Lines read and not yet answered, and the bytes of their text. */
#define STREAM_LINES_MAX 65536u
#define STREAM_BYTES_MAX (32u << 20)

/* Runs `verb` for every line of `path` ("-": standard input). `withdraw`: for all cancels. Returns the exit status. */
int stream_run(struct tool *tool, const struct args *args, enum verb verb, const char *path, bool withdraw);

#endif
