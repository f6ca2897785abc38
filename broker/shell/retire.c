/* retire.c: see retire.h. */
#include "retire.h"

#include <errno.h>
#include <inttypes.h>

#include "logfmt.h"
#include "shell.h"
#include "summary.h"

/* Bytes of frames per slice. */
#define SLICE_BYTES (2u << 20)
/* A segment grows old without anything happening; it need not go to the second. */
#define LOOK_AGAIN_NS (60ull * 1000000000ull)

void retire_init(struct retirement *retire, struct shell *shell) {
    *retire = (struct retirement){.shell = shell};
    shell_arena_init(&retire->arena);
}

/* The oldest segment, if it lies wholly below the index's position and the retention asked for is over. */
static bool due(struct retirement *retire, struct log_segment *out) {
    struct shell *shell = retire->shell;
    uint64_t below = index_position(shell->index), kept = node_kept_from(&shell->node);
    if (!log_oldest(shell->log, kept < below ? kept : below, out)) return false;
    struct log_stats stats;
    log_stats(shell->log, &stats);
    if (stats.bytes > shell->config.retain_log_size) return true;
    uint64_t now_ns = clock_now(&shell->clock, NULL).wall_ns;
    return now_ns > out->wall_ns && (now_ns - out->wall_ns) / NS_PER_MS > shell->config.retain_log_age_ms;
}

bool retire_active(const struct retirement *retire) {
    return retire->cursor != NULL;
}

uint64_t retire_wait_ns(struct retirement *retire) {
    struct log_segment segment;
    if (!due(retire, &segment)) return LOOK_AGAIN_NS;
    bool is_waiting = segment.base == retire->asked && !archivist_has(&retire->shell->archivist, segment.end);
    return is_waiting ? LOOK_AGAIN_NS : 0;
}

/* The archive has it. Otherwise it is asked to, once; it wakes us. */
static bool archived(struct retirement *retire, const struct log_segment *segment) {
    struct archivist *archivist = &retire->shell->archivist;
    if (archivist_has(archivist, segment->end)) return true;
    if (retire->asked != segment->base) archivist_want(archivist, segment->base);
    retire->asked = segment->base;
    return false;
}

static int put_off(struct retirement *retire, int error) {
    if (error != -ENOSPC) shell_fail("retire_failed", error);
    log_cursor_close(retire->cursor);
    retire->cursor = NULL;
    return error;
}

static int finish(struct retirement *retire) {
    struct shell *shell = retire->shell;
    /* Only once the transaction that replaces it is synced may the segment go (LOG-3). */
    int error = index_retire_commit(shell->index, retire->segment.end);
    if (error != 0) return put_off(retire, error);
    log_cursor_close(retire->cursor);
    retire->cursor = NULL;
    signer_retire(&shell->signer, retire->segment.end);
    error = log_retire(shell->log, retire->segment.base);
    if (error == LOG_PINNED) return 0; /* a backup began meanwhile: it goes when that is over */
    if (error != 0) shell_fail("retire_failed", error);
    summary_delete(shell->log, retire->segment.base);
    logfmt("segment_retired", "base=%" PRIu64 " end=%" PRIu64 " bytes=%" PRIu64, retire->segment.base,
           retire->segment.end, retire->segment.bytes);
    return 1;
}

static int retire_frame(struct retirement *retire, const struct log_view *view) {
    Tarry__FrameBody *body = tarry__frame_body__unpack(&retire->arena.pb, view->header.body_size, view->body);
    if (body == NULL) shell_fail("retire_failed", LOG_DAMAGED);
    int error = index_retire_frame(retire->shell->index, &view->header, body, view->blob);
    arena_reset(&retire->arena);
    return error;
}

int retire_step(struct retirement *retire) {
    if (retire->cursor == NULL) {
        if (!due(retire, &retire->segment) || !archived(retire, &retire->segment)) return 0;
        int error = log_cursor_open(&retire->cursor, retire->shell->log, retire->segment.base, true);
        if (error != 0) shell_fail("retire_failed", error);
    }
    uint64_t from = log_cursor_position(retire->cursor);
    while (log_cursor_position(retire->cursor) - from < SLICE_BYTES) {
        struct log_view view;
        int error = log_cursor_next(retire->cursor, retire->segment.end, &view);
        if (error == LOG_END) return finish(retire);
        if (error != 0) shell_fail("retire_failed", error);
        error = retire_frame(retire, &view);
        if (error != 0) return put_off(retire, error);
    }
    return 1;
}
