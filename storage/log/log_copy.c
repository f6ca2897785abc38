/* log_copy.c: see log_copy.h. It checks all frames before it appends the first one. */
#include "log_copy.h"

#include <assert.h>
#include <string.h>

#include "log_internal.h"
#include "log_serve.h"

/* Checks that the frame continues the log at `point`, and moves the point to the frame's end. Returns NULL, or the
 * problem. */
static const char *judge(struct block *block, uint64_t end, uint32_t epoch_max, struct log_point *point) {
    struct frame_header header;
    const uint8_t *body, *blob;
    const char *problem;
    /* All bytes are already in the block's buffer, so no read happens or fails. */
    if (block_frame_header(block, point->position, end, &header, &problem) != 0) return problem;
    if (block_frame_content(block, &header, true, end, &body, &blob, &problem) != 0) return problem;
    if (header.epoch < point->epoch) return "the frame's epoch is older than that of the frame before it";
    if (header.epoch > epoch_max) return "this node has not promised the frame's epoch";
    uint8_t chain[FRAME_CHAIN_SIZE];
    frame_chain(point->chain, &header, body, chain);
    if (memcmp(chain, header.chain, FRAME_CHAIN_SIZE) != 0)
        return "the frame does not continue the frame before it (chain hash)";
    point->position += frame_size(header.body_size, header.blob_size);
    point->epoch = header.epoch;
    memcpy(point->chain, header.chain, FRAME_CHAIN_SIZE);
    return NULL;
}

/* Appends one checked frame of `size` bytes. */
static int take(struct log *log, const uint8_t *bytes, const struct frame_header *header, uint64_t size) {
    int result = 0;
    if (header->synced_to > log_durable(log)) result = log_sync(log);
    if (result < 0) return result;
    assert(header->synced_to <= log_durable(log)); /* LOG-5 */
    uint8_t *start;
    result = log_reserve(log, size, &start);
    if (result < 0) return result;
    memcpy(start, bytes, (size_t)size);
    log_advance(log, header);
    if (header->flags & FRAME_FLAG_ERASED) log->erased_end = log->end;
    return 0;
}

int log_copy(struct log *log, const void *bytes, size_t size, uint32_t epoch_max, uint64_t *out_at,
             const char **out_problem) {
    int result = atomic_load_explicit(&log->error, memory_order_relaxed);
    *out_at = log->end;
    *out_problem = "the log has already failed";
    if (result < 0) return result;
    assert(!log->read_only && log->current);
    uint64_t from = log->end, end = log->end + size;
    struct log_point point = {.position = from, .epoch = log->epoch};
    memcpy(point.chain, log->chain, FRAME_CHAIN_SIZE);
    struct block block = {
        .base = from, .data = (uint8_t *)bytes, .room = size, .position = from, .size = size, .handle = -1};
    const char *problem = NULL;
    while (!problem && point.position < end) {
        *out_at = point.position;
        problem = judge(&block, end, epoch_max, &point);
    }
    *out_problem = problem ? problem : "the log cannot be written";
    if (problem) return LOG_UNFIT;
    for (uint64_t at = from; at < end;) {
        const uint8_t *start = (const uint8_t *)bytes + (at - from);
        struct frame_header header;
        bool is_header = frame_header_decode(start, &header);
        assert(is_header);
        uint64_t frame = frame_size(header.body_size, header.blob_size);
        result = take(log, start, &header, frame);
        if (result < 0) return result;
        at += frame;
    }
    return log_write(log);
}
