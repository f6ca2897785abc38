/* fetcher.c: see fetcher.h. */
#include "fetcher.h"

#include "fatal.h"
#include "index.h"

/* False: the end. */
static bool await_work(struct fetcher *fetcher) {
    pthread_mutex_lock(&fetcher->mutex);
    while (!fetcher->stop && !index_may_fetch(fetcher->index)) pthread_cond_wait(&fetcher->changed, &fetcher->mutex);
    bool goes_on = !fetcher->stop;
    pthread_mutex_unlock(&fetcher->mutex);
    return goes_on;
}

static void *fetcher_run(void *argument) {
    struct fetcher *fetcher = argument;
    while (await_work(fetcher)) {
        bool did;
        int error = index_fetch(fetcher->index, &did);
        if (error != 0) fatal("fetch_failed", error);
        if (did && index_may_sweep(fetcher->index)) fetcher->fetched(fetcher->context);
    }
    return NULL;
}

void fetcher_init(struct fetcher *fetcher, struct index *index, void (*fetched)(void *context), void *context) {
    *fetcher = (struct fetcher){.index = index, .fetched = fetched, .context = context};
    pthread_mutex_init(&fetcher->mutex, NULL);
    pthread_cond_init(&fetcher->changed, NULL);
}

void fetcher_start(struct fetcher *fetcher) {
    for (unsigned i = 0; i < FETCH_THREADS; i++)
        thread_start(&fetcher->threads[i], "tarry-fetch", fetcher_run, fetcher);
}

void fetcher_wake(struct fetcher *fetcher) {
    if (!index_may_fetch(fetcher->index)) return;
    pthread_mutex_lock(&fetcher->mutex);
    pthread_cond_broadcast(&fetcher->changed);
    pthread_mutex_unlock(&fetcher->mutex);
}

void fetcher_stop(struct fetcher *fetcher) {
    pthread_mutex_lock(&fetcher->mutex);
    fetcher->stop = true;
    pthread_cond_broadcast(&fetcher->changed);
    pthread_mutex_unlock(&fetcher->mutex);
    for (unsigned i = 0; i < FETCH_THREADS; i++) pthread_join(fetcher->threads[i], NULL);
}
