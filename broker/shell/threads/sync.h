/* sync.h: the sync thread, which writes the log. It carries out engine/group_commit.h, which decides the order of
 * append, read, sync and release (LOG-1).
 *
 * A failure is final (LOG-4): it is logged, the waiting callers get FAILED, and the process ends without another access
 * to the disk. */
#ifndef TARRY_SHELL_SYNC_H
#define TARRY_SHELL_SYNC_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "group_commit.h"
#include "log_disk.h"

struct batch;
struct batches;
struct delivery_sender;
struct door;
struct latency;
struct locator;
struct log;
struct node;
struct releaser;

struct sync_needs {
    struct log *log;
    struct batches *batches;
    struct releaser *releaser;
    struct delivery_sender *delivery_sender;
    struct locator *locator;
    struct node *node;
    struct door *door;
    struct latency *fsync_us;
};

struct sync {
    struct sync_needs needs;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct batch *first;
    struct batch **last;
    bool stop;
    bool is_busy; /* the sync thread, or a thread that stands in for it, is committing a group */
    struct group_commit group;
    struct batch *failed;     /* batches whose sync failed on a thread that did the sync thread's work; the sync thread
                                 reports the failure (LOG-4) */
    _Atomic uint64_t took_us; /* duration of the last sync, in µs */
    struct disk_hang hang;
};

/* Another thread does the sync thread's work (sync_stand_in) only if the last sync took at most this many µs. This
 * saves three hand-overs between threads, about 100 µs, which is unimportant beside a slower sync. */
#define SYNC_QUICK_US 1000u

void sync_start(struct sync *sync, const struct sync_needs *needs);
/* Takes over the batch. Core thread only: the order of posting is the order of the log. If `wakes` is false,
 * sync_stand_in must follow. */
void sync_post(struct sync *sync, struct batch *batch, bool wakes);
/* Returns whether nothing is pending and the last sync was faster than SYNC_QUICK_US. Any thread. */
bool sync_is_quick(struct sync *sync);
/* On the door's thread: commits the batches that were posted without waking the sync thread and sends their replies.
 * Does nothing if the sync thread already took them. */
void sync_stand_in(struct sync *sync);
/* Ends the thread once all posted batches are durable. */
void sync_stop(struct sync *sync);

#endif
