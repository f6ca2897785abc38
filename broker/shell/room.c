/* room.c: see room.h. */
#include "room.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>

#include "log.h"
#include "logfmt.h"

/* The reserve: enough for what the index may lag behind, but not much of a small disk. */
#define RESERVE_MAX (64ull << 20)
#define RESERVE_SHARE 8
#define LOOK_NS (50ull * 1000000u)

static const struct room *the_room; /* for room_allocate, which the log's threads call */

static bool free_bytes(const char *path, uint64_t *out_free, uint64_t *out_total) {
    struct statvfs status;
    if (statvfs(path, &status) != 0) return false;
    *out_free = (uint64_t)status.f_bavail * status.f_frsize;
    *out_total = (uint64_t)status.f_blocks * status.f_frsize;
    return true;
}

static int room_allocate(void *context, int handle, uint64_t size) {
    uint64_t free, total;
    if (!free_bytes(the_room->path, &free, &total)) return -errno;
    if (free < size || free - size < the_room->reserve) return -ENOSPC;
    return disk_posix.allocate(context, handle, size);
}

void room_init(struct room *room, const char *path, uint64_t segment_size, struct disk *out_disk) {
    uint64_t free, total;
    *room = (struct room){.path = path, .segment_size = segment_size, .reserve = RESERVE_MAX};
    if (free_bytes(path, &free, &total) && total / RESERVE_SHARE < RESERVE_MAX) room->reserve = total / RESERVE_SHARE;
    the_room = room;
    *out_disk = disk_posix;
    out_disk->allocate = room_allocate;
}

bool room_is_low(struct room *room, const struct log *log) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t now_ns = (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
    if (room->looked_ns != 0 && now_ns - room->looked_ns < LOOK_NS) return room->low;
    room->looked_ns = now_ns;
    uint64_t free = UINT64_MAX, total;
    if (!free_bytes(room->path, &free, &total)) free = 0;
    struct log_stats stats;
    log_stats(log, &stats);
    /* Half a segment of log stays for acks, cancels and leases. */
    bool low = free < room->reserve / 2 || (stats.prepare_error != 0 && stats.reserved < room->segment_size / 2);
    if (low != room->low) {
        logfmt(low ? "disk_low" : "disk_fine", "free=%" PRIu64 " log_reserved=%" PRIu64 " error=\"%s\" action=\"%s\"",
               free, stats.reserved, stats.prepare_error != 0 ? strerror(-stats.prepare_error) : "none",
               low ? "new tasks are refused" : "new tasks are taken");
    }
    room->low = low;
    return low;
}
