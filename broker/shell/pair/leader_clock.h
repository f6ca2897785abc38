/* leader_clock.h: what a follower knows of its leader's clock, so that its own goes on from there when it leads itself
 * (TIME-1, TIME-2).
 *
 * Every answer tells the leader's logical time. It was under way for a while, so the leader's steady time at our
 * BOOTTIME zero is what the answer says less our BOOTTIME now, or a little more, but never less. A promotion goes on
 * from the last answer. For a promotion after a start at which the leader is not heard any more, DIR/boot (boot.h) is
 * kept at or below that line: a leader whose clock is behind the one before it, because its machine was down and its
 * wall clock is slow, or whose BOOTTIME runs slower than ours, must be noted before any frame of it is stored. It is
 * noted with some slack, so that jitter and drift do not write a file for every answer.
 *
 * Pure, so that the simulator's follower goes by it too. Thread-safety: none; the pair's thread alone has one. */
#ifndef TARRY_SHELL_PAIR_LEADER_CLOCK_H
#define TARRY_SHELL_PAIR_LEADER_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "clock.h"

/* By how much the note is below what an answer says; and how far it may come to be below before it is put right. */
#define LEADER_CLOCK_SLACK_MS 10
#define LEADER_CLOCK_BEHIND_MAX_MS 100

struct leader_clock {
    struct instant now;       /* its logical time, as it was ... */
    uint64_t boot_ns;         /* ... at this BOOTTIME of ours, or a little before; 0: not heard in this run */
    uint64_t noted_steady_ns; /* what DIR/boot says since this run heard it; 0: nothing */
};

/* An answer said `now` and came at BOOTTIME `boot_ns`. True: before any of its frames is stored, boot_note must be
 * given clock->noted_steady_ns. */
bool leader_clock_hear(struct leader_clock *clock, struct instant now, uint64_t boot_ns);
/* Where this node's own clock begins as the leader of a log that ends with `log_end`. Only if the leader was heard. */
struct clock_origin leader_clock_origin(const struct leader_clock *clock, struct instant log_end);

#endif
