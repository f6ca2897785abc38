/* commit.h: handling of a Commit, the only request by which a client changes tasks and queues. */
#ifndef TARRY_CORE_COMMIT_H
#define TARRY_CORE_COMMIT_H

#include "state.h"

/* Returns true if the operation must be refused with commit.contents[i].problem. The core does not read such an
 * operation, because its fields may exceed every limit. */
static inline bool op_is_malformed(const struct core_request *request, size_t i) {
    return request->commit.contents && request->commit.contents[i].problem;
}

/* Returns false if the step will repeat an earlier reply or refuse the commit, independent of stored data. */
bool commit_decides(const struct core *core, const struct core_request *request);
void commit_step(struct core *core, const struct core_request *request, struct core_effects *effects);

#endif
