/* quarantine_cut.c: moves a tail that the leader never had from the log to the quarantine (R8).
 *
 *   1. Sync all appended frames.
 *   2. Copy the tail to the quarantine, durably.
 *   3. Copy the kept part of the segment to cut.tmp, fill the rest of the file with zeros, and sync it.
 *   4. Lower the position in DIR/log/durable.
 *   5. Delete the later segments, newest first, and sync after each.
 *   6. Rename cut.tmp over the segment's file; sync the directory.
 *
 * After a kill between two steps the log is valid, and ends between the position of the cut and its old end. The next
 * start compares the log with the leader's again and repeats the cut. The log does not change before step 4, so a full
 * disk does no harm. The caller guarantees that no cursor continues beyond the position of the cut, because new frames
 * will replace the tail. */
#include "quarantine.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "log_internal.h"
#include "summary.h"

struct cut {
    struct log *log;
    struct log_point point; /* new end of the log */
    uint64_t base;          /* base of the segment that the cut shortens */
    uint64_t capacity;
    uint64_t previous_base;
    int handle;            /* handle of the replacement file; -1: not made yet */
    struct segment **gone; /* the old shortened segment and the later segments, in order of base */
    size_t gone_count;
};

/* Copies the segment's header and the frames before the point. */
static int copy_kept(struct cut *cut) {
    struct log *log = cut->log;
    uint8_t *bytes = malloc(LOG_BLOCK_SIZE);
    struct segment *segment;
    struct segment_header header;
    uint64_t end;
    int result = bytes ? segment_hold_end(log, cut->base, &segment, &end) : -ENOMEM;
    if (result < 0) {
        free(bytes);
        return result;
    }
    uint64_t size = SEGMENT_HEADER_SIZE + (cut->point.position - cut->base);
    for (uint64_t offset = 0; offset < size && result == 0;) {
        size_t piece = size - offset < LOG_BLOCK_SIZE ? (size_t)(size - offset) : LOG_BLOCK_SIZE;
        int64_t count = disk_read_all(log->disk, segment->handle, bytes, piece, offset);
        result = count < 0 ? (int)count : (size_t)count == piece ? 0 : LOG_DAMAGED;
        if (result == 0 && offset == 0) result = segment_header_decode(bytes, &header) ? LOG_DAMAGED : 0;
        if (result == 0 && offset == 0) cut->previous_base = header.previous_base;
        if (result == 0) result = disk_write_all(log->disk, cut->handle, bytes, piece, offset);
        offset += piece;
    }
    segment_drop(log, segment);
    free(bytes);
    return result == 0 ? log->disk->sync(log->disk->context, cut->handle) : result;
}

/* Does step 3 of the list at the top of this file: writes the kept part to cut.tmp, and syncs it. */
static int make_file(struct cut *cut) {
    cut->handle = segment_make(cut->log, segment_cut_name, cut->capacity);
    return cut->handle < 0 ? cut->handle : copy_kept(cut);
}

/* Deletes a replacement file that is not needed. */
static void drop_file(struct cut *cut) {
    const struct disk *disk = cut->log->disk;
    if (cut->handle < 0) return;
    char path[LOG_PATH_SIZE];
    log_path(cut->log, segment_cut_name, path);
    (void)disk->close(disk->context, cut->handle);
    (void)disk->unlink(disk->context, path); /* ignore errors: the next start deletes the file if it stays */
}

/* Makes the log end at the point for writer and readers. */
static int switch_table(struct cut *cut) {
    struct log *log = cut->log;
    struct segment *segment = calloc(1, sizeof(*segment));
    cut->gone = malloc(log->segment_count * sizeof(struct segment *));
    if (!segment || !cut->gone) {
        free(segment);
        return -ENOMEM;
    }
    *segment = (struct segment){.base = cut->base, .capacity = cut->capacity, .handle = cut->handle, .users = 1};
    pthread_mutex_lock(&log->mutex);
    size_t first = log->segment_count;
    while (log->segments[first - 1]->base > cut->base) first--;
    for (size_t i = first - 1; i < log->segment_count; i++) {
        struct segment *gone = log->segments[i];
        gone->retired = true;
        gone->users++; /* keep the segment in memory until its file is deleted */
        if (gone == log->current) {
            gone->users--; /* release the hold of the writer */
            log->handles_open++;
        }
        cut->gone[cut->gone_count++] = gone;
    }
    log->segments[first - 1] = log->current = segment;
    log->segment_count = first;
    memset(log->points, 0, sizeof(log->points));
    atomic_store_explicit(&log->written, cut->point.position, memory_order_release);
    atomic_store_explicit(&log->durable, cut->point.position, memory_order_release);
    atomic_fetch_add_explicit(&log->cuts, 1, memory_order_release);
    pthread_mutex_unlock(&log->mutex);
    log->end = cut->point.position;
    log->previous_base = cut->previous_base;
    log->epoch = cut->point.epoch;
    log->steady_ns = cut->point.steady_ns;
    log->wall_ns = cut->point.wall_ns;
    memcpy(log->chain, cut->point.chain, FRAME_CHAIN_SIZE);
    if (log->erased_end > log->end) log->erased_end = log->end;
    return 0;
}

/* Does steps 5 and 6 of the list at the top of this file: deletes the later segments, and renames cut.tmp. */
static int change_files(struct cut *cut) {
    struct log *log = cut->log;
    const struct disk *disk = log->disk;
    char path[LOG_PATH_SIZE], temporary[LOG_PATH_SIZE];
    /* Delete the summaries before the segments, because later segments may have the same bases and ends with other
     * frames. */
    for (size_t i = 0; i < cut->gone_count; i++) summary_delete(log, cut->gone[i]->base);
    int result = disk->sync_directory(disk->context, log->directory);
    for (size_t i = cut->gone_count; result == 0 && i-- > 1;) {
        segment_path(log, cut->gone[i]->base, path);
        result = disk->unlink(disk->context, path);
        /* Sync before the previous segment is deleted; otherwise a crash could leave a gap. */
        if (result == 0) result = disk->sync_directory(disk->context, log->directory);
    }
    if (result < 0) return result;
    log_path(log, segment_cut_name, temporary);
    segment_path(log, cut->base, path);
    result = disk->rename(disk->context, temporary, path);
    return result < 0 ? result : disk->sync_directory(disk->context, log->directory);
}

static int change(struct cut *cut) {
    struct log *log = cut->log;
    int result = 0;
    if (log->mark > cut->point.position) result = mark_write(log, cut->point.position);
    if (result == 0) result = switch_table(cut);
    if (result < 0) {
        drop_file(cut);
        return result;
    }
    result = change_files(cut);
    for (size_t i = 0; i < cut->gone_count; i++) segment_drop(log, cut->gone[i]);
    return result < 0 ? log_poison(log, result) : 0;
}

/* Called between log_erase_begin and log_erase_end, because a concurrent erasure would overwrite contents in the file
 * that the cut replaces. */
static int cut_at(struct log *log, uint64_t position, const struct quarantine *quarantine, const char *why,
                  struct quarantine_tail *out) {
    struct cut cut = {.log = log, .handle = -1};
    struct log_segment segment;
    int result = log_sync(log);
    if (result == 0) result = log_point(log, position, &cut.point);
    if (result == 0) result = quarantine_put(quarantine, log, position, why, out);
    if (result < 0) return result;
    bool is_there = log_segment_at(log, position, &segment);
    assert(is_there);
    cut.base = segment.base;
    cut.capacity = segment.bytes - SEGMENT_HEADER_SIZE;
    result = make_file(&cut);
    if (result < 0)
        drop_file(&cut);
    else
        result = change(&cut);
    free(cut.gone);
    return result;
}

int log_cut(struct log *log, uint64_t position, uint64_t keep_min, const struct quarantine *quarantine, const char *why,
            struct quarantine_tail *out) {
    assert(!log->read_only && log->current);
    *out = (struct quarantine_tail){.base = position, .end = position};
    if (position < keep_min) return LOG_KEPT;
    if (position > log->end) return LOG_END;
    if (position < log_start(log)) return LOG_RETIRED;
    if (position == log->end) return log_sync(log);
    if (!log_erase_begin(log)) return LOG_PINNED;
    int result = cut_at(log, position, quarantine, why, out);
    log_erase_end(log);
    return result;
}
