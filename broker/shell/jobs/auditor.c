/* auditor.c: see auditor.h. */
#include "auditor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "archive.h"
#include "clock.h"
#include "fatal.h"
#include "history.h"
#include "index.h"
#include "log.h"
#include "logfmt.h"
#include "node.h"
#include "run.h"

/* ---- a result page */

/* Number of log bytes to read between two checks of the clock. */
#define SLICE_BYTES (1u << 20)
/* Time limit of a result page that has no frames yet. It is longer than the limit of other pages. Otherwise a client
 * that asks about one task would get many empty pages while the auditor reads a segment, SLICE_BYTES at a time. */
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

/* Learns the queue names from the log that the index has not absorbed yet, usually less than a second of records. */
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
    /* Read the index's position before its queues, so that the names are at least as new as the position. */
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

/* Returns whether a client may need the record to understand the task. Only changes of other tasks are not needed. A
 * needed record is, for example, the one that names a session's consumer. */
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
        if (error != LOG_END || limit >= durable) continue; /* an error ends the page, and so does a gap in the log */
        /* The SLICE_BYTES that may be read are used up, so raise the limit. If history_next has skipped segments, the
         * new limit is computed from the position behind them. The limit is raised repeatedly if a frame is larger than
         * SLICE_BYTES. */
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

/* Fills in the question that history_open gets, so that it skips irrelevant segments. Returns 1 if no frame before
 * `durable` matters. */
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

/* Reads frames from `position` on into `out`, which points into `arena`. Stops when the page is full, AUDIT_PAGE_MAX_MS
 * have passed, or the position `committed` is reached: later frames must not be shown yet. out->next is the position to
 * continue at, even if no frame was found. Returns 0 or a negative storage error; -EINVAL if no frame begins at
 * `position`. */
static int audit_page_read(const struct audit_source *source, struct queue_names *names, const Tarry__Audit *audit,
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

/* ---- the thread */

/* Niceness of the thread: it uses only CPU time that other threads do not need. */
#define NICENESS 10
/* Bytes of the arena that are kept from page to page. */
#define ARENA_KEEP (4u << 20)

static struct logfmt_limit failure_limit;

/* A pending request, in the arena of its call. */
struct audit {
    struct audit *next;
    struct call *call;
    const Tarry__Audit *request;
    uint64_t position; /* position at which reading continues; earlier frames were sent or are irrelevant. 0: start at
                          the oldest frame */
    uint64_t until_ns; /* CLOCK_MONOTONIC, deadline of the reply, even if nothing was found */
};

static void list_init(struct audit_list *list) {
    *list = (struct audit_list){.last = &list->first};
}

static void list_add(struct audit_list *list, struct audit *audit) {
    audit->next = NULL;
    *list->last = audit;
    list->last = &audit->next;
    list->count++;
}

static struct audit *list_take(struct audit_list *list) {
    struct audit *audit = list->first;
    if (audit == NULL) return NULL;
    list->first = audit->next;
    if (list->first == NULL) list->last = &list->first;
    list->count--;
    return audit;
}

/* ---- replies */

static void refuse(struct call *call, Tarry__Code code, const char *sentence) {
    call->answer(call, reply_pack_refusal(code, sentence));
}

static void answer(struct auditor *auditor, struct audit *audit, Tarry__AuditReply *page) {
    struct node *node = auditor->needs.node;
    Tarry__Reply reply = TARRY__REPLY__INIT;
    reply.body_case = TARRY__REPLY__BODY_AUDIT;
    reply.audit = page;
    reply.follower = node->on && !node_writes(node);
    reply.position = reply.follower ? node_committed(node) : 0;
    audit->call->answer(audit->call, reply.follower ? node_pack(node, &reply) : reply_pack(&reply));
}

/* Sends the read error. No other part depends on this read, so the broker continues. */
static void answer_failure(struct audit *audit, int error) {
    char sentence[256];
    if (error == -ENOMEM) {
        refuse(audit->call, TARRY__CODE__BUSY, NULL);
        return;
    }
    if (error == -EINVAL) {
        snprintf(sentence, sizeof(sentence),
                 "no frame begins at position %" PRIu64 ", or the log is damaged there: continue from the position in "
                 "the last result page, or check the log with 'tarry verify'",
                 audit->position);
        refuse(audit->call, TARRY__CODE__INVALID, sentence);
        return;
    }
    if (logfmt_allowed(&failure_limit))
        logfmt("audit_failed", "position=%" PRIu64 " error=%d reason=\"%s\"", audit->position, error,
               storage_error(error));
    snprintf(sentence, sizeof(sentence), "position %" PRIu64 " cannot be read: %s", audit->position,
             storage_error(error));
    refuse(audit->call, TARRY__CODE__FAILED, sentence);
}

/* ---- waiting */

/* Lets a request wait if it found nothing and its deadline has not passed. Returns false if too many requests wait. */
static bool put_to_wait(struct auditor *auditor, struct audit *audit) {
    pthread_mutex_lock(&auditor->mutex);
    bool may_wait = auditor->waits.count < AUDIT_WAITS_MAX;
    /* If further log is committed already, no wake-up will follow, so the request is read again at once. */
    if (may_wait)
        list_add(node_committed(auditor->needs.node) > audit->position ? &auditor->reads : &auditor->waits, audit);
    pthread_mutex_unlock(&auditor->mutex);
    return may_wait;
}

/* Moves long polls to the end of the read queue if they have something to read or their deadline has passed (at a stop:
 * all). Returns how long the others may sleep. The caller holds the mutex. */
static uint64_t end_waits(struct auditor *auditor) {
    struct audit *audit = auditor->waits.first, *next;
    if (audit == NULL) return 0;
    uint64_t durable = node_committed(auditor->needs.node), now_ns = monotonic_ns(), sleep_ns = UINT64_MAX;
    list_init(&auditor->waits);
    for (; audit != NULL; audit = next) {
        next = audit->next;
        bool is_over = auditor->stop || audit->position < durable || audit->until_ns <= now_ns;
        list_add(is_over ? &auditor->reads : &auditor->waits, audit);
        if (!is_over && audit->until_ns - now_ns < sleep_ns) sleep_ns = audit->until_ns - now_ns;
    }
    return sleep_ns;
}

/* Returns the next request to read; NULL: stop. */
static struct audit *next_audit(struct auditor *auditor) {
    struct audit *audit;
    pthread_mutex_lock(&auditor->mutex);
    for (;;) {
        uint64_t sleep_ns = end_waits(auditor);
        if ((audit = list_take(&auditor->reads)) != NULL || auditor->stop) break;
        struct timespec until = monotonic_after(sleep_ns);
        if (auditor->waits.first == NULL)
            pthread_cond_wait(&auditor->changed, &auditor->mutex);
        else
            pthread_cond_timedwait(&auditor->changed, &auditor->mutex, &until);
    }
    pthread_mutex_unlock(&auditor->mutex);
    return audit;
}

static void serve(struct auditor *auditor, struct audit *audit) {
    Tarry__AuditReply page;
    int error = audit_page_read(&auditor->needs.source, &auditor->names, audit->request, audit->position,
                                node_committed(auditor->needs.node), &auditor->arena, &page);
    if (error != 0) {
        answer_failure(audit, error);
        return;
    }
    bool is_empty = page.n_frames == 0 && page.gap_to == 0;
    if (is_empty && page.end && audit->request->wait_ms != 0 && monotonic_ns() < audit->until_ns) {
        audit->position = page.next;
        if (put_to_wait(auditor, audit)) return;
        refuse(audit->call, TARRY__CODE__BUSY, "too many clients wait for new log records: try again in a moment");
        return;
    }
    answer(auditor, audit, &page);
}

static void *auditor_run(void *argument) {
    struct auditor *auditor = argument;
    struct audit *audit;
    /* On Linux, a thread id makes setpriority affect this thread only. If it fails, audits only take more time from
     * other threads. */
    if (setpriority(PRIO_PROCESS, (id_t)gettid(), NICENESS) != 0) logfmt("limit_unchanged", "what=priority");
    while ((audit = next_audit(auditor)) != NULL) {
        if (atomic_load(&auditor->needs.run->stopping))
            refuse(audit->call, TARRY__CODE__STOPPING, NULL);
        else
            serve(auditor, audit);
        arena_reset(&auditor->arena);
    }
    return NULL;
}

/* ---- from other threads */

void auditor_start(struct auditor *auditor, const struct auditor_needs *needs) {
    auditor->needs = *needs;
    list_init(&auditor->reads);
    list_init(&auditor->waits);
    pthread_mutex_init(&auditor->mutex, NULL);
    monotonic_cond_init(&auditor->changed);
    arena_init(&auditor->arena, SIZE_MAX);
    auditor->arena.keep_max = ARENA_KEEP;
    thread_start(&auditor->thread, "tarry-auditor", auditor_run, auditor);
}

void auditor_post(struct auditor *auditor, struct call *call) {
    const Tarry__Audit *request = call->engine_request.event.request.message->audit;
    struct audit *audit = arena_alloc(call->engine_request.arena, sizeof(*audit));
    if (audit == NULL) {
        refuse(call, TARRY__CODE__BUSY, NULL);
        return;
    }
    *audit = (struct audit){
        .call = call,
        .request = request,
        .position = request->at_end ? node_committed(auditor->needs.node) : request->position,
        .until_ns = monotonic_ns() + request->wait_ms * NS_PER_MS,
    };
    pthread_mutex_lock(&auditor->mutex);
    bool stop = auditor->stop, has_room = auditor->reads.count < AUDIT_READS_MAX;
    if (!stop && has_room) {
        list_add(&auditor->reads, audit);
        pthread_cond_signal(&auditor->changed);
    }
    pthread_mutex_unlock(&auditor->mutex);
    if (stop)
        refuse(call, TARRY__CODE__STOPPING, NULL);
    else if (!has_room)
        refuse(call, TARRY__CODE__BUSY, NULL);
}

void auditor_durable(struct auditor *auditor) {
    pthread_mutex_lock(&auditor->mutex);
    if (auditor->waits.first != NULL) pthread_cond_signal(&auditor->changed);
    pthread_mutex_unlock(&auditor->mutex);
}

void auditor_stop(struct auditor *auditor) {
    pthread_mutex_lock(&auditor->mutex);
    auditor->stop = true;
    pthread_cond_signal(&auditor->changed);
    pthread_mutex_unlock(&auditor->mutex);
    pthread_join(auditor->thread, NULL);
}
