/* hung_disk.h: measures how long a write has waited for the leader's disk (F-31a), counting only time in which this
 * process ran.
 *
 * If the process was stopped for a while (SIGSTOP, a suspended machine), an unfinished write has waited during the
 * whole stop. The leader must not conclude that its disk hangs, and must not hand over (F-13). So the pair's thread
 * checks every HUNG_DISK_LOOK_MS while a write waits, and one check adds a limited time (common/waited.h).
 *
 * Pure. Times are MONOTONIC nanoseconds of the node. Thread-safety: one owner. */
#ifndef TARRY_REPLICATION_HUNG_DISK_H
#define TARRY_REPLICATION_HUNG_DISK_H

#include <stdint.h>

#include "pair_times.h"
#include "waited.h"

/* Interval of the checks while a write waits, and the longest time that one check may add. */
#define HUNG_DISK_LOOK_MS 250u
#define HUNG_DISK_LOOK_COUNTS_MS (2 * HUNG_DISK_LOOK_MS)

struct hung_disk {
    struct waited write; /* wait of the oldest write that is not synced yet */
};

/* Checks the oldest write. Call it in each turn of the thread. `since_ns` is when the oldest unsynced write began; 0:
 * there is none. */
void hung_disk_look(struct hung_disk *disk, uint64_t since_ns, uint64_t now_ns);
/* Returns how long the oldest write has waited, in ms, as counted by the checks; 0: no write waits. */
uint64_t hung_disk_ms(const struct hung_disk *disk);
/* Returns when the next check is due; UINT64_MAX: no write waits. */
uint64_t hung_disk_timer(const struct hung_disk *disk);

#endif
