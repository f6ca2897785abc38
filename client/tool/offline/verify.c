/* verify.c: tarry verify DIR: checks a data directory that no broker uses, and changes nothing in it.
 *
 * It checks in this order:
 *   1. the lock and the identity;
 *   2. the index, row by row, against the digest and the counts that the index stores;
 *   3. archive and log: checksums, order and chain of every frame (the log is read a second time for the records);
 *   4. the chain hash at the index's position;
 *   5. the content of every task in the log against the hash in its record;
 *   6. the counts, replayed from the index's position to the end, and from the first frame if it still exists;
 *   7. each segment's summary against its frames;
 *   8. with --key, the signed heads (verify_evidence.c);
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

#include "alloc.h"
#include "arena.h"
#include "frame.h"
#include "frames.h"
#include "hard_state.h"
#include "json_out.h"
#include "output.h"
#include "progress.h"
#include "store.h"
#include "tally.h"
#include "tarry_limits.h"
#include "units.h"
#include "verify_parts.h"
#include "wire.h"

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

/* Returns whether redactions that a snapshot passed over wait for the broker's next run, which erases them from the
 * archive. */
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

/* Checks that the contents of redactions below index_erased were really erased. */
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

int contents_frame(struct contents *contents, struct store *store, const struct log_view *view,
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

void contents_gap(struct contents *contents) {
    erasures_deinit(&contents->erasures);
}

int contents_end(struct contents *contents, struct store *store) {
    const struct erasure_noted *noted = erasures_unexplained(&contents->erasures);
    if (noted == NULL) return 0;
    return store_damaged(store,
                         "log position %" PRIu64 ": the content of task %" PRIu64
                         " is erased without a redaction in the log",
                         noted->blob_at, noted->id);
}

void contents_deinit(struct contents *contents) {
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

int summaries_end(struct summaries *summaries, struct store *store) {
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

int summaries_frame(struct summaries *summaries, const struct frames *frames, const struct frame_header *header,
                    const Tarry__FrameBody *body) {
    int status = 0;
    if (summaries->segment != frames->segment) {
        status = summaries_end(summaries, frames->store);
        if (status == 0) status = begin(summaries, frames);
    }
    if (status == 0 && summaries->made != NULL) summary_add(summaries->made, header, body);
    return status;
}

void summaries_deinit(struct summaries *summaries) {
    summary_free(summaries->made);
    summaries->made = NULL;
}

/* ---- the check */

#define ARENA_SIZE_MAX (256u << 20)
#define CHECK_OVER (-1) /* result of check_next: all frames were checked */

struct verify {
    struct store store;
    struct index_verification rows;
    struct tally tail;  /* counts of the index, advanced to the end of the log */
    struct tally whole; /* counts computed from the first frame; invalid if the log begins later */
    bool has_whole;
    bool met;            /* true: the chain hash was compared at the position of the index */
    const char *archive; /* directory of --archive; NULL: DIR/archive, if it exists */
    struct frames frames;
    uint64_t frame_count;
    uint64_t records;
    struct contents contents;
    struct summaries summaries;
    struct evidence evidence;
    struct tails tails;
    struct progress progress;
};

static int run(struct tool *tool, const struct args *args);

static const struct arg_spec options[] = {STORE_ARCHIVE_OPTION,
                                          EVIDENCE_OPTIONS,
                                          {"against", ARG_VALUE, "DIR2",
                                           "other data directory to compare with, instead: a backup, a follower"},
                                          {0}};

const struct command command_verify = {
    .name = "verify",
    .usage = "DIR [--archive DIR] [--key FILE]... [--heads PATH]... [--head HEAD] [--pruned]\nDIR [--archive DIR] "
             "--against DIR2",
    .summary = "check a data directory for damage, offline",
    .text = "Checks the data directory of a broker that is not running: each frame of the log by checksum,\n"
            "order and hash chain, each row of the index, the index against the log, the content of each task,\n"
            "and the digest. It changes nothing. The exit status is 0 if all is well. It is 1 if there is\n"
            "damage, with its place, or if nothing could be checked, with the reason (locked,\n"
            "no_data_directory). A crash leaves a torn tail, which the next start cuts: it is reported, but is\n"
            "no damage. A returning node of a pair puts aside tails that its leader did not have: they are\n"
            "checked, and listed for 'tarry audit --quarantined'.\n\n"
            "--key also proves, with the heads that the broker has signed (tarryd --sign-key), that nothing up\n"
            "to the last head was edited, dropped, reordered, inserted or cut. If not, it prints between which\n"
            "positions the first difference lies. It prints the last head. Keep this head where nobody who can\n"
            "write to DIR can change it: given to --head later, it proves that log and heads were not cut\n"
            "together. With the keys of both nodes of a pair, and the heads of the other node (--heads), it\n"
            "prints how far the log is countersigned: if a primary rewrote its log and signed it again, the\n"
            "heads of its follower show it. Check the node whose log is longer, with the heads of the other\n"
            "node.\n\n"
            "--against compares two directories frame by frame: whether both have the same history as far as\n"
            "both reach, where the first difference lies, and which one is longer. The exit status is 1 if they\n"
            "differ.",
    .options = options,
    .positional_min = 1,
    .positional_max = 1,
    .positional_names = "DIR",
    .examples =
        "tarry verify /var/lib/tarry/main\ntarry verify /var/lib/tarry/main --key /media/auditor/sign.key.pub --json\n"
        "tarry verify /var/lib/tarry/main --key a.pub --key b.pub --heads /media/auditor/follower/heads\n"
        "tarry verify /var/lib/tarry/main --against /backup/tarry",
    .run = run,
};

/* ---- the index */

static void rows_progress(void *argument, uint64_t done, uint64_t total) {
    struct verify *v = argument;
    progress_show(&v->progress, done, total, done);
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
    progress_start(&v->progress, "rows");
    int error = index_verify(v->store.index, &v->rows, message, sizeof message, rows_progress, v);
    progress_end(&v->progress);
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
    /* cppcheck-suppress invalidFunctionArg ; -1 is what goes with MAP_ANONYMOUS */
    struct sight *sight = mmap(NULL, sizeof *sight, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = sight != MAP_FAILED ? fork() : -1;
    if (child == 0) look_and_tell(v, sight);
    int status = EXIT_FINE, ended = 0;
    if (child < 0) {
        status = store_damaged(&v->store, "cannot start a process to read the index: %s", strerror(errno));
    } else {
        while (waitpid(child, &ended, 0) < 0 && errno == EINTR) continue;
        if (!sight->is_whole)
            status =
                store_damaged(&v->store, "%s/index: an LMDB page is damaged: LMDB could not read it (%s)",
                              v->store.directory, WIFSIGNALED(ended) ? strsignal(WTERMSIG(ended)) : "LMDB aborted");
        else if (sight->status != EXIT_FINE)
            status = store_damaged(&v->store, "%s", sight->message);
        v->rows = sight->rows;
    }
    if (sight != MAP_FAILED) munmap(sight, sizeof *sight);
    return status == EXIT_FINE ? store_open_index(&v->store) : status;
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
static int meet(struct verify *v, const uint8_t chain[FRAME_CHAIN_SIZE]) {
    v->met = true;
    if (v->store.meta.position > LOG_POSITION_FIRST && v->store.meta.position > v->store.recovery.start &&
        memcmp(chain, v->store.meta.chain, FRAME_CHAIN_SIZE) != 0)
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
    uint8_t chain[FRAME_CHAIN_SIZE];
    memcpy(chain, frames->at.chain, sizeof chain);
    if (!v->met && frames->at.position >= v->store.meta.position && meet(v, chain) != 0) return EXIT_REFUSED;
    int result = frames_next(frames, &view);
    if (result == FRAMES_GAP) {
        v->has_whole = false;
        contents_gap(&v->contents);
        return evidence_gap(&v->evidence, frames);
    }
    if (result != 0) return result == FRAMES_END ? CHECK_OVER : EXIT_REFUSED;
    int status = check_frame(v, &view, arena);
    if (status == 0) status = evidence_frame(&v->evidence, frames);
    progress_show(&v->progress, view.header.position - frames->start, v->store.recovery.end - frames->start,
                  v->frame_count);
    return status;
}

static int check_log(struct verify *v) {
    struct arena arena;
    arena_init(&arena, ARENA_SIZE_MAX);
    progress_start(&v->progress, "frames");
    int status = evidence_start(&v->evidence, &v->frames);
    while (status == 0) status = check_next(v, &arena);
    if (status == CHECK_OVER) status = 0;
    progress_end(&v->progress);
    if (status == 0 && !v->met) status = meet(v, v->frames.at.chain);
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

/* ---- tails of a pair */

static int check_pair(struct verify *v) {
    struct hard_state hard_state;
    char message[IDENTITY_MESSAGE_SIZE] = "";
    int error = hard_state_read(&disk_posix, v->store.directory, &hard_state, message);
    if (error == 1) return store_damaged(&v->store, "%s", message);
    if (error != 0 && error != -ENOENT)
        return store_damaged(&v->store, "%s/%s: %s", v->store.directory, HARD_STATE_NAME, store_sentence(error));
    return tails_check(&v->tails, &v->store);
}

/* ---- the command */

static void tallies_init(struct verify *v) {
    size_t size = sizeof(struct queue_tally) * (QUEUE_PLACES + 1);
    v->tail = v->store.meta.tally;
    v->tail.queues = tool_alloc(size);
    memcpy(v->tail.queues, v->store.meta.tally.queues, size);
    v->has_whole = v->frames.start == LOG_POSITION_FIRST;
    tally_init(&v->whole, tool_alloc(size));
}

static int check(struct verify *v) {
    int status = store_lock(&v->store);
    if (status == 0) status = check_index(v);
    if (status == 0) status = store_open_log(&v->store, 0);
    if (status != 0) return status;
    status = store_open_archive(&v->store, v->archive);
    if (status == 0) status = frames_open(&v->frames, &v->store);
    if (status != 0) return status;
    tallies_init(v);
    status = check_log(v);
    return status == 0 ? check_pair(v) : status;
}

int verify_store(struct store *store, struct verified *out) {
    struct verify v = {.store = *store};
    int status = check(&v);
    *out = (struct verified){.digest = v.tail.digest,
                             .live = v.tail.live,
                             .log_end = v.store.recovery.end,
                             .torn_bytes = v.store.recovery.cut_bytes};
    out->epoch = v.tail.epoch > v.store.recovery.epoch ? v.tail.epoch : v.store.recovery.epoch;
    frames_close(&v.frames);
    summaries_deinit(&v.summaries);
    tails_deinit(&v.tails);
    free(v.tail.queues);
    free(v.whole.queues);
    *store = v.store;
    store->archive.directory = store->archive_directory;
    return status;
}

static void print_json(const struct verify *v, int status, uint64_t took_ms, struct text *out) {
    char digest[24];
    snprintf(digest, sizeof digest, "%016" PRIx64, v->tail.digest);
    out_begin(out, '{');
    out_text(out, "directory", v->store.directory);
    out_text(out, "result", status == 0 ? "fine" : v->store.hindrance != NULL ? v->store.hindrance : "damaged");
    if (status != 0) out_text(out, "message", v->store.message);
    out_number(out, "segments", v->store.recovery.segments);
    out_number(out, "frames", v->frame_count);
    out_number(out, "archived_segments", v->frames.archived_segments);
    out_number(out, "records", v->records);
    out_number(out, "contents", v->contents.checked);
    out_number(out, "erased", v->contents.erased);
    out_number(out, "erasures_under_way", v->contents.under_way);
    out_number(out, "summaries", v->summaries.checked);
    out_number(out, "summaries_unused", v->summaries.unused);
    out_number(out, "log_start", v->store.recovery.start);
    out_number(out, "log_end", v->store.recovery.end);
    out_number(out, "index_position", v->store.meta.position);
    out_number(out, "rows", v->rows.rows);
    out_number(out, "epoch", v->store.recovery.epoch);
    out_number(out, "torn_tail_bytes", v->store.recovery.cut_bytes);
    out_number(out, "stray_bytes", v->store.recovery.stray_bytes);
    evidence_json(&v->evidence, out);
    tails_json(&v->tails, out);
    if (status == 0) {
        out_number(out, "live", v->tail.live);
        out_text(out, "digest", digest);
    }
    out_number(out, "took_ms", took_ms);
    out_line_end(out);
}

static void print_words(const struct verify *v, int status, uint64_t took_ms, struct text *out) {
    char took[UNITS_TEXT_SIZE];
    if (v->store.index != NULL)
        text_printf(out, "index   position %" PRIu64 ", %" PRIu64 " rows\n", v->store.meta.position, v->rows.rows);
    if (v->store.log != NULL) {
        text_printf(out, "log     positions %" PRIu64 " … %" PRIu64 ", %" PRIu64 " segments, epoch %u\n",
                    v->store.recovery.start, v->store.recovery.end, v->store.recovery.segments,
                    v->store.recovery.epoch);
        text_printf(out, "        %" PRIu64 " frames, %" PRIu64 " records, %" PRIu64 " contents checked\n",
                    v->frame_count, v->records, v->contents.checked);
    }
    if (v->contents.erased > 0)
        text_printf(out, "        %" PRIu64 " of them erased, by redactions in the log\n", v->contents.erased);
    if (v->contents.under_way > 0)
        text_printf(out, "        %" PRIu64 " redactions not completed yet: the running broker completes them\n",
                    v->contents.under_way);
    if (v->store.recovery.cut_bytes > 0)
        text_printf(out,
                    "        torn tail of %" PRIu64 " bytes at %" PRIu64 ": the next start cuts it, nothing is lost\n",
                    v->store.recovery.cut_bytes, v->store.recovery.cut_at);
    if (v->store.recovery.stray_bytes > 0)
        text_printf(out, "        %" PRIu64 " foreign bytes in the unused ends of segments; harmless\n",
                    v->store.recovery.stray_bytes);
    evidence_words(&v->evidence, out);
    tails_words(&v->tails, &v->store, out);
    if (status != 0) return;
    text_printf(out, "digest  %016" PRIx64 "%s, %" PRIu64 " live tasks\nfine, in %s\n", v->tail.digest,
                v->has_whole ? ", confirmed by the whole log" : "", v->tail.live, duration_format(took_ms, took));
}

static int run(struct tool *tool, const struct args *args) {
    struct verify v = {0};
    struct text out = {0};
    uint64_t started_ms = steady_ms();
    store_init(&v.store, args->positional[0]);
    if (strlen(v.store.directory) + 16 > STORE_PATH_SIZE) return tool_usage(args, "the directory name is too long");
    int status = evidence_options(&v.evidence, args);
    if (status != 0) return status;
    if (args_has(args, "against") && v.evidence.key_count > 0)
        return tool_usage(args, "--against cannot be used with --key: check each directory separately with --key");
    v.archive = args_get(args, "archive");
    if (args_has(args, "against")) {
        const char *against = args_get(args, "against");
        if (strlen(against) + 16 > STORE_PATH_SIZE)
            return tool_usage(args, "--against: the directory name is too long");
        return compare_directories(tool, v.store.directory, v.archive, against);
    }
    status = check(&v);
    evidence_close(&v.evidence);
    if (tool->json)
        print_json(&v, status, steady_ms() - started_ms, &out);
    else
        print_words(&v, status, steady_ms() - started_ms, &out);
    frames_close(&v.frames);
    tails_deinit(&v.tails);
    contents_deinit(&v.contents);
    summaries_deinit(&v.summaries);
    free(v.tail.queues);
    free(v.whole.queues);
    return store_finish(&v.store, &out, status);
}
