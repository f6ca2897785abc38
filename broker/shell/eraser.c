/* eraser.c: see eraser.h. */
#include "eraser.h"

#include <errno.h>
#include <inttypes.h>

#include "logfmt.h"
#include "shell.h"

/* Redactions per slice: contents of a MiB each still take less than a tenth of a second. */
#define SLICE_COUNT 64
/* How long to wait before looking whether the backup is over. */
#define PINNED_WAIT_NS 100000000ull

void eraser_init(struct eraser *eraser, struct shell *shell) {
    *eraser = (struct eraser){.shell = shell};
    shell_arena_init(&eraser->arena);
}

uint64_t eraser_wait_ns(const struct eraser *eraser) {
    struct index *index = eraser->shell->index;
    if (index_erased(index) >= index_position(index)) return UINT64_MAX;
    return eraser->pinned ? PINNED_WAIT_NS : 0;
}

static void erase_in_log(struct eraser *eraser, Tarry__Redaction *const *redactions, size_t count) {
    struct log_content contents[SLICE_COUNT];
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        const Tarry__Redaction *redaction = redactions[i];
        if (redaction->frame == 0) continue; /* it has left the log */
        contents[found++] = (struct log_content){redaction->frame, redaction->blob_at, redaction->blob_size};
    }
    int error = log_erase(eraser->shell->log, contents, found);
    if (error != 0) shell_fail("erase_failed", error);
}

/* 1, or -ENOSPC. */
static int erase_slice(struct eraser *eraser, Tarry__Redaction *const *redactions, size_t count) {
    erase_in_log(eraser, redactions, count);
    int error = index_redactions_done(eraser->shell->index, redactions, count);
    if (error == -ENOSPC) return error;
    if (error != 0) shell_fail("erase_failed", error);
    logfmt("erased", "tasks=%zu", count);
    return 1;
}

int eraser_step(struct eraser *eraser) {
    struct shell *shell = eraser->shell;
    Tarry__Redaction **redactions;
    size_t count;
    if (index_erased(shell->index) >= index_position(shell->index)) return 0;
    arena_reset(&eraser->arena);
    int error = index_redactions(shell->index, SLICE_COUNT, &eraser->arena, &redactions, &count);
    if (error != 0) shell_fail("erase_failed", error);
    if (count == 0) return 0;
    eraser->pinned = !log_erase_begin(shell->log);
    if (eraser->pinned) return 0;
    int result = erase_slice(eraser, redactions, count);
    log_erase_end(shell->log);
    return result;
}
