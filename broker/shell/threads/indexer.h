/* indexer.h: the index thread, the only writer of the index. It absorbs and commits, loads near windows, signs heads,
 * erases, retires segments and maintains the index. The engine decides the order (engine/index_schedule.h). */
#ifndef TARRY_SHELL_INDEXER_H
#define TARRY_SHELL_INDEXER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "core.h"
#include "engine_request.h"
#include "eraser.h"
#include "index_schedule.h"
#include "retire.h"

struct archivist;
struct clock;
struct config;
struct datadir;
struct disk;
struct inbox;
struct index;
struct log_cursor;
struct node;
struct signer;

struct indexer_needs {
    const struct config *config;
    const struct datadir *dir;
    struct clock *clock;
    struct disk *disk; /* the disk of the log */
    struct log *log;
    struct index *index;
    struct inbox *inbox;
    struct signer *signer;
    struct archivist *archivist;
    const struct node *node;
};

/* A near window to load, and its rows. The core thread frees it. */
struct window_load {
    struct item item; /* `item` must be the first member, because a pointer to it is cast to the struct */
    struct core_window window;
    struct arena arena;
    struct window_rows rows;
};

/* Hint for the index: a line has no rows any more below a due time (struct core_low). */
struct low_note {
    struct low_note *next;
    struct core_low low;
};

struct indexer {
    struct indexer_needs needs;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct item *windows;
    struct item **windows_last;
    struct low_note *lows;
    uint64_t durable;
    uint64_t wanted;   /* durable position that wakes the thread */
    uint64_t hurry_to; /* a request waits until the index includes all records below this position */
    pthread_cond_t committed;
    bool stop;

    /* The following members are used by the index thread only. */
    struct index_schedule schedule;
    struct log_cursor *cursor;
    struct window_load *window; /* the window that is being loaded */
    struct arena arena;         /* memory of frame bodies */
    struct retirement retire;
    struct eraser eraser;
    struct summarizer summarizer;
};

void indexer_start(struct indexer *indexer, const struct indexer_needs *needs, uint64_t durable);
void indexer_window(struct indexer *indexer, const struct core_window *window);
void indexer_low(struct indexer *indexer, const struct core_low *low);
void indexer_durable(struct indexer *indexer, uint64_t position);
/* Waits at most `wait_ns` until the index includes all records below `position`. The index thread then commits at once
 * instead of waiting for more records. Returns whether the index includes them. Any thread but the index thread. */
bool indexer_await(struct indexer *indexer, uint64_t position, uint64_t wait_ns);
/* Makes the thread look again for segments to retire. `indexer` is a struct indexer (archivist_needs.archived). Any
 * thread. */
void indexer_wake(void *indexer);
/* Ends the thread once all durable records are in the index. */
void indexer_stop(struct indexer *indexer);

#endif
