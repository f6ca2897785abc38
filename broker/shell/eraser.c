/* eraser.c: see eraser.h. */
#include "eraser.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "logfmt.h"
#include "shell.h"
#include "unerased.h"

/* Redactions per slice: contents of a MiB each still take less than a tenth of a second. */
#define SLICE_COUNT 64
/* How long to wait before looking whether the backup or the archiving is over: not all who end wake us. */
#define WAIT_NS 100000000ull
/* What could not be written. */
#define RETRY_NS 2000000000ull

static struct logfmt_limit failure_limit;

void eraser_init(struct eraser *eraser, struct shell *shell) {
    *eraser = (struct eraser){.shell = shell};
    shell_arena_init(&eraser->arena);
    int error = shell->config.inspect ? 0 : unerased_read(shell->dir.path, &eraser->left);
    if (error != 0) shell_fail("unerased_unreadable", error);
}

void eraser_deinit(struct eraser *eraser) {
    if (eraser->left != NULL) tarry__frame_body__free_unpacked(eraser->left, NULL);
    eraser->left = NULL;
}

uint64_t eraser_wait_ns(const struct eraser *eraser) {
    struct index *index = eraser->shell->index;
    if (eraser->left == NULL && index_erased(index) >= index_position(index)) return UINT64_MAX;
    uint64_t now_ns = monotonic_ns();
    return eraser->again_ns > now_ns ? eraser->again_ns - now_ns : 0;
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
static int erase_in_files(struct eraser *eraser, Tarry__Redaction *const *redactions, size_t count) {
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

/* False: not now, which is said. */
static bool erase_archived(struct eraser *eraser, Tarry__Redaction *const *redactions, size_t count) {
    char quoted[LOGFMT_VALUE_SIZE];
    const char *sentence = NULL;
    int error = archivist_check(&eraser->shell->archivist, &sentence);
    if (error == ARCHIVE_NOT_OURS) return true; /* neither is what it contains */
    if (error == 0 && (error = erase_in_files(eraser, redactions, count)) != 0) sentence = storage_error(error);
    if (error != 0 && logfmt_allowed(&failure_limit))
        logfmt("archive_unerased", "reason=%s", logfmt_quote(sentence, quoted));
    return error == 0;
}

/* 1, or -ENOSPC. 0: the archive or a tail cannot be written just now; it is tried again. */
static int erase_slice(struct eraser *eraser, Tarry__Redaction *const *redactions, size_t count) {
    /* First: once the log has forgotten a content, nobody can tell where else it lies. */
    if (!eraser_in_tails(eraser, redactions, count)) return 0;
    erase_in_log(eraser, redactions, count);
    if (!erase_archived(eraser, redactions, count)) return 0;
    int error = index_redactions_done(eraser->shell->index, redactions, count);
    if (error == -ENOSPC) return error;
    if (error != 0) shell_fail("erase_failed", error);
    logfmt("erased", "tasks=%zu", count);
    return 1;
}

/* A slice of what a snapshot passed over: archive and tails were here before it. 0: not now. */
static int erase_left(struct eraser *eraser) {
    Tarry__Redaction *redactions[SLICE_COUNT];
    size_t count = 0;
    Tarry__FrameBody *left = eraser->left;
    while (count < SLICE_COUNT && eraser->left_done + count < left->n_records) {
        redactions[count] = left->records[eraser->left_done + count]->redaction;
        count++;
    }
    if (!eraser_in_tails(eraser, redactions, count) || !erase_archived(eraser, redactions, count)) return 0;
    eraser->left_done += count;
    if (eraser->left_done < left->n_records) return 1;
    int error = unerased_end(eraser->shell->dir.path);
    if (error != 0) shell_fail("erase_failed", error);
    logfmt("erased_late", "tasks=%zu", left->n_records);
    eraser_deinit(eraser);
    return 1;
}

/* What the index knows of; up to SLICE_COUNT. */
static size_t find_slice(struct eraser *eraser, Tarry__Redaction ***out) {
    struct index *index = eraser->shell->index;
    size_t count;
    if (index_erased(index) >= index_position(index)) return 0;
    arena_reset(&eraser->arena);
    int error = index_redactions(index, SLICE_COUNT, &eraser->arena, out, &count);
    if (error != 0) shell_fail("erase_failed", error);
    return count;
}

int eraser_step(struct eraser *eraser) {
    struct shell *shell = eraser->shell;
    Tarry__Redaction **redactions;
    if (eraser_wait_ns(eraser) > 0) return 0;
    size_t count = find_slice(eraser, &redactions);
    if (count == 0 && eraser->left == NULL) return 0;
    int result = 0;
    uint64_t wait_ns = WAIT_NS;
    /* What is being archived would take along what is being erased. */
    if (archivist_pause(&shell->archivist)) {
        if (log_erase_begin(shell->log)) {
            result = count > 0 ? erase_slice(eraser, redactions, count) : erase_left(eraser);
            wait_ns = RETRY_NS;
            log_erase_end(shell->log);
        }
        archivist_resume(&shell->archivist);
    }
    eraser->again_ns = result == 0 ? monotonic_ns() + wait_ns : 0;
    return result;
}
