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
 * once the last of them had a quarter of the time, whenever it was sent. Times are MONOTONIC nanoseconds. Pure, so that
 * the simulator's nodes go by it too. Thread-safety: none; the pair's thread alone has one. */
#ifndef TARRY_SHELL_PAIR_SILENCE_H
#define TARRY_SHELL_PAIR_SILENCE_H

#include <stdbool.h>
#include <stdint.h>

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

/* The other node was heard, or its time begins: it has `wait_ns` from now on. */
void silence_begin(struct silence *silence, uint64_t now_ns, uint64_t wait_ns);
/* How long a probe may take to be answered. */
uint64_t silence_probe_wait_ns(const struct silence *silence);
/* True: a probe is to be sent now, and the other node is not silent before it had time to answer. */
bool silence_probes(struct silence *silence, uint64_t now_ns);
/* The thread wants to sleep until `until_ns` at the most. Returns when it shall wake up, at the latest. */
uint64_t silence_plan(struct silence *silence, uint64_t now_ns, uint64_t until_ns);
/* The thread looks. True: so late that this node stood still; the other node's time has begun anew. */
bool silence_overslept(struct silence *silence, uint64_t now_ns);

#endif
