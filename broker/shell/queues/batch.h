/* batch.h: a batch has the effects of some steps of the core, until they are on disk and sent to the clients.
 *
 * The core thread fills a batch. The sync thread appends and syncs its frames and sends its replies. Meanwhile the
 * delivery sender reads the contents that the batch's deliveries need, and sends the deliveries when the batch is
 * synced. Each of these threads is a user of the batch; the last user returns the batch for reuse.
 *
 * The batch's arena owns everything in `effects`. Log positions only grow from batch to batch. No effect of a batch
 * needs a position after the batch's own appends. So a batch may be released once it is synced (LOG-1). */
#ifndef TARRY_SHELL_BATCH_H
#define TARRY_SHELL_BATCH_H

#include <pthread.h>

#include "call.h"
#include "core.h"
#include "release_gate.h"

struct answer {
    struct call *call;
    struct message *reply;
};

struct batch {
    struct release release; /* entry in the release gate; must be the first member (see batch_of) */
    struct batch *next;     /* next batch in a queue of the sync thread */
    struct batch *next_out; /* next batch in the queue of the delivery sender; a batch can be in that queue and in one
                               of the sync thread */
    struct arena arena;
    struct core_effects effects;
    struct answer *answers; /* replies to send after the sync; in the arena */
    size_t answer_count;
    /* Log position after the batch's appends. The batch is released once the log is durable up to `end` on all required
     * nodes. `end` is 0 for a follower's batch, because its replies are based only on committed records. */
    uint64_t end;

    bool must_be_read; /* the delivery sender must read contents for its deliveries or replies */
    bool reads_late;   /* true: the delivery sender gets the batch only when it is released, not earlier */
    unsigned users;
};

struct batches {
    pthread_mutex_t mutex;
    pthread_cond_t freed; /* uses CLOCK_MONOTONIC */
    struct batch *free;
    unsigned made;
    bool stops; /* true: the process is stopping, so batch_take does not wait */
    bool is_awaited;
    /* inbox whose thread is woken when a batch becomes free, if batches_has_none has returned true before */
    struct inbox *inbox;
};

static inline struct batch *batch_of(struct release *release) {
    return (struct batch *)release;
}

struct inbox;

void batches_init(struct batches *batches, struct inbox *inbox);
/* Returns whether batch_take would wait. If it would, the core thread is woken as soon as a batch is free. */
bool batches_has_none(struct batches *batches);
/* Makes batch_take return at once from now on, even if too many batches are in use. */
void batches_stop(struct batches *batches);
/* Returns an empty batch whose only user is the caller. Waits while too many batches are in use (core_turn_may_fill).
 * Called by the core thread, or by a thread that does the core thread's work (inbox_borrow). The caller calls
 * inbox_look while it waits. */
struct batch *batch_take(struct batches *batches);
void batch_hold(struct batches *batches, struct batch *batch);
/* Drops one use of the batch. The last drop frees the batch for reuse. */
void batch_drop(struct batches *batches, struct batch *batch);

#endif
