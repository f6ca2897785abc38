/* clock.h: logical time, made from two clocks of the machine (TIME-2).
 *
 * Steady time is for delays and leases. It is the last recorded value plus the time that BOOTTIME has advanced. Within
 * a boot of the machine this also holds across starts (boot_recall). Across a reboot, steady time advances by as much
 * as the wall clock has advanced. If steady time was ahead of wall time, it advances by that much less.
 *
 * Wall time is for absolute times. It is REALTIME, but it never goes back: it stands still while REALTIME is behind it.
 * A jump of more than CLOCK_JUMP_RUN_MS within a run, or CLOCK_JUMP_START_MS across a start, is not believed: wall time
 * is *held* at its value until the jump is reversed.
 *
 * The functions whose input is a clock sample are pure. Any thread may call the functions that read the machine's
 * clocks. */
#ifndef TARRY_SHELL_CLOCK_H
#define TARRY_SHELL_CLOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "core.h"

/* ---- the machine's clocks that cannot be set, and waiting by them */

#define NS_PER_MS UINT64_C(1000000)

uint64_t boottime_ns(void);  /* CLOCK_BOOTTIME in nanoseconds */
uint64_t monotonic_ns(void); /* CLOCK_MONOTONIC in nanoseconds */
/* monotonic_cond_init makes a condition variable that uses CLOCK_MONOTONIC; monotonic_after makes its deadline. */
void monotonic_cond_init(pthread_cond_t *cond);
struct timespec monotonic_after(uint64_t wait_ns);

/* ---- logical time */

/* A sample of the machine's two clocks at about one moment. `real_ns` is read first. Steady time starts from it and
 * advances by BOOTTIME, so steady time never runs ahead of the wall time. */
struct sample {
    uint64_t real_ns;
    uint64_t boot_ns;
};

/* Times from before this start. */
struct clock_origin {
    struct instant last;     /* the latest recorded logical time; {0, 0} in a new data directory */
    uint64_t boot_steady_ns; /* steady time at BOOTTIME zero, noted by an earlier run of this boot; 0: not known */
    bool accept_jump;        /* an operator has confirmed that the wall clock is right */
};

struct clock_state {
    struct instant now;   /* the last time that this clock returned */
    uint64_t steady_from; /* steady time at `boot_from` */
    uint64_t boot_from;   /* BOOTTIME at which steady time was `steady_from` */
    struct sample high;   /* sample at which the wall time last advanced; its real_ns equals now.wall_ns */
    uint64_t jump_max_ns; /* maximum forward jump that is believed: CLOCK_JUMP_START_MS until the first believed sample,
                             then CLOCK_JUMP_RUN_MS */
    bool held;            /* the wall stands still, so absolute times wait */
    bool accepted;        /* at the start, a jump was believed only because of accept_jump */
};

void clock_begin(struct clock_state *state, struct clock_origin origin, struct sample first);
/* Returns logical time at `sample`. It never goes back, whatever the sample is. */
struct instant clock_advance(struct clock_state *state, struct sample sample);

struct clock {
    pthread_mutex_t mutex;
    struct clock_state state;
    bool stopped;
};

void clock_init(struct clock *clock, struct clock_origin origin);
/* Alternative to clock_init, for a clock that always returns the time `at`. */
void clock_init_stopped(struct clock *clock, struct instant at);
/* Lets this clock continue from the last time of another node's clock, when that node stops leading and this node
 * begins. Any thread. A reader may see an earlier time than before; the core uses the later of the two times. */
void clock_restart(struct clock *clock, struct clock_origin origin);
/* Returns steady time at BOOTTIME zero, for the next start (clock_origin); 0 if steady time began after BOOTTIME zero.
 * Call it at any time after clock_init. */
uint64_t clock_boot_steady(const struct clock *clock);
struct instant clock_now(struct clock *clock, bool *out_held);
/* Returns the machine's wall clock, right or wrong. */
uint64_t clock_host_ms(void);

/* Returns max(steady, wall) in whole milliseconds, rounded down: the time shown to people. A due task's due time is
 * never later than this time, whichever time base the task uses. */
static inline uint64_t instant_ms(struct instant now) {
    return (now.steady_ns > now.wall_ns ? now.steady_ns : now.wall_ns) / NS_PER_MS;
}

/* ---- this boot of the machine */

/* Identifies this boot of the machine, and remembers what steady time was at its beginning (TIME-2, F-32).
 *
 * Within a boot, steady time follows BOOTTIME, also across restarts of the broker and whatever happens to the wall
 * clock. So each start writes a note, DIR/boot, of one line: the boot's id, the time namespace, and steady time at
 * BOOTTIME zero. That value is the same for all runs of one boot.
 *
 * The note need not be synced: a crash of the machine ends the boot, and the note is useful only within it. A note that
 * is missing, damaged or of another boot is ignored; then the wall clocks tell how much time has passed. */

/* Returns steady time at BOOTTIME zero, as an earlier run of this boot noted it; 0: no such note. */
uint64_t boot_recall(const char *directory);
/* Writes the note. Returns 0 or a positive errno. After an error there is no note, because an old note may be ahead of
 * the true time (TIME-1). `steady_ns` 0 means unknown. If the machine gives no boot id, writes nothing. */
int boot_note(const char *directory, uint64_t steady_ns);

#endif
