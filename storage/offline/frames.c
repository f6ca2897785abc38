/* frames.c: see frames.h. */
#include "frames.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
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
        /* Skip an archived segment that the log also has, because its retirement was interrupted. */
        frames->base_count--;
    int entered = frames->base_count > 0 ? enter_archived(frames) : enter_log(frames);
    return entered == 0 ? 0 : STORE_REFUSED;
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

/* ---- quarantined tails */

static struct quarantine quarantine_of(const struct store *store, char directory[STORE_PATH_SIZE]) {
    snprintf(directory, STORE_PATH_SIZE, "%s/%s", store->directory, QUARANTINE_NAME);
    struct quarantine quarantine = {.disk = &disk_posix, .directory = directory};
    memcpy(quarantine.cluster, store->cluster, sizeof quarantine.cluster);
    return quarantine;
}

int tail_name_size(const struct quarantine_tail *tail) {
    return (int)strcspn(tail->name, ".");
}

static int open_tail(const struct quarantine *quarantine, const struct quarantine_tail *tail, struct store *store,
                     struct log **out_log, struct log_recovery *out_recovery) {
    char message[1024] = "";
    int error = quarantine_open(out_log, quarantine, tail, out_recovery, message, sizeof message);
    if (error == 0) return 0;
    return store_damaged(store, "%s/%s: %s", quarantine->directory, tail->name,
                         message[0] != 0 ? message : store_sentence(error));
}

static int check_tail(const struct quarantine *quarantine, struct tail *tail, struct store *store) {
    struct log *log;
    struct log_recovery recovery;
    struct log_cursor *cursor;
    struct log_view view;
    quarantine_why(quarantine, &tail->file, tail->why);
    if (open_tail(quarantine, &tail->file, store, &log, &recovery) != 0) return STORE_REFUSED;
    tail->epoch = recovery.epoch;
    int error = log_cursor_open(&cursor, log, recovery.start, false);
    if (error == 0) {
        while ((error = log_cursor_next(cursor, recovery.end, &view)) == 0) tail->frames++;
        log_cursor_close(cursor);
    }
    log_close(log);
    if (error == LOG_END) return 0;
    return store_damaged(store, "%s/%s: %s", quarantine->directory, tail->file.name, store_sentence(error));
}

int tails_check(struct tails *out, struct store *store) {
    struct quarantine quarantine = quarantine_of(store, out->directory);
    struct quarantine_tail *files;
    size_t count;
    int error = quarantine_list(&quarantine, &files, &count);
    if (error != 0) return store_damaged(store, "%s: %s", quarantine.directory, store_sentence(error));
    int status = 0;
    out->items = calloc(count + 1, sizeof *out->items);
    if (out->items == NULL) {
        free(files);
        return store_damaged(store, "out of memory");
    }
    for (size_t i = 0; i < count && status == 0; i++) {
        out->items[i] = (struct tail){.file = files[i]};
        status = check_tail(&quarantine, &out->items[i], store);
        if (status == 0) out->count++;
    }
    free(files);
    return status;
}

void tails_deinit(struct tails *tails) {
    free(tails->items);
    tails->items = NULL;
    tails->count = 0;
}

int tails_enter(struct store *store, const char *name) {
    char directory[STORE_PATH_SIZE];
    struct quarantine quarantine = quarantine_of(store, directory);
    struct quarantine_tail *files;
    size_t count, found = 0;
    struct log *log = NULL;
    struct log_recovery recovery = {0};
    int error = quarantine_list(&quarantine, &files, &count);
    if (error != 0) return store_damaged(store, "%s: %s", quarantine.directory, store_sentence(error));
    size_t size = strcspn(name, ".");
    while (found < count &&
           (size != (size_t)tail_name_size(&files[found]) || strncmp(files[found].name, name, size) != 0))
        found++;
    int status = found < count ? open_tail(&quarantine, &files[found], store, &log, &recovery)
                               : store_damaged(store, "%s has no tail \"%.100s\"; 'tarry verify' lists the tails",
                                               quarantine.directory, name);
    free(files);
    if (status != 0) return status;
    log_close(store->log);
    store->log = log;
    store->recovery = recovery;
    /* Do not read the archive, because it has earlier frames of the log, not of the tail. */
    memcpy(store->archive_directory, directory, sizeof directory);
    return 0;
}
