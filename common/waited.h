/* waited.h: measures a wait by the time during which this process was running (F-13).
 *
 * A process that was stopped (SIGSTOP, a paused machine) finds every timeout expired when it continues, although its
 * sockets hold unread messages. So the process checks several times within each timeout. Each check adds the time since
 * the previous check to the wait, but at most `most_ns`. If a process checks less often than that, its timeouts expire
 * later.
 *
 * Pure. Times are nanoseconds of CLOCK_MONOTONIC. Not thread-safe. */
#ifndef TARRY_WAITED_H
#define TARRY_WAITED_H

#include <stdint.h>

/* For threads that check less often: a thread that wakes STOOD_STILL_MS later than planned assumes that its process was
 * stopped. For the next STOOD_STILL_SETTLE_MS, the thread only reads its sockets, and lets no timeout expire. */
#define STOOD_STILL_MS 500u
#define STOOD_STILL_SETTLE_MS 250u

struct waited {
    uint64_t since_ns;  /* start of the wait that is measured; 0: no wait */
    uint64_t looked_ns; /* time of the latest check */
    uint64_t ns;        /* waiting time counted since since_ns */
};

/* Checks a wait. `since_ns`: start of the wait, 0: no wait; a changed value starts a new measurement. */
static inline void waited_look(struct waited *waited, uint64_t since_ns, uint64_t now_ns, uint64_t most_ns) {
    if (since_ns != waited->since_ns) *waited = (struct waited){.since_ns = since_ns, .looked_ns = since_ns};
    if (since_ns == 0 || now_ns <= waited->looked_ns) return;
    uint64_t gone_ns = now_ns - waited->looked_ns;
    waited->ns += gone_ns < most_ns ? gone_ns : most_ns;
    waited->looked_ns = now_ns;
}

#endif
