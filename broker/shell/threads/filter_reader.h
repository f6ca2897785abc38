/* filter_reader.h: the thread that reads the key filters after a start, while the broker already serves. It ends once
 * all filters are in memory. Until then keys are looked up on the disk (index.h, options.filters_later). */
#ifndef TARRY_SHELL_FILTER_READER_H
#define TARRY_SHELL_FILTER_READER_H

#include <pthread.h>
#include <stdatomic.h>

struct index;

struct filter_reader {
    pthread_t thread;
    struct index *index;
    atomic_bool stop;
};

void filter_reader_start(struct filter_reader *reader, struct index *index);
/* Stops the thread, finished or not. Call it before the index is closed. */
void filter_reader_stop(struct filter_reader *reader);

#endif
