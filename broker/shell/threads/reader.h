/* reader.h: the thread that reads the index for the core: stored tasks for commands, result pages of lists and of jobs.
 * A page fault or a slow disk delays only the requests that need it. */
#ifndef TARRY_SHELL_READER_H
#define TARRY_SHELL_READER_H

#include <stdatomic.h>
#include <stdbool.h>

#include "call.h"
#include "worker.h"

struct inbox;
struct index;

/* A result page of a job (core_page). The reader thread then reads the facts of the tasks on the page for the core. */
struct page_load {
    struct engine_request engine_request; /* must be the first member */
    struct arena arena;
    struct core_page page;
    bool read;
};

struct reader {
    struct index *index;
    struct inbox *inbox;
    size_t rows_max;    /* maximum size of unused rows that requests may hold, in bytes, in total */
    atomic_size_t rows; /* bytes of rows that requests hold */
    struct worker worker;
};

/* Starts the thread. When the rows of all requests exceed `rows_max` bytes, further requests are refused as busy
 * (CALM-1). Pages of jobs are never refused: there are at most JOB_PAGES_MAX. */
void reader_start(struct reader *reader, struct index *index, struct inbox *inbox, size_t rows_max);
/* Takes over the request and posts it to the core's inbox with the rows that it needs. */
void reader_post(struct reader *reader, struct engine_request *engine_request);
/* Releases the rows that were read for a request that ends. Core thread only. */
void reader_release(struct reader *reader, struct engine_request *engine_request);
void reader_stop(struct reader *reader);

#endif
