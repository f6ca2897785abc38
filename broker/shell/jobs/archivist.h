/* archivist.h: the thread that copies segments into the archive before they are retired, and prunes the archive. It
 * runs with a low priority, one segment at a time. Only the retirement of that segment waits for it.
 *
 * A segment that cannot be archived stays in the log, for example because the archive is missing, not mounted, full, or
 * belongs to another broker. The thread logs this once a minute and whenever the reason changes, and retries. The log
 * then grows until the disk's reserve stops new tasks (log_disk.h): refusing work is better than losing history that
 * the operator wants to keep. With `archiving = no` the log can shrink again. */
#ifndef TARRY_SHELL_ARCHIVIST_H
#define TARRY_SHELL_ARCHIVIST_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "archive.h"

/* ---- size of the archive, for the statistics. The archivist's thread counts what it archives. It counts all files
 * again once a minute, because commands also prune and hold. Any thread may read the numbers. */
#define ARCHIVE_FAILURE_SIZE 256u

struct archive_numbers {
    uint64_t segments;
    uint64_t bytes;                     /* bytes of the segments' files */
    uint64_t oldest_ms;                 /* Unix time at which the oldest segment ended; 0: no segment */
    uint64_t held;                      /* segments that a hold protects from pruning */
    char failure[ARCHIVE_FAILURE_SIZE]; /* reason why archiving fails now; empty: no failure */
};

struct archive_count {
    pthread_mutex_t mutex;
    struct archive_numbers numbers;
};

void archive_count_read(struct archive_count *count, struct archive_numbers *out);

/* ---- the archivist */

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
    /* Called after each archived segment that was requested, on the archivist's thread. */
    void (*archived)(void *context);
    void *context;
};

struct archivist {
    struct archivist_needs needs;
    struct log *log; /* the log; set by archivist_start */
    bool on;
    struct archive archive; /* the archive, for reading through the plain disk; valid even if `on` is false */
    char directory[ARCHIVE_PATH_SIZE];

    _Atomic uint64_t done; /* all segments that end at or below this log position are archived, or need no archiving */
    _Atomic bool stopping;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_mutex_t working; /* held while the thread writes or deletes files */
    uint64_t wanted;         /* base of the segment to archive; 0: none */
    struct archive_count count;

    /* The following members are used by the archivist's thread only. */
    struct disk disk; /* the disk for writing; fails at a stop and when the reserve would be used */
    bool is_same_disk;
    bool swept; /* leftover temporary files were deleted */
    int error;  /* last logged error; 0: none */
    uint64_t said_ns;
    uint64_t pruned_ns;
    uint64_t surveyed_ns; /* CLOCK_MONOTONIC of the last recount; 0: never */
};

/* Finds the archive for its readers, before the log is opened. Returns 0, or 1 if the directory's name is too long. */
int archivist_init(struct archivist *archivist, const struct archivist_needs *needs);
void archivist_start(struct archivist *archivist, struct log *log);
void archivist_stop(struct archivist *archivist);
/* Returns whether the segment that ends at `end` may be retired. Any thread. */
bool archivist_has(struct archivist *archivist, uint64_t end);
/* Stops all writes and deletions until archivist_resume, so that no segment is archived while it is being erased.
 * Returns false if the thread is writing now. Index thread only. */
bool archivist_pause(struct archivist *archivist);
void archivist_resume(struct archivist *archivist);
/* Checks whose archive the directory contains. Returns 0 if the archive is this broker's or empty, ARCHIVE_NOT_OURS if
 * it is another broker's. Returns any other value if the directory cannot be checked now, for example because its disk
 * is not mounted; the reason is in *out_sentence, a constant. Index thread only. */
enum { ARCHIVE_NOT_OURS = 1 };
int archivist_check(const struct archivist *archivist, const char **out_sentence);
/* Requests a segment; needs.archived is called when it is archived. Index thread only. */
void archivist_want(struct archivist *archivist, uint64_t base);

#endif
