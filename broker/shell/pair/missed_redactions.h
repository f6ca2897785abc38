/* missed_redactions.h: fetches the redactions that the leader recorded between the end of this node's log and a
 * snapshot. The snapshot does not contain them, so they are kept for the eraser (pending_erasures.h).
 *
 * The leader reads that part of its log and sends only the frames with redactions. If the leader has pruned a part of
 * these frames from its log and archive, a log line warns that redactions may be missing.
 *
 * Before recovery, in the starting thread. */
#ifndef TARRY_SHELL_MISSED_REDACTIONS_H
#define TARRY_SHELL_MISSED_REDACTIONS_H

#include <stdint.h>

#include "blocking_rpc.h"

/* Fetches the redactions that the leader recorded from `position` on. A frame of this log begins at `position`. Returns
 * 0 on success, -1 if no answer came, or 1 if the redactions cannot be stored; `*out_error` is then the storage error.
 * Ends the process at a signal, like snapshot_fetch. */
int missed_redactions_ask(struct blocking_rpc *blocking_rpc, const char *directory, uint64_t position, int *out_error);

#endif
