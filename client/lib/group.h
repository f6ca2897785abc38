/* group.h: how many blocking calls travel in one commit (group commit).
 *
 * Each commit costs the broker a sync and both ends some thread switches, whatever is in it. The threads whose calls
 * one answer ends are woken together, and most call again at once: were the first of them to send alone, every second
 * commit would have one operation. So what gathers waits for the others, as long as they are likely to come:
 *
 *   callers of the last answer are on their way   until half of all that call are there, or GROUP_MIN
 *   nobody is, and a commit is under way          until GROUP_MIN are there, or the answer comes
 *   neither                                       it goes
 *
 * Halves, so that one commit is packed, sent and decided while the other one is synced. Nothing waits longer than
 * GROUP_WAIT_MS; when it does wait so long in vain (callers that do other things between calls, a broker far away), the
 * next GROUP_REST commits go at once. A call with no other beside it never waits.
 *
 * Pure; the client's lock is held. */
#ifndef TARRY_GROUP_H
#define TARRY_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GROUP_MIN 16u
#define GROUP_WAIT_MS 2u /* by a clock of whole milliseconds: 1 ms at least */
#define GROUP_REST 256u

struct group {             /* zeroed: no call is expected */
    size_t returning;      /* callers that were woken and have not called again … */
    uint64_t returning_ms; /* … by when they should have */
    uint64_t until_ms;     /* what gathers waits until then; 0: it does not wait */
    unsigned rest;         /* commits that go at once */
};

/* `callers` were told their results, while `others` wait for theirs or gather. */
void group_woke(struct group *group, size_t callers, size_t others, uint64_t now);
/* One has called. */
void group_came(struct group *group);
/* What gathers, `gathered` blocking calls, is to wait for more; `under_way` have been sent. 0: nothing gathers that
 * could wait. */
bool group_waits(struct group *group, size_t gathered, size_t under_way, uint64_t now);
/* When it must be looked at again; UINT64_MAX: it does not matter. */
uint64_t group_deadline(const struct group *group, uint64_t now);

#endif
