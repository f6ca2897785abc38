/* delivery_sender.h: the thread that takes out what must be read before it leaves (outgoing.h), batch by batch, and the
 * threads that read for it what is not in memory.
 *
 * It reads while the sync runs. It never waits for a disk: what would need one is copied out of its batch, so that the
 * batch goes back to the core at once, and given to the cold readers. A disk that hangs, or that is slow, thus delays
 * only the requests that wait for what lies on it.
 *
 * What is under way is limited: the core begins no delivery while OUT_BYTES_MAX of them have not left
 * (core_event.full), so what the copies take is bounded by that and one step's deliveries. Replies are bounded by
 * requests under way. Contents are in memory only while they are read: a message for each thread. */
#ifndef TARRY_SHELL_DELIVERY_SENDER_H
#define TARRY_SHELL_DELIVERY_SENDER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "outgoing.h"

struct batch;
struct batches;
struct cold_item;
struct inbox;

struct delivery_sender_needs {
    struct log *log;
    struct index *index;
    struct clock *clock;
    struct batches *batches;
    struct inbox *inbox; /* the core's */
    struct lanes *lanes;
    struct node *node;
};

/* A disk serves several reads at once; more of them would only take memory. */
#define COLD_READERS 4
/* Of deliveries that the core has decided and that have not left, contents included: room for eight full ones. */
#define OUT_BYTES_MAX (8ull * DELIVERY_SIZE_MAX)

struct delivery_sender {
    struct batches *batches;
    struct inbox *inbox;
    struct outgoing_needs outgoing; /* of each thread */
    pthread_t thread;
    pthread_t readers[COLD_READERS];
    pthread_mutex_t mutex;
    pthread_cond_t posted;  /* for the delivery sender's thread */
    pthread_cond_t chilled; /* for the readers */
    pthread_cond_t grown;   /* `durable` has reached `awaited` */
    struct batch *first;
    struct batch **last;
    struct cold_item *cold_first;
    struct cold_item **cold_last;
    uint64_t durable;
    uint64_t awaited; /* the first position that a thread sleeps for; UINT64_MAX: none */
    bool ended;       /* `durable` does not grow any more: threads that wait for more give up */
    bool stop;
    bool cold_stop;
    _Atomic uint64_t out_bytes;
};

void delivery_sender_start(struct delivery_sender *delivery_sender, const struct delivery_sender_needs *needs);
/* Takes over one use of the batch, whose appends have been written (not: synced). Sync thread only. */
void delivery_sender_post(struct delivery_sender *delivery_sender, struct batch *batch);
void delivery_sender_durable(struct delivery_sender *delivery_sender, uint64_t position);
/* Ends the threads once all that was posted has left, but what waits for a position that was never confirmed: it never
 * leaves. Nothing may become durable or confirmed any more. */
void delivery_sender_stop(struct delivery_sender *delivery_sender);

/* The core has decided this delivery. Core thread only. */
void delivery_sender_decided(struct delivery_sender *delivery_sender, const struct core_delivery *delivery);
/* … and it departs (core_delivery.departs): it is copied, and leaves as soon as its leases are durable, whatever else
 * is under way to the disk. Core thread only. */
void delivery_sender_depart(struct delivery_sender *delivery_sender, const struct core_delivery *delivery);
/* Too much is under way; the inbox is nudged when it no longer is. */
bool delivery_sender_is_full(const struct delivery_sender *delivery_sender);

#endif
