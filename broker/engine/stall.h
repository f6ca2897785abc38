/* stall.h: detects that the process was stopped (SIGSTOP, a suspended machine), and decides when input that is found
 * afterwards counts as received.
 *
 * There are two signs of a stop. A sleeping thread wakes more than STOPPED_NS after the time that it asked for. A
 * thread that is awake reads the clock every STALL_LOOK_NS, and finds that more than STOPPED_NS have passed since its
 * last reading. The second sign is needed because the threads of a busy broker seldom sleep. (A thread that only waited
 * that long for a CPU is treated as stopped too, which is harmless.)
 *
 * Input that is in the sockets after a stop may have arrived in time. So the broker takes SETTLE_NS to read it. The
 * input counts as received at the last time before the stop: when the core thread fell asleep or last read the clock.
 * Until the end of SETTLE_NS, only timers expire that were due before the stop (TIME-2).
 *
 * So input is judged by the earliest time at which it can have arrived. But delays in the input count from the latest
 * possible time, when it was read; otherwise they would end too early (TIME-1). The difference between the two times is
 * the input's lateness.
 *
 * Pure: the caller supplies BOOTTIME. The inbox has one struct stall, protected by its mutex; the simulator has
 * another. */
#ifndef TARRY_SHELL_STALL_H
#define TARRY_SHELL_STALL_H

#include <stdint.h>

#include "core.h"
#include "waited.h"

#define STOPPED_NS (STOOD_STILL_MS * 1000000ull)
#define SETTLE_NS (STOOD_STILL_SETTLE_MS * 1000000ull)
/* Maximum time between two readings of the clock by the core thread while it is awake, even while it waits for
 * something other than its inbox. */
#define STALL_LOOK_NS 200000000ull

struct stall { /* CLOCK_BOOTTIME, nanoseconds */
    uint64_t asleep_since_ns;
    uint64_t asleep_until_ns; /* wake-up time that the core thread asked for; 0: the core thread is awake */
    uint64_t looked_ns;       /* time at which the awake core thread last read the clock; 0: unknown */
    uint64_t stopped_ns;      /* earliest time at which the process was stopped; valid if settled_ns is not 0 */
    uint64_t settled_ns; /* end of the period in which input that arrived during the stop is read; 0: not stopped */
};

/* stall_sleep notes that the core thread falls asleep, stall_wake that it has woken up. */
void stall_sleep(struct stall *stall, uint64_t now_ns, uint64_t wait_ns);
void stall_wake(struct stall *stall);
/* Notes that the core thread is awake at `now_ns`. */
void stall_look(struct stall *stall, uint64_t now_ns);
/* Notes that another thread runs while the core thread sleeps, so the process is not stopped. */
void stall_is_awake(struct stall *stall, uint64_t now_ns);
/* Returns the time at which input arriving now counts as received: `now_ns`, unless the process was stopped. */
uint64_t stall_received(struct stall *stall, uint64_t now_ns);
/* Returns for how many ns from now input still counts as received before the stop (stall_received); 0: no stop is being
 * handled. */
uint64_t stall_settle_ns(const struct stall *stall, uint64_t now_ns);
/* Returns the logical time `age_ns` before `now`. */
struct instant stall_judge(struct instant now, uint64_t age_ns);

#endif
