/* log_copy.h: frames of another log, taken over as they are (R2).
 *
 * *Rule:* all of the bytes are whole frames that continue this log, or none of them is taken. *Reason:* they come from
 * the network, and what is in the log is the truth. *Consequence:* the log stays frame for frame the one that it
 * copies; where its segments end is its own affair. *Rule:* a frame is written once the log is durable up to the
 * frame's `synced_to`. *Reason:* recovery takes that word to mean that what is missing before was lost (LOG-5).
 * *Consequence:* a copy can be killed at any moment, as any log can. *Rule:* whoever copies writes nothing of its own,
 * not even seals. */
#ifndef TARRY_STORAGE_LOG_COPY_H
#define TARRY_STORAGE_LOG_COPY_H

#include <stddef.h>
#include <stdint.h>

#include "log.h"

/* Appends frames as log_serve gives them out, and writes them (log_write). `epoch_max`: what this node has promised;
 * frames of a later epoch are not taken. Writer only. Nothing of it counts before log_sync and log_durable say so: up
 * to there the frames may be confirmed. 0; LOG_UNFIT, nothing was taken and `*out_problem` (not NULL otherwise either)
 * is a phrase that says why, and
 * `*out_at` where; or a negative errno, as log_append. */
int log_copy(struct log *log, const void *bytes, size_t size, uint32_t epoch_max, uint64_t *out_at,
             const char **out_problem);

#endif
