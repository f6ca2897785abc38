/* push.h: growing the lists of core_effects in their arena. */
#ifndef TARRY_CORE_PUSH_H
#define TARRY_CORE_PUSH_H

#include "state.h"

/* One more item of the list: PUSH(effects, replies)->ticket = … */
#define PUSH(effects, list)                                                                                            \
    ((effects)->list.items = push_room((effects)->arena, (effects)->list.items, &(effects)->list.count,                \
                                       &(effects)->list.capacity, sizeof *(effects)->list.items),                      \
     &(effects)->list.items[(effects)->list.count - 1])

/* Room for one more, cleared; counts it. */
void *push_room(struct arena *arena, void *items, size_t *count, size_t *capacity, size_t item_size);
/* From the arena, cleared. The shell gives the arena a limit that no step can reach; running into it is a bug. */
void *must_alloc(struct arena *arena, size_t size);
/* Likewise, but what lies there is anything. */
static inline void *must_have(struct arena *arena, size_t size) {
    void *out = arena_alloc(arena, size ? size : 1);
    assert(out);
    return out;
}
void *must_copy(struct arena *arena, const void *data, size_t size);

#endif
