/* history.c: see history.h. */
#include "history.h"

#include <errno.h>
#include <stdlib.h>

#include "arena.h"

#define ARENA_SIZE_MAX ((size_t)256 << 20)

struct history {
    struct log *log;
    struct history_question question;
    struct log_cursor *cursor;  /* NULL: the next segment has not been looked at */
    uint64_t position;          /* valid without a cursor */
    struct log_segment segment; /* the cursor's; end 0: it is still written to */
    struct arena arena;
    struct history_stats stats;
};

int history_open(struct history **out, struct log *log, const struct history_question *question) {
    struct history *history = calloc(1, sizeof *history);
    if (!history) return -ENOMEM;
    *history = (struct history){.log = log, .question = *question, .position = log_start(log)};
    arena_init(&history->arena, ARENA_SIZE_MAX);
    *out = history;
    return 0;
}

void history_close(struct history *history) {
    if (!history) return;
    log_cursor_close(history->cursor);
    arena_deinit(&history->arena);
    free(history);
}

uint64_t history_position(const struct history *history) {
    return history->cursor ? log_cursor_position(history->cursor) : history->position;
}

void history_stats(const struct history *history, struct history_stats *out) {
    *out = history->stats;
}

static bool may_matter(const struct history_question *question, const struct summary *summary) {
    if (summary->last_ns < question->from_ns) return false;
    if (question->to_ns != 0 && summary->first_ns >= question->to_ns) return false;
    return question->hash == 0 || summary_may_name(summary, question->hash);
}

/* Looks at the segment at `position`. 1: it cannot matter. */
static int enter_segment(struct history *history) {
    struct log_segment *segment = &history->segment;
    struct summary *summary = NULL;
    if (history->position < log_start(history->log)) return LOG_RETIRED;
    if (!log_segment_at(history->log, history->position, segment)) return LOG_END;
    bool is_closed = segment->end != 0;
    bool is_known =
        is_closed && summary_read(&summary, history->log, segment->base) == 0 && summary->end == segment->end;
    bool skip = is_known && !may_matter(&history->question, summary);
    summary_free(summary);
    if (skip) {
        history->position = segment->end;
        history->stats.segments_skipped++;
        return 1;
    }
    int error = log_cursor_open(&history->cursor, history->log, history->position, false);
    if (!error) history->stats.segments_read++;
    return error;
}

/* The cursor has come to the end of its segment. */
static void leave_segment(struct history *history) {
    history->position = history->segment.end;
    log_cursor_close(history->cursor);
    history->cursor = NULL;
}

static bool is_in_time(const struct history_question *question, const struct frame_header *header) {
    return header->steady_ns >= question->from_ns && (question->to_ns == 0 || header->steady_ns < question->to_ns);
}

/* The next frame of the segment. LOG_END: no more of it (yet). */
static int next_of_segment(struct history *history, uint64_t limit, struct log_view *out,
                           const Tarry__FrameBody **out_body) {
    if (history->segment.end != 0 && limit > history->segment.end) limit = history->segment.end;
    do {
        int error = log_cursor_next(history->cursor, limit, out);
        if (error) return error;
    } while (!is_in_time(&history->question, &out->header));
    const Tarry__FrameBody *body = NULL;
    arena_reset(&history->arena);
    if (out->header.type == FRAME_COMMIT) {
        body = tarry__frame_body__unpack(&history->arena.pb, out->header.body_size, out->body);
        if (!body) return LOG_DAMAGED;
    }
    *out_body = body;
    return 0;
}

int history_next(struct history *history, uint64_t limit, struct log_view *out, const Tarry__FrameBody **out_body) {
    for (;;) {
        while (!history->cursor) {
            if (history->position >= limit) return LOG_END;
            int entered = enter_segment(history);
            if (entered < 0) return entered;
        }
        int error = next_of_segment(history, limit, out, out_body);
        bool is_over = error == LOG_END && history->segment.end != 0 &&
                       log_cursor_position(history->cursor) >= history->segment.end;
        if (!is_over) return error;
        leave_segment(history);
    }
}
