/* log_serve.c: see log_serve.h. */
#include "log_serve.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "log_internal.h"

/* ---- cached points */

/* Finds the cached point with the highest position from `from` to `position`, both included. Returns false if the cache
 * has no such point. */
static bool points_find(struct log *log, uint64_t from, uint64_t position, struct log_point *out) {
    const struct log_point *best = NULL;
    pthread_mutex_lock(&log->mutex);
    for (size_t i = 0; i < LOG_POINTS_COUNT; i++) {
        const struct log_point *point = &log->points[i];
        if (point->position == 0 || point->position < from || point->position > position) continue;
        if (!best || point->position > best->position) best = point;
    }
    if (best) *out = *best;
    pthread_mutex_unlock(&log->mutex);
    return best != NULL;
}

static void points_add(struct log *log, const struct log_point *point) {
    pthread_mutex_lock(&log->mutex);
    bool is_known = false;
    for (size_t i = 0; i < LOG_POINTS_COUNT; i++) is_known |= log->points[i].position == point->position;
    if (!is_known) {
        log->points[log->point_next] = *point;
        log->point_next = (log->point_next + 1) % LOG_POINTS_COUNT;
    }
    pthread_mutex_unlock(&log->mutex);
}

static void point_of(const struct frame_header *header, struct log_point *out) {
    *out = (struct log_point){
        .position = header->position + frame_size(header->body_size, header->blob_size),
        .epoch = header->epoch,
        .steady_ns = header->steady_ns,
        .wall_ns = header->wall_ns,
    };
    memcpy(out->chain, header->chain, FRAME_CHAIN_SIZE);
}

/* ---- reading from header to header */

/* Gets the point at the base of a held segment from the segment's header. */
static int base_point(struct log *log, const struct segment *segment, struct log_point *out) {
    uint8_t bytes[SEGMENT_HEADER_SIZE];
    struct segment_header header;
    int64_t count = disk_read_all(log->disk, segment->handle, bytes, sizeof(bytes), 0);
    if (count < 0) return (int)count;
    if (count != sizeof(bytes) || segment_header_decode(bytes, &header) || header.base != segment->base)
        return LOG_DAMAGED;
    *out = (struct log_point){.position = header.base,
                              .epoch = header.epoch,
                              .steady_ns = header.steady_ns,
                              .wall_ns = header.wall_ns};
    memcpy(out->chain, header.chain, FRAME_CHAIN_SIZE);
    return 0;
}

/* Moves `point` to the end of the next frame. `end`: end of the readable bytes. */
static int walk_one(struct block *block, uint64_t end, struct log_point *point, struct frame_header *out) {
    const char *problem;
    int result = block_frame_header(block, point->position, end, out, &problem);
    if (result == BLOCK_WRONG || (result == 0 && out->epoch < point->epoch)) return LOG_DAMAGED;
    if (result < 0) return result;
    point_of(out, point);
    return point->position <= end ? 0 : LOG_DAMAGED;
}

/* Moves `point` forward to `position`, in a held segment. */
static int walk_to(struct log *log, const struct segment *segment, uint64_t end, uint64_t position,
                   struct log_point *out) {
    struct log_point point;
    int result = 0;
    if (!points_find(log, segment->base, position, &point)) result = base_point(log, segment, &point);
    struct block block;
    block_init(&block, log->disk);
    block_attach(&block, segment->handle, segment->base);
    while (result == 0 && point.position < position) {
        struct frame_header header;
        result = walk_one(&block, end, &point, &header);
    }
    block_deinit(&block);
    if (result == 0 && point.position != position) result = LOG_WITHIN;
    if (result == 0) *out = point;
    return result;
}

int log_point(struct log *log, uint64_t position, struct log_point *out) {
    struct segment *segment;
    uint64_t end;
    int result = segment_hold_end(log, position, &segment, &end);
    if (result < 0) return result;
    result = walk_to(log, segment, end, position, out);
    segment_drop(log, segment);
    if (result == 0) points_add(log, out);
    return result;
}

/* ---- serving frames */

void log_bytes_deinit(struct log_bytes *bytes) {
    free(bytes->data);
    *bytes = (struct log_bytes){0};
}

/* Allocates `size` bytes and discards the old content. Frees the memory of a single large frame on the next call. */
static int bytes_reserve(struct log_bytes *bytes, size_t size) {
    if (bytes->room >= size && bytes->room / 4 <= size) return 0;
    uint8_t *data = malloc(size);
    if (!data) return -ENOMEM;
    free(bytes->data);
    bytes->data = data;
    bytes->room = size;
    return 0;
}

/* Reads `size` bytes at `position`. Holds the read lock `erasing`, so no erasure runs during the read. */
static int bytes_read(struct log *log, const struct segment *segment, uint64_t position, size_t size,
                      struct log_bytes *out) {
    int result = bytes_reserve(out, size);
    if (result < 0) return result;
    pthread_rwlock_rdlock(&log->erasing);
    int64_t count =
        disk_read_all(log->disk, segment->handle, out->data, size, SEGMENT_HEADER_SIZE + (position - segment->base));
    pthread_rwlock_unlock(&log->erasing);
    if (count < 0) return (int)count;
    return (size_t)count == size ? 0 : LOG_DAMAGED;
}

/* Checks the frames that were read from `position` to `end`, and keeps the complete ones that end at or below `limit`.
 * `*out_wanted`: size of the first frame, if it is not complete. */
static int bytes_check(struct log_bytes *bytes, uint64_t position, uint64_t end, uint64_t limit, size_t *out_wanted) {
    struct block block = {
        .base = position, .data = bytes->data, .position = position, .size = bytes->size, .handle = -1};
    uint64_t at = position;
    bytes->frames = 0;
    *out_wanted = 0;
    while (end - at >= FRAME_HEADER_SIZE) {
        struct frame_header header;
        const uint8_t *body, *blob;
        const char *problem;
        int result = block_frame_header(&block, at, end, &header, &problem);
        if (result == BLOCK_WRONG) return LOG_DAMAGED;
        uint64_t size = frame_size(header.body_size, header.blob_size);
        if (size > limit - at) break;
        if (size > end - at) {
            if (at == position) *out_wanted = (size_t)size;
            break;
        }
        result = block_frame_content(&block, &header, true, end, &body, &blob, &problem);
        if (result == BLOCK_WRONG) return LOG_DAMAGED;
        at += size;
        bytes->frames++;
        point_of(&header, &bytes->end);
    }
    bytes->size = (size_t)(at - position);
    return 0;
}

/* Serves frames of a held segment, which is readable up to `end`, at most `limit`. */
static int serve(struct log *log, const struct segment *segment, uint64_t position, uint64_t end, size_t size_max,
                 struct log_bytes *out) {
    size_t wanted = size_max > FRAME_HEADER_SIZE ? size_max : FRAME_HEADER_SIZE;
    for (;;) {
        size_t size = end - position < wanted ? (size_t)(end - position) : wanted;
        int result = bytes_read(log, segment, position, size, out);
        if (result < 0) return result;
        out->size = size;
        result = bytes_check(out, position, position + size, end, &wanted);
        if (result < 0) return result;
        if (out->frames > 0) return 0;
        if (wanted <= size) return LOG_END; /* the first frame ends beyond the limit, so no frame can be served yet */
    }
}

int log_serve(struct log *log, uint64_t position, uint64_t limit, size_t size_max, struct log_bytes *out) {
    out->size = out->frames = 0;
    struct segment *segment;
    uint64_t end;
    int result = segment_hold(log, position, &segment, &end);
    if (result < 0) return result;
    if (end > limit) end = limit;
    result = end > position ? serve(log, segment, position, end, size_max, out) : LOG_END;
    segment_drop(log, segment);
    if (result == 0)
        points_add(log, &out->end);
    else
        out->size = out->frames = 0;
    return result;
}

/* ---- epochs */

static int epochs_add(struct log_epochs *epochs, uint32_t epoch, uint64_t start) {
    if (epoch == 0) return 0;
    if (epochs->count > 0 && epochs->items[epochs->count - 1].epoch == epoch) return 0;
    /* The capacity is the power of two at or above the count. */
    if ((epochs->count & (epochs->count - 1)) == 0) {
        size_t room = epochs->count ? 2 * epochs->count : 1;
        struct log_epoch *items = realloc(epochs->items, room * sizeof(*items));
        if (!items) return -ENOMEM;
        epochs->items = items;
    }
    epochs->items[epochs->count++] = (struct log_epoch){epoch, start};
    return 0;
}

/* Adds the epochs in a held segment. `last` is the epoch of the segment's last frame, from the next segment's header.
 * If the first epoch equals `last`, the segment has one epoch and need not be read. */
static int epochs_of_segment(struct log *log, const struct segment *segment, uint64_t end, const uint32_t *last,
                             struct log_epochs *epochs) {
    struct log_point point;
    int result = base_point(log, segment, &point);
    if (result < 0) return result;
    result = epochs_add(epochs, point.epoch, segment->base);
    if (last && *last == point.epoch) return result;
    struct block block;
    block_init(&block, log->disk);
    block_attach(&block, segment->handle, segment->base);
    while (result == 0 && point.position < end) {
        struct frame_header header;
        result = walk_one(&block, end, &point, &header);
        if (result == 0) result = epochs_add(epochs, header.epoch, header.position);
    }
    block_deinit(&block);
    return result;
}

/* Returns the epoch at `position`, the base of a segment. LOG_END: no segment starts there yet. */
static int epoch_at(struct log *log, uint64_t position, uint32_t *out) {
    struct segment *segment;
    uint64_t end;
    int result = segment_hold_end(log, position, &segment, &end);
    if (result < 0) return result;
    struct log_point point;
    result = segment->base == position ? base_point(log, segment, &point) : LOG_END;
    segment_drop(log, segment);
    if (result == 0) *out = point.epoch;
    return result;
}

int log_epochs_read(struct log *log, struct log_epochs *out) {
    struct log_epochs epochs = {.start = log_start(log)};
    uint64_t position = epochs.start;
    int result;
    for (;;) {
        struct segment *segment;
        uint64_t end;
        uint32_t last;
        result = segment_hold_end(log, position, &segment, &end);
        if (result < 0) break;
        int next = epoch_at(log, end, &last);
        if (next == 0 && end == segment->base)
            next = LOG_END; /* the last segment is empty, so epoch_at read the epoch of the same segment */
        result = next == 0 || next == LOG_END ? epochs_of_segment(log, segment, end, next == 0 ? &last : NULL, &epochs)
                                              : next;
        segment_drop(log, segment);
        epochs.end = position = end;
        if (result < 0 || next == LOG_END) break;
    }
    if (result < 0) {
        log_epochs_deinit(&epochs);
        return result;
    }
    *out = epochs;
    return 0;
}

void log_epochs_deinit(struct log_epochs *epochs) {
    free(epochs->items);
    *epochs = (struct log_epochs){0};
}

static uint64_t min_u64(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* Returns the end position of the epoch at index `i`. */
static uint64_t epoch_end(const struct log_epochs *epochs, size_t i) {
    return i + 1 < epochs->count ? epochs->items[i + 1].start : epochs->end;
}

uint64_t log_epochs_common(const struct log_epochs *a, const struct log_epochs *b) {
    size_t i = a->count, j = b->count;
    while (i > 0 && j > 0) {
        uint32_t left = a->items[i - 1].epoch, right = b->items[j - 1].epoch;
        if (left == right) return min_u64(epoch_end(a, i - 1), epoch_end(b, j - 1));
        if (left > right)
            i--;
        else
            j--;
    }
    uint64_t start = a->start > b->start ? a->start : b->start;
    return min_u64(start, min_u64(a->end, b->end));
}
