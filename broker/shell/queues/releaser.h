/* releaser.h: the hand of the release gate (engine/release_gate.h): lets the answers of batches out, hands to the
 * delivery sender what must be read first, and tells the core, the index, the delivery sender and the auditor how far
 * the log is durable wherever it must be. Whatever leaves the broker leaves through here.
 *
 * Alone the sync thread drives it, or the thread that stands in; the leader's half of a pair its own thread. */
#ifndef TARRY_SHELL_RELEASER_H
#define TARRY_SHELL_RELEASER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "release_gate.h"

struct shell;
struct batch;

#define RELEASER_SUBSCRIBERS 4

struct releaser {
    struct shell *shell;
    pthread_mutex_t mutex;
    struct release_gate gate;
    struct release_subscriber subscribers[RELEASER_SUBSCRIBERS];
};

/* `reached`: where the log ends, durably. */
void releaser_init(struct releaser *releaser, struct shell *shell, uint64_t reached);
/* Takes over the list of batches, in the order of the log. `question`: what confirms those that appended nothing (R3);
 * 0: they need no confirmation. */
void releaser_enter(struct releaser *releaser, struct batch *batches, uint64_t question);
/* See release_gate_reach and release_gate_confirm. Nothing leaves before releaser_run. */
void releaser_reach(struct releaser *releaser, uint64_t position);
void releaser_confirm(struct releaser *releaser, uint64_t question);
/* Tells the subscribers how far the log is reached. */
void releaser_tell(struct releaser *releaser);
/* Lets out what may leave, then tells. True: something has left. */
bool releaser_run(struct releaser *releaser);
/* Something waits to leave; … for a confirmation alone. */
bool releaser_has_any(struct releaser *releaser);
bool releaser_wants_confirmation(struct releaser *releaser);
/* Nothing that waits will leave any more: whoever asked is told FAILED, for the outcome is unknown. */
void releaser_fail(struct releaser *releaser);

#endif
