/* batch.h: the effects of some steps of the core, on their way to the disk and out.
 *
 *   core thread: fills ─┬─► sync thread: appends, syncs, answers ───────────────────────┬─► free again
 *                        └─► (delivery sender: reads meanwhile, delivers when it is synced) ┘
 *
 * Everything in `effects` lives in the batch's arena. Positions only grow from batch to batch, and nothing in a batch
 * waits for a position beyond its own appends, so a batch may be let out once it is synced (LOG-1). */
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
    struct release release; /* while it waits at the gate; first: batch_of */
    struct batch *next;     /* in a queue of the sync thread */
    struct batch *next_out; /* in the queue of the delivery sender, at the same time */
    struct arena arena;
    struct core_effects effects;
    struct answer *answers; /* ready to leave after the sync; in the arena */
    size_t answer_count;
    uint64_t end;      /* the log's, behind it: leaves once everything up to here is durable wherever it must be; 0: a
                          follower's, which rests on what is committed */
    bool must_be_read; /* it has deliveries, or replies whose content leaves: by the delivery sender */
    bool reads_late;   /* … which the delivery sender gets once the batch may leave, not before */
    unsigned users;
};

struct batches {
    pthread_mutex_t mutex;
    pthread_cond_t freed; /* on CLOCK_MONOTONIC */
    struct batch *free;
    unsigned made;
    bool stops; /* the process is to stop */
    bool is_awaited;
    struct inbox *inbox; /* nudged when there is one again that was asked for in vain */
};

static inline struct batch *batch_of(struct release *release) {
    return (struct batch *)release;
}

struct inbox;

void batches_init(struct batches *batches, struct inbox *inbox);
/* Would batch_take wait? Then the inbox is nudged once it would not. */
bool batches_has_none(struct batches *batches);
/* A thread that waits for one gets it, from here on. */
void batches_stop(struct batches *batches);
/* An empty batch with one user; waits while too many are under way (core_turn_may_fill). Of the core's thread, or
 * the one that stands in for it, which looks meanwhile (inbox_look). */
struct batch *batch_take(struct batches *batches);
void batch_hold(struct batches *batches, struct batch *batch);
/* The last one to drop it frees it for the next. */
void batch_drop(struct batches *batches, struct batch *batch);

#endif
