/* archive_count.h: what the archive holds, in numbers, for the statistics: counted by the archivist's thread, which
 * adds what it archives and counts anew once a minute (commands prune and hold too); read by anybody. */
#ifndef TARRY_SHELL_ARCHIVE_COUNT_H
#define TARRY_SHELL_ARCHIVE_COUNT_H

#include <pthread.h>
#include <stdint.h>

#include "archive.h"

#define ARCHIVE_FAILURE_SIZE 256u

struct archive_numbers {
    uint64_t segments;
    uint64_t bytes;                     /* of their files */
    uint64_t oldest_ms;                 /* Unix time at which the oldest of them ended; 0: there is none */
    uint64_t held;                      /* segments that a hold keeps from being pruned */
    char failure[ARCHIVE_FAILURE_SIZE]; /* why nothing can be archived just now; empty: all is well */
};

struct archive_count {
    pthread_mutex_t mutex;
    struct archive_numbers numbers;
};

void archive_count_init(struct archive_count *count);
void archive_count_read(struct archive_count *count, struct archive_numbers *out);
/* ---- the archivist's thread */
/* Looks at every file. What cannot be read keeps the numbers of before, or is left out of them. */
void archive_count_survey(struct archive_count *count, const struct archive *archive);
void archive_count_add(struct archive_count *count, const struct archive_info *info);
void archive_count_fail(struct archive_count *count, const char *sentence); /* NULL: all is well again */

#endif
