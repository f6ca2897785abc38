/* retention.c: see retention.h. */
#include "retention.h"

#include <assert.h>

#define NS_PER_MS 1000000ull
/* Interval of checking a segment's age, which need not be exact. */
#define LOOK_AGAIN_NS (60ull * 1000000000ull)

void retention_init(struct retention *retention, const struct retention_policy *policy) {
    *retention = (struct retention){.policy = *policy};
}

uint64_t retention_bound(uint64_t indexed, uint64_t follower_from) {
    return follower_from < indexed ? follower_from : indexed;
}

/* Returns true if the policy requires the removal of the segment. */
static bool is_due(const struct retention *retention, const struct log_segment *oldest,
                   const struct retention_facts *facts) {
    if (oldest == NULL || facts->is_erasing) return false;
    if (facts->log_bytes > retention->policy.log_size) return true;
    return facts->wall_ns > oldest->wall_ns &&
           (facts->wall_ns - oldest->wall_ns) / NS_PER_MS > retention->policy.log_age_ms;
}

bool retention_is_active(const struct retention *retention) {
    return retention->effect != RETENTION_REST;
}

enum retention_effect retention_look(struct retention *retention, const struct log_segment *oldest,
                                     const struct retention_facts *facts) {
    assert(!retention_is_active(retention));
    if (!is_due(retention, oldest, facts)) return RETENTION_REST;
    if (!facts->is_archived) {
        if (retention->asked == oldest->base) return RETENTION_REST;
        retention->asked = oldest->base;
        retention->segment = *oldest;
        return RETENTION_ARCHIVE;
    }
    retention->segment = *oldest;
    return retention->effect = RETENTION_OPEN;
}

uint64_t retention_wait_ns(const struct retention *retention, const struct log_segment *oldest,
                           const struct retention_facts *facts) {
    if (retention_is_active(retention)) return 0;
    if (!is_due(retention, oldest, facts)) return LOOK_AGAIN_NS;
    return !facts->is_archived && retention->asked == oldest->base ? LOOK_AGAIN_NS : 0;
}

static enum retention_effect after(enum retention_effect effect) {
    switch (effect) {
    case RETENTION_OPEN:
        return RETENTION_MOVE;
    case RETENTION_MOVE:
        return RETENTION_COMMIT;
    case RETENTION_COMMIT:
        /* The segment may be removed only after the transaction that replaces it is synced (LOG-3). */
        return RETENTION_SIGN;
    case RETENTION_SIGN:
        return RETENTION_REMOVE;
    case RETENTION_REMOVE:
        return RETENTION_REST;
    case RETENTION_REST:
    case RETENTION_ARCHIVE:
        break;
    }
    return RETENTION_REST;
}

enum retention_effect retention_step(struct retention *retention, enum retention_result result) {
    assert(retention_is_active(retention));
    switch (result) {
    case RETENTION_MORE:
        assert(retention->effect == RETENTION_MOVE);
        break;
    case RETENTION_NO_ROOM:
    case RETENTION_PINNED:
        retention->effect = RETENTION_REST;
        break;
    case RETENTION_DONE:
        retention->effect = after(retention->effect);
        break;
    }
    return retention->effect;
}
