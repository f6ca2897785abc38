/* retire.c: see retire.h. */
#include "retire.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "archivist.h"
#include "clock.h"
#include "config.h"
#include "fatal.h"
#include "index.h"
#include "log.h"
#include "logfmt.h"
#include "node.h"
#include "signer.h"
#include "summary.h"
#include "wire.h"

/* Bytes of frames moved per slice. */
#define SLICE_BYTES (2u << 20)

void retire_init(struct retirement *retire, const struct retirement_needs *needs) {
    struct retention_policy policy = {.log_size = needs->config->retain_log_size,
                                      .log_age_ms = needs->config->retain_log_age_ms};
    *retire = (struct retirement){.needs = *needs};
    retention_init(&retire->retention, &policy);
    fatal_arena_init(&retire->arena);
}

/* Returns the oldest segment that may be retired by position; NULL: none. */
static const struct log_segment *find_oldest(struct retirement *retire, struct log_segment *segment,
                                             struct retention_facts *facts) {
    const struct retirement_needs *needs = &retire->needs;
    uint64_t bound = retention_bound(index_position(needs->index), node_kept_from(needs->node));
    if (!log_oldest(needs->log, bound, segment)) return NULL;
    struct log_stats stats;
    log_stats(needs->log, &stats);
    *facts = (struct retention_facts){.is_archived = archivist_has(needs->archivist, segment->end),
                                      .log_bytes = stats.bytes,
                                      .wall_ns = clock_now(needs->clock, NULL).wall_ns};
    return segment;
}

bool retire_active(const struct retirement *retire) {
    return retention_is_active(&retire->retention);
}

uint64_t retire_wait_ns(struct retirement *retire) {
    struct log_segment segment;
    struct retention_facts facts = {0};
    const struct log_segment *oldest = find_oldest(retire, &segment, &facts);
    return retention_wait_ns(&retire->retention, oldest, &facts);
}

/* ---- effects */

static enum retention_result done_or_no_room(int error) {
    if (error == -ENOSPC) return RETENTION_NO_ROOM;
    if (error != 0) fatal("retire_failed", error);
    return RETENTION_DONE;
}

static void close_segment(struct retirement *retire) {
    if (retire->cursor != NULL) log_cursor_close(retire->cursor);
    retire->cursor = NULL;
}

static int retire_frame(struct retirement *retire, const struct log_view *view) {
    Tarry__FrameBody *body = frame_body_unpack(&retire->arena, view->header.body_size, view->body);
    if (body == NULL) fatal("retire_failed", LOG_DAMAGED);
    int error = index_retire_frame(retire->needs.index, &view->header, body, view->blob);
    arena_reset(&retire->arena);
    return error;
}

static enum retention_result move_slice(struct retirement *retire) {
    uint64_t from = log_cursor_position(retire->cursor);
    while (log_cursor_position(retire->cursor) - from < SLICE_BYTES) {
        struct log_view view;
        int error = log_cursor_next(retire->cursor, retire->retention.segment.end, &view);
        if (error == LOG_END) return RETENTION_DONE;
        if (error != 0) fatal("retire_failed", error);
        error = retire_frame(retire, &view);
        if (error != 0) return done_or_no_room(error);
    }
    return RETENTION_MORE;
}

static enum retention_result remove_segment(struct retirement *retire) {
    const struct retirement_needs *needs = &retire->needs;
    const struct log_segment *segment = &retire->retention.segment;
    close_segment(retire);
    int error = log_retire(needs->log, segment->base);
    if (error == LOG_PINNED)
        return RETENTION_PINNED; /* a backup has begun, so the segment is removed after the backup ends */
    if (error != 0) fatal("retire_failed", error);
    summary_delete(needs->log, segment->base);
    logfmt("segment_retired", "base=%" PRIu64 " end=%" PRIu64 " bytes=%" PRIu64, segment->base, segment->end,
           segment->bytes);
    return RETENTION_DONE;
}

static enum retention_result execute(struct retirement *retire) {
    const struct retirement_needs *needs = &retire->needs;
    const struct log_segment *segment = &retire->retention.segment;
    switch (retire->retention.effect) {
    case RETENTION_OPEN:
        return done_or_no_room(log_cursor_open(&retire->cursor, needs->log, segment->base, true));
    case RETENTION_MOVE:
        return move_slice(retire);
    case RETENTION_COMMIT:
        return done_or_no_room(index_retire_commit(needs->index, segment->end));
    case RETENTION_SIGN:
        signer_retire(needs->signer, segment->end);
        return RETENTION_DONE;
    case RETENTION_REMOVE:
        return remove_segment(retire);
    case RETENTION_REST:
    case RETENTION_ARCHIVE:
        break;
    }
    return RETENTION_DONE;
}

int retire_step(struct retirement *retire) {
    struct retention *retention = &retire->retention;
    if (!retention_is_active(retention)) {
        struct log_segment segment;
        struct retention_facts facts = {0};
        const struct log_segment *oldest = find_oldest(retire, &segment, &facts);
        enum retention_effect effect = retention_look(retention, oldest, &facts);
        if (effect == RETENTION_ARCHIVE) archivist_want(retire->needs.archivist, oldest->base);
        if (!retention_is_active(retention)) return 0;
    }
    enum retention_result result;
    do {
        result = execute(retire);
        (void)retention_step(retention, result);
    } while (retention_is_active(retention) && result != RETENTION_MORE);
    if (!retention_is_active(retention)) close_segment(retire);
    if (result == RETENTION_NO_ROOM) return -ENOSPC;
    return result == RETENTION_PINNED ? 0 : 1;
}

/* ---- summaries */

static struct logfmt_limit failure_limit;

void summarizer_init(struct summarizer *summarizer, struct log *log) {
    *summarizer = (struct summarizer){.log = log};
}

void summarizer_deinit(struct summarizer *summarizer) {
    summary_free(summarizer->summary);
    summarizer->summary = NULL;
}

/* Writes the summary file of a segment when the segment is complete. If this fails, searches in the segment only take
 * longer. */
static void finish(struct summarizer *summarizer) {
    int error = summary_write(summarizer->summary, summarizer->log);
    if (error != 0 && logfmt_allowed(&failure_limit))
        logfmt("summary_failed", "base=%" PRIu64 " reason=\"%s\"", summarizer->summary->base, strerror(-error));
    summarizer_deinit(summarizer);
}

/* Returns NULL if memory is exhausted; then the segment has no summary. */
static struct summary *begin(const struct summarizer *summarizer, uint64_t base) {
    struct log_segment segment;
    return log_segment_at(summarizer->log, base, &segment) ? summary_new(base, segment.bytes) : NULL;
}

void summarizer_take(struct summarizer *summarizer, uint64_t base, const struct frame_header *header,
                     const Tarry__FrameBody *body) {
    if (summarizer->summary != NULL && summarizer->summary->base != base) finish(summarizer);
    if (summarizer->summary == NULL && header->position == base) summarizer->summary = begin(summarizer, base);
    if (summarizer->summary != NULL) summary_add(summarizer->summary, header, body);
}
