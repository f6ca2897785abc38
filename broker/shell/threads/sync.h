/* sync.h: the disk thread: the hand of engine/group_commit.h, which says what is appended, read, synced and let out in
 * which order (LOG-1).
 *
 * A failure is final (LOG-4): it is logged, the waiting callers are told FAILED, and the process ends without touching
 * the disk again. */
#ifndef TARRY_SHELL_SYNC_H
#define TARRY_SHELL_SYNC_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "disk_hang.h"
#include "group_commit.h"

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
    bool is_busy; /* a group is being committed, by the thread or by the one that stands in for it */
    struct group_commit group;
    struct batch *failed; /* … by the thread that stood in: the disk failed, and the sync thread tells it (LOG-4) */
    _Atomic uint64_t took_us; /* the last sync */
    struct disk_hang hang;
};

/* A thread that stands in for the sync thread saves three hand-overs, some 100 µs: nothing beside a sync that takes
 * longer. */
#define SYNC_QUICK_US 1000u

void sync_start(struct sync *sync, const struct sync_needs *needs);
/* Takes the batch over. Core thread only: the order of posting is the order of the log. Not `wakes`: sync_stand_in
 * follows. */
void sync_post(struct sync *sync, struct batch *batch, bool wakes);
/* Nothing is under way, and the disk was quick last. Any thread. */
bool sync_is_quick(struct sync *sync);
/* Commits what was posted without waking the thread, on the door's thread, and lets the answers out; unless the thread
 * has come to it first. */
void sync_stand_in(struct sync *sync);
/* Ends the thread once all that was posted is durable. */
void sync_stop(struct sync *sync);

#endif
