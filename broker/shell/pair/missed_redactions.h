/* missed_redactions.h: fetches the redactions that the leader recorded between the end of this node's log and a
 * snapshot. The snapshot does not contain them, so they are kept for the eraser (pending_erasures.h).
 *
 * The leader reads that part of its log and sends only the frames with redactions. If the leader's log and archive were
 * pruned there, a log line warns that redactions may be missing.
 *
 * Before recovery, in the starting thread. */
#ifndef TARRY_SHELL_MISSED_REDACTIONS_H
#define TARRY_SHELL_MISSED_REDACTIONS_H

#include <stdint.h>

#include "blocking_rpc.h"

/* Fetches the redactions recorded from `position` on, where a frame began in this log. Returns 0; -1 if no answer came;
 * 1 if they cannot be kept, with storage's error in *out_error. Ends the process at a signal, like snapshot_fetch. */
int missed_redactions_ask(struct blocking_rpc *blocking_rpc, const char *directory, uint64_t position, int *out_error);

#endif
