/* frames.c: see frames.h. */
#include "frames.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- the archive */

static int archive_damaged(struct frames *frames, uint64_t base, uint64_t at, int error, const char *problem) {
    char path[ARCHIVE_PATH_SIZE];
    archive_path(&frames->store->archive, base, path);
    if (problem == NULL) problem = store_sentence(error);
    if (at != 0)
        store_damaged(frames->store, "%s, position %" PRIu64 ": %s", path, at, problem);
    else
        store_damaged(frames->store, "%s %s", path, problem);
    return FRAMES_DAMAGED;
}

/* Returns whether the segment that begins at `start` directly follows the frames read so far. */
static bool follows(const struct frames *frames, const struct frames_point *start) {
    const struct frames_point *at = &frames->at;
    return start->segment == frames->segment && start->epoch == at->epoch && start->steady_ns == at->steady_ns &&
           start->wall_ns == at->wall_ns && memcmp(start->chain, at->chain, FRAME_CHAIN_SIZE) == 0;
}

/* Opens the next archived segment, and checks all of it before its frames are returned. */
static int enter_archived(struct frames *frames) {
    uint64_t base = frames->bases[frames->base_next++], at = 0;
    const char *problem = NULL;
    struct archive_start start;
    int error = archive_verify(&frames->store->archive, base, NULL, &at, &problem);
    if (error == 0) error = archive_cursor_open(&frames->archived, &frames->store->archive, base, base, true, &problem);
    if (error != 0) return archive_damaged(frames, base, at, error, problem);
    archive_cursor_start(frames->archived, &start);
    frames->archived_segments++;
    struct frames_point before = {.position = base,
                                  .segment = start.previous_base,
                                  .steady_ns = start.steady_ns,
                                  .wall_ns = start.wall_ns,
                                  .epoch = start.epoch};
    memcpy(before.chain, start.chain, FRAME_CHAIN_SIZE);
    bool is_first = frames->archived_segments == 1;
    if (!is_first && base == frames->at.position && !follows(frames, &before))
        return archive_damaged(frames, base, 0, 0, "does not continue the segment before it");
    if (!is_first && base < frames->at.position)
        return archive_damaged(frames, base, 0, 0, "begins before the segment before it ends");
    frames->gap_from = frames->at.position;
    frames->segment = base;
    frames->at = before;
    if (is_first) frames->start = base;
    return 0;
}

/* ---- the log */

static struct frames_point log_begins(const struct log_recovery *recovery) {
    struct frames_point before = {.position = recovery->start,
                                  .segment = recovery->start_segment,
                                  .steady_ns = recovery->start_steady_ns,
                                  .wall_ns = recovery->start_wall_ns,
                                  .epoch = recovery->start_epoch};
    memcpy(before.chain, recovery->scan_chain, FRAME_CHAIN_SIZE);
    return before;
}

static int enter_log(struct frames *frames) {
    struct store *store = frames->store;
    const struct log_recovery *recovery = &store->recovery;
    bool is_first = frames->archived_segments == 0;
    int error = log_cursor_open(&frames->cursor, store->log, recovery->start, true);
    if (error != 0) {
        store_damaged(store, "the log cannot be read: %s", store_sentence(error));
        return FRAMES_DAMAGED;
    }
    struct frames_point before = log_begins(recovery);
    if (!is_first && recovery->start == frames->at.position && !follows(frames, &before)) {
        store_damaged(store,
                      "the log begins at position %" PRIu64
                      ", but does not continue the archive's last segment, which ends there",
                      recovery->start);
        return FRAMES_DAMAGED;
    }
    if (!is_first && recovery->start < frames->at.position)
        return archive_damaged(frames, frames->segment, 0, 0, "ends after the beginning of the log");
    frames->gap_from = frames->at.position;
    frames->at = before;
    if (is_first) frames->start = recovery->start;
    return 0;
}

/* ---- both */

int frames_open(struct frames *frames, struct store *store) {
    *frames = (struct frames){.store = store};
    int error = archive_list(&store->archive, &frames->bases, &frames->base_count);
    if (error == -ENOENT) error = 0;
    if (error != 0) return store_damaged(store, "%s: %s", store->archive.directory, store_sentence(error));
    while (frames->base_count > 0 && frames->bases[frames->base_count - 1] >= store->recovery.start)
        frames->base_count--; /* retirement was in progress, so the log has this segment too */
    int entered = frames->base_count > 0 ? enter_archived(frames) : enter_log(frames);
    return entered == 0 ? 0 : EXIT_REFUSED;
}

void frames_close(struct frames *frames) {
    archive_cursor_close(frames->archived);
    log_cursor_close(frames->cursor);
    free(frames->bases);
    *frames = (struct frames){0};
}

/* Opens the segment after the one that was read. */
static int enter_next(struct frames *frames) {
    archive_cursor_close(frames->archived);
    frames->archived = NULL;
    int result = frames->base_next < frames->base_count ? enter_archived(frames) : enter_log(frames);
    if (result != 0 || frames->gap_from == frames->at.position) return result;
    frames->gap_to = frames->at.position;
    frames->gaps++;
    return FRAMES_GAP;
}

static int read_archived(struct frames *frames, struct log_view *out) {
    int error = archive_cursor_next(frames->archived, UINT64_MAX, out);
    if (error == 0 || error == LOG_END) return error;
    return archive_damaged(frames, frames->segment, archive_cursor_position(frames->archived), error,
                           archive_cursor_problem(frames->archived));
}

static int read_log(struct frames *frames, struct log_view *out) {
    struct store *store = frames->store;
    if (log_cursor_position(frames->cursor) >= store->recovery.end) return FRAMES_END;
    int error = log_cursor_next(frames->cursor, store->recovery.end, out);
    frames->segment = log_cursor_segment(frames->cursor);
    if (error == 0) return 0;
    store_damaged(store, "log position %" PRIu64 ": %s", log_cursor_position(frames->cursor), store_sentence(error));
    return FRAMES_DAMAGED;
}

/* Reads the next frame of the next segment. */
static int read_next(struct frames *frames, struct log_view *out) {
    while (frames->archived != NULL) {
        int result = read_archived(frames, out);
        if (result != LOG_END) return result;
        result = enter_next(frames);
        if (result != 0) return result;
    }
    return read_log(frames, out);
}

int frames_next(struct frames *frames, struct log_view *out) {
    int result = read_next(frames, out);
    if (result != 0) return result;
    const struct frame_header *header = &out->header;
    frames->at = (struct frames_point){.position = header->position + frame_size(header->body_size, header->blob_size),
                                       .segment = frames->segment,
                                       .steady_ns = header->steady_ns,
                                       .wall_ns = header->wall_ns,
                                       .epoch = header->epoch};
    memcpy(frames->at.chain, header->chain, FRAME_CHAIN_SIZE);
    return 0;
}
