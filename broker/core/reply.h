/* reply.h: answers. Every one waits until the log is durable up to what it saw (LOG-1). */
#ifndef TARRY_CORE_REPLY_H
#define TARRY_CORE_REPLY_H

#include "state.h"

Tarry__Reply *reply_new(struct core_effects *effects, Tarry__Code code);
/* Leaves once everything appended so far is durable. */
struct core_reply *reply_send(struct core *core, struct core_effects *effects, uint64_t ticket, Tarry__Reply *reply);
void reply_refuse(struct core *core, struct core_effects *effects, uint64_t ticket, Tarry__Code code,
                  const char *message);

#endif
