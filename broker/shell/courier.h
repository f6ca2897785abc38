/* courier.h: the thread that reads what must be read before something leaves: contents of deliveries and of Get
 * replies, and replies that were logged before (ONCE-1). It reads while the sync runs, and lets nothing out before
 * (LOG-1). */
#ifndef TARRY_SHELL_COURIER_H
#define TARRY_SHELL_COURIER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "arena.h"

struct shell;
struct batch;

struct courier {
    struct shell *shell;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct batch *first;
    struct batch **last;
    uint64_t durable;
    uint64_t awaited; /* the position that the thread sleeps for; UINT64_MAX: none */
    bool stop;
    uint64_t end;       /* of the batch under way */
    struct arena arena; /* contents of the message that is being made */
};

void courier_start(struct courier *courier, struct shell *shell);
/* Takes over one use of the batch, whose appends have been written (not: synced). Sync thread only. */
void courier_post(struct courier *courier, struct batch *batch);
void courier_durable(struct courier *courier, uint64_t position);
/* Ends the thread once all that was posted has left. */
void courier_stop(struct courier *courier);

#endif
