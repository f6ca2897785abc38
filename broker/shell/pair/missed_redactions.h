/* missed_redactions.h: what was redacted at the leader between this node's own log and a snapshot, which says nothing
 * of it any more: the leader is asked for the redactions since, and they are kept for the eraser (pending_erasures.h).
 *
 * It costs the leader a reading of that part of its past, and the wire only the frames with redactions. What the leader
 * itself has no longer, log and archive pruned, is told loudly: it is not known whether something was redacted there.
 *
 * Before recovery, in the starting thread. */
#ifndef TARRY_SHELL_MISSED_REDACTIONS_H
#define TARRY_SHELL_MISSED_REDACTIONS_H

#include <stdint.h>

#include "blocking_rpc.h"

/* Redactions recorded from `position` on, where a frame began here. 0; -1: no answer; 1: they cannot be kept, and
 * *out_error (of storage) says why. Ends the process at a signal, like snapshot_fetch. */
int missed_redactions_ask(struct blocking_rpc *blocking_rpc, const char *directory, uint64_t position, int *out_error);

#endif
