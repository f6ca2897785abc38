/* worker.h: a thread that processes requests one after the other, in the order of posting. */
#ifndef TARRY_SHELL_WORKER_H
#define TARRY_SHELL_WORKER_H

#include <pthread.h>
#include <stdbool.h>

#include "call.h"

struct worker {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct item *first;
    struct item **last;
    bool stop;
    void (*run)(void *owner, struct engine_request *engine_request); /* takes over the request and processes it */
    void *owner;
};

void worker_start(struct worker *worker, const char *name,
                  void (*run)(void *owner, struct engine_request *engine_request), void *owner);
/* Queues the request and takes it over. Any thread. */
void worker_post(struct worker *worker, struct engine_request *engine_request);
/* Ends the thread after it has processed all posted requests. */
void worker_stop(struct worker *worker);

#endif
