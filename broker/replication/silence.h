/* silence.h: when the other node counts as silent (F-13, F-27).
 *
 * A node that stood still itself (SIGSTOP, a paused machine, a disk that held the thread) has not listened meanwhile:
 * what the other node said waits in a socket. If it took that for silence, a follower that was stopped for two seconds
 * would depose a healthy leader as its first act. So the pair's thread looks at the clock several times within the time
 * that the other node is given, and a look that comes much later than planned begins that time anew.
 *
 * On a machine on which every look is that late nothing is ever given up: nothing heard there says anything about the
 * other node.
 *
 * A follower with a coordinator does not rest on what it failed to hear: it asks. Half of the time without a word from
 * the leader it sends a probe, which is answered at once, and another one after three quarters; its leader is silent
 * once the last of them had a quarter of the time, whenever it was sent (F-31c):
 *
 *   nothing heard for half of the time, and again at three quarters ── a probe, on a connection of its own, which the
 *                                                                       leader answers at once
 *   all of it, and the probes had their time ─────────────────────────── PAIR_SILENT
 *   the connection broke ── is another one refused? ──────────────────── the process has died: PAIR_SILENT now (F-10)
 *
 * A leader whose follower's connection breaks tries the same: a follower whose process has died is not waited for.
 *
 * *Any answer of the leader in its epoch is a sign of life*: to a question or to a probe. All of this is opinion; what
 * protects is the compare-and-set.
 *
 * Pure. Times are MONOTONIC nanoseconds of the node. Thread-safety: one owner. */
#ifndef TARRY_REPLICATION_SILENCE_H
#define TARRY_REPLICATION_SILENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "pair.h"
#include "pair_times.h"

/* How often the rules are reminded that the other is silent, once it is. */
#define SILENCE_REMIND_NS (300 * PAIR_NS_PER_MS)

/* The thread looks every eighth of the wait, and has overslept if it comes a quarter of the wait after that. A follower
 * asks at least every third of it, so a pause that was not noticed leaves the other node time enough. */
#define SILENCE_LOOKS 8u
#define SILENCE_LATE 4u
/* How many probes go unanswered before the other node is silent; the first after half of the wait. */
#define SILENCE_PROBES 2u
#define SILENCE_PROBE_PART 4u /* … and each has such a part of it to be answered */

struct silence {
    uint64_t wait_ns;   /* how long the other node may say nothing */
    uint64_t until_ns;  /* it is silent if it is not heard before */
    uint64_t remind_ns; /* the rules are not told so again before this */
    uint64_t look_ns;   /* the thread's next look, as planned; 0: none was planned yet */
    uint64_t probe_ns;  /* the next probe is due; UINT64_MAX: there is none left */
    uint32_t probes;    /* sent since it was heard */
};

/* What a look finds. */
struct silence_verdict {
    bool stood_still; /* this node did, though not where silence_stood_still was asked: as there, and nothing is told */
    bool probes;      /* a probe is to be sent now */
    bool tells;       /* the rules are told: PAIR_SILENT */
    bool gives_up;    /* … for the follower asks, and stores nothing (F-28); it is not silent */
};

/* The other node was heard, or its time begins. */
void silence_heard(struct silence *silence, const struct pair *pair, const struct pair_times *times, uint64_t now_ns);
/* The follower has said goodbye: it is silent from now on. */
void silence_is_left(struct silence *silence, uint64_t now_ns);
/* The rules are to be reminded of the silence at `at_ns`, if that is sooner than they would be. */
void silence_remind_by(struct silence *silence, uint64_t at_ns);
/* `has_left`: this node has said goodbye itself, and listens no more. `stuck_ns`: leader_half_stuck_ns. */
struct silence_verdict silence_look(struct silence *silence, const struct pair *pair, bool has_left, uint64_t stuck_ns,
                                    uint64_t now_ns);
/* When silence_look is due. */
uint64_t silence_timer(const struct silence *silence, const struct pair *pair, bool has_left, uint64_t stuck_ns);
/* A probe was answered by a node that leads `epoch` (0: none). True: that is a sign of life. */
bool silence_probe_counts(const struct pair *pair, bool has_left, uint32_t epoch);
/* The connection to the other node broke, and another one is refused: its process has died. True: of the leader, and
 * the rules are told so now (PAIR_SILENT, gone); of the follower, which silence_look tells from now on. */
bool silence_is_gone(struct silence *silence, const struct pair *pair, bool has_left, uint64_t now_ns);
/* This node may have stood still: asked when the thread wakes up, and when it is done. (silence_look asks for what lies
 * between the two.) True: it has, and the other node's time has begun anew. */
bool silence_stood_still(struct silence *silence, const struct pair *pair, uint64_t now_ns);

/* How long a probe may take to be answered. */
uint64_t silence_probe_wait_ns(const struct silence *silence);
/* The thread wants to sleep until `until_ns` at the most. Returns when it shall wake up, at the latest. */
uint64_t silence_plan(struct silence *silence, uint64_t now_ns, uint64_t until_ns);
#endif
