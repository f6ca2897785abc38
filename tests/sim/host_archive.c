/* host_archive.c: the simulated archive. It stores only its end and the ids of archived contents. Archiving copies
 * contents as they are when it begins, so a content must not be erased meanwhile: its copy would stay. */
#include <string.h>

#include "../must.h"
#include "host.h"
#include "world.h"

#define AGAIN_NS (2000 * NS_PER_MS)

void host_archive_begin(struct host *host) {
    host->archive_end = 0;
    memset(host->archive_has, 0, sizeof host->archive_has);
}

/* Returns whether the archive's disk is mounted at present. */
static bool is_there(const struct world *world) {
    return !world->options.archive_comes_and_goes || (world->now_ns >> 30) % 3 != 1;
}

bool host_is_archived(const struct world *world, uint64_t end) {
    return !world->options.archives || world->host->archived >= end;
}

struct archiving {
    struct log_segment segment;
    bool has[FLAT_TASKS_MAX]; /* by task id: true if the content is in the archive */
};

/* Returns whether the content is intact. Its hash is checked, because erased bytes (zeros) may have a flipped bit
 * (history 20045725). */
static bool is_content(const Tarry__TaskPut *put, const uint8_t *blob) {
    uint8_t hash[CONTENT_HASH_SIZE];
    content_hash(blob, put->task->blob_size, hash);
    return put->content_hash.len == sizeof hash && memcmp(put->content_hash.data, hash, sizeof hash) == 0;
}

static void read_frame(struct archiving *archiving, const struct log_view *view, const Tarry__FrameBody *body) {
    for (size_t i = 0; body && i < body->n_records; i++) {
        const Tarry__TaskPut *put = body->records[i]->put;
        if (body->records[i]->fact_case != TARRY__RECORD__FACT_PUT || !put->fresh || !put->task->blob_size) continue;
        const uint8_t *blob = view->blob + (put->task->blob_at - frame_blob_position(view->header.position));
        archiving->has[put->task->id] = is_content(put, blob);
    }
}

static bool read_segment(struct host *host, struct archiving *archiving) {
    struct log_cursor *cursor;
    struct log_view view;
    int error = log_cursor_open(&cursor, host->log, archiving->segment.base, true);
    if (error) return false;
    while ((error = log_cursor_next(cursor, archiving->segment.end, &view)) == 0)
        read_frame(archiving, &view, host_frame(host, view.header.position)->body);
    log_cursor_close(cursor);
    return error == LOG_END;
}

/* Checks that erased contents never enter the archive. */
static void check_reported(const struct host *host, const struct archiving *archiving) {
    for (size_t i = 0; i < host_frames_below(host, host->table.flat.position); i++) {
        const Tarry__FrameBody *body = host->frames[i].body;
        for (size_t k = 0; body && k < body->n_records; k++) {
            const Tarry__Redaction *redaction = body->records[k]->redaction;
            bool is_one = body->records[k]->fact_case == TARRY__RECORD__FACT_REDACTION && redaction->frame;
            if (is_one && archiving->has[redaction->id]) MUST(table_is_redacting(&host->table, redaction));
        }
    }
}

static void end(struct world *world, void *argument, uint64_t life) {
    struct host *host = world->host;
    struct archiving *archiving = argument;
    if (host->life != life || host->state != HOST_UP) return;
    check_reported(host, archiving);
    for (size_t id = 0; id < FLAT_TASKS_MAX; id++) host->archive_has[id] |= archiving->has[id];
    host->archived = archiving->segment.end;
    if (host->archive_end < host->archived) host->archive_end = host->archived;
    host->archiving = false;
    host_retire_later(world);
}

static void begin(struct world *world, void *argument, uint64_t life) {
    struct host *host = world->host;
    struct archiving *archiving = argument;
    if (host->life != life || host->state != HOST_UP) return;
    bool is_erasing = host->erasure.effect != ERASURE_REST;
    if (is_erasing || !is_there(world) || !read_segment(host, archiving)) {
        world_after_ns(world, AGAIN_NS, begin, argument, life);
        return;
    }
    host->archiving = true;
    uint64_t wait_ms = 1 + archiving->segment.end / 64 % 128;
    world_after_ns(world, wait_ms * NS_PER_MS, end, argument, life);
}

void host_archive_later(struct world *world) {
    struct archiving *archiving = world_alloc(world, sizeof *archiving);
    archiving->segment = world->host->retention.segment;
    begin(world, archiving, world->host->life);
}

bool host_archive_erase(struct world *world, const Tarry__Redaction *redaction) {
    if (!world->options.archives) return true;
    if (!is_there(world)) return false;
    world->host->archive_has[redaction->id] = false;
    return true;
}
