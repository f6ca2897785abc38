/* eraser.c: see eraser.h. */
#include "eraser.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "archivist.h"
#include "clock.h"
#include "config.h"
#include "datadir.h"
#include "fatal.h"
#include "index.h"
#include "log.h"
#include "logfmt.h"
#include "pending_erasures.h"
#include "quarantine.h"
#include "retire.h"

/* ---- quarantined tails */

/* A quarantined tail was cut off from this node's log, so a log position means another frame in the tail than in the
 * log. So contents in a tail are found by queue and key. While the log still has the content, they are also found by
 * the content itself. */

/* Bytes of contents in memory at a time, plus one content of any size. */
#define CONTENTS_BYTES (16u << 20)

static struct logfmt_limit tails_limit;

struct meant {
    struct quarantine_meant *items;
    uint8_t **contents; /* owned; the pointers in `items` refer to these contents */
    size_t count;
    size_t bytes;
};

static struct quarantine quarantine_of(const struct eraser_needs *needs) {
    struct quarantine quarantine = {.disk = needs->disk, .directory = needs->dir->quarantine};
    memcpy(quarantine.cluster, needs->dir->cluster, sizeof(quarantine.cluster));
    return quarantine;
}

/* Returns the content with its salt; NULL: the log no longer has it. Release it with free(). */
static uint8_t *read_content(const struct eraser_needs *needs, const Tarry__Redaction *redaction) {
    if (redaction->frame == 0 || redaction->blob_size <= BLOB_SALT_SIZE) return NULL;
    uint8_t *content = fatal_calloc(redaction->blob_size);
    int error = log_read(needs->log, redaction->blob_at, content, redaction->blob_size);
    if (error != 0 && error != LOG_RETIRED) fatal("erase_failed", error);
    if (error == 0 && !content_is_erased(content, redaction->blob_size)) return content;
    free(content);
    return NULL;
}

static void add(struct meant *meant, const struct eraser_needs *needs, const Tarry__Redaction *redaction) {
    uint8_t *content = read_content(needs, redaction);
    meant->contents[meant->count] = content;
    meant->items[meant->count++] = (struct quarantine_meant){
        .queue = redaction->queue,
        .key = redaction->key.data,
        .key_size = redaction->key.len,
        .content = content != NULL ? content + BLOB_SALT_SIZE : NULL,
        .content_size = content != NULL ? redaction->blob_size - BLOB_SALT_SIZE : 0,
    };
    meant->bytes += content != NULL ? redaction->blob_size : 0;
}

/* Adds the queue's name, because the same queue may have another number in a quarantined tail. */
static int name_queue(void *argument, const Tarry__QueuePut *queue) {
    struct meant *meant = argument;
    for (size_t i = 0; i < meant->count; i++) {
        if (meant->items[i].queue != queue->number) continue;
        char *name = strdup(queue->name);
        if (name == NULL) return -ENOMEM;
        meant->items[i].queue_name = name;
    }
    return 0;
}

static void forget_tails(struct meant *meant) {
    for (size_t i = 0; i < meant->count; i++) {
        free(meant->contents[i]);
        free((char *)meant->items[i].queue_name);
    }
    meant->count = 0;
    meant->bytes = 0;
}

/* Erases the collected contents. Returns false if that is not possible now. */
static bool erase_some(const struct eraser_needs *needs, struct meant *meant) {
    struct quarantine quarantine = quarantine_of(needs);
    char message[LOGFMT_VALUE_SIZE / 2] = "", quoted[LOGFMT_VALUE_SIZE];
    size_t found = 0;
    int error = index_each_queue(needs->index, name_queue, meant);
    if (error != 0) fatal("erase_failed", error);
    error = quarantine_erase(&quarantine, meant->items, meant->count, &found, message, sizeof(message));
    forget_tails(meant);
    if (found > 0) logfmt("erased_aside", "contents=%zu", found);
    if (error == 0) return true;
    if (logfmt_allowed(&tails_limit))
        logfmt("quarantine_unerased", "reason=%s",
               logfmt_quote(message[0] != '\0' ? message : storage_error(error), quoted));
    return false;
}

static bool has_tails(const struct eraser_needs *needs) {
    struct quarantine quarantine = quarantine_of(needs);
    struct quarantine_tail *tails;
    size_t count;
    /* True, so that the erasure in the tails follows and reports the error. */
    if (quarantine_list(&quarantine, &tails, &count) != 0) return true;
    free(tails);
    return count > 0;
}

/* Erases the redacted contents in the tails in DIR/quarantine (storage/log/quarantine.h). Returns false if a tail
 * cannot be read or written now; the reason is logged. */
static bool eraser_in_tails(struct eraser *eraser, Tarry__Redaction *const *redactions, size_t count) {
    if (!has_tails(&eraser->needs)) return true;
    struct meant meant = {.items = fatal_calloc(count * sizeof(*meant.items)),
                          .contents = fatal_calloc(count * sizeof(*meant.contents))};
    bool is_done = true;
    for (size_t i = 0; i < count && is_done; i++) {
        add(&meant, &eraser->needs, redactions[i]);
        if (meant.bytes >= CONTENTS_BYTES || i + 1 == count) is_done = erase_some(&eraser->needs, &meant);
    }
    forget_tails(&meant);
    free(meant.items);
    free(meant.contents);
    return is_done;
}

/* ---- log and archive */

static struct logfmt_limit failure_limit;

void eraser_init(struct eraser *eraser, const struct eraser_needs *needs) {
    *eraser = (struct eraser){.needs = *needs};
    fatal_arena_init(&eraser->arena);
    int error = needs->config->inspect ? 0 : pending_erasures_read(needs->dir->path, &eraser->left);
    if (error != 0) fatal("unerased_unreadable", error);
}

void eraser_deinit(struct eraser *eraser) {
    if (eraser->left != NULL) tarry__frame_body__free_unpacked(eraser->left, NULL);
    eraser->left = NULL;
}

static struct erasure_facts find_facts(const struct eraser *eraser) {
    struct index *index = eraser->needs.index;
    return (struct erasure_facts){
        .is_retiring = retire_active(eraser->needs.retirement),
        .in_index = index_erased(index) < index_position(index),
        .missed_redactions = eraser->left != NULL,
        .now_ns = monotonic_ns(),
    };
}

uint64_t eraser_wait_ns(const struct eraser *eraser) {
    struct erasure_facts facts = find_facts(eraser);
    return erasure_wait_ns(&eraser->erasure, &facts);
}

static void erase_in_log(struct eraser *eraser) {
    struct log_content contents[ERASER_SLICE_COUNT];
    size_t found = 0;
    for (size_t i = 0; i < eraser->slice_count; i++) {
        const Tarry__Redaction *redaction = eraser->slice[i];
        if (redaction->frame == 0) continue; /* the content is not in the log any more, so nothing is to be erased */
        contents[found++] = (struct log_content){redaction->frame, redaction->blob_at, redaction->blob_size};
    }
    int error = log_erase(eraser->needs.log, contents, found);
    if (error != 0) fatal("erase_failed", error);
}

static int compare_ranges(const void *a, const void *b) {
    const struct archive_range *left = a, *right = b;
    if (left->position != right->position) return left->position < right->position ? -1 : 1;
    return 0;
}

/* Erases the contents of these redactions in the archive's file [base, end). Returns 0 or a negative error. */
static int erase_in_file(struct eraser *eraser, uint64_t base, uint64_t end, Tarry__Redaction *const *redactions,
                         size_t count) {
    struct archive_range ranges[ERASER_SLICE_COUNT];
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        const Tarry__Redaction *redaction = redactions[i];
        if (redaction->frame < base || redaction->frame >= end) continue;
        ranges[found++] = (struct archive_range){redaction->blob_at, redaction->blob_size};
    }
    if (found == 0) return 0;
    qsort(ranges, found, sizeof(ranges[0]), compare_ranges);
    const char *problem = NULL;
    const struct archivist *archivist = eraser->needs.archivist;
    return archive_erase(&archivist->archive, base, ranges, found, (int)eraser->needs.config->archive_level, &problem);
}

/* Erases the contents of these redactions in all files of the archive. Each segment is archived before it is removed
 * from the log, so the archive has a file for it. */
static int erase_in_files(struct eraser *eraser, Tarry__Redaction *const *redactions, size_t count) {
    const struct archive *archive = &eraser->needs.archivist->archive;
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

/* Returns false if the archive cannot be erased now; the reason is logged. */
static bool erase_archived(struct eraser *eraser, Tarry__Redaction *const *redactions, size_t count) {
    char quoted[LOGFMT_VALUE_SIZE];
    const char *sentence = NULL;
    int error = archivist_check(eraser->needs.archivist, &sentence);
    /* Another broker's archive contains none of this broker's contents, so nothing is to be erased. */
    if (error == ARCHIVE_NOT_OURS) return true;
    if (error == 0 && (error = erase_in_files(eraser, redactions, count)) != 0) sentence = storage_error(error);
    if (error != 0 && logfmt_allowed(&failure_limit))
        logfmt("archive_unerased", "reason=%s", logfmt_quote(sentence, quoted));
    return error == 0;
}

/* ---- effects */

static enum erasure_result begin(struct eraser *eraser) {
    const struct eraser_needs *needs = &eraser->needs;
    /* A segment that is archived now would copy contents that are being erased. */
    if (!archivist_pause(needs->archivist)) return ERASURE_BUSY;
    if (log_erase_begin(needs->log)) return ERASURE_DONE;
    archivist_resume(needs->archivist);
    return ERASURE_BUSY;
}

static enum erasure_result report(struct eraser *eraser) {
    int error = index_redactions_done(eraser->needs.index, eraser->slice, eraser->slice_count);
    if (error == -ENOSPC) return ERASURE_NO_ROOM;
    if (error != 0) fatal("erase_failed", error);
    logfmt("erased", "tasks=%zu", eraser->slice_count);
    return ERASURE_DONE;
}

static enum erasure_result forget(struct eraser *eraser) {
    size_t left_count = eraser->left->n_records;
    eraser->left_done += eraser->slice_count;
    if (eraser->left_done < left_count) return ERASURE_DONE;
    int error = pending_erasures_end(eraser->needs.dir->path);
    if (error != 0) fatal("erase_failed", error);
    logfmt("erased_late", "tasks=%zu", left_count);
    eraser_deinit(eraser);
    return ERASURE_DONE;
}

static enum erasure_result execute(struct eraser *eraser) {
    Tarry__Redaction *const *slice = eraser->slice;
    size_t count = eraser->slice_count;
    switch (eraser->erasure.effect) {
    case ERASURE_BEGIN:
        return begin(eraser);
    case ERASURE_TAILS:
        return eraser_in_tails(eraser, slice, count) ? ERASURE_DONE : ERASURE_FAILED;
    case ERASURE_LOG:
        erase_in_log(eraser);
        return ERASURE_DONE;
    case ERASURE_ARCHIVE:
        return erase_archived(eraser, slice, count) ? ERASURE_DONE : ERASURE_FAILED;
    case ERASURE_REPORT:
        return report(eraser);
    case ERASURE_FORGET:
        return forget(eraser);
    case ERASURE_END:
        log_erase_end(eraser->needs.log);
        archivist_resume(eraser->needs.archivist);
        return ERASURE_DONE;
    case ERASURE_REST:
        break;
    }
    return ERASURE_DONE;
}

/* Finds the next redactions to carry out: first those in the index, then those that were missing in a fetched snapshot.
 * The latter are needed, because this node's archive and quarantined tails are older than the snapshot. */
static void find_slice(struct eraser *eraser, bool in_index) {
    Tarry__FrameBody *left = eraser->left;
    size_t count = 0;
    arena_reset(&eraser->arena);
    if (in_index) {
        int error = index_redactions(eraser->needs.index, ERASER_SLICE_COUNT, &eraser->arena, &eraser->slice,
                                     &eraser->slice_count);
        if (error != 0) fatal("erase_failed", error);
        return;
    }
    eraser->slice = arena_alloc(&eraser->arena, ERASER_SLICE_COUNT * sizeof(*eraser->slice));
    if (eraser->slice == NULL) fatal("erase_failed", -ENOMEM);
    for (; count < ERASER_SLICE_COUNT && eraser->left_done + count < left->n_records; count++)
        eraser->slice[count] = left->records[eraser->left_done + count]->redaction;
    eraser->slice_count = count;
}

int eraser_step(struct eraser *eraser) {
    struct erasure *erasure = &eraser->erasure;
    struct erasure_facts facts = find_facts(eraser);
    if (erasure_look(erasure, &facts) == ERASURE_REST) return 0;
    find_slice(eraser, facts.in_index);
    int outcome = 0;
    while (erasure->effect != ERASURE_REST) {
        bool is_last = erasure->effect == ERASURE_REPORT || erasure->effect == ERASURE_FORGET;
        enum erasure_result result = execute(eraser);
        if (is_last && result == ERASURE_DONE) outcome = 1;
        if (result == ERASURE_NO_ROOM) outcome = -ENOSPC;
        (void)erasure_step(erasure, result, monotonic_ns());
    }
    return outcome;
}
