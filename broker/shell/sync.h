/* sync.h: the disk thread: appends what the core decided, in order, syncs it, and only then lets the answers out
 * (LOG-1).
 *
 * Group commit: whatever arrived while the last fdatasync ran is appended and synced together. A failure is final
 * (LOG-4): it is logged, those who wait are told FAILED, and the process ends without touching the disk again. */
#ifndef TARRY_SHELL_SYNC_H
#define TARRY_SHELL_SYNC_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct shell;
struct batch;

struct sync {
    struct shell *shell;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct batch *first;
    struct batch **last;
    bool stop;
};

void sync_start(struct sync *sync, struct shell *shell);
/* Takes the batch over. Core thread only: the order of posting is the order of the log. */
void sync_post(struct sync *sync, struct batch *batch);
/* Ends the thread once all that was posted is durable. */
void sync_stop(struct sync *sync);

#endif
