/* quarantine_erase.c: erases redacted contents in quarantined tails; see quarantine.h.
 *
 * A redaction names a task of the log, but a tail belongs to another history, so its ids and positions do not match.
 * So the erasure selects contents by the same key in the same queue. It also selects equal contents, because a
 * client without a reply sends the same content again. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "erasures.h"
#include "log_internal.h"
#include "quarantine.h"
#include "tarry.pb-c.h"
#include "wire.h"

#define ARENA_SIZE_MAX ((size_t)256 << 20)

/* A queue that was created in the tail. */
struct tail_queue {
    uint32_t number;
    char *name;
};

struct scan {
    const struct quarantine_meant *meant;
    size_t meant_count;
    struct tail_queue *queues;
    size_t queue_count;
    struct log_content *contents; /* contents found */
    size_t count;
    size_t room;
};

static void scan_deinit(struct scan *scan) {
    for (size_t i = 0; i < scan->queue_count; i++) free(scan->queues[i].name);
    free(scan->queues);
    free(scan->contents);
}

static int note_queue(struct scan *scan, const Tarry__QueuePut *put) {
    if (put->before_policy != NULL)
        return 0; /* the queue existed before the tail, with the same number as in the log */
    struct tail_queue *queues = realloc(scan->queues, (scan->queue_count + 1) * sizeof *queues);
    if (queues == NULL) return -ENOMEM;
    scan->queues = queues;
    struct tail_queue *queue = &queues[scan->queue_count];
    queue->number = put->number;
    queue->name = strdup(put->name);
    if (queue->name == NULL) return -ENOMEM;
    scan->queue_count++;
    return 0;
}

static bool is_same_queue(const struct scan *scan, uint32_t number, const struct quarantine_meant *meant) {
    for (size_t i = scan->queue_count; i-- > 0;)
        if (scan->queues[i].number == number)
            return meant->queue_name != NULL && strcmp(scan->queues[i].name, meant->queue_name) == 0;
    return number == meant->queue;
}

static bool is_meant(const struct scan *scan, const Tarry__Task *task, const uint8_t *blob,
                     const struct quarantine_meant *meant) {
    size_t size = task->blob_size - BLOB_SALT_SIZE;
    bool has_key = meant->key_size > 0 && task->key.len == meant->key_size &&
                   memcmp(task->key.data, meant->key, meant->key_size) == 0;
    if (has_key && is_same_queue(scan, task->queue, meant)) return true;
    return meant->content != NULL && size > 0 && size == meant->content_size &&
           memcmp(blob + BLOB_SALT_SIZE, meant->content, size) == 0;
}

static int add(struct scan *scan, const struct log_content *content) {
    if (scan->count == scan->room) {
        size_t room = scan->room > 0 ? 2 * scan->room : 16;
        struct log_content *contents = realloc(scan->contents, room * sizeof *contents);
        if (contents == NULL) return -ENOMEM;
        scan->contents = contents;
        scan->room = room;
    }
    scan->contents[scan->count++] = *content;
    return 0;
}

static int look_at_task(struct scan *scan, const struct log_view *view, const Tarry__TaskPut *put) {
    const Tarry__Task *task = put->task;
    if (!put->fresh || task == NULL || task->blob_size < BLOB_SALT_SIZE) return 0;
    struct log_content content = {view->header.position, task->blob_at, task->blob_size};
    switch (content_state(&view->header, view->blob, put)) {
    case CONTENT_DAMAGED:
        return LOG_DAMAGED;
    case CONTENT_ERASED:
        return 0;
    case CONTENT_PARTLY: /* a kill interrupted an erasure of this content; its remaining bytes match no known content,
                            so erase them */
        return add(scan, &content);
    default:
        break;
    }
    const uint8_t *blob = view->blob + (task->blob_at - frame_blob_position(view->header.position));
    for (size_t i = 0; i < scan->meant_count; i++)
        if (is_meant(scan, task, blob, &scan->meant[i])) return add(scan, &content);
    return 0;
}

static int look_at_frame(struct scan *scan, const struct log_view *view, struct arena *arena) {
    if (view->header.type != FRAME_COMMIT) return 0;
    arena_reset(arena);
    Tarry__FrameBody *body = frame_body_unpack(arena, view->header.body_size, view->body);
    int result = body != NULL ? 0 : LOG_DAMAGED;
    for (size_t i = 0; result == 0 && i < body->n_records; i++) {
        const Tarry__Record *record = body->records[i];
        if (record->fact_case == TARRY__RECORD__FACT_QUEUE) result = note_queue(scan, record->queue);
        if (record->fact_case == TARRY__RECORD__FACT_PUT) result = look_at_task(scan, view, record->put);
    }
    return result;
}

static int look_through(struct scan *scan, struct log *log, const struct log_recovery *recovery) {
    struct log_cursor *cursor;
    struct log_view view;
    struct arena arena;
    int result = log_cursor_open(&cursor, log, recovery->start, true);
    if (result != 0) return result;
    arena_init(&arena, ARENA_SIZE_MAX);
    while (result == 0 && (result = log_cursor_next(cursor, recovery->end, &view)) == 0)
        result = look_at_frame(scan, &view, &arena);
    arena_deinit(&arena);
    log_cursor_close(cursor);
    return result == LOG_END ? 0 : result;
}

static int erase_in_tail(const struct quarantine *quarantine, const struct quarantine_tail *tail, struct scan *scan,
                         char *message, size_t message_size) {
    struct log *log;
    struct log_recovery recovery;
    struct erasure erasure = {.disk = quarantine->disk, .base = tail->base};
    int result = quarantine_open(&log, quarantine, tail, &recovery, message, message_size);
    if (result != 0) return result;
    result = look_through(scan, log, &recovery);
    log_close(log);
    if (result != 0 || scan->count == 0) return result;
    erasure.end = recovery.end;
    int size = snprintf(erasure.path, sizeof erasure.path, "%s/%s", quarantine->directory, tail->name);
    if (size < 0 || (size_t)size >= sizeof erasure.path) return -ENAMETOOLONG;
    return erase_in_file(&erasure, scan->contents, scan->count);
}

int quarantine_erase(const struct quarantine *quarantine, const struct quarantine_meant *meant, size_t count,
                     size_t *out_count, char *message, size_t message_size) {
    struct quarantine_tail *tails = NULL;
    size_t tail_count = 0;
    *out_count = 0;
    int result = quarantine_list(quarantine, &tails, &tail_count);
    for (size_t i = 0; result == 0 && i < tail_count; i++) {
        struct scan scan = {.meant = meant, .meant_count = count};
        message[0] = 0;
        result = erase_in_tail(quarantine, &tails[i], &scan, message, message_size);
        if (result == LOG_DAMAGED && message[0] == 0) snprintf(message, message_size, "%s is damaged", tails[i].name);
        *out_count += scan.count;
        scan_deinit(&scan);
    }
    free(tails);
    return result;
}
