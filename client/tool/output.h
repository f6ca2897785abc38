/* output.h: standard output, whole lines at a time.
 *
 * stdio is not used, because consume must know exactly how many lines were written before it acks them. A closed pipe
 * is an outcome, not a signal. */
#ifndef TARRY_TOOL_OUTPUT_H
#define TARRY_TOOL_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "text.h"

/* Writes and empties `text`. Returns the number of bytes written: fewer than the size if standard output is closed or
 * full, or (`interruptible`) if a signal ended the wait for a slow reader. One thread at a time. */
size_t output_write(struct text *text, bool interruptible);
/* True after a failed write; its error message was printed. */
bool output_lost(void);
/* True if the reader of standard output has closed it (checked without a write), or if a write has failed. */
bool output_closed(void);
/* Writes and empties `text`. Returns `status`, or EXIT_REFUSED if standard output is closed. */
int output_flush(struct text *text, int status);

#endif
