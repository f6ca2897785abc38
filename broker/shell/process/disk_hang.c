/* disk_hang.c: see disk_hang.h. */
#include "disk_hang.h"

#include <inttypes.h>
#include <stdio.h>

#include "monotonic.h"

uint64_t disk_hang_ms(const struct disk_hang *hang) {
    uint64_t since_ns = atomic_load(&hang->since_ns), now_ns = monotonic_ns();
    return since_ns == 0 || now_ns < since_ns ? 0 : (now_ns - since_ns) / NS_PER_MS;
}

const char *disk_hang_problem(const struct disk_hang *hang, char buffer[DISK_HANG_PROBLEM_SIZE]) {
    uint64_t waits_ms = disk_hang_ms(hang);
    if (waits_ms < DISK_HANG_MS) return NULL;
    snprintf(buffer, DISK_HANG_PROBLEM_SIZE,
             "the disk under the data directory hangs: a write has waited for %" PRIu64
             " ms to be synced, and nothing is acknowledged meanwhile; look at the disk and at the kernel's log",
             waits_ms);
    return buffer;
}
