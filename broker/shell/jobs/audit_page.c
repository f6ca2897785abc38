/* audit_page.c: see audit_page.h. */
#include "audit_page.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "archive.h"
#include "history.h"
#include "index.h"
#include "log.h"
#include "monotonic.h"

/* Number of log bytes to read between two checks of the clock. */
#define SLICE_BYTES (1u << 20)
/* Time limit of a result page that has no frames yet. It is longer than that of other pages; otherwise a question about
 * one task would need a round trip for each slice of its last segment. */
#define EMPTY_PAGE_MAX_MS (10 * AUDIT_PAGE_MAX_MS)

struct page {
    const struct audit_source *source;
    struct queue_names *names;
    const Tarry__Audit *audit;
    struct arena *arena;
    Tarry__AuditReply *out;
    size_t frames_max;
    size_t size_max;
    size_t size;
    struct queue_map mentioned; /* queues whose names the page needs */
};

/* ---- names of queues */

static int learn(void *argument, const Tarry__QueuePut *queue) {
    struct queue_names *names = argument;
    return queue_map_learn(&names->map, queue->number, queue->name) ? 0 : -ENOMEM;
}

static int learn_from_body(struct queue_names *names, const Tarry__FrameBody *body) {
    int error = 0;
    for (size_t i = 0; body != NULL && i < body->n_records && error == 0; i++)
        if (body->records[i]->fact_case == TARRY__RECORD__FACT_QUEUE) error = learn(names, body->records[i]->queue);
    return error;
}

/* Learns the names that the index has not absorbed yet: usually less than a second of log. */
static int learn_from_log(const struct audit_source *source, struct queue_names *names, uint64_t up_to) {
    struct history *history;
    struct history_question question = {.position = names->known_to};
    struct log_view view;
    const Tarry__FrameBody *body;
    int error = history_open(&history, source->log, NULL, &question);
    if (error != 0) return error;
    while ((error = history_next(history, up_to, &view, &body)) == 0)
        if ((error = learn_from_body(names, body)) != 0) break;
    history_close(history);
    return error == LOG_END ? 0 : error;
}

/* Learns the names of all queues created before `up_to`, which must be durable. */
static int learn_names(const struct audit_source *source, struct queue_names *names, uint64_t up_to) {
    if (names->known_to >= up_to) return 0;
    /* Read before the queues: so the names are at least as new as this position. */
    uint64_t indexed = index_position(source->index);
    int error = index_each_queue(source->index, learn, names);
    if (error != 0) return error;
    if (indexed > names->known_to) names->known_to = indexed;
    if (names->known_to >= up_to) return 0;
    error = learn_from_log(source, names, up_to);
    if (error == 0) names->known_to = up_to;
    return error;
}

static int mention(struct page *page, uint32_t queue) {
    static char yes;
    if (queue == 0 || queue_map_get(&page->mentioned, queue) != NULL) return 0;
    return queue_map_put(&page->mentioned, queue, &yes) ? 0 : -ENOMEM;
}

static int add_names(struct page *page) {
    const struct queue_map *names = &page->names->map, *mentioned = &page->mentioned;
    int error = 0;
    for (size_t i = 0; i < mentioned->count && error == 0; i++)
        if (queue_map_get(names, mentioned->items[i].number) == NULL)
            error = learn_names(page->source, page->names, page->out->next);
    if (error != 0) return error;
    Tarry__QueueName *items = arena_alloc(page->arena, mentioned->count * sizeof(*items));
    Tarry__QueueName **pointers = arena_alloc(page->arena, mentioned->count * sizeof(void *));
    if (items == NULL || pointers == NULL) return -ENOMEM;
    page->out->queues = pointers;
    for (size_t i = 0; i < mentioned->count; i++) {
        char *name = queue_map_get(names, mentioned->items[i].number);
        if (name == NULL) continue;
        Tarry__QueueName *item = &items[page->out->n_queues];
        tarry__queue_name__init(item);
        item->number = mentioned->items[i].number;
        item->name = name;
        pointers[page->out->n_queues++] = item;
    }
    return 0;
}

/* ---- frames */

static const Tarry__Task *task_of(const Tarry__Record *record) {
    if (record->fact_case == TARRY__RECORD__FACT_PUT) return record->put->task;
    return record->fact_case == TARRY__RECORD__FACT_END ? record->end->task : NULL;
}

/* Notes the queues that a record names by number. */
static int mention_queues(struct page *page, const Tarry__Record *record) {
    const Tarry__Task *task = task_of(record);
    int error = 0;
    if (task != NULL) error = mention(page, task->queue);
    if (record->fact_case == TARRY__RECORD__FACT_QUEUE) error = mention(page, record->queue->number);
    if (record->fact_case == TARRY__RECORD__FACT_JOB) error = mention(page, record->job->queue);
    if (record->fact_case == TARRY__RECORD__FACT_RECUR) error = mention(page, record->recur->queue);
    if (record->fact_case == TARRY__RECORD__FACT_REDACTION) error = mention(page, record->redaction->queue);
    if (record->fact_case != TARRY__RECORD__FACT_SESSION) return error;
    for (size_t i = 0; i < record->session->n_queues && error == 0; i++)
        error = mention(page, record->session->queues[i]);
    return error;
}

/* Returns whether the queue has this name. Deleted queues count too. */
static bool is_named(const struct page *page, uint32_t number, const char *name) {
    const char *own = queue_map_get(&page->names->map, number);
    return own != NULL && strcmp(own, name) == 0;
}

/* Returns whether a record may be needed to understand the task: every record except another task's changes. For
 * example, the record that names a session's consumer. */
static bool concerns(const struct page *page, const Tarry__Record *record) {
    const Tarry__Ref *ref = page->audit->task;
    const Tarry__Task *task = task_of(record);
    if (task == NULL) return true;
    if (ref->id != 0) return task->id == ref->id;
    return task->key.len == ref->key.len && memcmp(task->key.data, ref->key.data, ref->key.len) == 0 &&
           is_named(page, task->queue, ref->queue);
}

static bool has_redaction(const Tarry__FrameBody *body) {
    for (size_t i = 0; body != NULL && i < body->n_records; i++)
        if (body->records[i]->fact_case == TARRY__RECORD__FACT_REDACTION) return true;
    return false;
}

static bool is_wanted(const struct page *page, const Tarry__FrameBody *body) {
    if (page->audit->redactions && !has_redaction(body)) return false;
    if (page->audit->task == NULL) return true;
    for (size_t i = 0; body != NULL && i < body->n_records; i++)
        if (concerns(page, body->records[i])) return true;
    return false;
}

static int add_frame(struct page *page, const struct log_view *view, const Tarry__FrameBody *body) {
    Tarry__AuditFrame *frame = arena_alloc(page->arena, sizeof(*frame));
    uint8_t *bytes = arena_alloc(page->arena, FRAME_HEADER_SIZE + view->header.body_size);
    if (frame == NULL || bytes == NULL) return -ENOMEM;
    frame_header_encode(&view->header, bytes);
    if (view->header.body_size > 0) memcpy(bytes + FRAME_HEADER_SIZE, view->body, view->header.body_size);
    tarry__audit_frame__init(frame);
    frame->header = (ProtobufCBinaryData){.data = bytes, .len = FRAME_HEADER_SIZE};
    frame->body = (ProtobufCBinaryData){.data = bytes + FRAME_HEADER_SIZE, .len = view->header.body_size};
    page->out->frames[page->out->n_frames++] = frame;
    page->size += FRAME_HEADER_SIZE + view->header.body_size;
    int error = 0;
    for (size_t i = 0; body != NULL && i < body->n_records && error == 0; i++)
        error = mention_queues(page, body->records[i]);
    return error;
}

static bool is_full(const struct page *page) {
    return page->out->n_frames >= page->frames_max || page->size >= page->size_max;
}

static int read_frames(struct page *page, struct history *history, uint64_t durable) {
    struct log_view view;
    const Tarry__FrameBody *body;
    uint64_t begin_ns = monotonic_ns();
    uint64_t begin = history_position(history), limit = begin;
    int error = 0;
    while (error == 0 && !is_full(page)) {
        error = history_next(history, limit, &view, &body);
        if (error == 0 && is_wanted(page, body)) error = add_frame(page, &view, body);
        if (error != LOG_END || limit >= durable) continue; /* a gap ends the page, too */
        /* The slice ends. The next slice begins after the skipped segments. It grows until a frame that is larger than
         * a slice fits. */
        if (limit < history_position(history)) limit = history_position(history);
        limit = durable - limit > SLICE_BYTES ? limit + SLICE_BYTES : durable;
        uint64_t max_ms = page->out->n_frames > 0 ? AUDIT_PAGE_MAX_MS : EMPTY_PAGE_MAX_MS;
        /* Without progress, continue even after the time limit, because the client would request the same page again
         * and again. */
        bool is_begun = page->out->n_frames > 0 || history_position(history) > begin;
        if (!is_begun || monotonic_ns() - begin_ns < max_ms * NS_PER_MS) error = 0;
    }
    return error == LOG_END ? 0 : error;
}

/* Makes the question for storage, which skips irrelevant segments. Returns 1 if no frame before `durable` matters. */
static int make_question(struct page *page, uint64_t position, uint64_t durable, struct history_question *out) {
    const Tarry__Audit *audit = page->audit;
    const Tarry__Ref *ref = audit->task;
    *out = (struct history_question){
        .position = position,
        .from_ns = audit->from_ms > UINT64_MAX / NS_PER_MS ? UINT64_MAX : audit->from_ms * NS_PER_MS,
        .to_ns = audit->to_ms > UINT64_MAX / NS_PER_MS ? UINT64_MAX : audit->to_ms * NS_PER_MS,
    };
    if (ref == NULL) return 0;
    out->task.id = ref->id;
    if (ref->id != 0) return 0;
    int error = learn_names(page->source, page->names, durable);
    if (error != 0) return error;
    uint32_t number;
    const size_t count = queue_map_find(&page->names->map, ref->queue, &number);
    if (count == 0) return 1;
    out->task = (struct history_task){
        .queue = count == 1 ? number : 0, /* several queues had the name: search the key in any queue */
        .key = ref->key.data,
        .key_size = ref->key.len,
    };
    return 0;
}

/* Frames are missing from position `gap->from` on. If the page begins there, it reports the gap. Otherwise the page
 * ends there, and the next one reports it. */
static int answer_gap(struct page *page, const struct history_gap *gap, uint64_t position) {
    Tarry__AuditReply *out = page->out;
    out->next = gap->from;
    out->end = false;
    if (gap->from != position || out->n_frames > 0) return 0;
    out->next = out->gap_to = gap->to;
    if (gap->problem == NULL) return 0;
    char path[ARCHIVE_PATH_SIZE];
    archive_path(page->source->archive, gap->base, path);
    size_t size = strlen(path) + strlen(gap->problem) + 2;
    out->gap_problem = arena_alloc(page->arena, size);
    if (out->gap_problem == NULL) return -ENOMEM;
    snprintf(out->gap_problem, size, "%s %s", path, gap->problem);
    return 0;
}

static int fill(struct page *page, const struct history_question *question, uint64_t durable) {
    Tarry__AuditReply *out = page->out;
    struct history *history;
    struct history_stats stats;
    struct history_gap gap = {.from = question->position, .to = log_start(page->source->log)};
    int error = history_open(&history, page->source->log, page->source->archive, question);
    if (error != 0) return error;
    error = read_frames(page, history, durable);
    out->next = history_position(history);
    if (error == HISTORY_GAP) history_gap(history, &gap);
    history_stats(history, &stats);
    history_close(history);
    out->segments_read = stats.segments_read;
    out->segments_skipped = stats.segments_skipped;
    out->end = out->next >= durable;
    bool is_begun = out->n_frames > 0 || out->next != question->position;
    if (error == LOG_RETIRED && is_begun) return 0; /* the next result page reports the retired frames */
    if (error == HISTORY_GAP || error == LOG_RETIRED) return answer_gap(page, &gap, question->position);
    if (error == LOG_DAMAGED && is_begun) return 0; /* the next result page reports the damage */
    return error == LOG_DAMAGED ? -EINVAL : error;
}

int audit_page_read(const struct audit_source *source, struct queue_names *names, const Tarry__Audit *audit,
                    uint64_t position, uint64_t committed, struct arena *arena, Tarry__AuditReply *out) {
    struct page page = {
        .source = source,
        .names = names,
        .audit = audit,
        .arena = arena,
        .out = out,
        .frames_max = audit->frames_max != 0 ? audit->frames_max : AUDIT_FRAMES_MAX,
        .size_max = audit->size_max != 0 ? audit->size_max : AUDIT_SIZE_MAX,
    };
    struct history_question question;
    tarry__audit_reply__init(out);
    out->log_start = log_start(source->log);
    out->durable = committed;
    out->frames = arena_alloc(arena, page.frames_max * sizeof(void *));
    if (out->frames == NULL) return -ENOMEM;
    int error = position <= committed ? make_question(&page, position, committed, &question) : -EINVAL;
    if (error < 0) return error;
    if (error > 0) {
        out->next = committed;
        out->end = true;
        return 0;
    }
    error = fill(&page, &question, committed);
    if (error == 0) error = add_names(&page);
    queue_map_deinit(&page.mentioned, NULL);
    return error;
}
