/* log_write.c: the writer's calls: append, write, sync and roll (to start the next segment).
 *
 * The log writes only to the current segment; all earlier segments are durable, because a roll syncs first. After any
 * failure the log never tries again (LOG-4). Reason: the page cache may have dropped data that it could not write, and
 * a second fdatasync would then succeed. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "log_internal.h"
#include "tarry_limits.h"

int log_poison(struct log *log, int error) {
    assert(error < 0);
    int none = 0;
    atomic_compare_exchange_strong(&log->error, &none, error);
    return atomic_load(&log->error);
}

/* Reserves `size` more bytes in the buffer; writes a full buffer first. */
static int buffer_reserve(struct log *log, size_t size) {
    if (log->buffer_used > 0 && log->buffer_used + size > LOG_BUFFER_SIZE) {
        int result = log_write(log);
        if (result < 0) return result;
    }
    size_t wanted = log->buffer_used + size > LOG_BUFFER_SIZE ? log->buffer_used + size : LOG_BUFFER_SIZE;
    if (log->buffer_size >= wanted) return 0;
    assert(log->buffer_used == 0); /* the buffer is empty, so growing it copies no frames */
    free(log->buffer);
    log->buffer = malloc(wanted);
    log->buffer_size = log->buffer ? wanted : 0;
    return log->buffer ? 0 : log_poison(log, -ENOMEM);
}

/* Makes the next segment the current one. */
static int roll(struct log *log, uint64_t size) {
    int result = log_sync(log);
    if (result < 0) return result;
    result = segment_roll(log, size);
    return result < 0 ? log_poison(log, result) : 0;
}

int log_reserve(struct log *log, uint64_t size, uint8_t **out) {
    int result = 0;
    uint64_t room = log->current->base + log->current->capacity - log->end;
    if (size > room) result = roll(log, size);
    if (result == 0) result = buffer_reserve(log, (size_t)size);
    if (result == 0) *out = log->buffer + log->buffer_used;
    return result;
}

void log_advance(struct log *log, const struct frame_header *header) {
    uint64_t size = frame_size(header->body_size, header->blob_size);
    log->buffer_used += (size_t)size;
    log->end += size;
    log->epoch = header->epoch;
    log->steady_ns = header->steady_ns;
    log->wall_ns = header->wall_ns;
    memcpy(log->chain, header->chain, FRAME_CHAIN_SIZE);
}

/* Returns the value of synced_to for a new frame. */
static uint64_t claim_of(const struct log *log) {
    uint64_t durable = atomic_load_explicit(&log->durable, memory_order_relaxed);
    uint64_t claim = atomic_load_explicit(&log->claim, memory_order_acquire);
    return claim < durable ? claim : durable;
}

/* Encodes the frame into the buffer at `start`, and makes it the last frame. */
static void encode(struct log *log, const struct log_frame *frame, uint32_t blob_size, uint8_t *start) {
    uint64_t size = frame_size(frame->body_size, blob_size);
    uint8_t *blob = start + FRAME_HEADER_SIZE;
    uint8_t *body = blob;
    for (size_t i = 0; i < frame->piece_count; i++) {
        if (frame->pieces[i].size == 0) continue;
        memcpy(body, frame->pieces[i].data, frame->pieces[i].size);
        body += frame->pieces[i].size;
    }
    assert(body == blob + blob_size);
    if (frame->body_size > 0) memcpy(body, frame->body, frame->body_size);
    size_t used = FRAME_HEADER_SIZE + (size_t)blob_size + frame->body_size;
    memset(start + used, 0, (size_t)size - used);
    struct frame_header header = {
        .type = frame->type,
        .epoch = frame->epoch,
        .body_size = frame->body_size,
        .blob_size = blob_size,
        .position = frame->position,
        .synced_to = claim_of(log),
        .steady_ns = frame->steady_ns,
        .wall_ns = frame->wall_ns,
        .body_sum = frame_sum(body, frame->body_size),
        .blob_sum = frame_sum(blob, blob_size),
    };
    frame_chain(log->chain, &header, body, header.chain);
    frame_header_encode(&header, start);
    log_advance(log, &header);
}

int log_append(struct log *log, const struct log_frame *frame) {
    int result = atomic_load_explicit(&log->error, memory_order_relaxed);
    if (result < 0) return result;
    assert(!log->read_only && log->current);
    assert(frame->position == log->end);
    assert(frame->type == FRAME_COMMIT || frame->type == FRAME_SEAL);
    assert(frame->epoch >= log->epoch); /* R1 */
    assert(frame->body_size <= FRAME_BODY_SIZE_MAX);
    uint64_t blob_size = 0;
    for (size_t i = 0; i < frame->piece_count; i++) {
        assert(frame->pieces[i].size <= FRAME_BLOB_SIZE_MAX);
        blob_size += frame->pieces[i].size;
        assert(blob_size <= FRAME_BLOB_SIZE_MAX); /* CAP-1: the size was checked when the commit was decided */
    }
    assert(frame->type != FRAME_SEAL || (blob_size == 0 && frame->body_size == 0));
    uint8_t *start;
    result = log_reserve(log, frame_size(frame->body_size, (uint32_t)blob_size), &start);
    if (result == 0) encode(log, frame, (uint32_t)blob_size, start);
    return result;
}

int log_write(struct log *log) {
    int result = atomic_load_explicit(&log->error, memory_order_relaxed);
    if (result < 0) return result;
    if (log->buffer_used == 0) return 0;
    uint64_t written = atomic_load_explicit(&log->written, memory_order_relaxed);
    assert(written + log->buffer_used == log->end);
    uint64_t offset = SEGMENT_HEADER_SIZE + (written - log->current->base);
    result = disk_write_all(log->disk, log->current->handle, log->buffer, log->buffer_used, offset);
    if (result < 0) return log_poison(log, result);
    atomic_store_explicit(&log->written, log->end, memory_order_release);
    log->buffer_used = 0;
    if (log->buffer_size > LOG_BUFFER_SIZE) {
        /* CALM-1: after a large frame, free the enlarged buffer. */
        free(log->buffer);
        log->buffer = NULL;
        log->buffer_size = 0;
    }
    return 0;
}

int log_sync(struct log *log) {
    int result = log_write(log);
    if (result < 0) return result;
    if (atomic_load_explicit(&log->durable, memory_order_relaxed) == log->end) return 0;
    result = log->disk->datasync(log->disk->context, log->current->handle);
    /* Store the durable position, because recovery trusts an erased flag in the last segment only below that position
     * (FORMAT.md). */
    if (result == 0 && log->erased_end > log->mark) result = mark_write(log, log->end);
    if (result < 0) return log_poison(log, result);
    /* LOG-1 depends on this line: frames count as durable only after the sync. */
    atomic_store_explicit(&log->durable, log->end, memory_order_release);
    /* Request the next segment only when the current segment is half full, because many logs need only one segment. */
    if (log->end - log->current->base >= log->current->capacity / 2) preparer_want(log);
    return 0;
}
