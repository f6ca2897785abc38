/* past.h: finds the tasks of a redaction frame by frame. It replaces broker/shell/jobs/locator.c in tests of the core.
 */
#ifndef TARRY_TESTS_FUZZ_PAST_H
#define TARRY_TESTS_FUZZ_PAST_H

#include "core.h"

/* Adds to `out` the tasks that the frame scheduled and that `redact` selects; `out` has space for all tasks. `queue`
 * is the number of the queue in `redact`. Keys are borrowed from the body (NULL: a seal). */
void past_take(struct core_past *out, const Tarry__Redact *redact, uint32_t queue, const struct frame_header *header,
               const Tarry__FrameBody *body);
/* Returns whether the frame ends that task. */
bool past_ends(const Tarry__FrameBody *body, uint64_t id);

#endif
