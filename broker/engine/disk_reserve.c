/* disk_reserve.c: see disk_reserve.h. */
#include "disk_reserve.h"

#include <errno.h>

/* Maximum record size of an operation, without its content and the request's own bytes. */
#define OP_RECORD_SIZE_MAX 256

struct disk_reserve disk_reserve_of(uint64_t disk_size, uint64_t segment_size) {
    struct disk_reserve reserve = {.bytes = DISK_RESERVE_MAX, .segment_size = segment_size};
    if (disk_size != 0 && disk_size / DISK_RESERVE_SHARE < DISK_RESERVE_MAX)
        reserve.bytes = disk_size / DISK_RESERVE_SHARE;
    return reserve;
}

bool disk_reserve_admits_segment(const struct disk_reserve *reserve, uint64_t free, uint64_t size) {
    return free >= size && free - size >= reserve->bytes;
}

bool disk_reserve_admits_archive(const struct disk_reserve *reserve, uint64_t free, uint64_t size) {
    return free >= size + reserve->bytes / 2;
}

bool disk_reserve_admits_copy(const struct disk_reserve *reserve, uint64_t free, uint64_t size) {
    uint64_t kept = 2 * reserve->segment_size + reserve->bytes;
    return free >= kept && free - kept >= size;
}

uint64_t disk_commit_size(uint64_t request_size, size_t op_count) {
    return request_size + op_count * (uint64_t)OP_RECORD_SIZE_MAX;
}

static void decide(struct disk_admission *admission, int error) {
    admission->question = DISK_DECIDED;
    admission->error = error;
}

/* Asks the log for twice the commit's size. If the frame does not fit into the rest of the segment, it is written to
 * the next segment, and the rest (less than the frame's size) stays unused. */
static void ask_log(struct disk_admission *admission, uint64_t left_behind) {
    admission->question = DISK_ASKS_LOG;
    admission->size = 2 * admission->commit_size + left_behind;
}

/* Begins an admission. Half a segment must be free after the frame, for acks, cancels and leases, in case the next
 * segment cannot be created. */
void disk_admission_begin(struct disk_admission *out, const struct disk_reserve *reserve, uint64_t free,
                          uint64_t commit_size) {
    *out = (struct disk_admission){.commit_size = commit_size};
    if (free < reserve->bytes / 2)
        decide(out, -ENOSPC);
    else
        ask_log(out, reserve->segment_size / 2);
}

void disk_admission_of_log(struct disk_admission *admission, const struct disk_reserve *reserve, int fits) {
    if (fits == -EINPROGRESS && !admission->asked_anew) {
        /* It is unknown whether the next segment can be created, so an eighth of a segment must stay free. */
        admission->asked_anew = true;
        ask_log(admission, reserve->segment_size / 8);
    } else if (fits == -EAGAIN) {
        /* This frame, or the frames before it, need more than one segment, so the writer will need disk space. */
        admission->question = DISK_ASKS_DISK;
    } else {
        decide(admission, fits);
    }
}

void disk_admission_of_disk(struct disk_admission *admission, const struct disk_reserve *reserve, uint64_t free) {
    uint64_t wanted = 2 * reserve->segment_size + 2 * admission->commit_size + reserve->bytes;
    decide(admission, free < wanted ? -ENOSPC : 0);
}

bool disk_reserve_note(struct disk_reserve *reserve, int error, int prepare_error) {
    bool low = error != 0;
    if (low == reserve->low || (!low && prepare_error != 0)) return false;
    reserve->low = low;
    return true;
}
