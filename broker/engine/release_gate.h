/* release_gate.h: the one release gate: which answers and deliveries may leave the broker (LOG-1, R2, R3).
 *
 *   effects of a group ──► release_gate_enter ──► … ──► release_gate_next ──► the hand lets them out
 *   the log is durable ──► release_gate_reach ──┘  └──► release_gate_tell ──► subscribers: reached up to here
 *
 * A release is a set of effects that leave together. It names the position of the log that it rests on, and, if it
 * appended nothing, the question that must be confirmed by then (R3). Releases leave in the order in which they
 * entered. Deliveries, and answers whose content must be read first, leave when their subscriber is told.
 *
 * `reached` is the position up to which the log is durable wherever it must be: here, if the broker is alone; on every
 * member in sync, if it is one of a pair. The gate knows neither: the thread that makes the log durable, or hears of
 * the other node, calls release_gate_reach. Code that must know of the position subscribes; the gate knows no names.
 *
 * Not thread-safe: the caller keeps a mutex. Memory: none of its own. */
#ifndef TARRY_ENGINE_RELEASE_GATE_H
#define TARRY_ENGINE_RELEASE_GATE_H

#include <stdbool.h>
#include <stdint.h>

struct release {
    struct release *next; /* the gate's */
    uint64_t position;    /* it rests on the log up to here */
    uint64_t question;    /* … and on a confirmation of this question or a later one; 0: on none */
};

/* Must outlive the gate. `reached` may enter, reach and tell anew, but not subscribe. */
struct release_subscriber {
    void (*reached)(void *context, uint64_t position);
    void *context;
    struct release_subscriber *next; /* the gate's */
};

struct release_gate {
    struct release *first; /* oldest first */
    struct release **last;
    uint64_t entered;   /* no release rests on more */
    uint64_t reached;   /* the log is durable wherever it must be, up to here */
    uint64_t told;      /* … as the subscribers know */
    uint64_t confirmed; /* questions up to this one are confirmed */
    struct release_subscriber *subscribers;
    struct release_subscriber **subscribers_last;
};

/* `reached`: where the log ended, durably, at the start. No question is confirmed. */
void release_gate_init(struct release_gate *gate, uint64_t reached);
/* It is told of positions after all that subscribed before. */
void release_gate_subscribe(struct release_gate *gate, struct release_subscriber *subscriber);

/* Takes it over until release_gate_next or release_gate_take gives it back. */
void release_gate_enter(struct release_gate *gate, struct release *release);
/* The log is durable wherever it must be, up to `position`. Never less than before: asserted. */
void release_gate_reach(struct release_gate *gate, uint64_t position);
/* Questions up to `question` are confirmed. UINT64_MAX: no confirmation is needed. May be less than before, when
 * another node counts again: its word is needed for what comes from then on. */
void release_gate_confirm(struct release_gate *gate, uint64_t question);

/* May leave what rests on `position`, and on no confirmation? */
bool release_gate_reaches(const struct release_gate *gate, uint64_t position);
/* The next that may leave; NULL: none. */
struct release *release_gate_next(struct release_gate *gate);
/* The oldest, whether it may leave or not, for nothing will make it leave any more; NULL: none is left. */
struct release *release_gate_take(struct release_gate *gate);
/* Does the oldest rest on what is reached, and wait for a confirmation alone? */
bool release_gate_wants_confirmation(const struct release_gate *gate);
/* Tells the subscribers what is reached, unless they know. */
void release_gate_tell(struct release_gate *gate);

#endif
