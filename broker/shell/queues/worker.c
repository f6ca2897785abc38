/* worker.c: see worker.h. */
#include "worker.h"

#include "fatal.h"

static void *worker_run(void *argument) {
    struct worker *worker = argument;
    pthread_mutex_lock(&worker->mutex);
    for (;;) {
        while (worker->first == NULL && !worker->stop) pthread_cond_wait(&worker->changed, &worker->mutex);
        struct item *item = worker->first;
        if (item == NULL) break;
        worker->first = item->next;
        if (worker->first == NULL) worker->last = &worker->first;
        pthread_mutex_unlock(&worker->mutex);
        worker->run(worker->owner, (struct engine_request *)item);
        pthread_mutex_lock(&worker->mutex);
    }
    pthread_mutex_unlock(&worker->mutex);
    return NULL;
}

void worker_start(struct worker *worker, const char *name,
                  void (*run)(void *owner, struct engine_request *engine_request), void *owner) {
    *worker = (struct worker){.run = run, .owner = owner};
    worker->last = &worker->first;
    pthread_mutex_init(&worker->mutex, NULL);
    pthread_cond_init(&worker->changed, NULL);
    thread_start(&worker->thread, name, worker_run, worker);
}

void worker_post(struct worker *worker, struct engine_request *engine_request) {
    engine_request->item.next = NULL;
    pthread_mutex_lock(&worker->mutex);
    *worker->last = &engine_request->item;
    worker->last = &engine_request->item.next;
    pthread_cond_signal(&worker->changed);
    pthread_mutex_unlock(&worker->mutex);
}

void worker_stop(struct worker *worker) {
    pthread_mutex_lock(&worker->mutex);
    worker->stop = true;
    pthread_cond_signal(&worker->changed);
    pthread_mutex_unlock(&worker->mutex);
    pthread_join(worker->thread, NULL);
}
