/* history.c: see history.h. Frames below log_start are read from the archive; if the archive lacks them, there is a
 * gap. */
#include "history.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "wire.h"

#define ARENA_SIZE_MAX ((size_t)256 << 20)
#define ARENA_KEEP ((size_t)8 << 20)

struct history {
    struct log *log;
    const struct archive *archive;    /* archive of retired segments; NULL: none */
    struct history_question question; /* the query; its `task.key` is invalid after history_open */
    uint64_t hash;                    /* summary hash of the task; 0: every frame matches */
    uint8_t *needle; /* bytes to search in each frame's body: a frame without them cannot match; NULL: no search */
    size_t needle_size;
    struct log_cursor *cursor; /* cursor in a segment of the log */
    /* Cursor in an archived segment. If `archived` and `cursor` are both NULL, no segment is open. */
    struct archive_cursor *archived;
    uint64_t position;            /* position of the reader; valid while no cursor is open */
    uint64_t end;                 /* end of the cursor's segment; 0: the writer still uses the segment */
    struct summary_answer answer; /* summary of the current segment; zeros: it has no summary */
    size_t range;                 /* index of the current range in `answer` */
    uint64_t start;
    uint64_t *bases; /* bases of the archive's files at the last listing */
    size_t base_count;
    struct history_gap gap;
    struct arena arena;
    struct history_stats stats;
};

/* ---- finding the next segment */

static int list_archive(struct history *history) {
    uint64_t *bases = NULL;
    size_t count = 0;
    int error = archive_list(history->archive, &bases, &count);
    if (error && error != -ENOENT) return error; /* a missing directory counts as an empty one */
    free(history->bases);
    history->bases = bases;
    history->base_count = count;
    return 0;
}

/* Returns the next position with frames: the base of the first archive file above `position`, or log_start. */
static uint64_t next_start(const struct history *history, uint64_t position) {
    uint64_t start = log_start(history->log);
    for (size_t i = 0; i < history->base_count; i++)
        if (history->bases[i] > position) return history->bases[i] < start ? history->bases[i] : start;
    return start;
}

/* Finds the archive file with the greatest base ≤ position. */
static bool file_below(const struct history *history, uint64_t position, uint64_t *out_base) {
    bool found = false;
    for (size_t i = 0; i < history->base_count && history->bases[i] <= position; i++) {
        *out_base = history->bases[i];
        found = true;
    }
    return found;
}

/* Encodes the id or key as in a task's or redaction's record. Both records use the same fields, and each number has
 * only one encoding. */
static int make_needle(struct history *history, const struct history_task *task) {
    Tarry__Task packed = TARRY__TASK__INIT;
    packed.id = task->id;
    if (task->id == 0) packed.key = (ProtobufCBinaryData){.len = task->key_size, .data = (uint8_t *)task->key};
    history->needle_size = tarry__task__get_packed_size(&packed);
    if (history->needle_size == 0) return 0;
    if (task->id != 0)
        history->hash = summary_task_hash(task->id);
    else if (task->queue != 0)
        history->hash = summary_key_hash(task->queue, task->key, task->key_size);
    history->needle = malloc(history->needle_size);
    if (!history->needle) return -ENOMEM;
    tarry__task__pack(&packed, history->needle);
    return 0;
}

int history_open(struct history **out, struct log *log, const struct archive *archive,
                 const struct history_question *question) {
    struct history *history = calloc(1, sizeof *history);
    if (!history) return -ENOMEM;
    *history = (struct history){.log = log, .archive = archive, .question = *question};
    arena_init(&history->arena, ARENA_SIZE_MAX);
    int error = make_needle(history, &question->task);
    if (!error && archive) error = list_archive(history);
    if (error) {
        history_close(history);
        return error;
    }
    history->arena.keep_max = ARENA_KEEP; /* keep memory, because the frames of a busy log have similar sizes */
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
    summary_answer_deinit(&history->answer);
    free(history->needle);
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

/* Returns false if no frame of the segment can match, by its summary in `answer`. */
static bool may_matter(struct history *history, uint64_t end) {
    struct summary_answer *answer = &history->answer;
    if (answer->end != end || end == 0) { /* there is no summary, or it lacks the segment's last frames */
        summary_answer_deinit(answer);
        return true;
    }
    while (history->range < answer->count && answer->ranges[history->range].to <= history->position) history->range++;
    return history->range < answer->count && is_in_question(&history->question, answer->first_ns, answer->last_ns);
}

/* Returns the position of the first frame to read in a segment. */
static uint64_t first_position(const struct history *history) {
    if (history->answer.count == 0) return history->position;
    uint64_t from = history->answer.ranges[history->range].from;
    return from > history->position ? from : history->position;
}

/* Returns the end of the current range in the segment; 0: no end yet. */
static uint64_t range_end(const struct history *history) {
    return history->answer.count == 0 ? history->end : history->answer.ranges[history->range].to;
}

static void forget_answer(struct history *history) {
    summary_answer_deinit(&history->answer);
    history->range = 0;
}

/* Return value of enter_log and the other functions below that look for a segment: none has frames at the position.
 * Their other results are 0 (a segment was entered or skipped), HISTORY_GAP, and negative errors. */
#define ABSENT 2

static int skip_to(struct history *history, uint64_t position) {
    forget_answer(history);
    history->position = position;
    history->stats.segments_skipped++;
    return 0;
}

static int enter_log(struct history *history) {
    struct log_segment segment;
    if (!log_segment_at(history->log, history->position, &segment)) return LOG_END;
    if (segment.end != 0) (void)summary_ask_log(&history->answer, history->log, segment.base, history->hash);
    if (!may_matter(history, segment.end)) return skip_to(history, segment.end);
    int error = log_cursor_open(&history->cursor, history->log, first_position(history), history->question.contents);
    if (error) forget_answer(history);
    /* If the segment was retired, it is read from the archive. */
    if (error == LOG_RETIRED && history->archive) return 0;
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
    if (error == -ENOENT) return ABSENT; /* the file was pruned after the listing */
    return error <= LOG_DAMAGED ? tell_gap(history, base, problem) : error;
}

static bool file_may_matter(struct history *history, const struct archive_info *info) {
    const struct archive *archive = history->archive;
    if (!is_in_question(&history->question, info->first_ns, info->last_ns)) return false;
    if (history->hash == 0) return true;
    (void)summary_ask(&history->answer, archive->disk, archive->directory, info->base, history->hash);
    return may_matter(history, info->end);
}

/* Enters or skips the archive file `base`, which is at or below the position. */
static int enter_file(struct history *history, uint64_t base) {
    struct archive_info info;
    const char *problem;
    int error = archive_look(history->archive, base, &info, &problem);
    if (error) return file_failed(history, base, error, problem);
    if (info.end <= history->position) return ABSENT;
    if (!file_may_matter(history, &info)) return skip_to(history, info.end);
    error = archive_cursor_open(&history->archived, history->archive, base, first_position(history),
                                history->question.contents, &problem);
    if (error) forget_answer(history);
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
    /* List again, because the archive has the segments that the log retired since the last listing. */
    int error = list_archive(history);
    if (error) return error;
    int result = file_below(history, history->position, &base) ? enter_file(history, base) : ABSENT;
    return result == ABSENT ? tell_gap(history, 0, NULL) : result;
}

static int enter_segment(struct history *history) {
    if (history->position >= log_start(history->log)) return enter_log(history);
    return history->archive ? enter_archive(history) : LOG_RETIRED;
}

/* Leaves the segment; reading continues at `position`. */
static void leave_segment(struct history *history, uint64_t position) {
    history->position = position;
    log_cursor_close(history->cursor);
    archive_cursor_close(history->archived);
    history->cursor = NULL;
    history->archived = NULL;
    forget_answer(history);
}

/* Leaves the current range and continues with the next one. */
static void leave_range(struct history *history) {
    if (++history->range >= history->answer.count) {
        leave_segment(history, history->end);
        return;
    }
    uint64_t from = history->answer.ranges[history->range].from;
    if (history->archived)
        archive_cursor_seek(history->archived, from);
    else
        log_cursor_seek(history->cursor, from);
}

/* ---- frames */

static bool is_in_time(const struct history_question *question, const struct frame_header *header) {
    return header->steady_ns >= question->from_ns && (question->to_ns == 0 || header->steady_ns < question->to_ns);
}

static bool may_name(const struct history *history, const struct log_view *view) {
    return !history->needle ||
           memmem(view->body, view->header.body_size, history->needle, history->needle_size) != NULL;
}

static int next_frame(struct history *history, uint64_t limit, struct log_view *out) {
    return history->archived ? archive_cursor_next(history->archived, limit, out)
                             : log_cursor_next(history->cursor, limit, out);
}

/* Reads the next frame of the range. LOG_END: no more frames yet. */
static int next_of_range(struct history *history, uint64_t limit, struct log_view *out,
                         const Tarry__FrameBody **out_body) {
    uint64_t end = range_end(history);
    if (end != 0 && limit > end) limit = end;
    do {
        int error = next_frame(history, limit, out);
        if (error) return error;
        history->stats.frames_read++;
    } while (!is_in_time(&history->question, &out->header) || !may_name(history, out));
    const Tarry__FrameBody *body = NULL;
    arena_reset(&history->arena);
    if (out->header.type == FRAME_COMMIT) {
        body = frame_body_unpack(&history->arena, out->header.body_size, out->body);
        if (!body) return LOG_DAMAGED;
    }
    *out_body = body;
    return 0;
}

/* Handles the end of a range or an error. 0: continue with the next range. */
static int after_range(struct history *history, int error) {
    uint64_t position = history_position(history), end = range_end(history);
    if (error == LOG_END && end != 0 && position >= end) {
        leave_range(history);
        return 0;
    }
    /* The log retired the segment while it was read, so the archive has it. */
    if (error == LOG_RETIRED && history->archive) {
        leave_segment(history, position);
        return 0;
    }
    if (history->archived && error <= LOG_DAMAGED && error != LOG_END) {
        const char *problem = archive_cursor_problem(history->archived);
        uint64_t base = archive_cursor_info(history->archived)->base;
        leave_segment(history, position);
        return tell_gap(history, base, problem ? problem : "contains a frame whose body is malformed");
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
        int error = next_of_range(history, limit, out, out_body);
        if (error == 0) return 0;
        error = after_range(history, error);
        if (error != 0) return error;
    }
}
