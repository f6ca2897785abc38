/* effects.c: see effects.h. */
#include "effects.h"

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

char *must_copy_text(struct arena *arena, const char *text) {
    return must_copy(arena, text, strlen(text) + 1);
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

/* ---- replies */

Tarry__Reply *reply_new(struct core_effects *effects, Tarry__Code code) {
    Tarry__Reply *reply = must_alloc(effects->arena, sizeof *reply);
    tarry__reply__init(reply);
    reply->code = code;
    return reply;
}

struct core_reply *reply_send(struct core *core, struct core_effects *effects, uint64_t ticket, Tarry__Reply *reply) {
    if (core->following) {
        reply->follower = true;
        reply->position = core->position;
    }
    struct core_reply *out = PUSH(effects, replies);
    uint64_t after = core->position; /* LOG-1 */
    *out = (struct core_reply){.ticket = ticket, .after = after, .reply = reply};
    return out;
}

void reply_refuse(struct core *core, struct core_effects *effects, uint64_t ticket, Tarry__Code code,
                  const char *message) {
    Tarry__Reply *reply = reply_new(effects, code);
    reply->message = (char *)message;
    reply_send(core, effects, ticket, reply);
}
