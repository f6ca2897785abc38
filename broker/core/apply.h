/* apply.h: the only code that changes state (LOG-2). Live, in recovery and on a follower alike. */
#ifndef TARRY_CORE_APPLY_H
#define TARRY_CORE_APPLY_H

#include "state.h"

/* Applies the frame at core->position and moves the position behind it. `key_hashes`: of the task of each record
 * (row_key), if whoever decided has them; NULL: they are made. Non-zero: a record makes no sense here. */
int apply_frame(struct core *core, uint64_t frame_bytes, const Tarry__FrameBody *body, const uint64_t *key_hashes);

#endif
