/* release_gate.h: decides which replies and deliveries may leave the broker (LOG-1, R2, R3). Every reply and delivery
 * passes this gate.
 *
 * A *release* is a set of effects that leave together. It names the log position that it depends on. If it appended
 * nothing to the log, it also names a *question*: one that was asked after the request, and that the follower must
 * confirm first (R3). Releases leave in the order in which they entered.
 *
 * release_gate_enter adds a release. When the log is durable up to a position, release_gate_reach notes the position.
 * The caller sends the releases that release_gate_next returns. release_gate_tell reports the position to the
 * subscribers. Deliveries, and replies whose content must be read first, leave when their subscriber gets the position.
 *
 * `reached` is the position up to which the log is durable on every node that must have it. That is this node, if the
 * broker has no pair; otherwise it is every in-sync member. The gate does not know which case applies: the thread that
 * syncs the log, or that handles the other node's messages, calls release_gate_reach.
 *
 * Not thread-safe: the caller holds a mutex. Allocates nothing. */
#ifndef TARRY_ENGINE_RELEASE_GATE_H
#define TARRY_ENGINE_RELEASE_GATE_H

#include <stdbool.h>
#include <stdint.h>

struct release {
    struct release *next; /* next release in the gate */
    uint64_t position;    /* the release depends on the log up to this position */
    uint64_t question;    /* the release waits until the question with this number, or a later one, is confirmed; 0: it
                             needs no confirmation */
};

/* A subscriber, which must outlive the gate. `reached` may call enter, reach and tell, but not subscribe. */
struct release_subscriber {
    void (*reached)(void *context, uint64_t position);
    void *context;
    struct release_subscriber *next; /* next subscriber of the gate */
};

struct release_gate {
    struct release *first; /* oldest first */
    struct release **last;
    uint64_t entered;   /* highest position that a release depends on */
    uint64_t reached;   /* the log is durable up to this position on every node that must have it */
    uint64_t told;      /* last position that the subscribers were told */
    uint64_t confirmed; /* all questions up to this number are confirmed */
    struct release_subscriber *subscribers;
    struct release_subscriber **subscribers_last;
};

/* Initialises a gate. `reached`: durable end of the log at the start. No question is confirmed. */
void release_gate_init(struct release_gate *gate, uint64_t reached);
/* Adds a subscriber. Earlier subscribers get each position first. */
void release_gate_subscribe(struct release_gate *gate, struct release_subscriber *subscriber);

/* Takes ownership of the release until release_gate_next or release_gate_take returns it. */
void release_gate_enter(struct release_gate *gate, struct release *release);
/* Sets `reached`: the log is durable up to `position` on every node that must have it. Asserts that it does not
 * decrease. */
void release_gate_reach(struct release_gate *gate, uint64_t position);
/* Notes that questions up to `question` are confirmed; UINT64_MAX: no confirmation is needed. `question` may be lower
 * than before, because a node that joins the in-sync members must confirm later releases. */
void release_gate_confirm(struct release_gate *gate, uint64_t question);

/* Returns true if a release that depends only on `position` may leave. */
bool release_gate_reaches(const struct release_gate *gate, uint64_t position);
/* Returns the next release that may leave; NULL: none. */
struct release *release_gate_next(struct release_gate *gate);
/* Returns the oldest release, even if it may not leave, because no event will release it any more; NULL: none left. */
struct release *release_gate_take(struct release_gate *gate);
/* Returns true if the oldest release depends on a reached position and only waits for a confirmation. */
bool release_gate_wants_confirmation(const struct release_gate *gate);
/* Tells the subscribers the reached position, unless they know it. */
void release_gate_tell(struct release_gate *gate);

#endif
