/* hung_disk.h: for how long the leader's disk has kept a write waiting (F-31a), by the time that this node was awake.
 *
 * A leader that stood still itself (SIGSTOP, a paused machine) in the middle of a sync finds, as its first act, a write
 * that has waited for all of that time. If it took its disk for hung then, it would hand a healthy pair over (F-13). So
 * the pair's thread looks at the disk several times a second while a write waits (common/waited.h): nothing is handed
 * over too soon.
 *
 * Pure. Times are MONOTONIC nanoseconds of the node. Thread-safety: one owner. */
#ifndef TARRY_REPLICATION_HUNG_DISK_H
#define TARRY_REPLICATION_HUNG_DISK_H

#include <stdint.h>

#include "pair_times.h"
#include "waited.h"

/* While a write waits, the disk is looked at so often, and a look counts no more than this. */
#define HUNG_DISK_LOOK_MS 250u
#define HUNG_DISK_LOOK_COUNTS_MS (2 * HUNG_DISK_LOOK_MS)

struct hung_disk {
    struct waited write; /* the oldest that is not synced yet */
};

/* The thread looks. `since_ns`: when the oldest write that is not synced yet began; 0: none waits. */
void hung_disk_look(struct hung_disk *disk, uint64_t since_ns, uint64_t now_ns);
/* For how long that write has waited, as the looks counted; 0: none waits. */
uint64_t hung_disk_ms(const struct hung_disk *disk);
/* When the next look is due; UINT64_MAX: none, for nothing waits. */
uint64_t hung_disk_timer(const struct hung_disk *disk);

#endif
