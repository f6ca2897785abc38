/* leader_clock.c: see leader_clock.h. */
#include "leader_clock.h"

#include <assert.h>

/* Returns the leader's steady time at the time when this node's BOOTTIME was 0. Returns 0 if the steady time is smaller
 * than BOOTTIME. */
static uint64_t steady_at_boot(const struct leader_clock *clock) {
    return clock->now.steady_ns > clock->boot_ns ? clock->now.steady_ns - clock->boot_ns : 0;
}

bool leader_clock_hear(struct leader_clock *clock, struct instant now, uint64_t boot_ns) {
    bool is_first = clock->boot_ns == 0;
    clock->now = now;
    clock->boot_ns = boot_ns;
    uint64_t steady_ns = steady_at_boot(clock);
    /* If this process started again, its clock would continue from the note and be ahead of the leader's, so tasks
     * would be delivered too early (TIME-1). */
    bool is_ahead = clock->noted_steady_ns > steady_ns;
    bool is_behind = steady_ns > clock->noted_steady_ns + LEADER_CLOCK_BEHIND_MAX_MS * NS_PER_MS;
    if (!is_first && !is_ahead && !is_behind) return false;
    uint64_t slack_ns = LEADER_CLOCK_SLACK_MS * NS_PER_MS;
    clock->noted_steady_ns = steady_ns > slack_ns ? steady_ns - slack_ns : 0;
    return true;
}

struct clock_origin leader_clock_origin(const struct leader_clock *clock, struct instant log_end) {
    assert(clock->boot_ns != 0);
    struct clock_origin origin = {.last = clock->now, .boot_steady_ns = steady_at_boot(clock)};
    /* TIME-2: the new time must not be before the time of the log's last frame, which may be later than the leader's
     * last answer. The core does not know that time if the index has absorbed the whole log. */
    if (log_end.steady_ns > origin.last.steady_ns) origin.last.steady_ns = log_end.steady_ns;
    if (log_end.wall_ns > origin.last.wall_ns) origin.last.wall_ns = log_end.wall_ns;
    return origin;
}
