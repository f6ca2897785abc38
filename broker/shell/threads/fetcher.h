/* fetcher.h: the threads that read what the index thread will sweep (index.h, index_fetch), so that the one that commits
 * and loads windows does not wait for the disk, page by page. They sleep while there is nothing to read.
 *
 * More than one, for a disk answers several questions in little more time than one. */
#ifndef TARRY_SHELL_FETCHER_H
#define TARRY_SHELL_FETCHER_H

#include <pthread.h>
#include <stdbool.h>

#define FETCH_THREADS 2

struct index;

struct fetcher {
    struct index *index;
    void (*fetched)(void *context); /* there may be something to sweep; called by a fetching thread */
    void *context;
    pthread_t threads[FETCH_THREADS];
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool stop;
};

/* Before it is started nothing is fetched, and nothing is woken. */
void fetcher_init(struct fetcher *fetcher, struct index *index, void (*fetched)(void *context), void *context);
void fetcher_start(struct fetcher *fetcher);
/* The index has changed: there may be something to read. Any thread. */
void fetcher_wake(struct fetcher *fetcher);
/* Before the index is closed. */
void fetcher_stop(struct fetcher *fetcher);

#endif
