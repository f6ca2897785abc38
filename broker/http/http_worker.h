/* http_worker.h: a thread that parses large JSON bodies, which would block the door's thread for too long. Principals
 * are served round robin; a job is never interrupted.
 *
 *   door's thread: post ──► waits (fair.h) ──► `work` on the worker's thread ──► `done` on the door's thread
 *
 * Only the door's thread may call these functions. From post until `done` (or cancel) only `work` may use the exchange.
 */
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
    TAILQ_ENTRY(http_job) next; /* entry in the worker's list `done` */
    void (*work)(struct http_exchange *exchange);
    void (*done)(struct http_exchange *exchange);
    struct http_exchange *exchange;
};

/* Starts the worker. Call it before the door starts. NULL: out of memory, or no thread. */
struct http_worker *http_worker_new(struct gateway *gateway);
/* Stops the worker, and drops jobs without calling `done`. Call it after the door has stopped. NULL is allowed. */
void http_worker_free(struct http_worker *worker);
void http_worker_post(struct http_worker *worker, struct http_job *job, uint64_t principal,
                      struct http_exchange *exchange, void (*work)(struct http_exchange *exchange),
                      void (*done)(struct http_exchange *exchange));
/* Removes a waiting job. False: the job is running, and its `done` will be called. */
bool http_worker_cancel(struct http_worker *worker, struct http_job *job);

#endif
