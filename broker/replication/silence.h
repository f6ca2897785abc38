/* silence.h: decides when the other node counts as silent (F-13, F-27).
 *
 * A node that was paused (by SIGSTOP, a suspended machine, or a disk that blocked the thread) has not read its sockets
 * meanwhile. It must not conclude that the other node was silent. Otherwise a follower that was stopped for 2 s would
 * depose a healthy leader. So the pair's thread checks the clock several times within the timeout, and a check that
 * comes much too late starts the timeout again. On a machine that makes every check late, the other node never counts
 * as silent.
 *
 * A follower with a coordinator also sends probes, on a connection of its own, which the leader answers at once: one
 * after half of the timeout and one after three quarters. The leader counts as silent (PAIR_SILENT) when the timeout is
 * over; the last probe then had a quarter of the timeout to be answered (F-31c).
 *
 * If the connection breaks and another one is refused, the process has died, and PAIR_SILENT is reported at once
 * (F-10). A leader also tries to connect when its follower's connection breaks, and does not wait for a follower whose
 * process has died.
 *
 * *Any answer of the leader in its epoch proves that the leader lives*, whether it answers a question or a probe. A
 * wrong decision here costs time only; the compare-and-set keeps the pair correct.
 *
 * Pure. Times are MONOTONIC nanoseconds of the node. Thread-safety: one owner. */
#ifndef TARRY_REPLICATION_SILENCE_H
#define TARRY_REPLICATION_SILENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "pair.h"
#include "pair_times.h"

/* Interval of the further PAIR_SILENT events while the other node stays silent. */
#define SILENCE_REMIND_NS (300 * PAIR_NS_PER_MS)

/* The thread checks every eighth of the timeout. If a check is late by more than a quarter of the timeout, this process
 * was paused. A shorter pause is not noticed. But a follower asks at least every third of the timeout, so its question
 * still arrives in time. */
#define SILENCE_LOOKS 8u
#define SILENCE_LATE 4u
/* Number of probes before the other node counts as silent; the first is sent after half of the timeout. */
#define SILENCE_PROBES 2u
#define SILENCE_PROBE_PART 4u /* each probe has a quarter of the timeout to be answered */

struct silence {
    uint64_t wait_ns;   /* the timeout */
    uint64_t until_ns;  /* end of the other node's timeout */
    uint64_t remind_ns; /* no further PAIR_SILENT before this time */
    uint64_t look_ns;   /* planned time of the next check; 0: none planned yet */
    uint64_t probe_ns;  /* time of the next probe; UINT64_MAX: no probe is left */
    uint32_t probes;    /* probes sent since the other node was heard */
};

/* Result of a check of the other node's silence. */
struct silence_verdict {
    bool stood_still; /* this process was paused, so the timeout starts again; true only if this check was the first to
                         notice the pause */
    bool probes;      /* send a probe now */
    bool tells;       /* report PAIR_SILENT to the rules */
    bool gives_up;    /* PAIR_SILENT because the follower asks but stores nothing (F-28) */
};

/* Notes a sign of life of the other node: starts the timeout. */
void silence_heard(struct silence *silence, const struct pair *pair, const struct pair_times *times, uint64_t now_ns);
/* Notes that the follower has announced its stop: it counts as silent from now on. */
void silence_is_left(struct silence *silence, uint64_t now_ns);
/* Moves the next PAIR_SILENT to `at_ns`, if that is earlier. */
void silence_remind_by(struct silence *silence, uint64_t at_ns);
/* Checks the clock. `has_left`: this node has announced its own stop and ignores the other node. `stuck_ns`: see
 * leader_half_stuck_ns. */
struct silence_verdict silence_look(struct silence *silence, const struct pair *pair, bool has_left, uint64_t stuck_ns,
                                    uint64_t now_ns);
/* Returns when silence_look is due. */
uint64_t silence_timer(const struct silence *silence, const struct pair *pair, bool has_left, uint64_t stuck_ns);
/* Returns whether the answer to a probe, by a node that leads `epoch` (0: none), proves that the leader lives. */
bool silence_probe_counts(const struct pair *pair, bool has_left, uint32_t epoch);
/* Handles the death of the other node's process: the connection broke and a new connection was refused. Returns true if
 * this node waits for the other node. If the dead process was the leader, the caller now reports PAIR_SILENT with
 * `gone`; if it was the follower, silence_look reports the silence. Returns false if this node does not wait for the
 * other node, or has just reported the death. */
bool silence_is_gone(struct silence *silence, const struct pair *pair, bool has_left, uint64_t now_ns);
/* Checks whether this process was paused. Call it when the thread wakes up and when its turn ends; silence_look checks
 * in between. Returns true if it was paused, and the timeout has started again. */
bool silence_stood_still(struct silence *silence, const struct pair *pair, uint64_t now_ns);

/* Returns the timeout of a probe in ns. */
uint64_t silence_probe_wait_ns(const struct silence *silence);
/* Plans the next check. The thread wants to sleep until `until_ns`; returns the time at which it must wake up. */
uint64_t silence_plan(struct silence *silence, uint64_t now_ns, uint64_t until_ns);
#endif
