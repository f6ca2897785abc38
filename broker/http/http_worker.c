/* http_worker.c: see http_worker.h. */
#include "http_worker.h"

#include <pthread.h>
#include <stdlib.h>

#include "gateway.h"

TAILQ_HEAD(job_list, http_job);

struct http_worker {
    struct gateway_wakeup *wakeup;
    pthread_t thread;
    pthread_mutex_t mutex; /* protects the members below */
    pthread_cond_t posted;
    struct fair waiting;
    struct job_list done;
    bool stops;
};

/* Waits for the next job. NULL: the thread must end. */
static struct http_job *next_job(struct http_worker *worker) {
    pthread_mutex_lock(&worker->mutex);
    while (fair_is_empty(&worker->waiting) && !worker->stops) pthread_cond_wait(&worker->posted, &worker->mutex);
    struct fair_item *item = worker->stops ? NULL : fair_take(&worker->waiting);
    pthread_mutex_unlock(&worker->mutex);
    return (struct http_job *)item; /* the struct fair_item is the first member of its struct http_job */
}

static void *run(void *argument) {
    struct http_worker *worker = argument;
    struct http_job *job;
    while ((job = next_job(worker)) != NULL) {
        job->work(job->exchange);
        pthread_mutex_lock(&worker->mutex);
        TAILQ_INSERT_TAIL(&worker->done, job, next);
        pthread_mutex_unlock(&worker->mutex);
        gateway_wake(worker->wakeup);
    }
    return NULL;
}

static struct http_job *take_done(struct http_worker *worker) {
    pthread_mutex_lock(&worker->mutex);
    struct http_job *job = TAILQ_FIRST(&worker->done);
    if (job != NULL) TAILQ_REMOVE(&worker->done, job, next);
    pthread_mutex_unlock(&worker->mutex);
    return job;
}

static void on_done(void *argument) {
    struct http_job *job;
    while ((job = take_done(argument)) != NULL) job->done(job->exchange);
}

struct http_worker *http_worker_new(struct gateway *gateway) {
    struct http_worker *worker = calloc(1, sizeof(*worker));
    if (worker == NULL) return NULL;
    pthread_mutex_init(&worker->mutex, NULL);
    pthread_cond_init(&worker->posted, NULL);
    fair_init(&worker->waiting);
    TAILQ_INIT(&worker->done);
    worker->wakeup = gateway_wakeup(gateway, on_done, worker);
    if (worker->wakeup != NULL && pthread_create(&worker->thread, NULL, run, worker) == 0) {
        pthread_setname_np(worker->thread, "tarry-http");
        return worker;
    }
    free(worker);
    return NULL;
}

void http_worker_free(struct http_worker *worker) {
    if (worker == NULL) return;
    pthread_mutex_lock(&worker->mutex);
    worker->stops = true;
    pthread_cond_signal(&worker->posted);
    pthread_mutex_unlock(&worker->mutex);
    pthread_join(worker->thread, NULL);
    pthread_cond_destroy(&worker->posted);
    pthread_mutex_destroy(&worker->mutex);
    free(worker);
}

void http_worker_post(struct http_worker *worker, struct http_job *job, uint64_t principal,
                      struct http_exchange *exchange, void (*work)(struct http_exchange *exchange),
                      void (*done)(struct http_exchange *exchange)) {
    job->exchange = exchange;
    job->work = work;
    job->done = done;
    pthread_mutex_lock(&worker->mutex);
    fair_add(&worker->waiting, &job->item, principal);
    pthread_cond_signal(&worker->posted);
    pthread_mutex_unlock(&worker->mutex);
}

bool http_worker_cancel(struct http_worker *worker, struct http_job *job) {
    pthread_mutex_lock(&worker->mutex);
    bool was_waiting = job->item.is_waiting;
    fair_remove(&worker->waiting, &job->item);
    pthread_mutex_unlock(&worker->mutex);
    return was_waiting;
}
