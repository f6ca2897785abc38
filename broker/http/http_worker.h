/* http_worker.h: a thread for what would keep the door's thread for long: large bodies are read as JSON here.
 * Principals are served in turn; a job keeps the thread until it is done.
 *
 *   door's thread: post ──► waits (fair.h) ──► `work` on the worker's thread ──► `done` on the door's thread
 *
 * All functions are the door's thread's. From post until `done` (or cancel) only `work` looks at what it works on. */
#ifndef TARRY_HTTP_HTTP_WORKER_H
#define TARRY_HTTP_HTTP_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "fair.h"

struct gateway;
struct http_exchange;
struct http_worker;

struct http_job {
    struct fair_item item;
    TAILQ_ENTRY(http_job) next; /* in `done` */
    void (*work)(struct http_exchange *exchange);
    void (*done)(struct http_exchange *exchange);
    struct http_exchange *exchange;
};

/* Before the door starts. NULL: no memory, or no thread. */
struct http_worker *http_worker_new(struct gateway *gateway);
/* The door has stopped. `done` is called no more. NULL is fine. */
void http_worker_free(struct http_worker *worker);
void http_worker_post(struct http_worker *worker, struct http_job *job, uint64_t principal,
                      struct http_exchange *exchange, void (*work)(struct http_exchange *exchange),
                      void (*done)(struct http_exchange *exchange));
/* True: the job was waiting, and is not any more. False: it is being worked at, and `done` comes. */
bool http_worker_cancel(struct http_worker *worker, struct http_job *job);

#endif
