/* archive_write.c: makes an archive file from a segment of the log or from another archive file.
 *   1. Reads the frames and checks their checksums. Writes header and frames under a temporary name, and last the
 *      file's head, which describes them.
 *   2. Syncs the file.
 *   3. Reads the file back and checks it, frame by frame (archive_verify).
 *   4. Renames the file.
 *   5. Syncs the directory.
 *
 * A kill before step 4 leaves a temporary file, which the next attempt overwrites or archive_sweep deletes. A power
 * failure between steps 4 and 5 may lose the complete file's name; the next attempt makes the file again. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "archive_internal.h"
#include "arena.h"
#include "summary.h"
#include "wire.h"

#define ARENA_SIZE_MAX ((size_t)256 << 20)

/* Source of the frames: the log or the archive. */
struct source {
    struct log_cursor *log;
    struct archive_cursor *archive;
    uint64_t end;
};

static int source_next(struct source *source, struct log_view *out) {
    return source->log ? log_cursor_next(source->log, source->end, out)
                       : archive_cursor_next(source->archive, source->end, out);
}

struct work {
    const struct archive *archive;
    struct source source;
    struct seekable_writer *writer;
    struct summary *summary;
    struct arena arena;
    struct archive_info info;
    const char *problem;
    /* ranges to erase, from archive_erase */
    const struct archive_range *ranges;
    size_t range_count;
    uint8_t *blob; /* copy of a blob area, in which ranges are erased */
    size_t blob_room;
};

static void work_init(struct work *work, const struct archive *archive, uint64_t base, uint64_t end) {
    *work = (struct work){.archive = archive, .info = {.base = base, .end = end}, .source = {.end = end}};
    memcpy(work->info.cluster, archive->cluster, sizeof work->info.cluster);
    arena_init(&work->arena, ARENA_SIZE_MAX);
}

static void work_deinit(struct work *work) {
    log_cursor_close(work->source.log);
    archive_cursor_close(work->source.archive);
    seekable_writer_close(work->writer);
    summary_free(work->summary);
    arena_deinit(&work->arena);
    free(work->blob);
}

/* Erases the parts of the ranges that lie in this frame; `view` then points to a copy. */
static int erase_in_frame(struct work *work, struct log_view *view) {
    uint64_t from = frame_blob_position(view->header.position), to = from + view->header.blob_size;
    if (work->range_count == 0 || work->ranges->position >= to) return 0;
    if (view->header.blob_size > work->blob_room) {
        free(work->blob);
        work->blob = malloc(view->header.blob_size);
        work->blob_room = work->blob ? view->header.blob_size : 0;
        if (!work->blob) return -ENOMEM;
    }
    if (view->header.blob_size > 0) memcpy(work->blob, view->blob, view->header.blob_size);
    while (work->range_count > 0 && work->ranges->position < to) {
        struct archive_range range = *work->ranges;
        if (range.position < from || range.size == 0 || range.size > to - range.position) return -EINVAL;
        memset(work->blob + (range.position - from), 0, range.size);
        work->ranges++;
        work->range_count--;
        if (work->range_count > 0 && work->ranges->position < range.position + range.size) return -EINVAL;
    }
    view->blob = work->blob;
    view->header.flags |= FRAME_FLAG_ERASED;
    return 0;
}

/* Adds the frame to the head and the summary. */
static int note_frame(struct work *work, const struct log_view *view) {
    struct archive_info *info = &work->info;
    const struct frame_header *header = &view->header;
    const Tarry__FrameBody *body = NULL;
    if (info->frames++ == 0) {
        info->first_ns = header->steady_ns;
        info->first_wall_ns = header->wall_ns;
    }
    info->last_ns = header->steady_ns;
    info->last_wall_ns = header->wall_ns;
    info->epoch = header->epoch;
    info->erased += (header->flags & FRAME_FLAG_ERASED) != 0;
    memcpy(info->chain, header->chain, FRAME_CHAIN_SIZE);
    if (header->type == FRAME_COMMIT) {
        arena_reset(&work->arena);
        body = frame_body_unpack(&work->arena, header->body_size, view->body);
        work->problem = "contains a frame whose body is malformed";
        if (!body) return work->arena.starved ? -ENOMEM : LOG_DAMAGED;
        info->records += body->n_records;
    }
    summary_add(work->summary, header, body);
    return 0;
}

/* Writes the frame with the same bytes as in its segment. All fields of its header were checked, or follow from checked
 * ones. */
static int write_frame(struct work *work, const struct log_view *view) {
    static const uint8_t zeros[FRAME_ALIGN];
    const struct frame_header *header = &view->header;
    uint8_t bytes[FRAME_HEADER_SIZE];
    frame_header_encode(header, bytes);
    size_t used = FRAME_HEADER_SIZE + (size_t)header->blob_size + header->body_size;
    int error = seekable_write(work->writer, bytes, sizeof bytes);
    if (!error) error = seekable_write(work->writer, view->blob, header->blob_size);
    if (!error) error = seekable_write(work->writer, view->body, header->body_size);
    if (!error) error = seekable_write(work->writer, zeros, frame_size(header->body_size, header->blob_size) - used);
    return error;
}

static int write_frames(struct work *work) {
    struct log_view view;
    int error;
    work->problem = "is damaged at its source";
    while ((error = source_next(&work->source, &view)) == 0) {
        error = erase_in_frame(work, &view);
        if (!error) error = note_frame(work, &view);
        if (!error) error = write_frame(work, &view);
        if (error) return error;
        work->problem = "is damaged at its source";
    }
    if (error != LOG_END) return error;
    return work->range_count == 0 ? 0 : -EINVAL;
}

/* Does step 1 of the list at the top of this file: writes the file under a temporary name. */
static int write_file(struct work *work, int handle, const uint8_t header[SEGMENT_HEADER_SIZE], int level) {
    uint8_t head[ARCHIVE_HEAD_SIZE];
    work->summary = summary_new(work->info.base, work->info.end - work->info.base);
    if (!work->summary) return -ENOMEM;
    int error = seekable_writer_open(&work->writer, work->archive->disk, handle, level, ARCHIVE_HEAD_SIZE);
    if (!error) error = seekable_write(work->writer, header, SEGMENT_HEADER_SIZE);
    if (!error) error = write_frames(work);
    if (!error) error = seekable_finish(work->writer, &work->info.bytes, &work->info.sum);
    if (error) return error;
    archive_head_encode(&work->info, head);
    return seekable_write_head(work->writer, head);
}

/* Does steps 1 to 5 of the list at the top of this file: makes the complete archive file. */
static int make_file(struct work *work, const uint8_t header[SEGMENT_HEADER_SIZE], int level) {
    const struct archive *archive = work->archive;
    const struct disk *disk = archive->disk;
    char temporary[ARCHIVE_PATH_SIZE], path[ARCHIVE_PATH_SIZE];
    uint64_t at;
    archive_name_path(archive, work->info.base, archive_temporary_suffix, temporary);
    archive_path(archive, work->info.base, path);
    /* Ignore errors: a killed process may have left the file, but usually there is none. */
    (void)disk->unlink(disk->context, temporary);
    int handle = disk->open(disk->context, temporary, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (handle < 0) return handle;
    int error = write_file(work, handle, header, level);
    if (!error) error = disk->sync(disk->context, handle);
    int closed = disk->close(disk->context, handle);
    if (!error) error = closed;
    if (!error) error = archive_verify_at(archive, temporary, work->info.base, NULL, &at, &work->problem);
    /* Ignore errors: without a summary, only queries are slower. */
    if (!error) (void)summary_write_to(work->summary, disk, archive->directory);
    if (!error) error = disk->rename(disk->context, temporary, path);
    if (error) {
        /* Free the disk space of the file; report only the first error. */
        (void)disk->unlink(disk->context, temporary);
        return error;
    }
    return disk->sync_directory(disk->context, archive->directory);
}

int archive_store(const struct archive *archive, struct log *log, uint64_t base, int level, struct archive_info *out,
                  const char **out_problem) {
    struct log_segment segment;
    uint8_t header[SEGMENT_HEADER_SIZE];
    *out_problem = NULL;
    if (!log_segment_at(log, base, &segment) || segment.base != base || segment.end == 0) return -EINVAL;
    int error = archive_look(archive, base, out, out_problem);
    if (error == LOG_FOREIGN) return error;
    /* While the log still has the segment, an existing archive file is replaced. After a kill or a failed sync, the
     * disk may lack data of that file that the page cache shows. */
    struct work work;
    work_init(&work, archive, base, segment.end);
    *out_problem = NULL;
    error = log_segment_header(log, base, header);
    if (!error) error = log_cursor_open(&work.source.log, log, base, true);
    if (!error) error = make_file(&work, header, level);
    if (error <= LOG_DAMAGED) *out_problem = work.problem;
    *out = work.info;
    work_deinit(&work);
    return error;
}

int archive_erase(const struct archive *archive, uint64_t base, const struct archive_range *ranges, size_t count,
                  int level, const char **out_problem) {
    char path[ARCHIVE_PATH_SIZE];
    uint8_t header[SEGMENT_HEADER_SIZE];
    struct archive_cursor *cursor;
    archive_path(archive, base, path);
    int error = archive_cursor_open_at(&cursor, archive, path, base, base, true, out_problem);
    if (error) return error;
    struct work work;
    work_init(&work, archive, base, archive_cursor_info(cursor)->end);
    work.source.archive = cursor;
    work.ranges = ranges;
    work.range_count = count;
    error = archive_cursor_header(cursor, header);
    if (!error) error = make_file(&work, header, level);
    if (error <= LOG_DAMAGED) *out_problem = work.problem;
    work_deinit(&work);
    return error;
}
