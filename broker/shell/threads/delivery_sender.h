/* delivery_sender.h: the thread that sends deliveries and replies whose content must be read first,
 * batch by batch; the cold readers, threads that read contents that are not in memory; and the parker, a thread with
 * deliveries that wait until consumers have read earlier ones.
 *
 * It reads while the sync runs, and never waits for a disk. An item that may need the disk is copied out of its batch
 * and passed to the cold readers. So the batch is free for the core at once, and a slow or hanging disk delays only the
 * requests whose content lies on it.
 *
 * Memory is limited. The core begins no delivery while OUT_BYTES_MAX of deliveries are unsent (core_event.full), so the
 * copies use at most that plus the deliveries of one step. Replies are limited by the number of pending requests.
 * Contents are in memory only while a message is made: one message per thread. Made deliveries are limited by the door
 * (door_reserve). A delivery that the door has no memory for goes to the parker, without its contents, so it delays
 * only other large deliveries (CALM-1). */
#ifndef TARRY_SHELL_DELIVERY_SENDER_H
#define TARRY_SHELL_DELIVERY_SENDER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "outgoing_read.h"

/* ---- deliveries under way */

/* Reads, packs and sends deliveries and replies whose content must be read first. The rules are in
 * engine/outgoing_read.h. If a session has lost its lane, its delivery reaches no consumer (TRUE-1, lanes.h). */

struct clock;
struct door;
struct index;
struct lanes;
struct log;
struct node;

struct outgoing_needs {
    struct log *log;
    struct index *index;
    struct clock *clock;
    struct lanes *lanes;
    struct door *door;
    struct node *node;
    /* Waits until the log is durable up to the position on all required nodes (LOG-1). Returns false if the broker
     * stops before that. */
    bool (*wait_durable)(void *context, uint64_t position);
    void *context;
};

/* State of one sending thread. */
struct outgoing {
    const struct outgoing_needs *needs;
    struct arena arena; /* memory for the message being made */
    uint64_t end;       /* log position that must be durable before the message is sent */
    bool may_wait;      /* this thread may wait for a disk, and may wait until the door has taken replies */
    bool awaits_room;   /* this thread waits for memory for deliveries */
};

enum { OUTGOING_COLD = 1, OUTGOING_NO_ROOM };

/* ---- the sender */

struct batch;
struct batches;
struct cold_item;
struct inbox;

struct delivery_sender_needs {
    struct log *log;
    struct index *index;
    struct clock *clock;
    struct batches *batches;
    struct inbox *inbox;
    struct lanes *lanes;
    struct door *door;
    struct node *node;
};

/* Number of cold readers. A disk serves several reads at once; more threads would only use memory. */
#define COLD_READERS 4
/* Maximum size of unsent deliveries in bytes, contents included: space for eight of the largest ones. */
#define OUT_BYTES_MAX (8ull * DELIVERY_SIZE_MAX)

/* A queue of items, for threads that may wait. */
struct cold_queue {
    struct cold_item *first;
    struct cold_item **last;
    pthread_cond_t posted;
    bool has_ended; /* true: no more items will be added to the queue */
};

struct delivery_sender {
    struct batches *batches;
    struct inbox *inbox;
    struct outgoing_needs outgoing; /* what making a message needs; shared by all sending threads */
    pthread_t thread;
    pthread_t readers[COLD_READERS];
    pthread_t parker;
    pthread_mutex_t mutex;
    pthread_cond_t posted; /* signals the delivery sender's thread that a batch was posted */
    pthread_cond_t grown;  /* signals that `durable` has reached `awaited` */
    struct batch *first;
    struct batch **last;
    struct cold_queue cold;   /* for the cold readers: items that may need the disk */
    struct cold_queue parked; /* for the parker: deliveries that need memory */
    uint64_t durable;
    uint64_t awaited; /* the lowest position that a thread waits for; UINT64_MAX: none */
    bool ended;       /* true: `durable` will not grow any more, so waiting threads give up */
    bool stop;
    _Atomic uint64_t out_bytes;
};

void delivery_sender_start(struct delivery_sender *delivery_sender, const struct delivery_sender_needs *needs);
/* Takes over one use of the batch. Its appends have been written, but not synced. Sync thread only. */
void delivery_sender_post(struct delivery_sender *delivery_sender, struct batch *batch);
void delivery_sender_durable(struct delivery_sender *delivery_sender, uint64_t position);
/* Ends the threads once all posted items are sent. Items that wait for a position that was never confirmed are not
 * sent. The durable position must not grow any more. */
void delivery_sender_stop(struct delivery_sender *delivery_sender);

/* Counts a delivery that the core has decided. Core thread only. */
void delivery_sender_decided(struct delivery_sender *delivery_sender, const struct core_delivery *delivery);
/* Sends an early delivery (core_delivery.departs): it is copied and sent as soon as its own leases are durable,
 * independently of the rest of its batch. Core thread only. */
void delivery_sender_depart(struct delivery_sender *delivery_sender, const struct core_delivery *delivery);
/* Returns whether too many bytes are unsent. If they are, the core thread is woken as soon as enough bytes are sent. */
bool delivery_sender_is_full(const struct delivery_sender *delivery_sender);

#endif
