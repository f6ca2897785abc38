/* stall.h: a process that was stopped (SIGSTOP, a machine that slept), and when what it then finds counts as received.
 *
 * A thread that wakes up more than STOPPED_NS later than it asked to was stopped, with the whole process. So was one
 * that is awake, looks at the clock every STALL_LOOK_NS, and finds that more than STOPPED_NS have gone by since its
 * last look: a broker that has much to do is seldom stopped in its sleep. What the sockets hold by then came in time
 * for all that the core knows: it is given SETTLE_NS to be read, and counts as received when the core thread fell
 * asleep, or looked last; until then nothing is due that was not due before (TIME-2). (A thread that merely waited for
 * a core is no later than that, and loses nothing by it.)
 *
 * So it is judged by the earliest time at which it can have come. What it asks for "in so long" counts from the latest,
 * which is when it was read, or it would come early (TIME-1): the difference is its lateness.
 *
 * Pure: it is told what BOOTTIME says. The inbox keeps one, under its mutex; the simulator another. */
#ifndef TARRY_SHELL_STALL_H
#define TARRY_SHELL_STALL_H

#include <stdint.h>

#include "core.h"
#include "waited.h"

#define STOPPED_NS (STOOD_STILL_MS * 1000000ull)
#define SETTLE_NS (STOOD_STILL_SETTLE_MS * 1000000ull)
/* So often, or oftener, the core thread looks while it is awake, also while it waits for something else than its inbox.
 */
#define STALL_LOOK_NS 200000000ull

struct stall { /* BOOTTIME, nanoseconds */
    uint64_t asleep_since_ns;
    uint64_t asleep_until_ns; /* that the core thread asked to be woken at; 0: it is awake … */
    uint64_t looked_ns;       /* … and looked last; 0: that is not known */
    uint64_t stopped_ns;      /* the process stood still since then, at the earliest … */
    uint64_t settled_ns; /* … and by then what came to its sockets meanwhile has been read; 0: it was not stopped */
};

/* The core thread falls asleep; it wakes up. */
void stall_sleep(struct stall *stall, uint64_t now_ns, uint64_t wait_ns);
void stall_wake(struct stall *stall);
/* The core thread is awake, and looks. */
void stall_look(struct stall *stall, uint64_t now_ns);
/* Another thread shows that the process runs, while the core thread sleeps. */
void stall_is_awake(struct stall *stall, uint64_t now_ns);
/* As of when what comes now counts as received; `now_ns` itself, unless the process was stopped. */
uint64_t stall_received(struct stall *stall, uint64_t now_ns);
/* For how long stall_received still says so; 0: it does not. */
uint64_t stall_settle_ns(const struct stall *stall, uint64_t now_ns);
/* Logical time so long ago. */
struct instant stall_judge(struct instant now, uint64_t age_ns);

#endif
