/* eraser.c: see eraser.h. */
#include "eraser.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "logfmt.h"
#include "shell.h"

/* Redactions per slice: contents of a MiB each still take less than a tenth of a second. */
#define SLICE_COUNT 64
/* How long to wait before looking whether the backup or the archiving is over. */
#define WAIT_NS 100000000ull

static struct logfmt_limit failure_limit;

void eraser_init(struct eraser *eraser, struct shell *shell) {
    *eraser = (struct eraser){.shell = shell};
    shell_arena_init(&eraser->arena);
}

uint64_t eraser_wait_ns(const struct eraser *eraser) {
    struct index *index = eraser->shell->index;
    if (index_erased(index) >= index_position(index)) return UINT64_MAX;
    return eraser->waits ? WAIT_NS : 0;
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

static int compare_ranges(const void *a, const void *b) {
    const struct archive_range *left = a, *right = b;
    if (left->position != right->position) return left->position < right->position ? -1 : 1;
    return 0;
}

/* What the slice has in the archive's file [base, end). 0, or what went wrong. */
static int erase_in_file(struct eraser *eraser, uint64_t base, uint64_t end, Tarry__Redaction *const *redactions,
                         size_t count) {
    struct archive_range ranges[SLICE_COUNT];
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        const Tarry__Redaction *redaction = redactions[i];
        if (redaction->frame < base || redaction->frame >= end) continue;
        ranges[found++] = (struct archive_range){redaction->blob_at, redaction->blob_size};
    }
    if (found == 0) return 0;
    qsort(ranges, found, sizeof(ranges[0]), compare_ranges);
    const char *problem = NULL;
    const struct archivist *archivist = &eraser->shell->archivist;
    return archive_erase(&archivist->archive, base, ranges, found, (int)eraser->shell->config.archive_level, &problem);
}

/* Of every file that is there: segments are archived before they are retired. */
static int erase_in_archive(struct eraser *eraser, Tarry__Redaction *const *redactions, size_t count) {
    const struct archive *archive = &eraser->shell->archivist.archive;
    uint64_t *bases;
    size_t base_count;
    int error = archive_list(archive, &bases, &base_count);
    if (error != 0) return error == -ENOENT ? 0 : error;
    for (size_t i = 0; i < base_count && error == 0; i++) {
        struct archive_info info;
        const char *problem;
        bool is_concerned = false;
        for (size_t k = 0; k < count; k++) {
            bool is_before_next = i + 1 == base_count || redactions[k]->frame < bases[i + 1];
            is_concerned |= redactions[k]->frame >= bases[i] && is_before_next;
        }
        if (!is_concerned) continue;
        error = archive_look(archive, bases[i], &info, &problem);
        if (error == 0) error = erase_in_file(eraser, bases[i], info.end, redactions, count);
    }
    free(bases);
    return error;
}

/* 1, or -ENOSPC. 0: the archive cannot be written just now; it is tried again. */
static int erase_slice(struct eraser *eraser, Tarry__Redaction *const *redactions, size_t count) {
    erase_in_log(eraser, redactions, count);
    int error = erase_in_archive(eraser, redactions, count);
    if (error != 0) {
        eraser->waits = true;
        if (logfmt_allowed(&failure_limit)) logfmt("archive_unerased", "reason=\"%s\"", storage_error(error));
        return 0;
    }
    error = index_redactions_done(eraser->shell->index, redactions, count);
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
    /* What is being archived would take along what is being erased. */
    eraser->waits = true;
    if (!archivist_pause(&shell->archivist)) return 0;
    int result = 0;
    if (log_erase_begin(shell->log)) {
        eraser->waits = false;
        result = erase_slice(eraser, redactions, count);
        log_erase_end(shell->log);
    }
    archivist_resume(&shell->archivist);
    return result;
}
