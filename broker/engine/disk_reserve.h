/* disk_reserve.h: how much each writer may write when the disk is nearly full (CAP-1, F-4). The reserve is disk space
 * for writes that must still succeed: growth of the index, acks, cancels and leases. The log may not preallocate a
 * segment from the reserve, and new tasks are refused before it is used.
 *
 *   writer                                  space that must stay free
 *   a commit that schedules                 half of the reserve, and log space for later acks
 *   a segment of the log, preallocated      the reserve
 *   the archive (it frees space later)      half of the reserve
 *   a copy for a backup                     the reserve, and the next two segments of the log
 *
 * The caller supplies all figures; sizes are in bytes. Functions with a non-const pointer are not thread-safe. */
#ifndef TARRY_ENGINE_DISK_RESERVE_H
#define TARRY_ENGINE_DISK_RESERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Maximum size of the reserve in bytes: enough for the maximum lag of the index. A small disk has a smaller reserve. */
#define DISK_RESERVE_MAX (64ull << 20)
#define DISK_RESERVE_SHARE 8 /* on a small disk, the reserve is at most this share: 1/8 of the disk */

struct disk_reserve {
    uint64_t bytes;
    uint64_t segment_size; /* size of a segment of the log */
    bool low;              /* latest result of disk_reserve_note */
};

/* Computes the reserve. `disk_size`: size of the whole disk; 0: not known. */
struct disk_reserve disk_reserve_of(uint64_t disk_size, uint64_t segment_size);
bool disk_reserve_admits_segment(const struct disk_reserve *reserve, uint64_t free, uint64_t size);
bool disk_reserve_admits_archive(const struct disk_reserve *reserve, uint64_t free, uint64_t size);
bool disk_reserve_admits_copy(const struct disk_reserve *reserve, uint64_t free, uint64_t size);

/* ---- admission of a commit that schedules: questions to log and disk in turn, until DISK_DECIDED. Answers are 0 or a
 * negative errno, as from log_fits. */
enum disk_question {
    DISK_ASKS_LOG,  /* ask the log whether `size` bytes fit into existing files, and call disk_admission_of_log */
    DISK_ASKS_DISK, /* read how many bytes are free now, and call disk_admission_of_disk */
    DISK_DECIDED,   /* the decision is in `error` */
};

struct disk_admission {
    enum disk_question question;
    uint64_t size;
    /* 0: admitted. -EINPROGRESS: the log's next segment is being created and no thread may wait for it; try again soon.
     * Another value: the disk is nearly full. */
    int error;

    uint64_t commit_size;
    /* true: the next segment was still being created, so the log was asked a second time, with a smaller size. */
    bool asked_anew;
};

/* Upper bound of a commit's log space: the request's bytes, and one record per operation. */
uint64_t disk_commit_size(uint64_t request_size, size_t op_count);
/* Starts an admission. `free`: recently measured free space. */
void disk_admission_begin(struct disk_admission *out, const struct disk_reserve *reserve, uint64_t free,
                          uint64_t commit_size);
void disk_admission_of_log(struct disk_admission *admission, const struct disk_reserve *reserve, int fits);
void disk_admission_of_disk(struct disk_admission *admission, const struct disk_reserve *reserve, uint64_t free);

/* Notes the result `error` of an admission in reserve->low. Returns true if that changed reserve->low. While the log
 * cannot create its next segment (`prepare_error` of log_stats is not 0), an admission that succeeds does not clear
 * reserve->low. */
bool disk_reserve_note(struct disk_reserve *reserve, int error, int prepare_error);

#endif
