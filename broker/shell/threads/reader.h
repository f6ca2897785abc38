/* reader.h: the thread that reads the index for the core: facts of commands, pages of lists and of jobs. A page fault
 * or a slow disk delays the requests that need it, and no others. */
#ifndef TARRY_SHELL_READER_H
#define TARRY_SHELL_READER_H

#include <stdatomic.h>
#include <stdbool.h>

#include "call.h"
#include "worker.h"

struct inbox;
struct index;

/* A page of a job (core_page), and afterwards what the core lacks to act on it. */
struct page_load {
    struct engine_request engine_request; /* first */
    struct arena arena;
    struct core_page page;
    bool read;
};

struct reader {
    struct index *index;
    struct inbox *inbox; /* the core's */
    size_t rows_max;     /* bytes of rows that requests may have been given and not have used yet, in all */
    atomic_size_t rows;  /* … that they have */
    struct worker worker;
};

/* Calls beyond `rows_max` are refused as busy (CALM-1); pages are few (JOB_PAGES_MAX). */
void reader_start(struct reader *reader, struct index *index, struct inbox *inbox, size_t rows_max);
/* Takes the request over; it comes back to the core's inbox with what it wanted. */
void reader_post(struct reader *reader, struct engine_request *engine_request);
/* The request ends, and what was read for it will be forgotten. Core thread. */
void reader_release(struct reader *reader, struct engine_request *engine_request);
void reader_stop(struct reader *reader);

#endif
