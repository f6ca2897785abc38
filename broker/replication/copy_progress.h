/* copy_progress.h: about how long it takes until a follower has what it lacks: of a snapshot, or of its leader's log.
 *
 * The rate is that of the last seconds, between COPY_PROGRESS_WINDOW_MS and twice as much: a disk that becomes slow
 * shows soon, and a pause does not make the estimate jump at once. Nothing is estimated while it does not come nearer.
 *
 * Pure. Times are MONOTONIC nanoseconds. Thread-safety: one owner, or the caller's mutex. */
#ifndef TARRY_REPLICATION_COPY_PROGRESS_H
#define TARRY_REPLICATION_COPY_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#define COPY_PROGRESS_WINDOW_MS 2000u
/* A log line of it no more often than this, and the first one so long after it began. */
#define COPY_PROGRESS_SAY_MS 5000u

struct copy_progress {
    struct copy_mark {
        uint64_t ns; /* 0: none */
        uint64_t left;
    } from, since;    /* the rate is counted from the older one */
    uint64_t left_ms; /* about; 0: there is nothing left, or it is not known */
    uint64_t said_ns;
};

/* So many bytes are missing now; 0: it is done, and the next time is another's. */
void copy_progress_see(struct copy_progress *progress, uint64_t left, uint64_t now_ns);
/* True: it is time to say so in the log. Asked only while something is missing. */
bool copy_progress_says(struct copy_progress *progress, uint64_t now_ns);

#endif
