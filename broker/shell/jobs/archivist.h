/* archivist.h: the thread that puts segments into the archive before they are retired, and prunes the archive. It works
 * with a low priority, one segment at a time, and only the retirement of that segment waits for it.
 *
 * What it cannot archive (the archive is missing, not mounted, full, another broker's) stays in the log: it says so,
 * once a minute and when it changes, and tries again. The log then grows until the disk's reserve stops new tasks
 * (disk_space.h): refusing work is better than losing history that was to be kept. `archiving = no` gives the log its
 * room back. */
#ifndef TARRY_SHELL_ARCHIVIST_H
#define TARRY_SHELL_ARCHIVIST_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "archive.h"

/* ---- archivist_count.c: what the archive holds, in numbers, for the statistics: counted by the archivist's thread,
 * which adds what it archives and counts anew once a minute (commands prune and hold too); read by any thread. */
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

struct clock;
struct config;
struct datadir;
struct log;
struct disk_space;

struct archivist_needs {
    const struct config *config;
    const struct datadir *dir;
    struct clock *clock;
    struct disk_space *disk_space;
    void (*archived)(void *context); /* told after each segment that was wanted; its thread */
    void *context;
};

struct archivist {
    struct archivist_needs needs;
    struct log *log; /* from archivist_start on */
    bool on;
    struct archive archive; /* read through the plain disk; valid whether on or not */
    char directory[ARCHIVE_PATH_SIZE];

    _Atomic uint64_t done; /* what lies below this position is in the archive, or need not be */
    _Atomic bool stopping;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_mutex_t working; /* held while it writes or deletes */
    uint64_t wanted;         /* base of the segment to archive; 0: none */
    struct archive_count count;

    /* the thread's own */
    struct disk disk; /* minds the stop and the reserve */
    bool is_same_disk;
    bool swept; /* of what a killed process left */
    int error;  /* as it was last said; 0: all is well */
    uint64_t said_ns;
    uint64_t pruned_ns;
    uint64_t surveyed_ns; /* 0: not yet */
};

/* Before the log is opened: where the archive is, for its readers. 0, or 1: the directory's name is too long. */
int archivist_init(struct archivist *archivist, const struct archivist_needs *needs);
void archivist_start(struct archivist *archivist, struct log *log);
void archivist_stop(struct archivist *archivist);
/* True: the segment that ends at `end` may go. Any thread. */
bool archivist_has(struct archivist *archivist, uint64_t end);
/* False: it is at work. Otherwise it writes and deletes nothing until archivist_resume: what is archived while it is
 * being erased would escape. Index thread. */
bool archivist_pause(struct archivist *archivist);
void archivist_resume(struct archivist *archivist);
/* 0: what lies there is ours, if anything does. ARCHIVE_NOT_OURS: another broker's. Else it is not known just now (its
 * disk is not mounted, say); why is in *out_sentence, which lasts. Index thread. */
enum { ARCHIVE_NOT_OURS = 1 };
int archivist_check(const struct archivist *archivist, const char **out_sentence);
/* Asks for that segment; needs.archived follows when it is done. Index thread. */
void archivist_want(struct archivist *archivist, uint64_t base);

#endif
