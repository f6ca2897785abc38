/* output.h: standard output, whole lines at a time.
 *
 * Nothing goes through stdio: what a write accepted is what a reader can see, and consume must know exactly how many
 * lines that is before it acknowledges them. A closed pipe is an outcome, not a signal. */
#ifndef TARRY_TOOL_OUTPUT_H
#define TARRY_TOOL_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "text.h"

/* Writes everything and empties `text`. Returns how many bytes went out: fewer than asked if standard output is gone
 * or full, or (with `interruptible`) a signal asked for the end while a slow reader was awaited. One thread at a
 * time. */
size_t output_write(struct text *text, bool interruptible);
/* True once a write has failed; the sentence was said then. */
bool output_lost(void);
/* True if the reader of standard output has gone, seen without a write, or output_lost. */
bool output_closed(void);
/* Writes, empties, and turns a loss into an exit status: `status`, or EXIT_REFUSED when standard output is gone. */
int output_flush(struct text *text, int status);

#endif
