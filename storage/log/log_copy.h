/* log_copy.h: appends frames of another log, unchanged (R2).
 *
 * *Rule:* log_copy takes all of the bytes, if they are whole frames that continue this log, or none. *Reason:* the
 * bytes come from the network, and the log is the source of truth. *Consequence:* the copy has the same frames as the
 * original; only its segment boundaries may differ.
 *
 * *Rule:* log_copy writes a frame only when this log is durable up to the frame's `synced_to`. *Reason:* `synced_to`
 * says that all frames below that position are durable. If one of them is missing, recovery reports damage (LOG-5).
 * *Consequence:* a copy survives a kill at any moment, like any log.
 *
 * *Rule:* a node that copies a log writes no frames of its own, not even seals. */
#ifndef TARRY_STORAGE_LOG_COPY_H
#define TARRY_STORAGE_LOG_COPY_H

#include <stddef.h>
#include <stdint.h>

#include "log.h"

/* Appends frames from log_serve and writes them (log_write). Refuses frames of an epoch above `epoch_max`, the epoch
 * that this node has promised. Writer only. The caller may confirm the frames only up to log_durable(), after log_sync.
 * 0; LOG_UNFIT: nothing was appended, `*out_problem` says why and `*out_at` where (`*out_problem` is never NULL); or a
 * negative errno, as from log_append. */
int log_copy(struct log *log, const void *bytes, size_t size, uint32_t epoch_max, uint64_t *out_at,
             const char **out_problem);

#endif
