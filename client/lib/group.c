/* group.c: see group.h. */
#include "group.h"

void group_woke(struct group *group, size_t callers, size_t others, uint64_t now) {
    if (group->rest > 0) group->rest--;
    if (group->rest > 0 || callers + others < 2) return;
    group->returning += callers;
    group->returning_ms = now + GROUP_WAIT_MS;
}

void group_came(struct group *group) {
    if (group->returning > 0) group->returning--;
}

/* Returns the number of calls that the gathering commit should have before it is sent; 0: send it at once. */
static size_t wanted(const struct group *group, size_t gathered, size_t under_way) {
    const size_t half = (gathered + under_way + group->returning + 1) / 2;
    if (group->returning > 0) return half > GROUP_MIN ? half : GROUP_MIN;
    return under_way > 0 ? GROUP_MIN : 0;
}

bool group_waits(struct group *group, size_t gathered, size_t under_way, uint64_t now) {
    if (now >= group->returning_ms) group->returning = 0;
    if (group->rest > 0 || gathered == 0 || gathered >= wanted(group, gathered, under_way)) {
        group->until_ms = 0;
        return false;
    }
    if (group->until_ms == 0) group->until_ms = now + GROUP_WAIT_MS;
    if (now < group->until_ms) return true;
    *group = (struct group){.rest = GROUP_REST};
    return false;
}

uint64_t group_deadline(const struct group *group, uint64_t now) {
    if (group->until_ms != 0) return group->until_ms;
    return group->returning > 0 && now < group->returning_ms ? group->returning_ms : UINT64_MAX;
}
