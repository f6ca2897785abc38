/* leader_clock.h: what a follower knows of its leader's clock, so that this node's clock continues from there if this
 * node leads (TIME-1, TIME-2).
 *
 * Each answer brings the leader's logical time, which is a little old when it arrives. So the leader's steady time at
 * this node's BOOTTIME zero is at least the answer's time minus this node's BOOTTIME now. A promotion continues from
 * the last answer. For a promotion after a start at which the leader no longer answers, DIR/boot (clock.h) is kept at
 * or below that value. A leader's clock may be behind the former leader's: its machine was down and its wall clock is
 * slow, or its BOOTTIME runs slower. Such a clock must be noted before any of its frames is stored. The note has some
 * slack, so that jitter and drift do not cause a file write for every answer.
 *
 * Pure; the simulator's follower uses it too. Thread-safety: none; only the pair thread has one. */
#ifndef TARRY_SHELL_PAIR_LEADER_CLOCK_H
#define TARRY_SHELL_PAIR_LEADER_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "clock.h"

/* Margin of the note below an answer's value; and the largest margin, above which the note is renewed. */
#define LEADER_CLOCK_SLACK_MS 10
#define LEADER_CLOCK_BEHIND_MAX_MS 100

struct leader_clock {
    struct instant now; /* the leader's logical time in its last answer */
    uint64_t boot_ns; /* BOOTTIME of this node when `now` was received, or a little earlier; 0: no answer in this run */
    uint64_t noted_steady_ns; /* value in DIR/boot, as written in this run; 0: not written */
};

/* Stores an answer's time `now`, received at BOOTTIME `boot_ns`. Returns true if the caller must pass
 * clock->noted_steady_ns to boot_note before it stores any frame of the answer. */
bool leader_clock_hear(struct leader_clock *clock, struct instant now, uint64_t boot_ns);
/* Returns where this node's clock begins if it leads a log that ends at `log_end`. Call only if an answer was received.
 */
struct clock_origin leader_clock_origin(const struct leader_clock *clock, struct instant log_end);

#endif
