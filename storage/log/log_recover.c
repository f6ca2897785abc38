/* log_recover.c: finds the end of the log, and decides whether the bytes after it may be cut (LOG-5).
 *
 * Recovery reads frames from the beginning of the segment that holds `scan_from`. Let d be the position of the first
 * invalid frame. The first of these cases that is true decides:
 *   1. The segment has a successor. Result: damage, because a successor proves that all frames before it were durable.
 *   2. A valid header lies after d, at its own position, with synced_to > d. Result: damage, because synced_to proves
 *      that the frame at d was durable.
 *   3. The caller knows that the log was durable beyond d. Result: the log has lost its tail (F-7, F-9).
 *   4. No case above: the bytes after d are a torn tail. Recovery overwrites them with zeros, because a later recovery
 *      must not find stale frames in them.
 *
 * If the sync of the zeros fails and the process restarts, the page cache may show zeros where the disk has stale
 * frames. Those frames are harmless: their chain does not continue a new frame's chain, and their synced_to is not
 * beyond their own position.
 *
 * After case 4, recovery writes the kept frames again and syncs them, for two reasons. After SIGKILL they may be in the
 * page cache only (R6). After a failed fdatasync the page cache may show them as clean although the disk lacks them
 * (F-5). */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "log_internal.h"

struct scan {
    struct recovery *recovery;
    struct block block;
    uint64_t position; /* position of the next frame to read */
    uint64_t scan_from;
    bool scan_from_met;
    bool has_frame; /* true: `last` is the header of the last frame that was read */
    struct frame_header last;
    uint64_t synced_max; /* greatest synced_to of the segment's frames, or the segment's base */
    const char *problem; /* problem of the frame at `position`; NULL: the segment is full */
    uint64_t erased_end; /* position from which on an erased flag is invalid, because contents are erased only below the
                            known durable position */
    uint64_t torn_end;   /* end of the torn frame at `position` if its header is valid; otherwise `position` */
};

struct tail {            /* facts about the bytes after the last valid frame */
    uint64_t end;        /* position after the last non-zero byte; the log's end if all bytes are zero */
    bool has_claim;      /* true: a frame at `claim_at` proves that the log was durable beyond its last valid frame */
    uint64_t claim_at;   /* position of the frame that proves has_claim */
    uint64_t claim_sync; /* value of synced_to in the frame at claim_at */
};

static uint64_t offset_of(const struct segment *segment, uint64_t position) {
    return SEGMENT_HEADER_SIZE + (position - segment->base);
}

/* Returns the position up to which the caller knows that the log was durable. */
static uint64_t known_durable(const struct scan *scan) {
    uint64_t durable_min = scan->recovery->durable_min;
    return durable_min > scan->scan_from ? durable_min : scan->scan_from;
}

/* Reads the frame at scan->position and checks that it continues the previous frame. Returns 0, a negative error, or
 * BLOCK_WRONG. */
static int scan_frame(struct scan *scan, uint64_t end, struct frame_header *out) {
    struct log *log = scan->recovery->log;
    struct frame_header header;
    scan->torn_end = scan->position;
    int result = block_frame_header(&scan->block, scan->position, end, &header, &scan->problem);
    if (result != 0) return result;
    /* Contents are erased only below the known durable position, so an erased flag above that position comes from a
     * torn write. */
    scan->problem = "the frame says that a content was erased, but the index has not absorbed the frame";
    bool is_feigned = (header.flags & FRAME_FLAG_ERASED) != 0 && scan->position >= scan->erased_end;
    if (is_feigned) return BLOCK_WRONG;
    uint64_t size = frame_size(header.body_size, header.blob_size);
    if (size <= end - scan->position) scan->torn_end = scan->position + size;
    const uint8_t *body, *blob;
    result = block_frame_content(&scan->block, &header, true, end, &body, &blob, &scan->problem);
    if (result != 0) return result;
    /* The frame is complete. If a check below fails, the frame is not the log's next frame, and the bytes inside it may
     * be other frames: do not skip them. */
    uint64_t torn_end = scan->torn_end;
    scan->torn_end = scan->position;
    scan->problem = "the frame's epoch is older than that of the frame before it";
    if (header.epoch < log->epoch) return BLOCK_WRONG;
    uint8_t chain[FRAME_CHAIN_SIZE];
    frame_chain(log->chain, &header, body, chain);
    scan->problem = "the frame does not continue the frame before it (chain hash)";
    if (memcmp(chain, header.chain, FRAME_CHAIN_SIZE) != 0) return BLOCK_WRONG;
    scan->torn_end = torn_end;
    *out = header;
    return 0;
}

static void meet_scan_from(struct scan *scan) {
    if (scan->position != scan->scan_from) return;
    scan->scan_from_met = true;
    memcpy(scan->recovery->out->scan_chain, scan->recovery->log->chain, FRAME_CHAIN_SIZE);
}

/* Reads frames up to `end` or the first invalid one. Returns 0, or a negative error after writing the message. */
static int scan_frames(struct scan *scan, const struct segment *segment, uint64_t end) {
    struct log *log = scan->recovery->log;
    scan->synced_max = segment->base;
    scan->problem = NULL;
    scan->torn_end = scan->position;
    while (scan->position < end) {
        struct frame_header header = {0};
        int result = scan_frame(scan, end, &header);
        if (result == BLOCK_WRONG) return 0;
        if (result < 0) {
            char path[LOG_PATH_SIZE];
            segment_path(log, segment->base, path);
            return recovery_fail_io(scan->recovery, result, "read", path);
        }
        scan->problem = NULL;
        scan->position += frame_size(header.body_size, header.blob_size);
        scan->has_frame = true;
        scan->last = header;
        if (header.synced_to > scan->synced_max) scan->synced_max = header.synced_to;
        memcpy(log->chain, header.chain, FRAME_CHAIN_SIZE);
        log->epoch = header.epoch;
        log->steady_ns = header.steady_ns;
        log->wall_ns = header.wall_ns;
        if (header.type == FRAME_COMMIT) scan->recovery->out->last_commit = header.position;
        meet_scan_from(scan);
    }
    return 0;
}

/* Sets the log's state before the segment's first frame, from the segment's header. */
static void take_over(struct log *log, const struct segment_header *header) {
    memcpy(log->chain, header->chain, FRAME_CHAIN_SIZE);
    log->epoch = header->epoch;
    log->steady_ns = header->steady_ns;
    log->wall_ns = header->wall_ns;
}

/* Returns the size up to the last non-zero byte. */
static size_t used_size(const uint8_t *bytes, size_t size) {
    while (size >= FRAME_ALIGN && get_u64(bytes + size - FRAME_ALIGN) == 0) size -= FRAME_ALIGN;
    while (size > 0 && bytes[size - 1] == 0) size--;
    return size;
}

/* Searches the bytes from `from` to the end of the segment's capacity. */
static int look_behind(struct scan *scan, const struct segment *segment, uint64_t from, struct tail *out) {
    uint64_t end = segment->base + segment->capacity;
    uint64_t damage_at = scan->position;
    struct tail tail = {.end = from};
    for (uint64_t position = from; position < end;) {
        size_t size = end - position < LOG_BLOCK_SIZE ? (size_t)(end - position) : LOG_BLOCK_SIZE;
        const uint8_t *bytes;
        int result = block_get(&scan->block, position, size, end, &bytes);
        if (result < 0) {
            char path[LOG_PATH_SIZE];
            segment_path(scan->recovery->log, segment->base, path);
            return recovery_fail_io(scan->recovery, result, "read", path);
        }
        size_t used = used_size(bytes, size);
        if (used > 0) tail.end = position + used;
        for (size_t i = 0; i < used && !tail.has_claim; i += FRAME_ALIGN) {
            /* This loop runs for every offset, so it checks the magic first. */
            if (get_u32(bytes + i) != FRAME_MAGIC) continue;
            /* Skip the bytes of the torn frame if its header is valid, because a client's payload inside it may look
             * like a frame. */
            struct frame_header header;
            if (position + i < scan->torn_end || size - i < FRAME_HEADER_SIZE) continue;
            if (!frame_header_decode(bytes + i, &header) || header.position != position + i) continue;
            if (header.synced_to <= damage_at || header.synced_to > header.position) continue;
            tail.has_claim = true;
            tail.claim_at = header.position;
            tail.claim_sync = header.synced_to;
        }
        if (size == end - position) break;
        /* The last bytes are read again, because a header may cross the boundary. */
        position += size - FRAME_HEADER_SIZE;
    }
    *out = tail;
    return 0;
}

/* Checks that a closed segment is complete. The existence of the next segment proves that all frames of the closed one
 * were durable. */
static int judge_closed(struct scan *scan, const struct segment *segment, const struct segment_header *next) {
    struct recovery *recovery = scan->recovery;
    const struct log *log = recovery->log;
    char path[LOG_PATH_SIZE];
    segment_path(log, segment->base, path);
    if (scan->position < next->base)
        return recovery_fail(recovery, LOG_DAMAGED,
                             "%s, offset %" PRIu64 " (position %" PRIu64
                             "): %s, but by the next segment the log was durable up to position %" PRIu64,
                             path, offset_of(segment, scan->position), scan->position, scan->problem, next->base);
    if (memcmp(log->chain, next->chain, FRAME_CHAIN_SIZE) != 0 || log->epoch != next->epoch ||
        log->steady_ns != next->steady_ns || log->wall_ns != next->wall_ns) {
        segment_path(log, next->base, path);
        return recovery_fail(recovery, LOG_DAMAGED, "%s, offset 0: the segment does not continue the segment before it",
                             path);
    }
    struct tail tail = {0};
    int result = look_behind(scan, segment, scan->position, &tail);
    if (result == 0 && tail.end > scan->position && recovery->out->stray_bytes == 0)
        recovery->out->stray_at = scan->position;
    if (result == 0) recovery->out->stray_bytes += tail.end - scan->position;
    return result;
}

/* Decides whether the bytes after the last valid frame may be cut. */
static int judge_tail(struct scan *scan, const struct segment *segment, const struct tail *tail) {
    struct recovery *recovery = scan->recovery;
    char path[LOG_PATH_SIZE];
    segment_path(recovery->log, segment->base, path);
    const char *problem = scan->problem ? scan->problem : "the log ends";
    if (tail->has_claim)
        return recovery_fail(recovery, LOG_DAMAGED,
                             "%s, offset %" PRIu64 " (position %" PRIu64 "): %s, but by the frame at offset %" PRIu64
                             " the log was durable up to position %" PRIu64,
                             path, offset_of(segment, scan->position), scan->position, problem,
                             offset_of(segment, tail->claim_at), tail->claim_sync);
    uint64_t known = known_durable(scan);
    if (scan->position < known)
        return recovery_fail(recovery, LOG_DAMAGED,
                             "%s, offset %" PRIu64 ": the log ends at position %" PRIu64
                             " (%s), but it was durable up to position %" PRIu64 ": the end of the log is lost",
                             path, offset_of(segment, scan->position), scan->position, problem, known);
    return 0;
}

/* Overwrites the cut tail with zeros, restores the size of a truncated file, and syncs the kept frames. */
static int settle_tail(struct scan *scan, const struct segment *segment, const struct tail *tail) {
    const struct disk *disk = scan->recovery->log->disk;
    int64_t size = disk->size(disk->context, segment->handle);
    if (size < 0) return (int)size;
    int result = 0;
    uint64_t size_full = SEGMENT_HEADER_SIZE + segment->capacity;
    uint64_t cut_from = offset_of(segment, scan->position);
    if (tail->end > scan->position) {
        uint64_t cut_to = offset_of(segment, tail->end);
        if (cut_to > (uint64_t)size) cut_to = (uint64_t)size;
        if ((result = disk_write_zeros(disk, segment->handle, cut_from, cut_to)) < 0) return result;
    }
    if ((uint64_t)size < size_full) {
        result = disk_write_zeros(disk, segment->handle, (uint64_t)size, size_full);
        if (result < 0) return result;
    }
    for (uint64_t position = scan->synced_max; position < scan->position;) {
        uint64_t left = scan->position - position;
        size_t piece = left < LOG_BLOCK_SIZE ? (size_t)left : LOG_BLOCK_SIZE;
        const uint8_t *bytes;
        if ((result = block_get(&scan->block, position, piece, scan->position, &bytes)) < 0) return result;
        result = disk_write_all(disk, segment->handle, bytes, piece, offset_of(segment, position));
        if (result < 0) return result;
        position += piece;
    }
    return disk->sync(disk->context, segment->handle);
}

/* Recovers the last segment, which contains the end of the log. */
static int finish(struct scan *scan, struct segment *segment) {
    struct recovery *recovery = scan->recovery;
    struct log *log = recovery->log;
    struct log_recovery *out = recovery->out;
    struct tail tail = {0};
    int result = look_behind(scan, segment, scan->position, &tail);
    if (result == 0) result = judge_tail(scan, segment, &tail);
    if (result < 0) return result;
    if (!scan->scan_from_met)
        return recovery_fail(recovery, LOG_DAMAGED,
                             "%s: position %" PRIu64
                             " is inside a frame, so the index or the other node belongs to another log",
                             log->directory, scan->scan_from);
    if (!log->read_only) {
        result = settle_tail(scan, segment, &tail);
        if (result == 0) result = log->disk->sync_directory(log->disk->context, log->directory);
        if (result < 0) {
            char path[LOG_PATH_SIZE];
            segment_path(log, segment->base, path);
            return recovery_fail_io(recovery, result, "sync the truncated file", path);
        }
    }
    log->end = scan->position;
    segment->end = log->end;
    segment->wall_ns = log->wall_ns;
    out->cut_bytes = tail.end - scan->position;
    out->cut_at = out->cut_bytes ? scan->position : 0;
    /* An empty segment proves that all frames before it are durable. */
    if (log->end == segment->base)
        out->sealed = true;
    else
        out->sealed = scan->last.type == FRAME_SEAL && scan->last.synced_to == scan->last.position;
    return 0;
}

static int scan_segments(struct scan *scan) {
    struct recovery *recovery = scan->recovery;
    struct log *log = recovery->log;
    /* Start at a segment's beginning, because only its header has a chain hash to check against. */
    size_t first = log->segment_count - 1;
    while (first > 0 && log->segments[first]->base > scan->scan_from) first--;
    take_over(log, &recovery->headers[first]);
    scan->position = log->segments[first]->base;
    meet_scan_from(scan);
    for (size_t i = first; i < log->segment_count; i++) {
        bool is_last = i + 1 == log->segment_count;
        uint64_t end = is_last ? log->segments[i]->base + log->segments[i]->capacity : recovery->headers[i + 1].base;
        struct segment *held = NULL;
        int result = 0;
        if (!is_last) {
            uint64_t ignored;
            result = segment_hold(log, log->segments[i]->base, &held, &ignored);
        }
        if (result < 0) {
            char path[LOG_PATH_SIZE];
            segment_path(log, log->segments[i]->base, path);
            return recovery_fail_io(recovery, result, "open", path);
        }
        scan->erased_end = is_last ? known_durable(scan) : UINT64_MAX;
        block_attach(&scan->block, log->segments[i]->handle, log->segments[i]->base);
        result = scan_frames(scan, log->segments[i], end);
        if (result == 0 && is_last) result = finish(scan, log->segments[i]);
        if (result == 0 && !is_last) result = judge_closed(scan, log->segments[i], &recovery->headers[i + 1]);
        if (held) segment_drop(log, held);
        if (result < 0) return result;
    }
    return 0;
}

/* Starts a log without segments. */
static int begin(struct recovery *recovery) {
    struct log *log = recovery->log;
    uint64_t known = recovery->durable_min > recovery->scan_from ? recovery->durable_min : recovery->scan_from;
    if (known > LOG_POSITION_FIRST)
        return recovery_fail(recovery, LOG_DAMAGED,
                             "%s: the directory has no segment, but the log was durable up to position %" PRIu64
                             ": the log is lost",
                             log->directory, known);
    log->end = LOG_POSITION_FIRST;
    recovery->out->sealed = true;
    return 0;
}

int log_recover(struct recovery *recovery) {
    struct log *log = recovery->log;
    struct log_recovery *out = recovery->out;
    if (log->segment_count == 0) {
        int result = begin(recovery);
        if (result < 0) return result;
        out->start = log->end;
    } else {
        out->start = log->segments[0]->base;
        out->start_segment = recovery->headers[0].previous_base;
        out->start_steady_ns = recovery->headers[0].steady_ns;
        out->start_wall_ns = recovery->headers[0].wall_ns;
        out->start_epoch = recovery->headers[0].epoch;
        atomic_store_explicit(&log->start, out->start, memory_order_relaxed);
        struct scan scan = {.recovery = recovery, .scan_from = recovery->scan_from};
        if (scan.scan_from < out->start) scan.scan_from = out->start;
        block_init(&scan.block, log->disk);
        int result = scan_segments(&scan);
        block_deinit(&scan.block);
        if (result < 0) return result;
    }
    out->end = log->end;
    memcpy(out->chain, log->chain, FRAME_CHAIN_SIZE);
    out->epoch = log->epoch;
    out->steady_ns = log->steady_ns;
    out->wall_ns = log->wall_ns;
    out->segments = log->segment_count;
    return 0;
}
