/* quarantine.c: see quarantine.h. */
#include "quarantine.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log_internal.h"
#include "log_serve.h"
#include "tarry_limits.h"

#define TAIL_TEMPORARY "tail.tmp"
#define WHY_TEMPORARY "why.tmp"
#define CHAIN_BYTES 8
#define SUFFIX_SIZE (1 + 2 * CHAIN_BYTES + 4) /* "-0123456789abcdef.seg" */

static int path_of(const struct quarantine *quarantine, const char *name, char path[LOG_PATH_SIZE]) {
    int size = snprintf(path, LOG_PATH_SIZE, "%s/%s", quarantine->directory, name);
    return size > 0 && (size_t)size < LOG_PATH_SIZE ? 0 : -ENAMETOOLONG;
}

/* ---- names */

static void name_encode(uint64_t base, const uint8_t chain[FRAME_CHAIN_SIZE], char out[QUARANTINE_NAME_SIZE]) {
    int at = snprintf(out, QUARANTINE_NAME_SIZE, "%016" PRIx64 "-", base);
    for (size_t i = 0; i < CHAIN_BYTES; i++)
        at += snprintf(out + at, QUARANTINE_NAME_SIZE - (size_t)at, "%02x", chain[i]);
    snprintf(out + at, QUARANTINE_NAME_SIZE - (size_t)at, "%s", segment_suffix);
}

static bool name_decode(const char *name, uint64_t *out_base) {
    if (strlen(name) != SEGMENT_BASE_DIGITS + SUFFIX_SIZE || name[SEGMENT_BASE_DIGITS] != '-') return false;
    if (strspn(name + SEGMENT_BASE_DIGITS + 1, "0123456789abcdef") != 2 * (size_t)CHAIN_BYTES) return false;
    if (strcmp(name + strlen(name) - strlen(segment_suffix), segment_suffix) != 0) return false;
    return segment_name_decode(name, name + SEGMENT_BASE_DIGITS, out_base);
}

static void why_name(const char *name, char out[QUARANTINE_NAME_SIZE]) {
    snprintf(out, QUARANTINE_NAME_SIZE, "%.*s.txt", (int)(strlen(name) - strlen(segment_suffix)), name);
}

/* ---- putting */

/* Copies the frames from `position` to the log's end behind the header. */
static int copy_frames(struct log *log, uint64_t position, const struct disk *disk, int handle) {
    uint64_t base = position;
    uint8_t *bytes = malloc(LOG_BLOCK_SIZE);
    int result = bytes ? 0 : -ENOMEM;
    while (result == 0 && position < log->end) {
        struct segment *segment;
        uint64_t end;
        result = segment_hold(log, position, &segment, &end);
        if (result < 0) break;
        size_t size = end - position < LOG_BLOCK_SIZE ? (size_t)(end - position) : LOG_BLOCK_SIZE;
        int64_t count =
            disk_read_all(log->disk, segment->handle, bytes, size, SEGMENT_HEADER_SIZE + (position - segment->base));
        segment_drop(log, segment);
        result = count < 0 ? (int)count : (size_t)count == size ? 0 : LOG_DAMAGED;
        if (result == 0) result = disk_write_all(disk, handle, bytes, size, SEGMENT_HEADER_SIZE + (position - base));
        position += size;
    }
    free(bytes);
    return result;
}

static int write_tail(const struct quarantine *quarantine, struct log *log, const struct log_point *point,
                      const char *path) {
    const struct disk *disk = quarantine->disk;
    struct log_segment before;
    struct segment_header header = {
        .version = FORMAT_VERSION,
        .base = point->position,
        .capacity = log->end - point->position,
        .epoch = point->epoch,
        .steady_ns = point->steady_ns,
        .wall_ns = point->wall_ns,
    };
    /* True: the frame before the point is still in the log, so the log knows that frame's segment. */
    bool has_before = point->position > log_start(log);
    if (has_before && log_segment_at(log, point->position - FRAME_ALIGN, &before)) header.previous_base = before.base;
    memcpy(header.cluster, quarantine->cluster, sizeof(header.cluster));
    memcpy(header.chain, point->chain, FRAME_CHAIN_SIZE);
    uint8_t bytes[SEGMENT_HEADER_SIZE];
    segment_header_encode(&header, bytes);
    (void)disk->unlink(disk->context, path); /* ignore errors: an interrupted attempt may have left the file */
    int handle = disk->open(disk->context, path, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (handle < 0) return handle;
    int result = disk_write_all(disk, handle, bytes, sizeof(bytes), 0);
    if (result == 0) result = copy_frames(log, point->position, disk, handle);
    if (result == 0) result = disk->sync(disk->context, handle);
    int closed = disk->close(disk->context, handle);
    return result < 0 ? result : closed;
}

/* Makes the directory, and makes its name durable in its parent. */
static int make_directory(const struct quarantine *quarantine) {
    const struct disk *disk = quarantine->disk;
    int result = disk->make_directory(disk->context, quarantine->directory, 0700);
    if (result < 0 && result != -EEXIST) return result;
    char parent[LOG_PATH_SIZE];
    result = disk_parent(quarantine->directory, parent, sizeof(parent));
    return result == 0 ? disk->sync_directory(disk->context, parent) : result;
}

static bool exists(const struct disk *disk, const char *path) {
    int handle = disk->open(disk->context, path, O_RDONLY, 0);
    if (handle >= 0) (void)disk->close(disk->context, handle);
    return handle >= 0;
}

int quarantine_put(const struct quarantine *quarantine, struct log *log, uint64_t position, const char *why,
                   struct quarantine_tail *out) {
    const struct disk *disk = quarantine->disk;
    assert(position < log->end && log_durable(log) == log->end && strlen(why) < QUARANTINE_WHY_SIZE);
    struct quarantine_tail tail = {.base = position, .end = log->end};
    struct log_point point;
    char temporary[LOG_PATH_SIZE], path[LOG_PATH_SIZE], reason[QUARANTINE_NAME_SIZE];
    name_encode(position, log->chain, tail.name);
    why_name(tail.name, reason);
    int result = log_point(log, position, &point);
    if (result == 0) result = path_of(quarantine, TAIL_TEMPORARY, temporary);
    if (result == 0) result = path_of(quarantine, tail.name, path);
    if (result == 0) result = make_directory(quarantine);
    if (result == 0 && !exists(disk, path)) {
        result = disk_replace(disk, quarantine->directory, WHY_TEMPORARY, reason, why, strlen(why));
        if (result == 0) result = write_tail(quarantine, log, &point, temporary);
        if (result == 0) result = disk->rename(disk->context, temporary, path);
    }
    if (result == 0) result = disk->sync_directory(disk->context, quarantine->directory);
    if (result == 0) *out = tail;
    return result;
}

/* ---- looking */

struct listing {
    struct quarantine_tail *tails;
    size_t count;
};

static int take_name(void *argument, const char *name) {
    struct listing *listing = argument;
    uint64_t base;
    if (!name_decode(name, &base)) return 0;
    /* The capacity is the power of two at or above the count. */
    if ((listing->count & (listing->count - 1)) == 0) {
        size_t room = listing->count ? 2 * listing->count : 1;
        struct quarantine_tail *tails = realloc(listing->tails, room * sizeof(*tails));
        if (!tails) return -ENOMEM;
        listing->tails = tails;
    }
    struct quarantine_tail *tail = &listing->tails[listing->count++];
    *tail = (struct quarantine_tail){.base = base, .end = base};
    memcpy(tail->name, name, strlen(name) + 1);
    return 0;
}

static int compare_tails(const void *a, const void *b) {
    return strcmp(((const struct quarantine_tail *)a)->name, ((const struct quarantine_tail *)b)->name);
}

static void look(const struct quarantine *quarantine, struct quarantine_tail *tail) {
    uint8_t bytes[SEGMENT_HEADER_SIZE];
    struct segment_header header;
    int64_t size = disk_read_file(quarantine->disk, quarantine->directory, tail->name, bytes, sizeof(bytes));
    if (size != sizeof(bytes) || segment_header_decode(bytes, &header) || header.base != tail->base) return;
    if (header.version == FORMAT_VERSION) tail->end = header.base + header.capacity;
}

int quarantine_list(const struct quarantine *quarantine, struct quarantine_tail **out, size_t *out_count) {
    struct listing listing = {0};
    int result = quarantine->disk->list(quarantine->disk->context, quarantine->directory, take_name, &listing);
    if (result < 0 && result != -ENOENT) {
        free(listing.tails);
        return result;
    }
    if (listing.count > 0) qsort(listing.tails, listing.count, sizeof(*listing.tails), compare_tails);
    for (size_t i = 0; i < listing.count; i++) look(quarantine, &listing.tails[i]);
    *out = listing.tails;
    *out_count = listing.count;
    return 0;
}

int quarantine_open(struct log **out, const struct quarantine *quarantine, const struct quarantine_tail *tail,
                    struct log_recovery *out_recovery, char *message, size_t message_size) {
    struct log_options options = {
        .directory = quarantine->directory,
        .disk = quarantine->disk,
        .segment_size = SEGMENT_SIZE_DEFAULT,
        .durable_min = tail->end, /* the file was complete and durable when it got its name */
        .read_only = true,
        .single = tail->name,
    };
    memcpy(options.cluster, quarantine->cluster, sizeof(options.cluster));
    return log_open(out, &options, tail->base, out_recovery, message, message_size);
}

void quarantine_why(const struct quarantine *quarantine, const struct quarantine_tail *tail,
                    char out[QUARANTINE_WHY_SIZE]) {
    char name[QUARANTINE_NAME_SIZE];
    why_name(tail->name, name);
    int64_t size = disk_read_file(quarantine->disk, quarantine->directory, name, out, QUARANTINE_WHY_SIZE - 1);
    out[size < 0 ? 0 : size] = 0;
    out[strcspn(out, "\r\n")] = 0;
}
