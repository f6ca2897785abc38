/* disk_reserve.h: which writer may write how much when the disk is short (CAP-1, F-4). A reserve is kept free for what
 * must still be written then: the index's growth, acks, cancels and leases. The log may not preallocate a segment out
 * of it, and new tasks are refused before it is touched.
 *
 *   writer                                  what must stay free beside it
 *   a commit that schedules                 half of the reserve, and room in the log for acks behind it
 *   a segment of the log, preallocated      the reserve
 *   the archive (it gives room back)        half of the reserve
 *   a copy for a backup                     the reserve, and the two segments that the log will want next
 *
 * It decides on figures that the caller has looked up; sizes are in bytes. Not thread-safe where a pointer is not
 * const. */
#ifndef TARRY_ENGINE_DISK_RESERVE_H
#define TARRY_ENGINE_DISK_RESERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DISK_RESERVE_MAX (64ull << 20) /* enough for what the index may lag behind … */
#define DISK_RESERVE_SHARE 8           /* … but not more than this part of a small disk */

struct disk_reserve {
    uint64_t bytes;
    uint64_t segment_size; /* of the log */
    bool low;              /* as disk_reserve_note found it last */
};

/* `disk_size`: of the whole disk; 0: not known. */
struct disk_reserve disk_reserve_of(uint64_t disk_size, uint64_t segment_size);
bool disk_reserve_admits_segment(const struct disk_reserve *reserve, uint64_t free, uint64_t size);
bool disk_reserve_admits_archive(const struct disk_reserve *reserve, uint64_t free, uint64_t size);
bool disk_reserve_admits_copy(const struct disk_reserve *reserve, uint64_t free, uint64_t size);

/* ---- a commit that schedules: log and disk are asked in turn, until it is decided. Answers are 0 or a negative errno,
 * as log_fits gives them. */
enum disk_question {
    DISK_ASKS_LOG,  /* do `size` bytes fit into files that are there? → disk_admission_of_log */
    DISK_ASKS_DISK, /* how much is free at this moment? → disk_admission_of_disk */
    DISK_DECIDED,   /* `error` says what */
};

struct disk_admission {
    enum disk_question question;
    uint64_t size;
    /* 0: admitted. -EINPROGRESS: the log's next segment is still being made, which no thread waits for: it is to be
     * tried again in a moment. Any other: the disk is nearly full. */
    int error;

    uint64_t commit_size;
    bool asked_anew; /* for less, because the next segment is being made */
};

/* What a commit may take of the log: what the request says, and each operation's record. */
uint64_t disk_commit_size(uint64_t request_size, size_t op_count);
/* `free`: as it was looked up lately. */
void disk_admission_begin(struct disk_admission *out, const struct disk_reserve *reserve, uint64_t free,
                          uint64_t commit_size);
void disk_admission_of_log(struct disk_admission *admission, const struct disk_reserve *reserve, int fits);
void disk_admission_of_disk(struct disk_admission *admission, const struct disk_reserve *reserve, uint64_t free);

/* True: it became low, or fine again, with this decision: reserve->low says which. A small commit that still fits is no
 * sign that the disk is fine as long as the next segment cannot be made (`prepare_error`, log_stats). */
bool disk_reserve_note(struct disk_reserve *reserve, int error, int prepare_error);

#endif
