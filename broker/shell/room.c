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

bool room_spares(const struct room *room, uint64_t size) {
    uint64_t free, total;
    uint64_t kept = 2 * room->segment_size + room->reserve;
    return free_bytes(room->path, &free, &total) && free >= kept && free - kept >= size;
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

/* A frame may leave as much unused as it is long when it goes over to the next segment, hence twice its size. What is
 * left behind it is for acks, cancels and leases: half a segment if the next one cannot be made; while that is not
 * known, the last eighth is not given away (-EINPROGRESS). */
static int log_has_room(struct room *room, struct log *log, uint64_t position, uint64_t size) {
    int error = log_fits(log, position, 2 * size + room->segment_size / 2);
    if (error == -EINPROGRESS) error = log_fits(log, position, 2 * size + room->segment_size / 8);
    if (error != -EAGAIN) return error;
    /* More than a segment at once, this frame or what is under way before it: the writer will ask the disk itself. */
    room->looked_ns = 0;
    uint64_t wanted = 2 * room->segment_size + 2 * size + room->reserve;
    return look(room) < wanted ? -ENOSPC : 0;
}

/* Says when it becomes low, and when it is over: as long as the next segment cannot be made, a small task that still
 * fits is no sign of that. */
static void note(struct room *room, const struct log *log, int error) {
    struct log_stats stats;
    log_stats(log, &stats);
    bool low = error != 0;
    if (low == room->low || (!low && stats.prepare_error != 0)) return;
    room->low = low;
    logfmt(low ? "disk_low" : "disk_fine", "free=%" PRIu64 " log_reserved=%" PRIu64 " error=\"%s\" action=\"%s\"",
           room->free, stats.reserved, low ? strerror(-error) : "none",
           low ? "new tasks are refused" : "new tasks are taken");
}

const char *room_refusal(struct room *room, struct log *log, uint64_t position, uint64_t size) {
    int error = look(room) < room->reserve / 2 ? -ENOSPC : log_has_room(room, log, position, size);
    if (error == -EINPROGRESS) return segment_awaited;
    if ((error != 0) != room->low) note(room, log, error);
    return error != 0 ? disk_full : NULL;
}

bool room_has(const struct room *room, uint64_t size) {
    uint64_t free, total;
    return !free_bytes(room->path, &free, &total) || free >= size + room->reserve / 2;
}
