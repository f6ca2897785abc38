/* indexer.h: the index thread, the only one that writes the index: it absorbs and commits, loads near windows, signs
 * heads, erases, retires segments, and does the index's own housekeeping, in the order that the engine says
 * (engine/index_schedule.h). */
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
#include "summarizer.h"

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
    struct disk *disk; /* the log's */
    struct log *log;
    struct index *index;
    struct inbox *inbox; /* the core's */
    struct signer *signer;
    struct archivist *archivist;
    const struct node *node;
};

/* A near window to load, and what was loaded. The core thread frees it. */
struct window_load {
    struct item item; /* first */
    struct core_window window;
    struct arena arena;
    struct window_rows rows;
};

/* Advice that a line's low mark moved. */
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
    uint64_t wanted;   /* the durable position that is worth waking the thread for */
    uint64_t hurry_to; /* a request waits until the index has what is recorded below */
    pthread_cond_t committed;
    bool stop;

    /* the index thread's own */
    struct index_schedule schedule;
    struct log_cursor *cursor;
    struct window_load *window; /* being loaded */
    struct arena arena;         /* frame bodies */
    struct retirement retire;
    struct eraser eraser;
    struct summarizer summarizer;
};

void indexer_start(struct indexer *indexer, const struct indexer_needs *needs, uint64_t durable);
void indexer_window(struct indexer *indexer, const struct core_window *window);
void indexer_low(struct indexer *indexer, const struct core_low *low);
void indexer_durable(struct indexer *indexer, uint64_t position);
/* Waits, for `wait_ns` at most, until the index has what is recorded below `position`; it commits at once for that.
 * True: it has. Any thread but the index's. */
bool indexer_await(struct indexer *indexer, uint64_t position, uint64_t wait_ns);
/* Looks again at what is to be retired. `indexer` is one (archivist_needs.archived). Any thread. */
void indexer_wake(void *indexer);
/* Ends the thread once everything durable is in the index. */
void indexer_stop(struct indexer *indexer);

#endif
