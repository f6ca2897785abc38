/* disk_hang.c: see disk_hang.h. */
#include "disk_hang.h"

#include <inttypes.h>
#include <stdio.h>

#include "monotonic.h"

uint64_t disk_hang_since_ns(const struct disk_hang *hang) {
    return atomic_load(&hang->since_ns);
}

static uint64_t waits_ms_now(const struct disk_hang *hang) {
    uint64_t since_ns = disk_hang_since_ns(hang), now_ns = monotonic_ns();
    return since_ns == 0 || now_ns < since_ns ? 0 : (now_ns - since_ns) / NS_PER_MS;
}

const char *disk_hang_problem(const struct disk_hang *hang, char buffer[DISK_HANG_PROBLEM_SIZE]) {
    uint64_t waits_ms = waits_ms_now(hang);
    if (waits_ms < DISK_HANG_MS) return NULL;
    snprintf(buffer, DISK_HANG_PROBLEM_SIZE,
             "the disk of the data directory does not respond: a sync has taken %" PRIu64
             " ms so far, and the broker acknowledges nothing meanwhile; check the disk and the kernel's log",
             waits_ms);
    return buffer;
}
