/* commit.h: the one way for a client to change anything. */
#ifndef TARRY_CORE_COMMIT_H
#define TARRY_CORE_COMMIT_H

#include "state.h"

void commit_step(struct core *core, const struct core_event *event, struct core_effects *effects);

#endif
