/* group.h: decides how many blocking calls share one commit (group commit).
 *
 * Each commit costs the broker an fsync and both sides some thread switches, whatever its size. One reply wakes the
 * threads of all its calls together, and most of them call again at once. If the first of them sent alone, every
 * second commit would have one operation. So a gathering commit waits for other callers while they are likely to
 * come:
 *
 *   callers of the last reply are expected back   wait for half of all callers, at least GROUP_MIN
 *   none is expected, a commit is under way       wait for GROUP_MIN callers or the reply
 *   neither                                       send at once
 *
 * A commit waits for only half of all callers, so that one commit is packed and sent while another is synced. No commit
 * waits longer than GROUP_WAIT_MS. If a commit waits that long without getting as many calls as it waits for, the next
 * GROUP_REST commits are sent at once: the callers are busy with other work, or the broker is far away. A call with no
 * other call beside it never waits.
 *
 * No I/O. The client's lock is held. */
#ifndef TARRY_GROUP_H
#define TARRY_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GROUP_MIN 16u
/* Longest wait of a gathering commit; in effect 1 to 2 ms, because the clock counts whole milliseconds. */
#define GROUP_WAIT_MS 2u
#define GROUP_REST 256u

struct group {             /* a zeroed struct expects no caller */
    size_t returning;      /* number of callers that were woken and have not called again */
    uint64_t returning_ms; /* time after which woken callers are no longer expected to call again */
    uint64_t until_ms;     /* end of the gathering commit's wait; 0: it does not wait */
    unsigned rest;         /* number of commits that will be sent at once, without waiting for more calls */
};

/* Notes that `callers` threads got their results. `others`: number of calls that wait for a reply or have not been
 * sent. */
void group_woke(struct group *group, size_t callers, size_t others, uint64_t now);
/* Notes that a blocking call has been submitted, so that one caller fewer is expected. */
void group_came(struct group *group);
/* Returns true if the gathering commit should wait for more callers. `gathered`: number of blocking calls in that
 * commit; 0: it may not wait. `under_way`: number of calls in sent commits. */
bool group_waits(struct group *group, size_t gathered, size_t under_way, uint64_t now);
/* Returns when group_waits must be called again; UINT64_MAX: not before another event. */
uint64_t group_deadline(const struct group *group, uint64_t now);

#endif
