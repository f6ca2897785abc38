/* clock.h: logical time, made from two clocks of the machine (TIME-2).
 *
 *   steady   for delays and leases: the last recorded value, plus what BOOTTIME says has passed; within a boot of the
 *            machine across starts too (boot.h), otherwise, across a start, plus the positive difference of the wall
 *            clocks (less what steady time was ahead: that was counted before)
 *   wall     for absolute times: REALTIME, but it never goes back (it stands still while the clock is behind), and a
 * jump of more than CLOCK_JUMP_RUN_MS within a run, or CLOCK_JUMP_START_MS across a start, is not believed: the wall is
 * *held* where it was until the jump is taken back
 *
 * The first half is pure: it is told what the machine's clocks say. The second half asks them, and may be called from
 * any thread. */
#ifndef TARRY_SHELL_CLOCK_H
#define TARRY_SHELL_CLOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core.h"
#include "monotonic.h"

/* What the machine's clocks say at about one moment. `real_ns` is sampled first, so that steady time, which follows
 * BOOTTIME from there, never runs ahead of the wall. */
struct sample {
    uint64_t real_ns;
    uint64_t boot_ns;
};

/* What a start knows of the time before it. */
struct clock_origin {
    struct instant last;     /* the latest logical time on record; {0, 0} in a new data directory */
    uint64_t boot_steady_ns; /* steady time at BOOTTIME zero, known from a former run of this boot; 0: not known */
    bool accept_jump;        /* an operator says: the wall clock is right, whatever it says */
};

struct clock_state {
    struct instant now;   /* the last that was given out */
    uint64_t steady_from; /* steady time at ... */
    uint64_t boot_from;   /* ... this BOOTTIME */
    struct sample high;   /* where the wall last advanced: real_ns = now.wall_ns at that BOOTTIME */
    uint64_t jump_max_ns; /* CLOCK_JUMP_START_MS until the first sample that is believed, then CLOCK_JUMP_RUN_MS */
    bool held;            /* absolute times wait */
    bool accepted;        /* at the start, a jump that would have been held, but for accept_jump */
};

void clock_begin(struct clock_state *state, struct clock_origin origin, struct sample first);
/* Logical time at `sample`. Never goes back, whatever the sample says. */
struct instant clock_advance(struct clock_state *state, struct sample sample);

struct clock {
    pthread_mutex_t mutex;
    struct clock_state state;
    bool stopped;
};

void clock_init(struct clock *clock, struct clock_origin origin);
/* Instead of clock_init: time stands still, whatever the machine's clocks say. */
void clock_init_stopped(struct clock *clock, struct instant at);
/* Begins anew with what another node's clock said last: the one that led until now. Any thread; time may go back for
 * readers, and the core takes the later of two. */
void clock_restart(struct clock *clock, struct clock_origin origin);
/* Steady time at BOOTTIME zero, for the next start (clock_origin); 0: before it. Any time after clock_init. */
uint64_t clock_boot_steady(const struct clock *clock);
struct instant clock_now(struct clock *clock, bool *out_held);
/* What the machine's wall clock says, right or wrong. */
uint64_t clock_host_ms(void);

/* max(steady, wall) in whole milliseconds, rounded down: what a person is told. Not before a task's due time once it is
 * due, whichever base it has. */
static inline uint64_t instant_ms(struct instant now) {
    return (now.steady_ns > now.wall_ns ? now.steady_ns : now.wall_ns) / NS_PER_MS;
}

#endif
