/* forge.c: see forge.h. */
#include "forge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../must.h"
#include "archive.h"
#include "log.h"

#define SYNC_EVERY 4 /* as in directory.c, so that frames of both logs have the same `synced_to` */

static void open_log(struct log **out, struct log_recovery *recovery, const struct directory *directory,
                     bool read_only) {
    static char path[160];
    char message[512];
    snprintf(path, sizeof(path), "%s/log", directory->path);
    struct log_options options = {.directory = path,
                                  .disk = &disk_posix,
                                  .segment_size = DIRECTORY_SEGMENT_SIZE,
                                  .read_only = read_only};
    memcpy(options.cluster, directory->cluster, sizeof(options.cluster));
    MUST(log_open(out, &options, 0, recovery, message, sizeof(message)) == 0);
}

static struct archive archive_of(const struct directory *directory) {
    static char path[160];
    struct archive archive = {.disk = &disk_posix, .directory = path};
    snprintf(path, sizeof(path), "%s/archive", directory->path);
    memcpy(archive.cluster, directory->cluster, sizeof(archive.cluster));
    return archive;
}

static void take(struct forge_log *out, const struct log_view *view, uint64_t segment) {
    MUST(out->count < FORGE_FRAMES_MAX);
    struct forge_frame *frame = &out->frames[out->count++];
    *frame = (struct forge_frame){.header = view->header, .segment = segment};
    frame->blob = malloc((size_t)view->header.blob_size + view->header.body_size + 1);
    MUST(frame->blob != NULL);
    frame->body = frame->blob + view->header.blob_size;
    memcpy(frame->blob, view->blob, view->header.blob_size);
    memcpy(frame->body, view->body, view->header.body_size);
    out->end = view->header.position + frame_size(view->header.body_size, view->header.blob_size);
}

void forge_read(struct forge_log *out, const struct directory *directory) {
    struct archive archive = archive_of(directory);
    struct log_recovery recovery;
    struct log_cursor *cursor;
    struct log_view view;
    struct log *log;
    uint64_t *bases;
    size_t count;
    memset(out, 0, sizeof(*out));
    MUST(archive_list(&archive, &bases, &count) == 0);
    for (size_t i = 0; i < count; i++) {
        struct archive_cursor *archived;
        const char *problem;
        MUST(archive_cursor_open(&archived, &archive, bases[i], bases[i], true, &problem) == 0);
        while (archive_cursor_next(archived, UINT64_MAX, &view) == 0) take(out, &view, bases[i]);
        archive_cursor_close(archived);
    }
    free(bases);
    open_log(&log, &recovery, directory, true);
    out->boundary = recovery.start;
    MUST(log_cursor_open(&cursor, log, recovery.start, true) == 0);
    while (log_cursor_position(cursor) < recovery.end && log_cursor_next(cursor, recovery.end, &view) == 0)
        take(out, &view, log_cursor_segment(cursor));
    log_cursor_close(cursor);
    log_close(log);
    out->start = out->frames[0].header.position;
}

static void append(struct log *log, const struct forge_frame *frame) {
    struct log_piece piece = {frame->blob, frame->header.blob_size};
    struct log_frame one = {.type = frame->header.type,
                            .epoch = frame->header.epoch,
                            .position = log_end(log),
                            .steady_ns = frame->header.steady_ns,
                            .wall_ns = frame->header.wall_ns,
                            .body = frame->body,
                            .body_size = frame->header.body_size,
                            .pieces = &piece,
                            .piece_count = frame->header.blob_size > 0 ? 1 : 0};
    MUST(log_append(log, &one) == 0);
}

static int delete_one(void *argument, const char *name) {
    char path[320];
    snprintf(path, sizeof(path), "%s/%s", (const char *)argument, name);
    MUST(unlink(path) == 0);
    return 0;
}

static bool is_forged;

static void clear(struct directory *directory) {
    static const char *const below[] = {"log", "archive"};
    for (size_t i = 0; i < 2; i++) {
        char path[160];
        snprintf(path, sizeof(path), "%s/%s", directory->path, below[i]);
        MUST(disk_posix.list(NULL, path, delete_one, path) == 0);
    }
    for (size_t i = 0; i < directory->file_count; i++)
        if (strncmp(directory->files[i].name, "log/", 4) == 0 || strncmp(directory->files[i].name, "archive/", 8) == 0)
            directory->files[i].changed = true;
}

void forge_write(const struct forge_log *forged, struct directory *directory) {
    clear(directory);
    is_forged = true;
    struct archive archive = archive_of(directory);
    struct log_recovery recovery;
    struct log_segment oldest;
    const char *problem;
    struct log *log;
    open_log(&log, &recovery, directory, false);
    for (size_t i = 0; i < forged->count; i++) {
        append(log, &forged->frames[i]);
        if (i % SYNC_EVERY == SYNC_EVERY - 1) MUST(log_sync(log) == 0);
    }
    MUST(log_sync(log) == 0);
    while (log_oldest(log, forged->boundary, &oldest)) {
        struct archive_info info;
        /* The archive accepts only bodies that are messages; the log keeps the other frames. */
        if (archive_store(&archive, log, oldest.base, 3, &info, &problem) != 0) break;
        MUST(log_retire(log, oldest.base) == 0);
    }
    log_close(log);
}

void forge_clear(struct directory *directory) {
    if (is_forged) clear(directory);
    is_forged = false;
}
