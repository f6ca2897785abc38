/* grow_story.c: makes a stopped broker's log many times as long. The log must contain the load of story.c (orders).
 * Repeats the log's frames with other tasks, keys, content positions, sequences and later times.
 *
 * grow_story DIR COPIES ORDERS       COPIES: length as a multiple of the original; ORDERS: as given to bench_story
 *
 * Log, index and summaries are written by the broker's own code; a broker can start on the resulting data directory.
 * Records about queues, producers, sessions and starts are not repeated. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "history.h"
#include "identity.h"
#include "index.h"
#include "row.h"
#include "tarry_limits.h"

#define SYNC_RECORDS 100000u
#define SEQUENCES_A_COPY 1000000u
#define NS_PER_MS 1000000u
#define KEY_PREFIX "order-"

/* Numbers of a task that its first records contain, and that later records of the task must contain too. */
struct fate {
    uint64_t blob_at;
    uint64_t lease_position;
    uint64_t hash;
};

struct grown {
    struct log *log;
    struct index *index;
    struct index_meta meta; /* the index's own data (position, counts), as in the original index */
    struct log_recovery recovery;
    uint64_t orders;
    uint64_t ids;     /* highest task id in the original log; its ids start at 1 */
    uint64_t span_ms; /* duration of the original log, plus a little */
    uint64_t copy;
    struct fate *fates; /* what happened to the tasks of this copy, indexed by their ids in the original */
    struct summary *summary;
    uint8_t *body;
    size_t body_room;
    uint64_t records;
};

static void must(int error, const char *what) {
    if (error == 0) return;
    fprintf(stderr, "grow_story: %s: %d\n", what, error);
    exit(1);
}

static void must_have(const void *memory) {
    must(memory ? 0 : -1, "memory");
}

static void later(const struct grown *grown, uint64_t *ms) {
    if (*ms != 0) *ms += grown->copy * grown->span_ms;
}

static void change_key(const struct grown *grown, ProtobufCBinaryData *key) {
    char text[32];
    size_t prefix = strlen(KEY_PREFIX);
    if (key->len != prefix + 9 || memcmp(key->data, KEY_PREFIX, prefix) != 0) must(-1, "a key that is not story.c's");
    memcpy(text, key->data, key->len);
    text[key->len] = 0;
    uint64_t order = strtoull(text + prefix, NULL, 10) + grown->copy * grown->orders;
    snprintf(text, sizeof text, KEY_PREFIX "%09" PRIu64, order);
    memcpy(key->data, text, key->len);
}

/* `moved`: distance between the copied frame and the original one in the log. */
static void change_task(struct grown *grown, Tarry__Task *task, uint64_t moved, bool is_fresh, bool is_lease) {
    struct fate *fate = &grown->fates[task->id];
    struct row row;
    if (is_fresh) *fate = (struct fate){.blob_at = task->blob_size > 0 ? task->blob_at + moved : task->blob_at};
    if (is_lease) fate->lease_position = task->lease_position + moved;
    task->id += grown->copy * grown->ids;
    task->blob_at = fate->blob_at;
    task->lease_position = fate->lease_position;
    change_key(grown, &task->key);
    later(grown, &task->due_ms);
    later(grown, &task->scheduled_ms);
    later(grown, &task->lease_deadline_ms);
    later(grown, &task->delivered_ms);
    if (!row_from_task(task, &row)) must(-1, "a row");
    fate->hash = row_hash(&row);
}

static void change_put(struct grown *grown, Tarry__TaskPut *put, uint64_t moved) {
    if (!put->fresh) put->before_hash = grown->fates[put->task->id].hash;
    change_task(grown, put->task, moved, put->fresh, put->cause == TARRY__CAUSE__CAUSE_LEASED);
    later(grown, &put->before_due_ms);
    later(grown, &put->before_lease_deadline_ms);
    later(grown, &put->before_delivered_ms);
}

/* Changes the records about tasks in the body, and removes all other records. */
static void change_body(struct grown *grown, Tarry__FrameBody *body, uint64_t moved) {
    size_t count = 0;
    for (size_t i = 0; i < body->n_records; i++) {
        Tarry__Record *record = body->records[i];
        if (record->fact_case == TARRY__RECORD__FACT_PUT)
            change_put(grown, record->put, moved);
        else if (record->fact_case == TARRY__RECORD__FACT_END)
            change_task(grown, record->end->task, moved, false, false);
        else
            continue;
        body->records[count++] = record;
    }
    body->n_records = count;
    if (body->producer == 0) return;
    body->sequence += grown->copy * SEQUENCES_A_COPY;
    body->oldest_unanswered += grown->copy * SEQUENCES_A_COPY;
}

static void summarise(struct grown *grown, const struct frame_header *header, const Tarry__FrameBody *body) {
    struct log_segment segment;
    if (!log_segment_at(grown->log, header->position, &segment)) must(-1, "a segment");
    if (grown->summary && grown->summary->base != segment.base) {
        must(summary_write(grown->summary, grown->log), "summary");
        summary_free(grown->summary);
        grown->summary = NULL;
    }
    if (!grown->summary && header->position == segment.base) {
        grown->summary = summary_new(segment.base, segment.bytes);
        must_have(grown->summary);
    }
    if (grown->summary) summary_add(grown->summary, header, body);
}

static void sync_all(struct grown *grown) {
    bool more = false;
    must(log_sync(grown->log), "sync");
    must(index_commit(grown->index), "index commit");
    must(index_maintain(grown->index, &more), "index maintenance");
}

static void append(struct grown *grown, const struct log_view *view, Tarry__FrameBody *body) {
    change_body(grown, body, log_end(grown->log) - view->header.position);
    if (body->n_records == 0) return;
    size_t size = tarry__frame_body__get_packed_size(body);
    if (size > grown->body_room) {
        free(grown->body);
        grown->body_room = 2 * size;
        grown->body = malloc(grown->body_room);
        must_have(grown->body);
    }
    tarry__frame_body__pack(body, grown->body);
    struct log_piece blob = {view->blob, view->header.blob_size};
    struct frame_header header = view->header;
    header.position = log_end(grown->log);
    header.epoch = grown->recovery.epoch;
    header.steady_ns += grown->copy * grown->span_ms * NS_PER_MS;
    header.wall_ns += grown->copy * grown->span_ms * NS_PER_MS;
    header.body_size = (uint32_t)size;
    struct log_frame frame = {.type = header.type,
                              .epoch = header.epoch,
                              .position = header.position,
                              .steady_ns = header.steady_ns,
                              .wall_ns = header.wall_ns,
                              .body = grown->body,
                              .body_size = header.body_size,
                              .pieces = &blob,
                              .piece_count = blob.size > 0};
    must(log_append(grown->log, &frame), "append");
    must(log_write(grown->log), "write");
    log_chain(grown->log, header.chain);
    summarise(grown, &header, body);
    must(index_absorb(grown->index, &header, body), "absorb");
    grown->records += body->n_records;
    if (index_pending(grown->index) >= SYNC_RECORDS) sync_all(grown);
}

/* Writes the original's frames once more, as the next copy. For copy 0, the original itself, only makes the
 * summaries. */
static void tell_again(struct grown *grown) {
    struct history *history;
    struct log_view view;
    const Tarry__FrameBody *body;
    struct history_question question = {.contents = true};
    int error = history_open(&history, grown->log, NULL, &question);
    must(error, "history");
    while ((error = history_next(history, grown->recovery.end, &view, &body)) == 0) {
        if (grown->copy == 0)
            summarise(grown, &view.header, body);
        else if (body)
            append(grown, &view,
                   (Tarry__FrameBody *)body); /* the body is in the reader's arena, so it may be changed */
    }
    if (error != LOG_END) must(error, "history");
    history_close(history);
    sync_all(grown);
    fprintf(stderr, "event=told copies=%" PRIu64 " records=%" PRIu64 "\n", grown->copy + 1, grown->records);
}

static void open_directory(struct grown *grown, const char *directory) {
    char path[4096], message[2048] = "";
    struct identity identity;
    struct index_options index = {.directory = path,
                                  .memory = MEMORY_DEFAULT,
                                  .map_size = (size_t)1 << 30,
                                  .outcomes_max = OUTCOMES_MAX_DEFAULT,
                                  .outcome_retention_ms = OUTCOME_RETENTION_DEFAULT_MS,
                                  .no_sync = true};
    struct log_options log = {.directory = path,
                              .disk = &disk_posix,
                              .segment_size = SEGMENT_SIZE_DEFAULT,
                              .prepare_ahead = true};
    must(identity_read(directory, &identity, message), "identity");
    memcpy(index.cluster, identity.cluster, sizeof index.cluster);
    memcpy(log.cluster, identity.cluster, sizeof log.cluster);
    snprintf(path, sizeof path, "%s/index", directory);
    must(index_open(&grown->index, &index, message, sizeof message), "index");
    index_meta(grown->index, &grown->meta);
    snprintf(path, sizeof path, "%s/log", directory);
    log.durable_min = grown->meta.position;
    must(log_open(&grown->log, &log, grown->meta.position, &grown->recovery, message, sizeof message), message);
    if (grown->recovery.end != grown->meta.position) must(-1, "the index is behind the log: stop the broker in order");
}

int main(int argc, char **argv) {
    struct grown grown = {0};
    if (argc != 4) {
        fprintf(stderr, "usage: grow_story DIR COPIES ORDERS\n");
        return 2;
    }
    uint64_t copies = strtoull(argv[2], NULL, 10);
    grown.orders = strtoull(argv[3], NULL, 10);
    open_directory(&grown, argv[1]);
    grown.ids = grown.meta.tally.next_id - 1;
    struct log_cursor *cursor;
    struct log_view first;
    must(log_cursor_open(&cursor, grown.log, grown.recovery.start, false), "cursor");
    must(log_cursor_next(cursor, grown.recovery.end, &first), "first frame");
    grown.span_ms = (grown.recovery.steady_ns - first.header.steady_ns) / NS_PER_MS + 1000;
    log_cursor_close(cursor);
    grown.fates = calloc(grown.ids + 1, sizeof *grown.fates);
    must_have(grown.fates);
    for (; grown.copy < copies; grown.copy++) tell_again(&grown);
    free(grown.fates);
    free(grown.body);
    summary_free(grown.summary);
    log_close(grown.log);
    index_close(grown.index);
    return 0;
}
