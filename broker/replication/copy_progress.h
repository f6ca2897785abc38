/* copy_progress.h: estimates how long a follower still needs to copy a snapshot or its leader's log.
 *
 * The rate is measured over the last COPY_PROGRESS_WINDOW_MS to twice that time, so the estimate follows a slow disk
 * soon and ignores a short pause. No estimate is made while the number of missing bytes does not decrease.
 *
 * Pure. Times are MONOTONIC nanoseconds. Thread-safety: one owner, or the caller's mutex. */
#ifndef TARRY_REPLICATION_COPY_PROGRESS_H
#define TARRY_REPLICATION_COPY_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#define COPY_PROGRESS_WINDOW_MS 2000u
/* Interval of the progress lines in the log; the first line comes one interval after the start. */
#define COPY_PROGRESS_SAY_MS 5000u

struct copy_progress {
    struct copy_mark {
        uint64_t ns; /* 0: none */
        uint64_t left;
    } from, since;    /* two points in time: the rate is measured from `from`, which is the older one */
    uint64_t left_ms; /* estimated time left, in ms; 0: done or unknown */
    uint64_t said_ns;
};

/* Notes that `left` bytes are missing; 0 ends this copy, and the next call begins another one. */
void copy_progress_see(struct copy_progress *progress, uint64_t left, uint64_t now_ns);
/* Returns true if a progress line must be logged now. Call it only while bytes are missing. */
bool copy_progress_says(struct copy_progress *progress, uint64_t now_ns);

#endif
