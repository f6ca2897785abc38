/* pending_erasures.h: redactions that a snapshot passed over. Its log and index come from the leader, where they are
 * carried out; this node's own archive and the tails that it put aside were made before, and still have the contents.
 *
 *   DIR/unerased   a packed FrameBody whose records are these redactions, then XXH3-64 of it (FORMAT.md)
 *
 * Rule: it is durable before the snapshot is put in the place of what was there, and goes once all of it is carried
 * out. Reason: afterwards nothing else knows of them. Consequence: a kill at any moment costs nothing but doing it
 * again.
 *
 * Not thread-safe: the starting thread's, then the index thread's. */
#ifndef TARRY_SHELL_PENDING_ERASURES_H
#define TARRY_SHELL_PENDING_ERASURES_H

#include "erasures.h" /* UNERASED_NAME */
#include "tarry.pb-c.h"

/* What is there, tarry__frame_body__free_unpacked's; NULL in *out: nothing. 0, a negative errno, or LOG_DAMAGED. */
int pending_erasures_read(const char *directory, Tarry__FrameBody **out);
/* Writes these instead (borrowed). 0 or a negative errno. */
int pending_erasures_write(const char *directory, const Tarry__FrameBody *body);
/* All of it is carried out. 0 or a negative errno. */
int pending_erasures_end(const char *directory);

#endif
