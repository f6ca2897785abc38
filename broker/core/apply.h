/* apply.h: the only code that changes state (LOG-2). The live broker, recovery and a follower all use it. */
#ifndef TARRY_CORE_APPLY_H
#define TARRY_CORE_APPLY_H

#include "tasks.h"

/* Applies the frame at core->position and advances the position. For each record, `knowns` contains the task after the
 * record, or NULL if the record is not about a task. If `knowns` itself is NULL, apply_frame decodes and hashes the
 * records. Returns non-zero if a record contradicts the state. */
int apply_frame(struct core *core, uint64_t frame_bytes, const Tarry__FrameBody *body, struct known *const *knowns);

#endif
