/* erasure.c: see erasure.h. */
#include "erasure.h"

#include <assert.h>

/* Time in ns between checks whether a copy or an archiving has ended. The checks are needed because not every end is
 * reported to this code. */
#define BUSY_NS 100000000ull
/* Time until a failed write is retried. */
#define RETRY_NS 2000000000ull

uint64_t erasure_wait_ns(const struct erasure *erasure, const struct erasure_facts *facts) {
    bool is_nothing = !facts->in_index && !facts->missed_redactions;
    if (is_nothing || facts->is_retiring) return UINT64_MAX;
    return erasure->again_ns > facts->now_ns ? erasure->again_ns - facts->now_ns : 0;
}

enum erasure_effect erasure_look(struct erasure *erasure, const struct erasure_facts *facts) {
    assert(erasure->effect == ERASURE_REST);
    if (erasure_wait_ns(erasure, facts) > 0) return ERASURE_REST;
    erasure->missed_redactions = !facts->in_index;
    erasure->wait_ns = 0;
    return erasure->effect = ERASURE_BEGIN;
}

static enum erasure_effect after(const struct erasure *erasure) {
    switch (erasure->effect) {
    case ERASURE_BEGIN:
        return ERASURE_TAILS;
    case ERASURE_TAILS:
        return erasure->missed_redactions ? ERASURE_ARCHIVE : ERASURE_LOG;
    case ERASURE_LOG:
        return ERASURE_ARCHIVE;
    case ERASURE_ARCHIVE:
        return erasure->missed_redactions ? ERASURE_FORGET : ERASURE_REPORT;
    case ERASURE_REPORT:
        return ERASURE_END;
    case ERASURE_FORGET:
        return ERASURE_END;
    case ERASURE_END:
    case ERASURE_REST:
        break;
    }
    return ERASURE_REST;
}

enum erasure_effect erasure_step(struct erasure *erasure, enum erasure_result result, uint64_t now_ns) {
    assert(erasure->effect != ERASURE_REST);
    if (erasure->effect == ERASURE_BEGIN && result == ERASURE_BUSY) {
        erasure->again_ns = now_ns + BUSY_NS;
        return erasure->effect = ERASURE_REST;
    }
    if (result == ERASURE_FAILED) erasure->wait_ns = RETRY_NS;
    bool goes_on = result == ERASURE_DONE || erasure->effect == ERASURE_BEGIN;
    erasure->effect = goes_on ? after(erasure) : ERASURE_END;
    if (erasure->effect == ERASURE_REST) erasure->again_ns = erasure->wait_ns > 0 ? now_ns + erasure->wait_ns : 0;
    return erasure->effect;
}
