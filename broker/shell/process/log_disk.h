/* log_disk.h: the disk of the log: its free space, and how long it delays a sync. */
#ifndef TARRY_LOG_DISK_H
#define TARRY_LOG_DISK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "disk.h"
#include "disk_reserve.h"

/* ---- space */

/* Reads the free space of the disk, and asks the engine how much of it each writer may use (CAP-1, F-4;
 * engine/disk_reserve.h). */

struct log;

struct disk_space {
    const char *path;            /* path of the data directory */
    struct disk_reserve reserve; /* reserve of disk space; constant, except `low`, which the core thread owns */
    uint64_t looked_ns;          /* CLOCK_MONOTONIC of the last reading of the free space; core thread only */
    uint64_t free;               /* free bytes at the last reading; core thread only */
    bool is_awaited; /* the last refusal is temporary: the log's next segment is being made; core thread only */
};

/* Initializes `disk_space` and `*out_disk`, with which the log is opened. There is one disk_space per process, and it
 * must not move. */
void disk_space_init(struct disk_space *disk_space, const char *path, uint64_t segment_size, struct disk *out_disk);
/* Returns the free and total bytes of the file system; 0: not known. Any thread. */
void disk_space_look(const struct disk_space *disk_space, uint64_t *out_free, uint64_t *out_bytes);
/* Returns NULL if new tasks may use up to `size` bytes of log at `position`, where the core puts its next frame.
 * `position` may be ahead of the log's end. Otherwise returns the reason why new tasks must be refused. Either the disk
 * is nearly full, or the log's next segment is not ready; the core never waits for it. Core thread only. */
const char *disk_space_refusal(struct disk_space *disk_space, struct log *log, uint64_t position, uint64_t size);
/* Returns whether at least half of the disk reserve remains after `size` bytes are written. For writers that later free
 * space. Any thread. */
bool disk_space_has(const struct disk_space *disk_space, uint64_t size);

/* Returns whether the disk has `size` free bytes beside the reserve and the next segments of the log. Any thread. */
bool disk_space_spares(const struct disk_space *disk_space, uint64_t size);

/* ---- syncs */

/* Measures how long the log's disk has delayed a sync. The sync thread writes the time; status and
 * failover read it. */

/* If a sync takes this long, the broker reports a hanging disk, because an operator is needed. A disk that collects
 * garbage, or a full cache of a controller, takes up to a second or two. If the process was stopped during a sync, the
 * broker also reports a hanging disk until the sync ends.
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
