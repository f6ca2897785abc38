/* releaser.h: the hand of the release gate (engine/release_gate.h): lets the answers of batches out, hands
 * to the delivery sender what must be read first, and tells the subscribers how far the log is durable wherever it
 * must be. Packed answers leave here; deliveries, and what is read first, when the sender is told.
 *
 * Alone the sync thread drives it, or the thread that stands in; the leader's half of a pair its own thread. */
#ifndef TARRY_SHELL_RELEASER_H
#define TARRY_SHELL_RELEASER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "release_gate.h"

struct batch;
struct batches;

/* The delivery sender, the core, the index, the auditor. */
#define RELEASER_SUBSCRIBERS_MAX 4

struct releaser {
    struct batches *batches;
    void (*send)(void *sender, struct batch *batch); /* takes over one use of a batch that must be read to leave */
    void *sender;
    pthread_mutex_t mutex;
    struct release_gate gate;
    struct release_subscriber subscribers[RELEASER_SUBSCRIBERS_MAX];
    size_t subscriber_count;
};

/* `reached`: where the log ends, durably. */
void releaser_init(struct releaser *releaser, struct batches *batches, uint64_t reached);
/* What sends what must be read first. Before anything enters, like the subscriptions. */
void releaser_send_by(struct releaser *releaser, void (*send)(void *sender, struct batch *batch), void *sender);
/* It is told how far the log is reached, after all that subscribed before. */
void releaser_subscribe(struct releaser *releaser, void (*reached)(void *context, uint64_t position), void *context);
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
/* Nothing that waits will leave any more: its callers are told FAILED, for the outcome is unknown. */
void releaser_fail(struct releaser *releaser);

#endif
