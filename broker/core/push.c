/* push.c: see push.h. */
#include "push.h"

#include <string.h>

void *must_alloc(struct arena *arena, size_t size) {
    void *out = must_have(arena, size);
    memset(out, 0, size);
    return out;
}

void *must_copy(struct arena *arena, const void *data, size_t size) {
    void *out = must_have(arena, size);
    if (size) memcpy(out, data, size);
    return out;
}

void *push_room(struct arena *arena, void *items, size_t *count, size_t *capacity, size_t item_size) {
    if (*count == *capacity) {
        size_t grown = *capacity ? *capacity * 2 : 8;
        void *room = arena_alloc(arena, grown * item_size);
        assert(room);
        if (*count) memcpy(room, items, *count * item_size);
        items = room;
        *capacity = grown;
    }
    memset((char *)items + *count * item_size, 0, item_size);
    (*count)++;
    return items;
}

void core_effects_init(struct core_effects *effects, struct arena *arena) {
    memset(effects, 0, sizeof *effects);
    effects->arena = arena;
}

void core_effects_reset(struct core_effects *effects) {
    struct arena *arena = effects->arena;
    arena_reset(arena);
    core_effects_init(effects, arena);
}
