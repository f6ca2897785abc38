/* verify_contents.c: see verify_parts.h. */
#include "verify_parts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int check_content(struct contents *contents, struct store *store, const struct log_view *view,
                         const Tarry__TaskPut *put) {
    if (!put->fresh || put->task == NULL) return 0;
    contents->checked++;
    enum content_state state = content_state(&view->header, view->blob, put);
    if (state == CONTENT_RIGHT) return 0;
    if (state == CONTENT_DAMAGED)
        return store_damaged(store,
                             "log position %" PRIu64 ": the content of task %" PRIu64 " does not match its record",
                             view->header.position, put->task->id);
    contents->erased++;
    return erasures_note(&contents->erasures, put, state) == 0 ? 0 : store_damaged(store, "out of memory");
}

/* Finds the archived segment that contains this position. If it was pruned, finds the last one before it. */
static bool find_archived(struct contents *contents, const struct archive *archive, uint64_t position,
                          uint64_t *out_base) {
    if (!contents->has_listed && archive_list(archive, &contents->bases, &contents->base_count) != 0)
        contents->base_count = 0;
    contents->has_listed = true;
    bool is_found = false;
    for (size_t i = 0; i < contents->base_count && contents->bases[i] <= position; i++) {
        *out_base = contents->bases[i];
        is_found = true;
    }
    return is_found;
}

/* Reads the archived frame at `position`; keeps the file open for the next ones. Returns false if it is missing or
 * unreadable, which other checks report. */
static bool read_archived(struct contents *contents, const struct archive *archive, uint64_t position,
                          struct log_view *out) {
    const char *problem;
    uint64_t base;
    if (!find_archived(contents, archive, position, &base)) return false;
    if (contents->cursor != NULL && contents->cursor_base == base) {
        if (position >= archive_cursor_info(contents->cursor)->end) return false; /* the next file was pruned */
        archive_cursor_seek(contents->cursor, position);
    } else {
        archive_cursor_close(contents->cursor);
        contents->cursor = NULL;
        if (archive_cursor_open(&contents->cursor, archive, base, position, true, &problem) != 0) return false;
        contents->cursor_base = base;
    }
    if (archive_cursor_next(contents->cursor, UINT64_MAX, out) == 0 && out->header.position == position) return true;
    archive_cursor_close(contents->cursor);
    contents->cursor = NULL;
    return false;
}

/* Returns whether the redacted content is still in the archive. */
static bool is_archived(struct contents *contents, const struct archive *archive, const Tarry__Redaction *redaction) {
    struct log_view view;
    uint64_t blob_at = frame_blob_position(redaction->frame);
    return read_archived(contents, archive, redaction->frame, &view) && redaction->blob_at >= blob_at &&
           redaction->blob_at - blob_at <= view.header.blob_size &&
           redaction->blob_size <= view.header.blob_size - (redaction->blob_at - blob_at) &&
           !content_is_erased(view.blob + (redaction->blob_at - blob_at), redaction->blob_size);
}

/* Returns whether redactions that a snapshot passed over wait for the broker's next run, which erases them from the
 * archive. */
static bool waits_for_a_run(const struct store *store) {
    char path[STORE_PATH_SIZE + 16];
    snprintf(path, sizeof path, "%s/" UNERASED_NAME, store->directory);
    return access(path, F_OK) == 0;
}

static int check_archived(struct contents *contents, struct store *store, uint64_t position,
                          const Tarry__Redaction *redaction) {
    if (!is_archived(contents, &store->archive, redaction)) return 0;
    if (waits_for_a_run(store)) {
        contents->under_way++;
        return 0;
    }
    return store_damaged(store,
                         "log position %" PRIu64 ": task %" PRIu64 " was redacted, but its content at position %" PRIu64
                         " is not erased from the archive",
                         position, redaction->id, redaction->blob_at);
}

/* Checks that the contents of redactions below index_erased were really erased. */
static int check_redaction(struct contents *contents, struct store *store, uint64_t position,
                           const Tarry__Redaction *redaction) {
    bool is_under_way = position >= index_erased(store->index);
    contents->under_way += is_under_way;
    erasures_explain(&contents->erasures, redaction, is_under_way);
    if (is_under_way || redaction->frame == 0) return 0;
    if (redaction->frame < log_start(store->log)) return check_archived(contents, store, position, redaction);
    uint8_t *content = malloc((size_t)redaction->blob_size + 1);
    if (content == NULL) return store_damaged(store, "out of memory");
    int error = log_read(store->log, redaction->blob_at, content, redaction->blob_size);
    bool is_erased = error == 0 && content_is_erased(content, redaction->blob_size);
    free(content);
    if (is_erased) return 0;
    return store_damaged(store,
                         "log position %" PRIu64 ": task %" PRIu64 " was redacted, but its content at position %" PRIu64
                         " is not erased",
                         position, redaction->id, redaction->blob_at);
}

/* Checks a frame that has lost contents, and so has no checksum of its contents area. The area must have no bytes
 * besides the contents of tasks. */
static int check_gaps(struct store *store, const struct log_view *view, uint64_t size) {
    if ((view->header.flags & FRAME_FLAG_ERASED) == 0 || size == view->header.blob_size) return 0;
    return store_damaged(store, "log position %" PRIu64 ": bytes among the frame's contents belong to no task",
                         view->header.position);
}

int contents_frame(struct contents *contents, struct store *store, const struct log_view *view,
                   const Tarry__FrameBody *body) {
    uint64_t size = 0;
    int status = 0;
    for (size_t i = 0; i < body->n_records && status == 0; i++) {
        const Tarry__Record *record = body->records[i];
        if (record->fact_case == TARRY__RECORD__FACT_PUT) {
            status = check_content(contents, store, view, record->put);
            if (record->put->fresh && record->put->task != NULL) size += record->put->task->blob_size;
        } else if (record->fact_case == TARRY__RECORD__FACT_REDACTION) {
            status = check_redaction(contents, store, view->header.position, record->redaction);
        }
    }
    return status == 0 ? check_gaps(store, view, size) : status;
}

void contents_gap(struct contents *contents) {
    erasures_deinit(&contents->erasures);
}

int contents_end(struct contents *contents, struct store *store) {
    const struct erasure_noted *noted = erasures_unexplained(&contents->erasures);
    if (noted == NULL) return 0;
    return store_damaged(store,
                         "log position %" PRIu64 ": the content of task %" PRIu64
                         " is erased without a redaction in the log",
                         noted->blob_at, noted->id);
}

void contents_deinit(struct contents *contents) {
    erasures_deinit(&contents->erasures);
    archive_cursor_close(contents->cursor);
    contents->cursor = NULL;
    free(contents->bases);
    contents->bases = NULL;
}
