/* filter_reader.h: the thread that reads the filters of keys after a start, while the broker serves already. It ends
 * once all are in memory; until then keys are looked for on the disk (index.h, options.filters_later). */
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
/* Done or not; before the index is closed. */
void filter_reader_stop(struct filter_reader *reader);

#endif
