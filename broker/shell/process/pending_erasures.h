/* pending_erasures.h: redactions that a snapshot has skipped. The snapshot's log and index come from the leader, which
 * has already carried out the redactions. But this node's own archive and quarantined tails are older and still have
 * the contents.
 *
 * DIR/unerased contains a packed FrameBody whose records are these redactions, followed by its XXH3-64 (FORMAT.md).
 *
 * The file is made durable before the snapshot replaces the old data, because afterwards no other file contains these
 * redactions. It is deleted when all redactions are done. So if the process is killed at any moment, the next start
 * only repeats work.
 *
 * Not thread-safe: used by the starting thread, and later by the index thread. */
#ifndef TARRY_SHELL_PENDING_ERASURES_H
#define TARRY_SHELL_PENDING_ERASURES_H

#include "erasures.h" /* UNERASED_NAME */
#include "tarry.pb-c.h"

/* Reads the redactions; free them with tarry__frame_body__free_unpacked. *out is NULL if the file does not exist.
 * Returns 0, a negative errno, or LOG_DAMAGED. */
int pending_erasures_read(const char *directory, Tarry__FrameBody **out);
/* Replaces the redactions by `body` (borrowed). Returns 0 or a negative errno. */
int pending_erasures_write(const char *directory, const Tarry__FrameBody *body);
/* Deletes the file after all redactions are done. Returns 0 or a negative errno. */
int pending_erasures_end(const char *directory);

#endif
