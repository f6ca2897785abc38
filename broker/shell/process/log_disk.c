/* log_disk.c: see log_disk.h. */
#include "log_disk.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>

#include "clock.h"
#include "log.h"
#include "logfmt.h"

/* ---- space */

#define LOOK_NS (50ull * 1000000u)

static const char disk_full[] = "the broker's disk is nearly full, so it refuses new tasks: free some disk space";
static const char segment_awaited[] =
    "the broker's disk is slow, and the log has no space for new tasks yet: try again in a moment";

static const struct disk_space *the_disk_space; /* used by disk_space_allocate, which the log's threads call */

static bool free_bytes(const char *path, uint64_t *out_free, uint64_t *out_total) {
    struct statvfs status;
    if (statvfs(path, &status) != 0) return false;
    *out_free = (uint64_t)status.f_bavail * status.f_frsize;
    *out_total = (uint64_t)status.f_blocks * status.f_frsize;
    return true;
}

static int disk_space_allocate(void *context, int handle, uint64_t size) {
    uint64_t free, total;
    if (!free_bytes(the_disk_space->path, &free, &total)) return -errno;
    if (!disk_reserve_admits_segment(&the_disk_space->reserve, free, size)) return -ENOSPC;
    return disk_posix.allocate(context, handle, size);
}

void disk_space_init(struct disk_space *disk_space, const char *path, uint64_t segment_size, struct disk *out_disk) {
    uint64_t free, total;
    bool is_known = free_bytes(path, &free, &total);
    *disk_space = (struct disk_space){.path = path, .reserve = disk_reserve_of(is_known ? total : 0, segment_size)};
    the_disk_space = disk_space;
    *out_disk = disk_posix;
    out_disk->allocate = disk_space_allocate;
}

void disk_space_look(const struct disk_space *disk_space, uint64_t *out_free, uint64_t *out_bytes) {
    if (!free_bytes(disk_space->path, out_free, out_bytes)) *out_free = *out_bytes = 0;
}

bool disk_space_spares(const struct disk_space *disk_space, uint64_t size) {
    uint64_t free, total;
    return free_bytes(disk_space->path, &free, &total) && disk_reserve_admits_copy(&disk_space->reserve, free, size);
}

/* Returns the free bytes, read again every LOOK_NS. */
static uint64_t look(struct disk_space *disk_space) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t now_ns = (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec, total;
    if (disk_space->looked_ns != 0 && now_ns - disk_space->looked_ns < LOOK_NS) return disk_space->free;
    disk_space->looked_ns = now_ns;
    if (!free_bytes(disk_space->path, &disk_space->free, &total)) disk_space->free = 0;
    return disk_space->free;
}

static int admit(struct disk_space *disk_space, struct log *log, uint64_t position, uint64_t size) {
    struct disk_admission admission;
    disk_admission_begin(&admission, &disk_space->reserve, look(disk_space), size);
    while (admission.question != DISK_DECIDED) {
        if (admission.question == DISK_ASKS_LOG) {
            disk_admission_of_log(&admission, &disk_space->reserve, log_fits(log, position, admission.size));
        } else {
            disk_space->looked_ns = 0;
            disk_admission_of_disk(&admission, &disk_space->reserve, look(disk_space));
        }
    }
    return admission.error;
}

/* Logs when the disk becomes low, and when it has enough space again. */
static void note(struct disk_space *disk_space, const struct log *log, int error) {
    struct log_stats stats;
    log_stats(log, &stats);
    if (!disk_reserve_note(&disk_space->reserve, error, stats.prepare_error)) return;
    bool low = disk_space->reserve.low;
    logfmt(low ? "disk_low" : "disk_fine", "free=%" PRIu64 " log_reserved=%" PRIu64 " error=\"%s\" action=\"%s\"",
           disk_space->free, stats.reserved, low ? strerror(-error) : "none",
           low ? "the broker refuses new tasks" : "the broker accepts new tasks");
}

const char *disk_space_refusal(struct disk_space *disk_space, struct log *log, uint64_t position, uint64_t size) {
    int error = admit(disk_space, log, position, size);
    disk_space->is_awaited = error == -EINPROGRESS;
    if (error == -EINPROGRESS) return segment_awaited;
    if ((error != 0) != disk_space->reserve.low) note(disk_space, log, error);
    return error != 0 ? disk_full : NULL;
}

bool disk_space_has(const struct disk_space *disk_space, uint64_t size) {
    uint64_t free, total;
    return !free_bytes(disk_space->path, &free, &total) ||
           disk_reserve_admits_archive(&disk_space->reserve, free, size);
}

/* ---- syncs */

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
