/* commit.h: handling of CORE_COMMIT, the only event by which a client changes tasks and queues. */
#ifndef TARRY_CORE_COMMIT_H
#define TARRY_CORE_COMMIT_H

#include "state.h"

/* Returns true if the operation must be refused with contents[i].problem. The core does not read such an operation,
 * because its fields may exceed every limit. */
static inline bool op_is_malformed(const struct core_event *event, size_t i) {
    return event->contents && event->contents[i].problem;
}

/* Returns false if the step will repeat an earlier reply or refuse the commit, independent of stored data. */
bool commit_decides(const struct core *core, const struct core_event *event);
void commit_step(struct core *core, const struct core_event *event, struct core_effects *effects);

#endif
