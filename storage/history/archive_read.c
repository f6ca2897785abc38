/* archive_read.c: reads the frames of an archived segment in order, and checks a whole file.
 *
 * The log's frame reader (log_block.c) reads from a struct disk. This file gives it a struct disk that decompresses the
 * archive file. So a frame of the archive passes the same checks as a frame of the log. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "archive_internal.h"
#include "arena.h"
#include "tarry.pb-c.h"
#include "tarry_limits.h"
#include "wire.h"

#define ARENA_SIZE_MAX ((size_t)256 << 20)

struct archive_cursor {
    const struct disk *disk;
    int handle;
    struct archive_info info;
    struct seekable *seekable;
    struct disk unpacked; /* disk whose pread returns the unpacked bytes of the segment */
    struct block block;
    struct segment_header header;
    uint64_t position;
    bool with_blobs;
    const char *problem;
};

static int64_t unpacked_read(void *context, int handle, void *out, size_t size, uint64_t offset) {
    return seekable_read(context, out, size, offset);
}

void archive_cursor_close(struct archive_cursor *cursor) {
    if (!cursor) return;
    block_deinit(&cursor->block);
    seekable_close(cursor->seekable);
    if (cursor->handle >= 0)
        (void)cursor->disk->close(cursor->disk->context, cursor->handle); /* ignore errors: the file was only read */
    free(cursor);
}

int archive_cursor_header(struct archive_cursor *cursor, uint8_t out[SEGMENT_HEADER_SIZE]) {
    int64_t count = seekable_read(cursor->seekable, out, SEGMENT_HEADER_SIZE, 0);
    if (count < 0) return (int)count;
    return count == SEGMENT_HEADER_SIZE ? 0 : LOG_DAMAGED;
}

static int archive_cursor_sum(const struct archive_cursor *cursor, uint64_t *out) {
    return seekable_sum(cursor->seekable, SEEKABLE_SKIPPABLE_SIZE + ARCHIVE_HEAD_SIZE, out);
}

/* Checks the segment's header against the file's head. */
static int judge_header(struct archive_cursor *cursor) {
    uint8_t bytes[SEGMENT_HEADER_SIZE];
    cursor->problem = "cannot be decompressed at its beginning";
    int error = archive_cursor_header(cursor, bytes);
    if (error) return error;
    const char *problem = segment_header_decode(bytes, &cursor->header);
    cursor->problem = problem ? problem : "contains a segment of another format version";
    if (problem) return LOG_DAMAGED;
    if (cursor->header.version != FORMAT_VERSION) return LOG_VERSION;
    const struct segment_header *header = &cursor->header;
    const struct archive_info *info = &cursor->info;
    cursor->problem = "contains another segment than its head says";
    bool is_right = header->base == info->base && info->end - info->base <= header->capacity &&
                    memcmp(header->cluster, info->cluster, sizeof info->cluster) == 0;
    return is_right ? 0 : LOG_DAMAGED;
}

static int judge(struct archive_cursor *cursor, const struct archive *archive, uint64_t base, uint64_t position) {
    int error = archive_look_at(archive, cursor->handle, base, &cursor->info, &cursor->problem);
    if (error) return error;
    error = seekable_open(&cursor->seekable, archive->disk, cursor->handle, &cursor->problem);
    if (error) return error;
    const struct archive_info *info = &cursor->info;
    cursor->problem = "does not decompress to the size that its head says";
    if (seekable_size(cursor->seekable) != SEGMENT_HEADER_SIZE + (info->end - info->base)) return LOG_DAMAGED;
    error = judge_header(cursor);
    if (error) return error;
    cursor->problem = NULL;
    return position >= info->base && position <= info->end ? 0 : -EINVAL;
}

int archive_cursor_open_at(struct archive_cursor **out, const struct archive *archive, const char *path, uint64_t base,
                           uint64_t position, bool with_blobs, const char **out_problem) {
    *out_problem = NULL;
    struct archive_cursor *cursor = calloc(1, sizeof *cursor);
    if (!cursor) return -ENOMEM;
    *cursor = (struct archive_cursor){.disk = archive->disk, .position = position, .with_blobs = with_blobs};
    cursor->unpacked = (struct disk){.pread = unpacked_read};
    block_init(&cursor->block, &cursor->unpacked);
    cursor->handle = archive->disk->open(archive->disk->context, path, O_RDONLY, 0);
    int error = cursor->handle < 0 ? cursor->handle : judge(cursor, archive, base, position);
    if (error) {
        if (error <= LOG_DAMAGED) *out_problem = cursor->problem;
        archive_cursor_close(cursor);
        return error;
    }
    cursor->unpacked.context = cursor->seekable;
    block_attach(&cursor->block, cursor->handle, cursor->info.base);
    *out = cursor;
    return 0;
}

int archive_cursor_open(struct archive_cursor **out, const struct archive *archive, uint64_t base, uint64_t position,
                        bool with_blobs, const char **out_problem) {
    char path[ARCHIVE_PATH_SIZE];
    archive_path(archive, base, path);
    return archive_cursor_open_at(out, archive, path, base, position, with_blobs, out_problem);
}

uint64_t archive_cursor_position(const struct archive_cursor *cursor) {
    return cursor->position;
}

void archive_cursor_seek(struct archive_cursor *cursor, uint64_t position) {
    assert(position >= cursor->info.base && position <= cursor->info.end);
    cursor->position = position;
}

const char *archive_cursor_problem(const struct archive_cursor *cursor) {
    return cursor->problem;
}

const struct archive_info *archive_cursor_info(const struct archive_cursor *cursor) {
    return &cursor->info;
}

void archive_cursor_start(const struct archive_cursor *cursor, struct archive_start *out) {
    out->previous_base = cursor->header.previous_base;
    out->steady_ns = cursor->header.steady_ns;
    out->wall_ns = cursor->header.wall_ns;
    out->epoch = cursor->header.epoch;
    memcpy(out->chain, cursor->header.chain, FRAME_CHAIN_SIZE);
}

static int damaged(struct archive_cursor *cursor, int result, const char *problem) {
    if (result >= 0) cursor->problem = problem;
    if (result == LOG_DAMAGED) cursor->problem = "cannot be decompressed";
    return result >= 0 ? LOG_DAMAGED : result;
}

int archive_cursor_next(struct archive_cursor *cursor, uint64_t limit, struct log_view *out) {
    struct log_view view = {0};
    uint64_t end = cursor->info.end;
    const char *problem;
    if (cursor->position >= end || cursor->position >= limit) return LOG_END;
    int result = block_frame_header(&cursor->block, cursor->position, end, &view.header, &problem);
    if (result) return damaged(cursor, result, problem);
    uint64_t size = frame_size(view.header.body_size, view.header.blob_size);
    if (size <= end - cursor->position && cursor->position + size > limit) return LOG_END;
    result =
        block_frame_content(&cursor->block, &view.header, cursor->with_blobs, end, &view.body, &view.blob, &problem);
    if (result) return damaged(cursor, result, problem);
    cursor->position += size;
    *out = view;
    return 0;
}

/* ---- the whole file */

struct verification {
    struct archive_cursor *cursor;
    struct archive_info found;
    struct arena arena;
    uint64_t at;
};

static int wrong(struct verification *v, uint64_t at, const char *problem) {
    v->cursor->problem = problem;
    v->at = at;
    return LOG_DAMAGED;
}

static int verify_frame(struct verification *v, const struct log_view *view) {
    struct archive_info *found = &v->found;
    const struct frame_header *header = &view->header;
    uint8_t chain[FRAME_CHAIN_SIZE];
    if (header->epoch < found->epoch)
        return wrong(v, header->position, "contains a frame of an older epoch than the frame before it");
    frame_chain(found->chain, header, view->body, chain);
    if (memcmp(chain, header->chain, FRAME_CHAIN_SIZE) != 0)
        return wrong(v, header->position, "contains a frame that does not continue the frame before it (chain hash)");
    if (found->frames++ == 0) {
        found->first_ns = header->steady_ns;
        found->first_wall_ns = header->wall_ns;
    }
    found->last_ns = header->steady_ns;
    found->last_wall_ns = header->wall_ns;
    found->epoch = header->epoch;
    found->erased += (header->flags & FRAME_FLAG_ERASED) != 0;
    memcpy(found->chain, chain, FRAME_CHAIN_SIZE);
    if (header->type != FRAME_COMMIT) return 0;
    arena_reset(&v->arena);
    const Tarry__FrameBody *body = frame_body_unpack(&v->arena, header->body_size, view->body);
    if (!body)
        return v->arena.starved ? -ENOMEM : wrong(v, header->position, "contains a frame whose body is malformed");
    found->records += body->n_records;
    return 0;
}

static int verify_frames(struct verification *v) {
    struct archive_cursor *cursor = v->cursor;
    struct archive_info *found = &v->found;
    struct log_view view;
    int error = archive_cursor_sum(cursor, &found->sum);
    if (error) return error;
    /* Check every frame even after a wrong file checksum, because that finds the position of the damage. */
    *found = (struct archive_info){.base = cursor->info.base,
                                   .end = cursor->info.end,
                                   .bytes = cursor->info.bytes,
                                   .sum = found->sum};
    found->epoch = cursor->header.epoch;
    memcpy(found->cluster, cursor->header.cluster, sizeof found->cluster);
    memcpy(found->chain, cursor->header.chain, FRAME_CHAIN_SIZE);
    while ((error = archive_cursor_next(cursor, UINT64_MAX, &view)) == 0) {
        error = verify_frame(v, &view);
        if (error) return error;
    }
    if (error != LOG_END) {
        v->at = cursor->position;
        return error;
    }
    if (found->sum != cursor->info.sum) return wrong(v, 0, "has a wrong checksum");
    uint8_t said[ARCHIVE_HEAD_SIZE], is[ARCHIVE_HEAD_SIZE];
    archive_head_encode(&cursor->info, said);
    archive_head_encode(found, is);
    return memcmp(said, is, sizeof is) == 0 ? 0 : wrong(v, 0, "has a head that does not match its frames");
}

int archive_verify_at(const struct archive *archive, const char *path, uint64_t base, struct archive_info *out,
                      uint64_t *out_at, const char **out_problem) {
    struct verification v = {0};
    *out_at = 0;
    int error = archive_cursor_open_at(&v.cursor, archive, path, base, base, true, out_problem);
    if (error) return error;
    arena_init(&v.arena, ARENA_SIZE_MAX);
    error = verify_frames(&v);
    if (error <= LOG_DAMAGED) *out_problem = v.cursor->problem;
    *out_at = v.at;
    if (out) *out = v.cursor->info;
    arena_deinit(&v.arena);
    archive_cursor_close(v.cursor);
    return error;
}

int archive_verify(const struct archive *archive, uint64_t base, struct archive_info *out, uint64_t *out_at,
                   const char **out_problem) {
    char path[ARCHIVE_PATH_SIZE];
    archive_path(archive, base, path);
    return archive_verify_at(archive, path, base, out, out_at, out_problem);
}
