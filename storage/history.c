/* history.c: see history.h. Positions below the log's start are the archive's; where neither has them, there is a gap.
 */
#include "history.h"

#include <errno.h>
#include <stdlib.h>

#include "arena.h"

#define ARENA_SIZE_MAX ((size_t)256 << 20)
#define ARENA_KEEP ((size_t)8 << 20)

struct history {
    struct log *log;
    const struct archive *archive; /* NULL: there is none */
    struct history_question question;
    struct log_cursor *cursor;       /* in a segment of the log, or … */
    struct archive_cursor *archived; /* … of the archive; both NULL: the next segment has not been looked at */
    uint64_t position;               /* valid without a cursor */
    uint64_t end;                    /* of the cursor's segment; 0: it is still written to */
    uint64_t start;
    uint64_t *bases; /* of the archive's files, when it was looked at last */
    size_t base_count;
    struct history_gap gap;
    struct arena arena;
    struct history_stats stats;
};

/* ---- where to go on */

static int list_archive(struct history *history) {
    uint64_t *bases = NULL;
    size_t count = 0;
    int error = archive_list(history->archive, &bases, &count);
    if (error && error != -ENOENT) return error; /* a directory that is missing is an empty one */
    free(history->bases);
    history->bases = bases;
    history->base_count = count;
    return 0;
}

/* The first file that begins above `position`, or the log's start: where there is something again. */
static uint64_t next_start(const struct history *history, uint64_t position) {
    uint64_t start = log_start(history->log);
    for (size_t i = 0; i < history->base_count; i++)
        if (history->bases[i] > position) return history->bases[i] < start ? history->bases[i] : start;
    return start;
}

/* The file with the greatest base ≤ position. */
static bool file_below(const struct history *history, uint64_t position, uint64_t *out_base) {
    bool found = false;
    for (size_t i = 0; i < history->base_count && history->bases[i] <= position; i++) {
        *out_base = history->bases[i];
        found = true;
    }
    return found;
}

int history_open(struct history **out, struct log *log, const struct archive *archive,
                 const struct history_question *question) {
    struct history *history = calloc(1, sizeof *history);
    if (!history) return -ENOMEM;
    *history = (struct history){.log = log, .archive = archive, .question = *question};
    int error = archive ? list_archive(history) : 0;
    if (error) {
        free(history);
        return error;
    }
    arena_init(&history->arena, ARENA_SIZE_MAX);
    history->arena.keep_max = ARENA_KEEP; /* the frames of a busy log are alike: what one needed the next one does */
    history->start = next_start(history, 0);
    history->position = question->position != 0 ? question->position : history->start;
    *out = history;
    return 0;
}

void history_close(struct history *history) {
    if (!history) return;
    log_cursor_close(history->cursor);
    archive_cursor_close(history->archived);
    arena_deinit(&history->arena);
    free(history->bases);
    free(history);
}

uint64_t history_start(const struct history *history) {
    return history->start;
}

uint64_t history_position(const struct history *history) {
    if (history->archived) return archive_cursor_position(history->archived);
    return history->cursor ? log_cursor_position(history->cursor) : history->position;
}

void history_gap(const struct history *history, struct history_gap *out) {
    *out = history->gap;
}

void history_stats(const struct history *history, struct history_stats *out) {
    *out = history->stats;
}

/* ---- entering and leaving segments */

static bool is_in_question(const struct history_question *question, uint64_t first_ns, uint64_t last_ns) {
    return last_ns >= question->from_ns && (question->to_ns == 0 || first_ns < question->to_ns);
}

/* Takes the summary, which may be NULL. */
static bool may_matter(const struct history_question *question, struct summary *summary, uint64_t end) {
    bool is_known = summary && summary->end == end;
    bool may = !is_known || (is_in_question(question, summary->first_ns, summary->last_ns) &&
                             (question->hash == 0 || summary_may_name(summary, question->hash)));
    summary_free(summary);
    return may;
}

/* What the functions below return: 0: a segment was entered or skipped; HISTORY_GAP; ABSENT; or negative. */
#define ABSENT 2

static int skip_to(struct history *history, uint64_t position) {
    history->position = position;
    history->stats.segments_skipped++;
    return 0;
}

static int enter_log(struct history *history) {
    struct log_segment segment;
    struct summary *summary = NULL;
    if (!log_segment_at(history->log, history->position, &segment)) return LOG_END;
    if (segment.end != 0 && summary_read(&summary, history->log, segment.base) != 0) summary = NULL;
    if (!may_matter(&history->question, summary, segment.end)) return skip_to(history, segment.end);
    int error = log_cursor_open(&history->cursor, history->log, history->position, history->question.contents);
    if (error == LOG_RETIRED && history->archive) return 0; /* just now */
    if (error) return error;
    history->end = segment.end;
    history->stats.segments_read++;
    return 0;
}

static int tell_gap(struct history *history, uint64_t base, const char *problem) {
    uint64_t to = next_start(history, history->position);
    history->gap = (struct history_gap){.from = history->position, .to = to, .problem = problem, .base = base};
    history->position = to;
    return HISTORY_GAP;
}

static int file_failed(struct history *history, uint64_t base, int error, const char *problem) {
    if (error == -ENOENT) return ABSENT; /* pruned since it was listed */
    return error <= LOG_DAMAGED ? tell_gap(history, base, problem) : error;
}

static bool file_may_matter(const struct history *history, const struct archive_info *info) {
    const struct archive *archive = history->archive;
    struct summary *summary = NULL;
    if (!is_in_question(&history->question, info->first_ns, info->last_ns)) return false;
    if (history->question.hash == 0) return true;
    if (summary_read_from(&summary, archive->disk, archive->directory, info->base) != 0) summary = NULL;
    return may_matter(&history->question, summary, info->end);
}

/* Looks at the file that begins at `base`, at or below the position. */
static int enter_file(struct history *history, uint64_t base) {
    struct archive_info info;
    const char *problem;
    int error = archive_look(history->archive, base, &info, &problem);
    if (error) return file_failed(history, base, error, problem);
    if (info.end <= history->position) return ABSENT;
    if (!file_may_matter(history, &info)) return skip_to(history, info.end);
    error = archive_cursor_open(&history->archived, history->archive, base, history->position,
                                history->question.contents, &problem);
    if (error) return file_failed(history, base, error, problem);
    history->end = info.end;
    history->stats.segments_read++;
    history->stats.segments_archived++;
    return 0;
}

static int enter_archive(struct history *history) {
    uint64_t base;
    if (file_below(history, history->position, &base)) {
        int result = enter_file(history, base);
        if (result != ABSENT) return result;
    }
    /* What the log has retired since the archive was listed is there by now. */
    int error = list_archive(history);
    if (error) return error;
    int result = file_below(history, history->position, &base) ? enter_file(history, base) : ABSENT;
    return result == ABSENT ? tell_gap(history, 0, NULL) : result;
}

static int enter_segment(struct history *history) {
    if (history->position >= log_start(history->log)) return enter_log(history);
    return history->archive ? enter_archive(history) : LOG_RETIRED;
}

static void leave_segment(struct history *history) {
    history->position = history_position(history);
    log_cursor_close(history->cursor);
    archive_cursor_close(history->archived);
    history->cursor = NULL;
    history->archived = NULL;
}

/* ---- frames */

static bool is_in_time(const struct history_question *question, const struct frame_header *header) {
    return header->steady_ns >= question->from_ns && (question->to_ns == 0 || header->steady_ns < question->to_ns);
}

static int next_frame(struct history *history, uint64_t limit, struct log_view *out) {
    return history->archived ? archive_cursor_next(history->archived, limit, out)
                             : log_cursor_next(history->cursor, limit, out);
}

/* The next frame of the segment. LOG_END: no more of it (yet). */
static int next_of_segment(struct history *history, uint64_t limit, struct log_view *out,
                           const Tarry__FrameBody **out_body) {
    if (history->end != 0 && limit > history->end) limit = history->end;
    do {
        int error = next_frame(history, limit, out);
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

/* The segment gives no frame. 0: go on with the next one. */
static int after_segment(struct history *history, int error) {
    uint64_t position = history_position(history);
    if (error == LOG_END && history->end != 0 && position >= history->end) {
        leave_segment(history);
        return 0;
    }
    if (error == LOG_RETIRED && history->archive) { /* under the cursor: the archive has it */
        leave_segment(history);
        return 0;
    }
    if (history->archived && error <= LOG_DAMAGED && error != LOG_END) {
        const char *problem = archive_cursor_problem(history->archived);
        uint64_t base = archive_cursor_info(history->archived)->base;
        leave_segment(history);
        return tell_gap(history, base, problem ? problem : "holds a frame whose body is no message");
    }
    return error;
}

int history_next(struct history *history, uint64_t limit, struct log_view *out, const Tarry__FrameBody **out_body) {
    for (;;) {
        while (!history->cursor && !history->archived) {
            if (history->position >= limit) return LOG_END;
            int entered = enter_segment(history);
            if (entered != 0) return entered;
        }
        int error = next_of_segment(history, limit, out, out_body);
        if (error == 0) return 0;
        error = after_segment(history, error);
        if (error != 0) return error;
    }
}
