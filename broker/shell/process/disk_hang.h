/* disk_hang.h: measures how long the log's disk has delayed a sync. The sync thread writes the time; status and
 * failover read it. */
#ifndef TARRY_SHELL_DISK_HANG_H
#define TARRY_SHELL_DISK_HANG_H

#include <stdatomic.h>
#include <stdint.h>

/* If a sync takes this long, an operator is needed. A disk that collects garbage, or a full cache of a controller,
 * takes up to a second or two. A process that was stopped in the middle of a sync reports this too, until that sync
 * ends.
 *
 * The leader of a pair lets its follower lead after LEADER_DISK_HUNG_MS, if the leader was awake meanwhile
 * (hung_disk.h). */
#define DISK_HANG_MS 1000u
#define DISK_HANG_PROBLEM_SIZE 256

struct disk_hang {
    _Atomic uint64_t since_ns; /* CLOCK_MONOTONIC, when the oldest unsynced write began; 0: none */
};

/* Returns when the oldest unsynced write began; 0: none. Any thread. */
uint64_t disk_hang_since_ns(const struct disk_hang *hang);
/* Returns the problem for the operator as a message in `buffer`; NULL: no problem. Any thread. */
const char *disk_hang_problem(const struct disk_hang *hang, char buffer[DISK_HANG_PROBLEM_SIZE]);

#endif
