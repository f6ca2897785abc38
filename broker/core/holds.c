/* holds.c: while rows are read from the index, the overlay keeps all tasks that the index had not absorbed when the
 * reading began. Without a hold, a task could change and leave memory after its row was read. The core would then use
 * the old row, and lose the change. */
#include "near.h"

int core_hold(struct core *core) {
    for (size_t i = 0; i < HOLDS_MAX; i++) {
        if (core->holds[i]) continue;
        core->holds[i] = core->indexed;
        core->hold_count++;
        return (int)i;
    }
    return -1;
}

void core_unhold(struct core *core, int hold) {
    assert(hold >= 0 && hold < (int)HOLDS_MAX && core->holds[hold]);
    core->holds[hold] = 0;
    core->hold_count--;
    /* A follower may be waiting for memory that a hold kept in use (core_may_replay). Request a step, because no other
     * event would cause one. */
    if (core->following && core->trim_to < near_trim_limit(core)) core->hurry = true;
}

uint64_t near_trim_limit(const struct core *core) {
    uint64_t limit = core->indexed;
    for (size_t i = 0, left = core->hold_count; left; i++) {
        left -= core->holds[i] != 0;
        if (core->holds[i] && core->holds[i] < limit) limit = core->holds[i];
    }
    return limit;
}
