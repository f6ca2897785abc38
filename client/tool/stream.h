/* stream.h: NDJSON input; one answer for each line, in input order, as soon as it is durable.
 *
 * Three threads share a ring of slots. The reader (the caller's thread) fills the tail, completions of the library
 * mark slots as done, and the printer writes done slots from the head. The number of slots and the bytes of their
 * lines are limited. The reader waits when a limit is reached, so a slow broker or a slow reader of the output slows
 * the input. */
#ifndef TARRY_TOOL_STREAM_H
#define TARRY_TOOL_STREAM_H

#include "lines.h"
#include "tool.h"

/* Limits of the lines that are read and not yet answered: number, and bytes of text. */
#define STREAM_LINES_MAX 65536u
#define STREAM_BYTES_MAX (32u << 20)

/* Runs `verb` for each line of `path` ("-": standard input). `withdraw` applies to all cancels. Returns the exit
 * status. */
int stream_run(struct tool *tool, const struct args *args, enum verb verb, const char *path, bool withdraw);

#endif
