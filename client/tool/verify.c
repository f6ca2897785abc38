/* verify.c: tarry verify DIR: checks a data directory that no broker runs on, and changes nothing in it.
 *
 * The only part of the tool that knows what lies on disk (it links `storage`). In this order: the lock and the
 * identity; the index, row by row, against the digest and the counts that it stores; the log, every frame by its sums,
 * order and chain (twice: once to find its end, once to read the records); the chain hash at the index's position; the
 * content of every task in the log against its record's hash; the counts replayed from the index's position to the
 * end, and from the beginning too if the log still reaches back to it. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arena.h"
#include "bytes.h"
#include "frame.h"
#include "index.h"
#include "log.h"
#include "ndjson.h"
#include "output.h"
#include "progress.h"
#include "tally.h"
#include "tarry_limits.h"
#include "tool.h"
#include "units.h"

#define PATH_SIZE_MAX 4096u
#define IDENTITY_SIZE 72u /* broker/shell/datadir.h: magic, version, 0, cluster, secret, sum */
#define IDENTITY_SUMMED 64u
#define ARENA_SIZE_MAX (256u << 20)

struct verify {
    const char *directory;
    uint8_t cluster[16];
    int lock;
    struct index *index;
    struct index_meta meta;
    struct index_verification rows;
    struct log *log;
    struct log_recovery recovery;
    struct tally tail;  /* the index's counts, brought up to the end of the log */
    struct tally whole; /* from the first frame on; void unless the log reaches back */
    bool has_whole;
    bool met; /* the chain was compared at the index's position */
    uint64_t frames;
    uint64_t records;
    uint64_t contents;
    struct progress progress;
    const char *hindrance;            /* why nothing could be checked; NULL: it could */
    char place[PATH_SIZE_MAX + 1024]; /* what is wrong, and where */
};

static int run(struct tool *tool, const struct args *args);

static const struct arg_spec options[] = {{0}};

const struct command command_verify = {
    .name = "verify",
    .usage = "DIR",
    .summary = "check a data directory, offline",
    .text = "Checks the data directory of a broker that is not running: every frame of the log by checksum, order and\n"
            "hash chain, every row of the index, index against log, the content of every task, and the digest. It\n"
            "changes nothing. Exit status 0 if all is well, 1 with the place of the damage otherwise, or with the\n"
            "reason why nothing was checked (locked, no_data_directory). A torn tail, which a crash leaves and the\n"
            "next start cuts, is reported and is no damage.",
    .options = options,
    .positional_min = 1,
    .positional_max = 1,
    .positional_names = "DIR",
    .examples = "tarry verify /var/lib/tarry\ntarry verify /var/lib/tarry --json",
    .run = run,
};

/* Notes what is wrong; returns EXIT_REFUSED. */
static int damaged(struct verify *v, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int damaged(struct verify *v, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(v->place, sizeof v->place, format, list);
    va_end(list);
    return EXIT_REFUSED;
}

static const char *storage_sentence(int error) {
    switch (error) {
    case LOG_DAMAGED:
    case INDEX_DAMAGED:
        return "it is damaged";
    case LOG_VERSION:
    case INDEX_VERSION:
        return "it has another format version";
    case LOG_FOREIGN:
    case INDEX_FOREIGN:
        return "it belongs to another broker's data";
    case LOG_END:
        return "it ends too early";
    case LOG_RETIRED:
        return "a part of it is no longer there";
    default:
        return error < 0 && error > -4096 ? strerror(-error) : "the index cannot be read";
    }
}

/* ---- the lock and the identity */

/* A read lock keeps brokers out for as long as this runs. */
static int take_lock(struct verify *v) {
    char path[PATH_SIZE_MAX];
    snprintf(path, sizeof path, "%s/lock", v->directory);
    v->lock = open(path, O_RDONLY | O_CLOEXEC);
    if (v->lock < 0 && errno == ENOENT) return 0; /* no broker can run on it without */
    if (v->lock < 0) return damaged(v, "%s: %s", path, strerror(errno));
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    if (fcntl(v->lock, F_OFD_SETLK, &lock) == 0) return 0;
    v->hindrance = "locked";
    return damaged(v, "%s is locked: a tarryd is running on it; stop it first, or ask it with 'tarry stats'",
                   v->directory);
}

static int read_identity(struct verify *v) {
    char path[PATH_SIZE_MAX];
    uint8_t bytes[IDENTITY_SIZE + 1];
    snprintf(path, sizeof path, "%s/identity", v->directory);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        v->hindrance = "no_data_directory";
        return damaged(v, "%s: %s; this is no data directory of tarryd", path, strerror(errno));
    }
    ssize_t size = read(fd, bytes, sizeof bytes);
    int error = errno;
    close(fd);
    if (size < 0) return damaged(v, "%s: %s", path, strerror(error));
    if (size < 12 || memcmp(bytes, "TARRYID1", 8) != 0) return damaged(v, "%s: not an identity file of Tarry", path);
    uint32_t version = get_u32(bytes + 8);
    if (version != FORMAT_VERSION)
        return damaged(v, "%s has format version %u; this tool reads version %u", v->directory, version,
                       FORMAT_VERSION);
    if (size != IDENTITY_SIZE || get_u64(bytes + IDENTITY_SUMMED) != frame_sum(bytes, IDENTITY_SUMMED))
        return damaged(v, "%s: is damaged", path);
    memcpy(v->cluster, bytes + 16, sizeof v->cluster);
    return 0;
}

/* ---- the index */

static void rows_progress(void *argument, uint64_t done, uint64_t total) {
    struct verify *v = argument;
    progress_show(&v->progress, done, total, done);
}

static int check_index(struct verify *v) {
    char path[PATH_SIZE_MAX], message[1024] = "";
    snprintf(path, sizeof path, "%s/index", v->directory);
    struct index_options index_options = {.directory = path,
                                          .memory = MEMORY_DEFAULT,
                                          .outcomes_max = OUTCOMES_MAX_DEFAULT,
                                          .outcome_retention_ms = OUTCOME_RETENTION_DEFAULT_MS,
                                          .read_only = true};
    memcpy(index_options.cluster, v->cluster, sizeof v->cluster);
    int error = index_open(&v->index, &index_options, message, sizeof message);
    if (error != 0) return damaged(v, "%s: %s", path, message[0] != 0 ? message : storage_sentence(error));
    index_meta(v->index, &v->meta);
    progress_start(&v->progress, "rows");
    error = index_verify(v->index, &v->rows, message, sizeof message, rows_progress, v);
    progress_end(&v->progress);
    if (error != 0) return damaged(v, "%s: %s", path, message[0] != 0 ? message : storage_sentence(error));
    return 0;
}

/* ---- the log */

static int open_log(struct verify *v) {
    char path[PATH_SIZE_MAX], message[1024] = "";
    snprintf(path, sizeof path, "%s/log", v->directory);
    struct log_options log_options = {.directory = path,
                                      .disk = &disk_posix,
                                      .segment_size = SEGMENT_SIZE_DEFAULT,
                                      .durable_min = v->meta.position,
                                      .read_only = true};
    memcpy(log_options.cluster, v->cluster, sizeof v->cluster);
    int error = log_open(&v->log, &log_options, 0, &v->recovery, message, sizeof message);
    if (error != 0) return damaged(v, "%s: %s", path, message[0] != 0 ? message : storage_sentence(error));
    if (v->recovery.end < v->meta.position)
        return damaged(v, "%s ends at position %" PRIu64 ", before the index's %" PRIu64 ": the log has lost its tail",
                       path, v->recovery.end, v->meta.position);
    if (v->recovery.start > v->meta.position)
        return damaged(v, "%s starts at position %" PRIu64 ", behind the index's %" PRIu64 ": segments are missing",
                       path, v->recovery.start, v->meta.position);
    if (v->recovery.start > v->meta.log_start)
        return damaged(v,
                       "%s: the segments from position %" PRIu64 " to %" PRIu64
                       " are missing, and contents of live tasks with them",
                       path, v->meta.log_start, v->recovery.start);
    return 0;
}

/* The content of a fresh task lies in its own frame, and is what the record says. */
static bool content_is_right(const struct log_view *view, const Tarry__TaskPut *put) {
    uint8_t hash[CONTENT_HASH_SIZE];
    uint64_t start = frame_blob_position(view->header.position);
    uint64_t at = put->task->blob_at;
    if (put->task->blob_size == 0) return true;
    if (at < start || put->task->blob_size > view->header.blob_size ||
        at - start > view->header.blob_size - put->task->blob_size)
        return false;
    const uint8_t *blob = view->blob + (at - start);
    if (frame_sum(blob, put->task->blob_size) != put->task->blob_sum) return false;
    content_hash(blob, put->task->blob_size, hash);
    return put->content_hash.len == sizeof hash && memcmp(hash, put->content_hash.data, sizeof hash) == 0;
}

static int check_record(struct verify *v, const struct log_view *view, const Tarry__Record *record) {
    uint64_t position = view->header.position;
    bool erased = (view->header.flags & FRAME_FLAG_ERASED) != 0;
    v->records++;
    if (v->has_whole && !tally_record(&v->whole, record))
        return damaged(v, "log position %" PRIu64 ": record %" PRIu64 " of the log makes no sense", position,
                       v->records);
    if (position >= v->meta.position && !tally_record(&v->tail, record))
        return damaged(v, "log position %" PRIu64 ": a record makes no sense after the index's position", position);
    if (record->fact_case == TARRY__RECORD__FACT_PUT && record->put->fresh && record->put->task != NULL && !erased) {
        v->contents++;
        if (!content_is_right(view, record->put))
            return damaged(v, "log position %" PRIu64 ": the content of task %" PRIu64 " is not what its record says",
                           position, record->put->task->id);
    }
    return 0;
}

static int check_frame(struct verify *v, const struct log_view *view, struct arena *arena) {
    int status = 0;
    v->frames++;
    if (view->header.type != FRAME_COMMIT) return 0;
    arena_reset(arena);
    Tarry__FrameBody *body = tarry__frame_body__unpack(&arena->pb, view->header.body_size, view->body);
    if (body == NULL)
        return damaged(v, "log position %" PRIu64 ": the frame's body is no message", view->header.position);
    for (size_t i = 0; i < body->n_records && status == 0; i++) status = check_record(v, view, body->records[i]);
    return status;
}

/* The counts at the index's position, by the log from its first frame on, must be the index's. */
static int meet(struct verify *v, const uint8_t chain[FRAME_CHAIN_SIZE]) {
    v->met = true;
    if (v->meta.position > LOG_POSITION_FIRST && v->meta.position > v->recovery.start &&
        memcmp(chain, v->meta.chain, FRAME_CHAIN_SIZE) != 0)
        return damaged(v, "index and log tell different histories: the chain hash at position %" PRIu64 " differs",
                       v->meta.position);
    if (v->has_whole && (v->whole.digest != v->meta.tally.digest || v->whole.live != v->meta.tally.live))
        return damaged(v, "the digest of the log at position %" PRIu64 " is %016" PRIx64 ", the index's is %016" PRIx64,
                       v->meta.position, v->whole.digest, v->meta.tally.digest);
    return 0;
}

static int check_log(struct verify *v) {
    struct log_cursor *cursor = NULL;
    struct log_view view;
    struct arena arena;
    uint8_t chain[FRAME_CHAIN_SIZE] = {0};
    int status = 0;
    arena_init(&arena, ARENA_SIZE_MAX);
    progress_start(&v->progress, "frames");
    int error = log_cursor_open(&cursor, v->log, v->recovery.start, true);
    while (error == 0 && status == 0 && log_cursor_position(cursor) < v->recovery.end) {
        if (!v->met && log_cursor_position(cursor) >= v->meta.position) status = meet(v, chain);
        if (status == 0) error = log_cursor_next(cursor, v->recovery.end, &view);
        if (status != 0 || error != 0) break;
        memcpy(chain, view.header.chain, sizeof chain);
        status = check_frame(v, &view, &arena);
        progress_show(&v->progress, view.header.position - v->recovery.start, v->recovery.end - v->recovery.start,
                      v->frames);
    }
    progress_end(&v->progress);
    if (error != 0 && cursor != NULL)
        status = damaged(v, "log position %" PRIu64 ": %s", log_cursor_position(cursor), storage_sentence(error));
    else if (error != 0)
        status = damaged(v, "the log cannot be read: %s", storage_sentence(error));
    if (status == 0 && !v->met) status = meet(v, chain);
    if (status == 0 && v->has_whole && v->whole.digest != v->tail.digest)
        status = damaged(v, "the log's digest %016" PRIx64 " is not the index's brought up to date, %016" PRIx64,
                         v->whole.digest, v->tail.digest);
    log_cursor_close(cursor);
    arena_deinit(&arena);
    return status;
}

/* ---- the whole */

static void tallies_init(struct verify *v) {
    size_t size = sizeof(struct queue_tally) * (QUEUES_MAX + 1);
    v->tail = v->meta.tally;
    v->tail.queues = tool_alloc(size);
    memcpy(v->tail.queues, v->meta.tally.queues, size);
    v->has_whole = v->recovery.start == LOG_POSITION_FIRST;
    tally_init(&v->whole, tool_alloc(size));
}

static int check(struct verify *v) {
    int status = take_lock(v);
    if (status == 0) status = read_identity(v);
    if (status == 0) status = check_index(v);
    if (status == 0) status = open_log(v);
    if (status != 0) return status;
    tallies_init(v);
    return check_log(v);
}

static void print_json(const struct verify *v, int status, uint64_t took_ms, struct text *out) {
    char digest[24];
    snprintf(digest, sizeof digest, "%016" PRIx64, v->tail.digest);
    ndjson_begin(out);
    ndjson_text(out, "directory", v->directory);
    ndjson_text(out, "result", status == 0 ? "fine" : v->hindrance != NULL ? v->hindrance : "damaged");
    if (status != 0) ndjson_text(out, "message", v->place);
    ndjson_number(out, "segments", v->recovery.segments);
    ndjson_number(out, "frames", v->frames);
    ndjson_number(out, "records", v->records);
    ndjson_number(out, "contents", v->contents);
    ndjson_number(out, "log_start", v->recovery.start);
    ndjson_number(out, "log_end", v->recovery.end);
    ndjson_number(out, "index_position", v->meta.position);
    ndjson_number(out, "rows", v->rows.rows);
    ndjson_number(out, "epoch", v->recovery.epoch);
    ndjson_number(out, "torn_tail_bytes", v->recovery.cut_bytes);
    ndjson_number(out, "stray_bytes", v->recovery.stray_bytes);
    if (status == 0) {
        ndjson_number(out, "live", v->tail.live);
        ndjson_text(out, "digest", digest);
    }
    ndjson_number(out, "took_ms", took_ms);
    ndjson_end(out);
}

static void print_words(const struct verify *v, int status, uint64_t took_ms, struct text *out) {
    char took[UNITS_TEXT_SIZE];
    if (v->index != NULL)
        text_printf(out, "index   position %" PRIu64 ", %" PRIu64 " rows\n", v->meta.position, v->rows.rows);
    if (v->log != NULL) {
        text_printf(out, "log     positions %" PRIu64 " … %" PRIu64 ", %" PRIu64 " segments, epoch %u\n",
                    v->recovery.start, v->recovery.end, v->recovery.segments, v->recovery.epoch);
        text_printf(out, "        %" PRIu64 " frames, %" PRIu64 " records, %" PRIu64 " contents checked\n", v->frames,
                    v->records, v->contents);
    }
    if (v->recovery.cut_bytes > 0)
        text_printf(out,
                    "        torn tail of %" PRIu64 " bytes at %" PRIu64 ": the next start cuts it, nothing is lost\n",
                    v->recovery.cut_bytes, v->recovery.cut_at);
    if (v->recovery.stray_bytes > 0)
        text_printf(out,
                    "        %" PRIu64 " bytes in the unused ends of segments, which nothing of ours wrote; harmless\n",
                    v->recovery.stray_bytes);
    if (status != 0) return;
    text_printf(out, "digest  %016" PRIx64 "%s, %" PRIu64 " live tasks\nfine, in %s\n", v->tail.digest,
                v->has_whole ? ", by the whole log too" : "", v->tail.live, duration_format(took_ms, took));
}

static int run(struct tool *tool, const struct args *args) {
    struct verify v = {.directory = args->positional[0], .lock = -1};
    struct text out = {0};
    uint64_t started_ms = steady_ms();
    if (strlen(v.directory) + 16 > PATH_SIZE_MAX) return tool_usage(args, "the directory's name is too long");
    int status = check(&v);
    if (tool->json)
        print_json(&v, status, steady_ms() - started_ms, &out);
    else
        print_words(&v, status, steady_ms() - started_ms, &out);
    status = output_flush(&out, status);
    if (v.place[0] != 0) tool_say("%s", v.place);
    text_deinit(&out);
    free(v.tail.queues);
    free(v.whole.queues);
    log_close(v.log);
    if (v.index != NULL) index_close(v.index);
    if (v.lock >= 0) close(v.lock);
    return status;
}
