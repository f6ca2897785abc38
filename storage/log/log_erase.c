/* log_erase.c: overwrites redacted contents with zeros in place.
 *
 *   1. Set the erased flag in the header of every frame with such a content. One byte cannot be torn.
 *   2. Sync.
 *   3. Write zeros over the contents.
 *   4. Sync.
 *
 * The flag is durable before any content is overwritten. So after a kill -9 or a power cut, a frame with a missing
 * content always has the flag. `header_sum` does not cover the flag. The chain hash covers neither flag nor contents,
 * only the contents' salted hashes. The index keeps a redaction until its erasure is complete, so the caller repeats
 * all steps after a crash. The erasure opens its own descriptor, because readers' descriptors are read-only. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "log_internal.h"

static uint64_t offset_of(const struct erasure *erasure, uint64_t position) {
    return SEGMENT_HEADER_SIZE + (position - erasure->base);
}

/* Checks that the content lies in the blob area of a frame of this segment. */
static int check_content(const struct erasure *erasure, const struct log_content *content) {
    uint8_t bytes[FRAME_HEADER_SIZE];
    struct frame_header header;
    uint64_t blob_at = frame_blob_position(content->frame);
    if (content->frame % FRAME_ALIGN != 0 || content->frame < erasure->base || blob_at > erasure->end)
        return LOG_DAMAGED;
    const struct disk *disk = erasure->disk;
    int64_t count = disk_read_all(disk, erasure->handle, bytes, sizeof(bytes), offset_of(erasure, content->frame));
    if (count < 0) return (int)count;
    if (count != sizeof(bytes) || !frame_header_decode(bytes, &header) || header.position != content->frame)
        return LOG_DAMAGED;
    bool lies_inside = content->at >= blob_at && content->at - blob_at <= header.blob_size &&
                       content->size <= header.blob_size - (content->at - blob_at);
    return lies_inside && content->at + content->size <= erasure->end ? 0 : LOG_DAMAGED;
}

static int set_flags(const struct erasure *erasure, const struct log_content *contents, size_t count) {
    static const uint8_t erased = FRAME_FLAG_ERASED; /* the only defined frame flag */
    const struct disk *disk = erasure->disk;
    int result = 0;
    for (size_t i = 0; i < count && result == 0; i++) {
        if (i > 0 && contents[i].frame == contents[i - 1].frame) continue;
        uint64_t offset = offset_of(erasure, contents[i].frame) + FRAME_FLAGS_OFFSET;
        result = disk_write_all(disk, erasure->handle, &erased, 1, offset);
    }
    return result < 0 ? result : disk->datasync(disk->context, erasure->handle);
}

static int write_zeros(const struct erasure *erasure, const struct log_content *contents, size_t count) {
    const struct disk *disk = erasure->disk;
    int result = 0;
    for (size_t i = 0; i < count && result == 0; i++) {
        uint64_t from = offset_of(erasure, contents[i].at);
        if (erasure->log != NULL) pthread_rwlock_wrlock(&erasure->log->erasing);
        result = disk_write_zeros(disk, erasure->handle, from, from + contents[i].size);
        if (erasure->log != NULL) {
            atomic_fetch_add_explicit(&erasure->log->erasures, 1, memory_order_release);
            pthread_rwlock_unlock(&erasure->log->erasing);
        }
    }
    return result < 0 ? result : disk->datasync(disk->context, erasure->handle);
}

int erase_in_file(struct erasure *erasure, const struct log_content *contents, size_t count) {
    const struct disk *disk = erasure->disk;
    erasure->handle = disk->open(disk->context, erasure->path, O_RDWR, 0);
    if (erasure->handle < 0) return erasure->handle;
    int result = 0;
    for (size_t i = 0; i < count && result == 0; i++) result = check_content(erasure, &contents[i]);
    if (result == 0) result = set_flags(erasure, contents, count);
    if (result == 0) result = write_zeros(erasure, contents, count);
    int closed = disk->close(disk->context, erasure->handle);
    return result < 0 ? result : closed;
}

/* Erases contents in one segment, and holds the segment meanwhile. */
static int erase_in_segment(struct log *log, const struct log_content *contents, size_t count,
                            const struct segment *segment, uint64_t end) {
    uint64_t durable = log_durable(log);
    struct erasure erasure = {.disk = log->disk,
                              .log = log,
                              .base = segment->base,
                              .end = end < durable ? end : durable};
    segment_path(log, segment->base, erasure.path);
    return erase_in_file(&erasure, contents, count);
}

static int compare_contents(const void *a, const void *b) {
    const struct log_content *left = a, *right = b;
    if (left->at != right->at) return left->at < right->at ? -1 : 1;
    return 0;
}

static int erase_sorted(struct log *log, const struct log_content *contents, size_t count) {
    size_t done = 0;
    while (done < count) {
        struct segment *segment;
        uint64_t end;
        int result = segment_hold(log, contents[done].frame, &segment, &end);
        if (result == LOG_RETIRED) {
            done++;
            continue;
        }
        if (result < 0) return result == LOG_END ? LOG_DAMAGED : result;
        size_t more = 1;
        while (done + more < count && contents[done + more].frame < end) more++;
        result = erase_in_segment(log, contents + done, more, segment, end);
        segment_drop(log, segment);
        if (result < 0) return result;
        done += more;
    }
    return 0;
}

int log_erase(struct log *log, const struct log_content *contents, size_t count) {
    assert(!log->read_only);
    if (count == 0) return 0;
    struct log_content *sorted = malloc(count * sizeof(*sorted));
    if (!sorted) return -ENOMEM;
    memcpy(sorted, contents, count * sizeof(*sorted));
    qsort(sorted, count, sizeof(*sorted), compare_contents);
    int result = erase_sorted(log, sorted, count);
    free(sorted);
    return result;
}

bool log_erase_begin(struct log *log) {
    pthread_mutex_lock(&log->erase_gate);
    bool is_pinned = log_is_pinned(log);
    if (is_pinned) pthread_mutex_unlock(&log->erase_gate);
    return !is_pinned;
}

void log_erase_end(struct log *log) {
    atomic_fetch_add_explicit(&log->erasures, 1, memory_order_release);
    pthread_mutex_unlock(&log->erase_gate);
}

uint64_t log_erasures(const struct log *log) {
    return atomic_load_explicit(&log->erasures, memory_order_acquire);
}
