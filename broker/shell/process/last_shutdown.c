/* last_shutdown.c: see last_shutdown.h. */
#include "last_shutdown.h"

#include <errno.h>

#include "arena.h"
#include "tarry_limits.h"
#include "wire.h"

#define ARENA_MAX (8ull * FRAME_BODY_SIZE_MAX)

/* Finds the last commit frame below `end`, in segments that recovery has not scanned. 0: the frame is in a retired
 * segment. A segment usually has a commit frame: only if the broker was killed between a segment's creation and its
 * first frame does a segment contain only seals. */
static int find_last_commit(struct log *log, uint64_t end, uint64_t *out) {
    struct log_segment segment;
    *out = 0;
    for (uint64_t below = end; below > LOG_POSITION_FIRST && log_segment_at(log, below - 1, &segment);
         below = segment.base) {
        struct log_cursor *cursor;
        struct log_view view;
        int error = log_cursor_open(&cursor, log, segment.base, false);
        if (error != 0) return error;
        while ((error = log_cursor_next(cursor, below, &view)) == 0)
            if (view.header.type == FRAME_COMMIT) *out = view.header.position;
        log_cursor_close(cursor);
        if (error != LOG_END || *out != 0) return error == LOG_END ? 0 : error;
    }
    return 0;
}

static int says_stop(struct log *log, uint64_t position, bool *out) {
    struct log_cursor *cursor;
    struct log_view view;
    int error = log_cursor_open(&cursor, log, position, false);
    if (error != 0) return error;
    error = log_cursor_next(cursor, log_end(log), &view);
    if (error == 0) {
        struct arena arena;
        arena_init(&arena, ARENA_MAX);
        const Tarry__FrameBody *body = frame_body_unpack(&arena, view.header.body_size, view.body);
        if (body == NULL)
            error = arena.starved ? -ENOMEM : LOG_DAMAGED;
        else
            *out = body->n_records > 0 && body->records[body->n_records - 1]->fact_case == TARRY__RECORD__FACT_STOP;
        arena_deinit(&arena);
    }
    log_cursor_close(cursor);
    return error;
}

int last_shutdown(struct log *log, const struct log_recovery *found, Tarry__EpochPut__Before *out) {
    uint64_t position = found->last_commit;
    bool stopped = false;
    int error = 0;
    *out = TARRY__EPOCH_PUT__BEFORE__NOTHING;
    if (found->end == LOG_POSITION_FIRST) return 0;
    if (position == 0) error = find_last_commit(log, found->end, &position);
    if (error == 0 && position != 0) error = says_stop(log, position, &stopped);
    if (error != 0) return error;
    if (position == 0)
        *out = TARRY__EPOCH_PUT__BEFORE__NOT_SAID;
    else
        *out = stopped ? TARRY__EPOCH_PUT__BEFORE__STOPPED : TARRY__EPOCH_PUT__BEFORE__BROKEN_OFF;
    return 0;
}
