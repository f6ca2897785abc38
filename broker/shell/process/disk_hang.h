/* disk_hang.h: how long the log's disk has kept a write waiting for its sync: the sync thread notes it; status and the
 * hand-over look. */
#ifndef TARRY_SHELL_DISK_HANG_H
#define TARRY_SHELL_DISK_HANG_H

#include <stdatomic.h>
#include <stdint.h>

/* A disk whose sync takes so long wants an operator. A disk that collects garbage, or a full cache of a controller,
 * takes up to a second or two. A
 * process that was stopped in the middle of a sync says so as well, until that sync is over. (One of a pair that waits
 * much longer lets its follower lead, if it was awake meanwhile: LEADER_DISK_HUNG_MS, hung_disk.h.) */
#define DISK_HANG_MS 1000u
#define DISK_HANG_PROBLEM_SIZE 256

struct disk_hang {
    _Atomic uint64_t since_ns; /* MONOTONIC: when the oldest write that is not synced yet began; 0: there is none */
};

/* When the oldest write that is not synced yet began; 0: none waits. Any thread. */
uint64_t disk_hang_since_ns(const struct disk_hang *hang);
/* … what wants an operator because of that, as a sentence in `buffer`; NULL: nothing. Any thread. */
const char *disk_hang_problem(const struct disk_hang *hang, char buffer[DISK_HANG_PROBLEM_SIZE]);

#endif
