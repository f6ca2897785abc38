/* silence.h: when the other node counts as silent (F-13, F-27).
 *
 * A node that stood still itself (SIGSTOP, a paused machine, a disk that held the thread) has not listened meanwhile:
 * what the other node said waits in a socket. If it took that for silence, a follower that was stopped for two seconds
 * would depose a healthy leader as its first act. So the pair's thread looks at the clock several times within the time
 * that the other node is given, and a look that comes much later than planned begins that time anew.
 *
 * On a machine on which every look is that late nothing is ever given up: nothing heard there says anything about the
 * other node. Times are MONOTONIC nanoseconds. Pure, so that the simulator's nodes go by it too. Thread-safety: none;
 * the pair's thread alone has one. */
#ifndef TARRY_SHELL_PAIR_SILENCE_H
#define TARRY_SHELL_PAIR_SILENCE_H

#include <stdbool.h>
#include <stdint.h>

/* The thread looks every eighth of the wait, and has overslept if it comes a quarter of the wait after that. A follower
 * asks at least every third of it, so a pause that was not noticed leaves the other node time enough. */
#define SILENCE_LOOKS 8u
#define SILENCE_LATE 4u

struct silence {
    uint64_t wait_ns;   /* how long the other node may say nothing */
    uint64_t until_ns;  /* it is silent if it is not heard before */
    uint64_t remind_ns; /* the rules are not told so again before this */
    uint64_t look_ns;   /* the thread's next look, as planned; 0: none was planned yet */
};

/* The other node was heard, or its time begins: it has `wait_ns` from now on. */
void silence_begin(struct silence *silence, uint64_t now_ns, uint64_t wait_ns);
/* The thread wants to sleep until `until_ns` at the most. Returns when it shall wake up, at the latest. */
uint64_t silence_plan(struct silence *silence, uint64_t now_ns, uint64_t until_ns);
/* The thread looks. True: so late that this node stood still; the other node's time has begun anew. */
bool silence_overslept(struct silence *silence, uint64_t now_ns);

#endif
