/* as_of.c: see as_of.h. */
#include "as_of.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tarry_limits.h"

#define NS_PER_MS 1000000u
#define INDEX_MAP_SIZE (4ull << 30) /* initial size of the index's map, in bytes of address space */
#define INDEX_MEMORY (64ull << 20)
/* Limit of rows examined in one snapshot. */
#define PAGE_ROWS 4096
#define MAINTAIN_STEPS 4 /* maximum maintenance steps after each commit; after the last commit there is no maximum */

struct replay {
    const struct as_of_source *source;
    const struct as_of_question *question;
    struct as_of *moment;
    struct history *history;
    bool is_copy;   /* the index started as a copy of the source's index */
    bool met;       /* true: the index was compared with the source's index, at the source's position */
    bool has_frame; /* true: `last` is valid; it is the last frame that the answer includes */
    bool is_beyond; /* true: the frame after `last` was read; the next fields have its times */
    struct frame_header last;
    uint64_t next_ms;
    uint64_t next_wall_ns;
};

static uint64_t ms_of(uint64_t ns) {
    return ns / NS_PER_MS;
}

static uint64_t end_of(const struct frame_header *header) {
    return header->position + frame_size(header->body_size, header->blob_size);
}

static bool counts(const struct as_of_question *question, const struct frame_header *header) {
    if (question->by_position) return end_of(header) <= question->position;
    return ms_of(header->steady_ns) <= question->steady_ms;
}

/* Returns true if the moment is not before the source index's position. */
static bool is_ahead_of_index(const struct as_of_source *source, const struct as_of_question *question) {
    if (source->meta.position == LOG_POSITION_FIRST) return false;
    if (question->by_position) return source->meta.position <= question->position;
    return ms_of(source->meta.steady_ns) <= question->steady_ms;
}

static int limit(struct as_of *out, int error, uint64_t position, uint64_t ms) {
    out->limit = position;
    out->limit_ms = ms;
    return error;
}

static int too_old(struct replay *replay) {
    const struct index_meta *meta = &replay->source->meta;
    return limit(replay->moment, AS_OF_TOO_OLD, meta->position, ms_of(meta->steady_ns));
}

/* ---- the index of the moment */

static int open_index(struct replay *replay, const char *directory, bool is_lasting) {
    char message[1024];
    struct index_options options = {
        .directory = directory,
        .memory = INDEX_MEMORY,
        .map_size = INDEX_MAP_SIZE,
        .outcomes_max = OUTCOMES_MAX_DEFAULT,
        .outcome_retention_ms = OUTCOME_RETENTION_DEFAULT_MS,
        .no_sync = !is_lasting,
    };
    memcpy(options.cluster, replay->source->cluster, sizeof options.cluster);
    if (replay->is_copy) {
        if (mkdir(directory, 0700) != 0) return -errno;
        int error = index_clone(replay->source->index, directory);
        if (error) return error;
    }
    return index_open(&replay->moment->index, &options, message, sizeof message);
}

static int commit(struct index *index, uint32_t steps_max) {
    int error = index_commit(index);
    bool more = true;
    for (uint32_t i = 0; !error && more && i < steps_max; i++) error = index_maintain(index, &more);
    return error;
}

/* Compares the index with the source's index at the same position; a difference means that one of them is wrong. */
static int meet(struct replay *replay) {
    struct index_meta own;
    const struct index_meta *theirs = &replay->source->meta;
    int error = commit(replay->moment->index, MAINTAIN_STEPS);
    if (error) return error;
    index_meta(replay->moment->index, &own);
    replay->met = true;
    bool is_same = own.position == theirs->position && memcmp(own.chain, theirs->chain, FRAME_CHAIN_SIZE) == 0 &&
                   own.tally.digest == theirs->tally.digest && own.tally.live == theirs->tally.live;
    return is_same ? 0 : AS_OF_DIFFERS;
}

/* ---- frames */

static int take_frame(struct replay *replay, const struct frame_header *header, const Tarry__FrameBody *body) {
    static const Tarry__FrameBody empty = TARRY__FRAME_BODY__INIT;
    struct index *index = replay->moment->index;
    int error = 0;
    if (!replay->met && header->position == replay->source->meta.position) error = meet(replay);
    if (!error) error = index_absorb(index, header, body ? body : &empty);
    if (error) return error;
    replay->last = *header;
    replay->has_frame = true;
    replay->moment->records += body ? body->n_records : 0;
    return index_pending(index) >= INDEX_BATCH_RECORDS ? commit(index, MAINTAIN_STEPS) : 0;
}

static int take_frames(struct replay *replay) {
    const struct as_of_source *source = replay->source;
    struct as_of *moment = replay->moment;
    uint64_t end = replay->question->by_position ? replay->question->position : source->end;
    struct log_view view;
    const Tarry__FrameBody *body;
    int error;
    while ((error = history_next(replay->history, source->end, &view, &body)) == 0) {
        if (!counts(replay->question, &view.header)) {
            replay->is_beyond = true;
            replay->next_ms = ms_of(view.header.steady_ns);
            replay->next_wall_ns = view.header.wall_ns;
            return 0;
        }
        error = take_frame(replay, &view.header, body);
        if (error) return error;
        if (source->progress) source->progress(source->argument, view.header.position, end, moment->records);
    }
    if (error == HISTORY_GAP) return too_old(replay);
    return error == LOG_END ? 0 : error;
}

/* Sets the steady and wall time as of which the state is shown (as_of.h). */
static void tell_time(struct replay *replay) {
    struct as_of *moment = replay->moment;
    uint64_t steady_ns = replay->has_frame ? replay->last.steady_ns : replay->source->meta.steady_ns;
    uint64_t wall_ns = replay->has_frame ? replay->last.wall_ns : replay->source->meta.wall_ns;
    moment->steady_ns = steady_ns;
    moment->wall_ns = wall_ns;
    if (replay->question->by_position) return;
    uint64_t asked_ns = replay->question->steady_ms * NS_PER_MS;
    if (asked_ns <= steady_ns) return;
    moment->steady_ns = asked_ns;
    moment->wall_ns = wall_ns + (asked_ns - steady_ns);
    if (replay->is_beyond && moment->wall_ns > replay->next_wall_ns) moment->wall_ns = replay->next_wall_ns;
}

/* Completes the replay after all frames up to the moment were absorbed. */
static int arrive(struct replay *replay, bool is_lasting) {
    struct as_of *moment = replay->moment;
    const struct index_meta *theirs = &replay->source->meta;
    if (!replay->has_frame && !replay->is_copy)
        return limit(moment, AS_OF_BEFORE, LOG_POSITION_FIRST, replay->is_beyond ? replay->next_ms : 0);
    if (!replay->met && replay->has_frame && end_of(&replay->last) == theirs->position) {
        int error = meet(replay);
        if (error) return error;
    }
    int error = commit(moment->index, is_lasting ? UINT32_MAX : 0);
    if (error) return error;
    index_meta(moment->index, &moment->meta);
    tell_time(replay);
    return 0;
}

static int replay_all(struct replay *replay, const char *directory, bool is_lasting) {
    const struct as_of_source *source = replay->source;
    struct history_question past = {.position = replay->is_copy ? source->meta.position : 0};
    int error = history_open(&replay->history, source->log, source->archive, &past);
    if (error) return error;
    if (!replay->is_copy && history_start(replay->history) != LOG_POSITION_FIRST) return too_old(replay);
    error = open_index(replay, directory, is_lasting);
    if (!error) error = take_frames(replay);
    return error ? error : arrive(replay, is_lasting);
}

int as_of_make(struct as_of *out, const struct as_of_source *source, const struct as_of_question *question,
               const char *directory, bool is_lasting) {
    *out = (struct as_of){0};
    if (question->by_position && question->position > source->end) return limit(out, AS_OF_BEYOND, source->end, 0);
    if (!question->by_position && question->steady_ms > UINT64_MAX / NS_PER_MS) return -ERANGE;
    struct replay replay = {.source = source, .question = question, .moment = out};
    replay.is_copy = is_ahead_of_index(source, question);
    replay.met = replay.is_copy;
    int error = replay_all(&replay, directory, is_lasting);
    history_close(replay.history);
    if (error) {
        index_close(out->index);
        out->index = NULL;
    }
    return error;
}

void as_of_close(struct as_of *moment) {
    index_close(moment->index);
    *moment = (struct as_of){0};
}

/* ---- looking */

/* Returns true if the task was leased ahead of its due time and not delivered yet (broker/core/ahead.h). */
static bool is_ahead(const struct as_of *moment, const struct row *row) {
    return row->state == ROW_LEASED && row->delivered_ms > ms_of(moment->steady_ns);
}

uint32_t as_of_state(const struct as_of *moment, const struct row *row) {
    if (is_ahead(moment, row)) return STATE_PENDING;
    uint64_t now_ms = ms_of(row->base == ROW_WALL ? moment->wall_ns : moment->steady_ns);
    uint32_t state = state_bit_of(row, now_ms);
    return state == STATE_READY && row->expires_ms != 0 && row_expires_at(row) <= now_ms ? 0 : state;
}

static void count_row(const struct as_of *moment, const struct row *row, struct as_of_counts *counts) {
    counts->ahead += is_ahead(moment, row);
    switch (as_of_state(moment, row)) {
    case STATE_PENDING:
        counts->pending++;
        break;
    case STATE_READY:
        counts->ready++;
        break;
    case STATE_IN_FLIGHT:
        counts->in_flight++;
        break;
    case STATE_DEAD:
        counts->dead++;
        break;
    default:
        counts->expired++;
    }
}

static int count_rows(const struct as_of *moment, struct as_of_counts *out, struct arena *arena) {
    for (uint64_t after = 0; after != UINT64_MAX;) {
        struct index_rows rows;
        arena_reset(arena);
        int error = index_scan(moment->index, 0, after, UINT64_MAX, PAGE_ROWS, PAGE_ROWS, arena, &rows, &after);
        if (error) return error;
        for (size_t i = 0; i < rows.count; i++) count_row(moment, &rows.rows[i], &out[queue_place(rows.rows[i].queue)]);
    }
    return 0;
}

static bool adds_up(const struct queue_tally *tally, const struct as_of_counts *counts) {
    uint64_t waiting = 0;
    for (size_t i = 0; i < ROW_BASES * PRIORITY_COUNT; i++)
        waiting += tally->waiting[i / PRIORITY_COUNT][i % PRIORITY_COUNT];
    return counts->pending + counts->ready + counts->expired == waiting + counts->ahead &&
           counts->in_flight + counts->ahead == tally->in_flight && counts->dead == tally->dead;
}

int as_of_count(const struct as_of *moment, struct as_of_counts *out) {
    struct arena arena;
    arena_init(&arena, SIZE_MAX);
    int error = count_rows(moment, out, &arena);
    arena_deinit(&arena);
    for (uint32_t place = 0; !error && place <= QUEUE_PLACES; place++)
        if (!adds_up(&moment->meta.tally.queues[place], &out[place])) error = AS_OF_DIFFERS;
    return error;
}

/* ---- a directory of its own */

static int keep_contents(struct as_of *moment, const struct as_of_source *source) {
    struct history *history;
    struct log_view view;
    const Tarry__FrameBody *body;
    /* Start at log_start, because the copied index has the contents below it. */
    struct history_question past = {.position = moment->meta.log_start, .contents = true};
    int error = history_open(&history, source->log, source->archive, &past);
    if (error) return error;
    while ((error = history_next(history, moment->meta.position, &view, &body)) == 0) {
        error = index_retire_frame(moment->index, &view.header, body, view.blob);
        if (error) break;
    }
    history_close(history);
    if (error == HISTORY_GAP) error = AS_OF_TOO_OLD;
    return error == LOG_END ? index_retire_commit(moment->index, moment->meta.position) : error;
}

static int make_log(const struct as_of *moment, const struct as_of_source *source, const struct log_options *options) {
    struct log_segment segment = {.base = LOG_POSITION_FIRST};
    (void)log_segment_at(source->log, moment->meta.position - 1, &segment);
    struct log_origin origin = {
        .position = moment->meta.position,
        .previous_base = segment.base,
        .epoch = moment->meta.tally.epoch,
        .steady_ns = moment->meta.steady_ns,
        .wall_ns = moment->meta.wall_ns,
    };
    memcpy(origin.chain, moment->meta.chain, FRAME_CHAIN_SIZE);
    struct log *log = NULL;
    int error = log_make(&log, options, &origin);
    struct log_frame seal = {
        .type = FRAME_SEAL,
        .epoch = origin.epoch,
        .position = origin.position,
        .steady_ns = moment->steady_ns,
        .wall_ns = moment->wall_ns,
    };
    if (!error) error = log_append(log, &seal);
    if (!error) error = log_sync(log);
    log_close(log);
    return error;
}

int as_of_complete(struct as_of *moment, const struct as_of_source *source, const struct log_options *log,
                   char *message, size_t message_size) {
    struct index_verification rows = {0};
    int error = keep_contents(moment, source);
    if (!error) error = index_verify(moment->index, &rows, message, message_size, NULL, NULL);
    if (error == INDEX_DAMAGED && rows.erased_task) error = AS_OF_ERASED;
    if (!error && rows.digest != moment->meta.tally.digest) error = AS_OF_DIFFERS;
    if (!error) error = make_log(moment, source, log);
    return error;
}
