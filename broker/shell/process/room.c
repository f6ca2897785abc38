/* room.c: see room.h. */
#include "room.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>

#include "log.h"
#include "logfmt.h"

#define LOOK_NS (50ull * 1000000u)

static const char disk_full[] = "the broker's disk is nearly full: new tasks are refused until there is room";
static const char segment_awaited[] =
    "the broker's disk is slow: room in the log for new tasks is being made, try again in a moment";

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
    if (!disk_reserve_admits_segment(&the_room->reserve, free, size)) return -ENOSPC;
    return disk_posix.allocate(context, handle, size);
}

void room_init(struct room *room, const char *path, uint64_t segment_size, struct disk *out_disk) {
    uint64_t free, total;
    bool is_known = free_bytes(path, &free, &total);
    *room = (struct room){.path = path, .reserve = disk_reserve_of(is_known ? total : 0, segment_size)};
    the_room = room;
    *out_disk = disk_posix;
    out_disk->allocate = room_allocate;
}

void room_look(const struct room *room, uint64_t *out_free, uint64_t *out_bytes) {
    if (!free_bytes(room->path, out_free, out_bytes)) *out_free = *out_bytes = 0;
}

bool room_spares(const struct room *room, uint64_t size) {
    uint64_t free, total;
    return free_bytes(room->path, &free, &total) && disk_reserve_admits_copy(&room->reserve, free, size);
}

/* Free bytes, looked up now and then only. */
static uint64_t look(struct room *room) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t now_ns = (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec, total;
    if (room->looked_ns != 0 && now_ns - room->looked_ns < LOOK_NS) return room->free;
    room->looked_ns = now_ns;
    if (!free_bytes(room->path, &room->free, &total)) room->free = 0;
    return room->free;
}

static int admit(struct room *room, struct log *log, uint64_t position, uint64_t size) {
    struct disk_admission admission;
    disk_admission_begin(&admission, &room->reserve, look(room), size);
    while (admission.question != DISK_DECIDED) {
        if (admission.question == DISK_ASKS_LOG) {
            disk_admission_of_log(&admission, &room->reserve, log_fits(log, position, admission.size));
        } else {
            room->looked_ns = 0;
            disk_admission_of_disk(&admission, &room->reserve, look(room));
        }
    }
    return admission.error;
}

/* Says when the disk becomes low, and when it is fine again. */
static void note(struct room *room, const struct log *log, int error) {
    struct log_stats stats;
    log_stats(log, &stats);
    if (!disk_reserve_note(&room->reserve, error, stats.prepare_error)) return;
    bool low = room->reserve.low;
    logfmt(low ? "disk_low" : "disk_fine", "free=%" PRIu64 " log_reserved=%" PRIu64 " error=\"%s\" action=\"%s\"",
           room->free, stats.reserved, low ? strerror(-error) : "none",
           low ? "new tasks are refused" : "new tasks are taken");
}

const char *room_refusal(struct room *room, struct log *log, uint64_t position, uint64_t size) {
    int error = admit(room, log, position, size);
    if (error == -EINPROGRESS) return segment_awaited;
    if ((error != 0) != room->reserve.low) note(room, log, error);
    return error != 0 ? disk_full : NULL;
}

bool room_has(const struct room *room, uint64_t size) {
    uint64_t free, total;
    return !free_bytes(room->path, &free, &total) || disk_reserve_admits_archive(&room->reserve, free, size);
}
