/* verify.c: see verify.h.
 *
 * It checks in this order:
 *   1. the lock and the identity;
 *   2. the index, row by row, against the digest and the counts that the index stores;
 *   3. archive and log: checksums, order and chain of every frame (the log is read a second time for the records);
 *   4. the chain hash at the index's position;
 *   5. the content of every task in the log against the hash in its record;
 *   6. the counts, replayed from the index's position to the end, and from the first frame if it still exists;
 *   7. each segment's summary against its frames;
 *   8. with --key, the signed heads (evidence.h);
 *   9. the state file of a pair's node (storage/files/hard_state.h);
 *  10. the tails that were cut off and quarantined (frames.h). */
#include "verify.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arena.h"
#include "frame.h"
#include "hard_state.h"
#include "identity.h"
#include "tarry_limits.h"
#include "wire.h"

#define ARENA_SIZE_MAX (256u << 20)
#define CHECK_OVER (-1) /* result of check_next: all frames were checked */

/* ---- contents */

static int check_content(struct contents *contents, struct store *store, const struct log_view *view,
                         const Tarry__TaskPut *put) {
    if (!put->fresh || put->task == NULL) return 0;
    contents->checked++;
    enum content_state state = content_state(&view->header, view->blob, put);
    if (state == CONTENT_RIGHT) return 0;
    if (state == CONTENT_DAMAGED)
        return store_damaged(store,
                             "log position %" PRIu64 ": the content of task %" PRIu64 " does not match its record",
                             view->header.position, put->task->id);
    contents->erased++;
    return erasures_note(&contents->erasures, put, state) == 0 ? 0 : store_damaged(store, "out of memory");
}

/* Finds the archived segment that contains this position. If it was pruned, finds the last one before it. */
static bool find_archived(struct contents *contents, const struct archive *archive, uint64_t position,
                          uint64_t *out_base) {
    if (!contents->has_listed && archive_list(archive, &contents->bases, &contents->base_count) != 0)
        contents->base_count = 0;
    contents->has_listed = true;
    bool is_found = false;
    for (size_t i = 0; i < contents->base_count && contents->bases[i] <= position; i++) {
        *out_base = contents->bases[i];
        is_found = true;
    }
    return is_found;
}

/* Reads the archived frame at `position`; keeps the file open for the next ones. Returns false if it is missing or
 * unreadable, which other checks report. */
static bool read_archived(struct contents *contents, const struct archive *archive, uint64_t position,
                          struct log_view *out) {
    const char *problem;
    uint64_t base;
    if (!find_archived(contents, archive, position, &base)) return false;
    if (contents->cursor != NULL && contents->cursor_base == base) {
        if (position >= archive_cursor_info(contents->cursor)->end) return false; /* the next file was pruned */
        archive_cursor_seek(contents->cursor, position);
    } else {
        archive_cursor_close(contents->cursor);
        contents->cursor = NULL;
        if (archive_cursor_open(&contents->cursor, archive, base, position, true, &problem) != 0) return false;
        contents->cursor_base = base;
    }
    if (archive_cursor_next(contents->cursor, UINT64_MAX, out) == 0 && out->header.position == position) return true;
    archive_cursor_close(contents->cursor);
    contents->cursor = NULL;
    return false;
}

/* Returns whether the redacted content is still in the archive. */
static bool is_archived(struct contents *contents, const struct archive *archive, const Tarry__Redaction *redaction) {
    struct log_view view;
    uint64_t blob_at = frame_blob_position(redaction->frame);
    return read_archived(contents, archive, redaction->frame, &view) && redaction->blob_at >= blob_at &&
           redaction->blob_at - blob_at <= view.header.blob_size &&
           redaction->blob_size <= view.header.blob_size - (redaction->blob_at - blob_at) &&
           !content_is_erased(view.blob + (redaction->blob_at - blob_at), redaction->blob_size);
}

/* Returns whether a snapshot left redactions whose contents are still in the archive. The broker's next run erases
 * them. */
static bool waits_for_a_run(const struct store *store) {
    char path[STORE_PATH_SIZE + 16];
    snprintf(path, sizeof path, "%s/" UNERASED_NAME, store->directory);
    return access(path, F_OK) == 0;
}

static int check_archived(struct contents *contents, struct store *store, uint64_t position,
                          const Tarry__Redaction *redaction) {
    if (!is_archived(contents, &store->archive, redaction)) return 0;
    if (waits_for_a_run(store)) {
        contents->under_way++;
        return 0;
    }
    return store_damaged(store,
                         "log position %" PRIu64 ": task %" PRIu64 " was redacted, but its content at position %" PRIu64
                         " is not erased from the archive",
                         position, redaction->id, redaction->blob_at);
}

/* Checks that a redacted content was really erased. Redactions at or above the position index_erased() are still in
 * progress and are not checked. */
static int check_redaction(struct contents *contents, struct store *store, uint64_t position,
                           const Tarry__Redaction *redaction) {
    bool is_under_way = position >= index_erased(store->index);
    contents->under_way += is_under_way;
    erasures_explain(&contents->erasures, redaction, is_under_way);
    if (is_under_way || redaction->frame == 0) return 0;
    if (redaction->frame < log_start(store->log)) return check_archived(contents, store, position, redaction);
    uint8_t *content = malloc((size_t)redaction->blob_size + 1);
    if (content == NULL) return store_damaged(store, "out of memory");
    int error = log_read(store->log, redaction->blob_at, content, redaction->blob_size);
    bool is_erased = error == 0 && content_is_erased(content, redaction->blob_size);
    free(content);
    if (is_erased) return 0;
    return store_damaged(store,
                         "log position %" PRIu64 ": task %" PRIu64 " was redacted, but its content at position %" PRIu64
                         " is not erased",
                         position, redaction->id, redaction->blob_at);
}

/* Checks a frame that has lost contents, and so has no checksum of its contents area. The area must have no bytes
 * besides the contents of tasks. */
static int check_gaps(struct store *store, const struct log_view *view, uint64_t size) {
    if ((view->header.flags & FRAME_FLAG_ERASED) == 0 || size == view->header.blob_size) return 0;
    return store_damaged(store, "log position %" PRIu64 ": bytes among the frame's contents belong to no task",
                         view->header.position);
}

/* Checks a frame and its records. Frames come in the order of the log, and `view` includes the frame's contents. */
static int contents_frame(struct contents *contents, struct store *store, const struct log_view *view,
                          const Tarry__FrameBody *body) {
    uint64_t size = 0;
    int status = 0;
    for (size_t i = 0; i < body->n_records && status == 0; i++) {
        const Tarry__Record *record = body->records[i];
        if (record->fact_case == TARRY__RECORD__FACT_PUT) {
            status = check_content(contents, store, view, record->put);
            if (record->put->fresh && record->put->task != NULL) size += record->put->task->blob_size;
        } else if (record->fact_case == TARRY__RECORD__FACT_REDACTION) {
            status = check_redaction(contents, store, view->header.position, record->redaction);
        }
    }
    return status == 0 ? check_gaps(store, view, size) : status;
}

/* Called when frames are missing: forgets erased contents without a known redaction, because the missing frames may
 * contain the redaction. */
static void contents_gap(struct contents *contents) {
    erasures_deinit(&contents->erasures);
}

/* Finishes the check after the last frame. */
static int contents_end(struct contents *contents, struct store *store) {
    const struct erasure_noted *noted = erasures_unexplained(&contents->erasures);
    if (noted == NULL) return 0;
    return store_damaged(store,
                         "log position %" PRIu64 ": the content of task %" PRIu64
                         " is erased without a redaction in the log",
                         noted->blob_at, noted->id);
}

static void contents_deinit(struct contents *contents) {
    erasures_deinit(&contents->erasures);
    archive_cursor_close(contents->cursor);
    contents->cursor = NULL;
    free(contents->bases);
    contents->bases = NULL;
}

/* ---- summaries */

static int unreadable(struct summaries *summaries, struct store *store, int error) {
    return store_damaged(store, "%s/%016" PRIx64 ".sum cannot be read: %s", summaries->directory, summaries->segment,
                         store_sentence(error));
}

/* Compares a segment's summary file with the summary made from the segment's frames, after the last frame of the
 * segment. */
static int summaries_end(struct summaries *summaries, struct store *store) {
    if (summaries->made == NULL) return 0;
    int result = summary_check(summaries->made, &disk_posix, summaries->directory);
    summary_free(summaries->made);
    summaries->made = NULL;
    if (result < 0) return unreadable(summaries, store, result);
    if (result == SUMMARY_LIES)
        return store_damaged(
            store,
            "%s/%016" PRIx64
            ".sum does not match its segment, so queries could miss records: delete this file; that loses no records",
            summaries->directory, summaries->segment);
    summaries->unused += result == 1;
    summaries->checked += result == 0;
    return 0;
}

static int begin(struct summaries *summaries, const struct frames *frames) {
    struct store *store = frames->store;
    summaries->segment = frames->segment;
    if (frames->archived != NULL)
        snprintf(summaries->directory, sizeof summaries->directory, "%s", store->archive_directory);
    else
        snprintf(summaries->directory, sizeof summaries->directory, "%s/log", store->directory);
    int result = summary_like(&summaries->made, &disk_posix, summaries->directory, summaries->segment);
    summaries->unused += result == 1;
    return result < 0 ? unreadable(summaries, store, result) : 0;
}

/* Adds the next frame, right after frames_next; `body` NULL: a seal. */
static int summaries_frame(struct summaries *summaries, const struct frames *frames, const struct frame_header *header,
                           const Tarry__FrameBody *body) {
    int status = 0;
    if (summaries->segment != frames->segment) {
        status = summaries_end(summaries, frames->store);
        if (status == 0) status = begin(summaries, frames);
    }
    if (status == 0 && summaries->made != NULL) summary_add(summaries->made, header, body);
    return status;
}

static void summaries_deinit(struct summaries *summaries) {
    summary_free(summaries->made);
    summaries->made = NULL;
}

/* ---- the index */

static void tell(struct verify *v, const char *noun, uint64_t done, uint64_t total, uint64_t count) {
    if (v->progress != NULL) v->progress(v->progress_argument, noun, done, total, count);
}

static void rows_progress(void *argument, uint64_t done, uint64_t total) {
    tell(argument, "rows", done, total, done);
}

/* Result of the child process that read the index. */
struct sight {
    bool is_whole; /* true: the child read the whole index */
    int status;
    struct index_verification rows;
    char message[sizeof(((struct store *)0)->message)];
};

static int look_at_index(struct verify *v) {
    char message[1024] = "";
    int status = store_open_index(&v->store);
    if (status != 0) return status;
    int error = index_verify(v->store.index, &v->rows, message, sizeof message, rows_progress, v);
    tell(v, NULL, 0, 0, 0);
    if (error != 0)
        return store_damaged(&v->store, "%s/index: %s", v->store.directory,
                             message[0] != 0 ? message : store_sentence(error));
    return 0;
}

/* Reads the index. Runs in the child process, which a signal ends without a message. */
__attribute__((noreturn)) static void look_and_tell(struct verify *v, struct sight *sight) {
    static const int signals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) signal(signals[i], SIG_DFL);
    prctl(PR_SET_DUMPABLE, 0);
    sight->status = look_at_index(v);
    sight->rows = v->rows;
    memcpy(sight->message, v->store.message, sizeof sight->message);
    sight->is_whole = true;
    _exit(0);
}

/* LMDB pages have no checksums, so a damaged page can crash the process. Therefore a child process first reads the
 * whole index; this process opens the index only if the child succeeded. */
static int check_index(struct verify *v) {
    /* cppcheck-suppress invalidFunctionArg ; MAP_ANONYMOUS requires the descriptor -1 */
    struct sight *sight = mmap(NULL, sizeof *sight, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = sight != MAP_FAILED ? fork() : -1;
    if (child == 0) look_and_tell(v, sight);
    int status = 0, ended = 0;
    if (child < 0) {
        status = store_damaged(&v->store, "cannot start a process to read the index: %s", strerror(errno));
    } else {
        while (waitpid(child, &ended, 0) < 0 && errno == EINTR) continue;
        if (!sight->is_whole)
            status =
                store_damaged(&v->store, "%s/index: an LMDB page is damaged: LMDB could not read it (%s)",
                              v->store.directory, WIFSIGNALED(ended) ? strsignal(WTERMSIG(ended)) : "LMDB aborted");
        else if (sight->status != 0)
            status = store_damaged(&v->store, "%s", sight->message);
        v->rows = sight->rows;
    }
    if (sight != MAP_FAILED) munmap(sight, sizeof *sight);
    return status == 0 ? store_open_index(&v->store) : status;
}

/* ---- the log */

static int check_record(struct verify *v, const struct log_view *view, const Tarry__Record *record) {
    uint64_t position = view->header.position;
    v->records++;
    if (v->has_whole && !tally_record(&v->whole, record))
        return store_damaged(&v->store, "log position %" PRIu64 ": record %" PRIu64 " of the log is malformed",
                             position, v->records);
    if (position >= v->store.meta.position && !tally_record(&v->tail, record))
        return store_damaged(&v->store, "log position %" PRIu64 ": a record after the index's position is malformed",
                             position);
    return 0;
}

static int check_frame(struct verify *v, const struct log_view *view, struct arena *arena) {
    int status = 0;
    v->frame_count++;
    if (view->header.type != FRAME_COMMIT) return summaries_frame(&v->summaries, &v->frames, &view->header, NULL);
    arena_reset(arena);
    Tarry__FrameBody *body = frame_body_unpack(arena, view->header.body_size, view->body);
    if (body == NULL)
        return store_damaged(&v->store, "log position %" PRIu64 ": the frame's body is malformed",
                             view->header.position);
    for (size_t i = 0; i < body->n_records && status == 0; i++) status = check_record(v, view, body->records[i]);
    if (status == 0) status = contents_frame(&v->contents, &v->store, view, body);
    return status == 0 ? summaries_frame(&v->summaries, &v->frames, &view->header, body) : status;
}

/* Compares the counts at the position of the index, computed from the first frame of the log, with the counts of the
 * index. */
static int meet(struct verify *v) {
    v->met = true;
    if (v->store.meta.position > LOG_POSITION_FIRST && v->store.meta.position > v->store.recovery.start &&
        memcmp(v->frames.at.chain, v->store.meta.chain, FRAME_CHAIN_SIZE) != 0)
        return store_damaged(&v->store,
                             "index and log do not belong together: their chain hashes at position %" PRIu64 " differ",
                             v->store.meta.position);
    if (v->has_whole && (v->whole.digest != v->store.meta.tally.digest || v->whole.live != v->store.meta.tally.live))
        return store_damaged(&v->store,
                             "the digest of the log at position %" PRIu64 " is %016" PRIx64
                             ", the index's is %016" PRIx64,
                             v->store.meta.position, v->whole.digest, v->store.meta.tally.digest);
    return 0;
}

/* Checks the next frame. CHECK_OVER: all frames are checked. */
static int check_next(struct verify *v, struct arena *arena) {
    struct frames *frames = &v->frames;
    struct log_view view;
    if (!v->met && frames->at.position >= v->store.meta.position && meet(v) != 0) return STORE_REFUSED;
    int result = frames_next(frames, &view);
    if (result == FRAMES_GAP) {
        v->has_whole = false;
        contents_gap(&v->contents);
        return evidence_gap(&v->evidence, frames);
    }
    if (result != 0) return result == FRAMES_END ? CHECK_OVER : STORE_REFUSED;
    int status = check_frame(v, &view, arena);
    if (status == 0) status = evidence_frame(&v->evidence, frames);
    tell(v, "frames", view.header.position - frames->start, v->store.recovery.end - frames->start, v->frame_count);
    return status;
}

static int check_log(struct verify *v) {
    struct arena arena;
    arena_init(&arena, ARENA_SIZE_MAX);
    int status = evidence_start(&v->evidence, &v->frames);
    while (status == 0) status = check_next(v, &arena);
    if (status == CHECK_OVER) status = 0;
    tell(v, NULL, 0, 0, 0);
    if (status == 0 && !v->met) status = meet(v);
    if (status == 0) status = contents_end(&v->contents, &v->store);
    if (status == 0) status = summaries_end(&v->summaries, &v->store);
    if (status == 0) status = evidence_end(&v->evidence);
    if (status == 0 && v->has_whole && v->whole.digest != v->tail.digest)
        status =
            store_damaged(&v->store,
                          "the log's digest %016" PRIx64 " differs from the index's digest after a replay, %016" PRIx64,
                          v->whole.digest, v->tail.digest);
    arena_deinit(&arena);
    return status;
}

/* ---- a pair */

static int check_pair(struct verify *v) {
    struct hard_state hard_state;
    char message[IDENTITY_MESSAGE_SIZE] = "";
    int error = hard_state_read(&disk_posix, v->store.directory, &hard_state, message);
    if (error == 1) return store_damaged(&v->store, "%s", message);
    if (error != 0 && error != -ENOENT)
        return store_damaged(&v->store, "%s/%s: %s", v->store.directory, HARD_STATE_NAME, store_sentence(error));
    return tails_check(&v->tails, &v->store);
}

/* ---- all */

static int tallies_init(struct verify *v) {
    struct queue_tally *tail = calloc(QUEUE_PLACES + 1, sizeof *tail), *whole = calloc(QUEUE_PLACES + 1, sizeof *whole);
    v->tail = v->store.meta.tally;
    v->tail.queues = tail;
    v->whole.queues = whole;
    if (tail == NULL || whole == NULL) return store_damaged(&v->store, "out of memory");
    memcpy(tail, v->store.meta.tally.queues, sizeof *tail * (QUEUE_PLACES + 1));
    v->has_whole = v->frames.start == LOG_POSITION_FIRST;
    tally_init(&v->whole, whole);
    return 0;
}

int verify_check(struct verify *v) {
    int status = store_lock(&v->store);
    if (status == 0) status = check_index(v);
    if (status == 0) status = store_open_log(&v->store, 0);
    if (status != 0) return status;
    status = store_open_archive(&v->store, v->archive);
    if (status == 0) status = frames_open(&v->frames, &v->store);
    if (status == 0) status = tallies_init(v);
    if (status != 0) return status;
    status = check_log(v);
    return status == 0 ? check_pair(v) : status;
}

void verify_deinit(struct verify *v) {
    evidence_close(&v->evidence);
    frames_close(&v->frames);
    tails_deinit(&v->tails);
    contents_deinit(&v->contents);
    summaries_deinit(&v->summaries);
    free(v->tail.queues);
    free(v->whole.queues);
}

int verify_store(struct store *store, struct verified *out) {
    struct verify v = {.store = *store};
    int status = verify_check(&v);
    *out = (struct verified){.digest = v.tail.digest,
                             .live = v.tail.live,
                             .log_end = v.store.recovery.end,
                             .torn_bytes = v.store.recovery.cut_bytes};
    out->epoch = v.tail.epoch > v.store.recovery.epoch ? v.tail.epoch : v.store.recovery.epoch;
    verify_deinit(&v);
    *store = v.store;
    store->archive.directory = store->archive_directory;
    return status;
}
