/* past.h: what a redaction means, found frame by frame: the least that broker/shell/jobs/locator.c does for the core.
 */
#ifndef TARRY_TESTS_FUZZ_PAST_H
#define TARRY_TESTS_FUZZ_PAST_H

#include "core.h"

/* Adds to `out`, which has room for every task, those that the frame scheduled and `redact` means; `queue` is the
 * number of the queue that it names. Keys are borrowed from the body (NULL: a seal). */
void past_take(struct core_past *out, const Tarry__Redact *redact, uint32_t queue, const struct frame_header *header,
               const Tarry__FrameBody *body);
/* The frame ends that task. */
bool past_ends(const Tarry__FrameBody *body, uint64_t id);

#endif
