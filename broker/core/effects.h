/* effects.h: what a step gives out: lists that grow in the effects' arena, and answers. */
#ifndef TARRY_CORE_EFFECTS_H
#define TARRY_CORE_EFFECTS_H

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

/* ---- answers. Every one waits until the log is durable up to what it saw (LOG-1). */
Tarry__Reply *reply_new(struct core_effects *effects, Tarry__Code code);
/* Leaves once everything appended so far is durable. */
struct core_reply *reply_send(struct core *core, struct core_effects *effects, uint64_t ticket, Tarry__Reply *reply);
void reply_refuse(struct core *core, struct core_effects *effects, uint64_t ticket, Tarry__Code code,
                  const char *message);

#endif
