/* waited.h: for how long something has waited, by the time that this process was awake (F-13).
 *
 * A process that stood still (SIGSTOP, a paused machine) finds, as its first act, that whatever it waited for is late.
 * What it would have heard meanwhile lies in its sockets. So it looks several times within the time that it gives, and
 * a look counts what has gone by since the one before it, but never more than `most_ns`. On a machine on which every
 * look is later than that, what is given up is given up later.
 *
 * Pure. Times are MONOTONIC nanoseconds. Thread-safety: one owner. */
#ifndef TARRY_WAITED_H
#define TARRY_WAITED_H

#include <stdint.h>

/* Where it does not look so often: a thread that comes so much later than it wanted to belongs to a process that stood
 * still, and what has come to its sockets meanwhile has so long to be read before anything is judged by time. */
#define STOOD_STILL_MS 500u
#define STOOD_STILL_SETTLE_MS 250u

struct waited {
    uint64_t since_ns;  /* what it waits for since then; 0: it waits for nothing */
    uint64_t looked_ns; /* the newest look */
    uint64_t ns;        /* what the looks have counted since then */
};

/* A look. `since_ns` as above: another one begins anew. */
static inline void waited_look(struct waited *waited, uint64_t since_ns, uint64_t now_ns, uint64_t most_ns) {
    if (since_ns != waited->since_ns) *waited = (struct waited){.since_ns = since_ns, .looked_ns = since_ns};
    if (since_ns == 0 || now_ns <= waited->looked_ns) return;
    uint64_t gone_ns = now_ns - waited->looked_ns;
    waited->ns += gone_ns < most_ns ? gone_ns : most_ns;
    waited->looked_ns = now_ns;
}

#endif
