/* leader_clock.h: what a follower knows of its leader's clock, so that this node's clock continues from there if this
 * node leads (TIME-1, TIME-2).
 *
 * Each answer has the leader's logical time, which is a little old when the answer arrives. The answer's time minus
 * this node's BOOTTIME is a lower bound of the leader's steady time at this node's boot. If this node is promoted, its
 * clock continues from the last answer. This process may also start again and be promoted without an answer. For this
 * case the node notes the lower bound, or a smaller value, in DIR/boot (clock.h). A leader's clock may be behind the
 * former leader's: its machine was down and its wall clock is slow, or its BOOTTIME runs slower. The note must be
 * written again before any frame of such a leader is stored. The note may be a little smaller than the bound, so that
 * jitter and drift do not cause a file write for every answer.
 *
 * Pure; the simulator's follower uses it too. Thread-safety: none; only the pair thread has one. */
#ifndef TARRY_SHELL_PAIR_LEADER_CLOCK_H
#define TARRY_SHELL_PAIR_LEADER_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "clock.h"

/* The note in DIR/boot is written this much below the answer's value (SLACK). The note is written again when it is more
 * than BEHIND_MAX below an answer's value. */
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
