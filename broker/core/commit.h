/* commit.h: the one way for a client to change anything. */
#ifndef TARRY_CORE_COMMIT_H
#define TARRY_CORE_COMMIT_H

#include "state.h"

/* The operation is to be refused with contents[i].problem, and nothing in it keeps to any limit: it is not looked into.
 */
static inline bool op_is_malformed(const struct core_event *event, size_t i) {
    return event->contents && event->contents[i].problem;
}

/* The task that the operation means by its id; 0: by queue and key, or none. */
uint64_t op_id(const Tarry__Op *op);

/* False: the step repeats an earlier answer or refuses the commit, whatever is stored. */
bool commit_decides(const struct core *core, const struct core_event *event);
void commit_step(struct core *core, const struct core_event *event, struct core_effects *effects);

#endif
