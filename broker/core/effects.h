/* effects.h: output of a step: lists that grow in the effects' arena, and replies. */
#ifndef TARRY_CORE_EFFECTS_H
#define TARRY_CORE_EFFECTS_H

#include "state.h"

/* Appends one item to a list: PUSH(effects, replies)->ticket = … */
#define PUSH(effects, list)                                                                                            \
    ((effects)->list.items = push_room((effects)->arena, (effects)->list.items, &(effects)->list.count,                \
                                       &(effects)->list.capacity, sizeof *(effects)->list.items),                      \
     &(effects)->list.items[(effects)->list.count - 1])

/* Returns a cleared new item and counts it. */
void *push_room(struct arena *arena, void *items, size_t *count, size_t *capacity, size_t item_size);
/* Allocates cleared memory from the arena. The limit of the arena is above the need of any step, so exhaustion is a
 * bug. */
void *must_alloc(struct arena *arena, size_t size);
/* Allocates like must_alloc, but does not clear the memory. */
static inline void *must_have(struct arena *arena, size_t size) {
    void *out = arena_alloc(arena, size ? size : 1);
    assert(out);
    return out;
}
void *must_copy(struct arena *arena, const void *data, size_t size);
char *must_copy_text(struct arena *arena, const char *text);
/* Copies the row's key and serial name into the arena, because the task may change before the row is sent. */
static inline void must_own(struct arena *arena, struct row *row) {
    row->key = must_copy(arena, row->key, row->key_size);
    if (row->serial_size) row->serial = must_copy(arena, row->serial, row->serial_size);
}

/* ---- replies. Each waits until the log is durable up to the position that it depends on (LOG-1). */
Tarry__Reply *reply_new(struct core_effects *effects, Tarry__Code code);
/* Sends the reply once every frame appended so far is durable. */
struct core_reply *reply_send(struct core *core, struct core_effects *effects, uint64_t ticket, Tarry__Reply *reply);
void reply_refuse(struct core *core, struct core_effects *effects, uint64_t ticket, Tarry__Code code,
                  const char *message);

#endif
