/* reply.c: see reply.h. */
#include "reply.h"

#include "push.h"
#include "seeded_bug.h"

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
    uint64_t after = SEEDED_BUG(reply_before_sync) ? 0 : core->position; /* LOG-1 */
    *out = (struct core_reply){.ticket = ticket, .after = after, .reply = reply};
    return out;
}

void reply_refuse(struct core *core, struct core_effects *effects, uint64_t ticket, Tarry__Code code,
                  const char *message) {
    Tarry__Reply *reply = reply_new(effects, code);
    reply->message = (char *)message;
    reply_send(core, effects, ticket, reply);
}
