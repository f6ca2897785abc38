/* releaser.h: sends what the release gate (engine/release_gate.h) allows to be sent. It sends the packed replies of
 * released batches. A batch whose contents must be read first goes to the delivery sender. The releaser also tells its
 * subscribers the position up to which the log is durable on all required nodes. One subscriber is the delivery sender,
 * which then sends deliveries, and replies whose content it has read.
 *
 * On a broker without a pair, the sync thread calls the releaser, or the thread that does its work (sync_stand_in). In
 * a pair, the pair thread calls it. */
#ifndef TARRY_SHELL_RELEASER_H
#define TARRY_SHELL_RELEASER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "release_gate.h"

struct batch;
struct batches;

/* Number of subscribers: the delivery sender, the core, the index, the auditor. */
#define RELEASER_SUBSCRIBERS_MAX 4

struct releaser {
    struct batches *batches;
    /* Takes over one use of a batch that must be read before it is sent. */
    void (*send)(void *sender, struct batch *batch);
    void *sender;
    pthread_mutex_t mutex;
    struct release_gate gate;
    struct release_subscriber subscribers[RELEASER_SUBSCRIBERS_MAX];
    size_t subscriber_count;
};

/* Initializes the releaser. The log is durable up to position `reached`. */
void releaser_init(struct releaser *releaser, struct batches *batches, uint64_t reached);
/* Sets the function that sends batches that must be read first. Call it before any batch enters, like
 * releaser_subscribe. */
void releaser_send_by(struct releaser *releaser, void (*send)(void *sender, struct batch *batch), void *sender);
/* Adds a subscriber: `reached` is called whenever the durable position grows, after all earlier subscribers. */
void releaser_subscribe(struct releaser *releaser, void (*reached)(void *context, uint64_t position), void *context);
/* Takes over the list of batches, in log order. Batches without appends wait until the follower has confirmed
 * `question` (R3, pair_question); 0: they need no confirmation. */
void releaser_enter(struct releaser *releaser, struct batch *batches, uint64_t question);
/* Notes that the log is durable up to `position` on all required nodes (release_gate_reach). releaser_confirm notes
 * that the follower has confirmed `question`. Batches are released only by releaser_run. */
void releaser_reach(struct releaser *releaser, uint64_t position);
void releaser_confirm(struct releaser *releaser, uint64_t question);
/* Tells the subscribers the durable position. */
void releaser_tell(struct releaser *releaser);
/* Releases all batches that may leave, then tells the subscribers. Returns true if a batch was released. */
bool releaser_run(struct releaser *releaser);
/* releaser_has_any: a batch waits for its release. releaser_wants_confirmation: the oldest batch waits only for a
 * confirmation. */
bool releaser_has_any(struct releaser *releaser);
bool releaser_wants_confirmation(struct releaser *releaser);
/* Drops all waiting batches. Their callers get FAILED, because the outcome is unknown. */
void releaser_fail(struct releaser *releaser);

#endif
