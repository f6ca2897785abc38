/* log_cursor.c: reads frames in order, behind the writer.
 *
 * A cursor holds no segment between calls, so it never delays a retirement. Its buffer may still return frames of a
 * segment that was just retired; those frames are still valid. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "log_internal.h"

struct log_cursor {
    struct log *log;
    uint64_t position;
    uint64_t cuts; /* the log's number of cuts (`log->cuts`) when the buffer was read */
    bool with_blobs;
    struct block block;
};

int log_cursor_open(struct log_cursor **out, struct log *log, uint64_t position, bool with_blobs) {
    if (position < log_start(log)) return LOG_RETIRED;
    struct log_cursor *cursor = calloc(1, sizeof(*cursor));
    if (!cursor) return -ENOMEM;
    cursor->log = log;
    cursor->position = position;
    cursor->with_blobs = with_blobs;
    block_init(&cursor->block, log->disk);
    *out = cursor;
    return 0;
}

void log_cursor_close(struct log_cursor *cursor) {
    if (!cursor) return;
    block_deinit(&cursor->block);
    free(cursor);
}

uint64_t log_cursor_position(const struct log_cursor *cursor) {
    return cursor->position;
}

void log_cursor_seek(struct log_cursor *cursor, uint64_t position) {
    cursor->position = position;
}

uint64_t log_cursor_segment(const struct log_cursor *cursor) {
    return cursor->block.base;
}

/* Reads the frame at the cursor from a held segment. `end`: end of the readable bytes. */
static int read_frame(struct log_cursor *cursor, uint64_t end, uint64_t limit, struct log_view *out) {
    struct log_view view = {0};
    const char *problem;
    int result = block_frame_header(&cursor->block, cursor->position, end, &view.header, &problem);
    if (result == BLOCK_WRONG) return LOG_DAMAGED;
    if (result < 0) return result;
    uint64_t size = frame_size(view.header.body_size, view.header.blob_size);
    if (size > end - cursor->position) return LOG_DAMAGED;
    if (cursor->position + size > limit) return LOG_END;
    result =
        block_frame_content(&cursor->block, &view.header, cursor->with_blobs, end, &view.body, &view.blob, &problem);
    if (result == BLOCK_WRONG) return LOG_DAMAGED;
    if (result < 0) return result;
    cursor->position += size;
    *out = view;
    return 0;
}

int log_cursor_next(struct log_cursor *cursor, uint64_t limit, struct log_view *out) {
    if (cursor->position >= limit) return LOG_END;
    struct segment *segment;
    uint64_t end;
    int result = segment_hold(cursor->log, cursor->position, &segment, &end);
    if (result < 0) return result;
    /* The buffer stays valid across calls until a cut removes frames from the log's end, because only a cut changes
     * written frames. */
    uint64_t cuts = atomic_load_explicit(&cursor->log->cuts, memory_order_acquire);
    bool is_other = cursor->block.handle != segment->handle || cursor->block.base != segment->base;
    if (is_other || cursor->cuts != cuts) block_attach(&cursor->block, segment->handle, segment->base);
    cursor->cuts = cuts;
    pthread_rwlock_rdlock(&cursor->log->erasing);
    result = read_frame(cursor, end, limit, out);
    if (result == LOG_DAMAGED && cursor->with_blobs) {
        /* An erasure may have run between the reads of the frame's header and of its contents. Read the frame again. */
        block_attach(&cursor->block, segment->handle, segment->base);
        result = read_frame(cursor, end, limit, out);
    }
    pthread_rwlock_unlock(&cursor->log->erasing);
    segment_drop(cursor->log, segment);
    return result;
}
