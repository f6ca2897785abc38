/* apply.h: the only code that changes state (LOG-2). Live, in recovery and on a follower alike. */
#ifndef TARRY_CORE_APPLY_H
#define TARRY_CORE_APPLY_H

#include "tasks.h"

/* Applies the frame at core->position and moves the position behind it. `knowns`: of each record, the task as it
 * leaves it (NULL: it is about something else), if whoever decided has that still; NULL: it is read from the records,
 * and hashed. Non-zero: a record makes no sense here. */
int apply_frame(struct core *core, uint64_t frame_bytes, const Tarry__FrameBody *body, struct known *const *knowns);

#endif
