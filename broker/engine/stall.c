/* stall.c: see stall.h. */
#include "stall.h"

#include <stdbool.h>

void stall_sleep(struct stall *stall, uint64_t now_ns, uint64_t wait_ns) {
    stall->asleep_since_ns = now_ns;
    stall->asleep_until_ns = now_ns + wait_ns;
}

void stall_wake(struct stall *stall) {
    stall->asleep_until_ns = stall->looked_ns = 0;
}

void stall_look(struct stall *stall, uint64_t now_ns) {
    (void)stall_received(stall, now_ns);
    if (stall->asleep_until_ns == 0) stall->looked_ns = now_ns;
}

void stall_is_awake(struct stall *stall, uint64_t now_ns) {
    if (stall->asleep_until_ns != 0) stall->asleep_since_ns = now_ns;
}

uint64_t stall_received(struct stall *stall, uint64_t now_ns) {
    const bool is_asleep = stall->asleep_until_ns != 0;
    uint64_t *awaited_ns = is_asleep ? &stall->asleep_until_ns : &stall->looked_ns;
    bool is_late = *awaited_ns != 0 && now_ns > *awaited_ns + STOPPED_NS;
    if (is_late) {
        uint64_t since_ns = is_asleep ? stall->asleep_since_ns : *awaited_ns;
        /* If the previous stop is not settled yet, input from before that stop may still be unread, so its earlier time
         * stays. */
        if (since_ns >= stall->settled_ns) stall->stopped_ns = since_ns;
        stall->settled_ns = now_ns + SETTLE_NS;
        *awaited_ns = now_ns;
    }
    if (now_ns >= stall->settled_ns) stall->settled_ns = 0;
    return stall->settled_ns != 0 ? stall->stopped_ns : now_ns;
}

uint64_t stall_settle_ns(const struct stall *stall, uint64_t now_ns) {
    return stall->settled_ns > now_ns ? stall->settled_ns - now_ns : 0;
}

struct instant stall_judge(struct instant now, uint64_t age_ns) {
    now.steady_ns -= age_ns < now.steady_ns ? age_ns : now.steady_ns;
    now.wall_ns -= age_ns < now.wall_ns ? age_ns : now.wall_ns;
    return now;
}
