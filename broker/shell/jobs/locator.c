/* locator.c: see locator.h. Each redact operation makes one search, through the segments that may contain its tasks. */
#include "locator.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "clock.h"
#include "fatal.h"
#include "history.h"
#include "inbox.h"
#include "index.h"
#include "log.h"
#include "logfmt.h"
#include "queue_map.h"

static const char unreadable[] =
    "the log or the archive cannot be read to its end: 'tarry verify' shows where it is damaged";

struct search {
    struct locator *locator;
    struct engine_request *engine_request;
    const Tarry__Redact *redact;
    /* Numbers of the queue and of deleted queues that had the same name; empty: the task is named by id. */
    struct queue_map queues;
    struct core_past *past;
    size_t room;       /* maximum number of tasks in `past` */
    bool is_exhausted; /* the memory of the request's arena is used up */
};

static bool is_range(const struct search *search) {
    return search->redact->task->id == 0 && search->redact->task->key.len == 0;
}

static bool is_meant(const struct search *search, uint64_t id, uint32_t queue, const ProtobufCBinaryData *key) {
    const Tarry__Ref *ref = search->redact->task;
    if (ref->id != 0) return id == ref->id;
    if (id <= search->redact->after_id) return false;
    if (queue_map_get(&search->queues, queue) == NULL) return false;
    return is_range(search) || (key->len == ref->key.len && memcmp(key->data, ref->key.data, key->len) == 0);
}

/* Returns the index of `id` in the list, which is sorted by id. Another task may be at that index. */
static size_t place_of(const struct core_past *past, uint64_t id) {
    size_t low = 0, high = past->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (past->tasks[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct core_past_task *find(const struct core_past *past, uint64_t id) {
    size_t place = place_of(past, id);
    return place < past->count && past->tasks[place].id == id ? &past->tasks[place] : NULL;
}

/* Returns memory for the key of one more task. If the list is full, the last task is removed and its memory reused.
 * NULL: the arena is exhausted. */
static char *key_room(struct search *search) {
    struct core_past *past = search->past;
    if (past->count < search->room) return arena_alloc(search->engine_request->arena, KEY_SIZE_MAX + 1);
    return (char *)past->tasks[--past->count].key;
}

/* Returns NULL if the list is full of tasks with smaller ids, or the arena is exhausted. */
static struct core_past_task *find_or_add(struct search *search, const Tarry__Task *task) {
    struct core_past *past = search->past;
    size_t place = place_of(past, task->id);
    if (place < past->count && past->tasks[place].id == task->id) return &past->tasks[place];
    if (place == search->room || task->key.len > KEY_SIZE_MAX) return NULL;
    char *key = key_room(search);
    search->is_exhausted = key == NULL;
    if (key == NULL) return NULL;
    memmove(&past->tasks[place + 1], &past->tasks[place], (past->count - place) * sizeof(*past->tasks));
    past->count++;
    if (task->key.len > 0) memcpy(key, task->key.data, task->key.len);
    past->tasks[place] = (struct core_past_task){
        .id = task->id,
        .queue = task->queue,
        .scheduled_ms = task->scheduled_ms,
        .blob_at = task->blob_at,
        .blob_size = task->blob_size,
        .key_size = (uint8_t)task->key.len,
        .key = key,
    };
    return &past->tasks[place];
}

static void take_task(struct search *search, const struct frame_header *header, const Tarry__Task *task,
                      const Tarry__TaskPut *put) {
    if (task == NULL || !is_meant(search, task->id, task->queue, &task->key)) return;
    bool is_fresh = put != NULL && put->fresh;
    if (is_range(search) && !is_fresh) return;
    struct core_past_task *found = find_or_add(search, task);
    if (found == NULL || !is_fresh || put->content_hash.len != CONTENT_HASH_SIZE) return;
    found->frame = header->position;
    memcpy(found->content_hash, put->content_hash.data, CONTENT_HASH_SIZE);
}

static void take_redaction(struct search *search, const struct frame_header *header,
                           const Tarry__Redaction *redaction) {
    struct core_past_task *found = find(search->past, redaction->id);
    if (found != NULL) found->redacted_at = header->position;
}

static void take_frame(struct search *search, const struct frame_header *header, const Tarry__FrameBody *body) {
    for (size_t i = 0; i < body->n_records; i++) {
        const Tarry__Record *record = body->records[i];
        if (record->fact_case == TARRY__RECORD__FACT_PUT) take_task(search, header, record->put->task, record->put);
        if (record->fact_case == TARRY__RECORD__FACT_END) take_task(search, header, record->end->task, NULL);
        if (record->fact_case == TARRY__RECORD__FACT_REDACTION) take_redaction(search, header, record->redaction);
    }
}

/* Returns whether the list is full. The next redact operation handles the tasks with larger ids. */
static bool is_full(const struct search *search) {
    return is_range(search) && search->past->count == search->room;
}

static uint64_t ns_of(uint64_t ms) {
    return ms > UINT64_MAX / NS_PER_MS ? UINT64_MAX : ms * NS_PER_MS;
}

static int read_past(struct search *search) {
    struct log *log = search->locator->log;
    const Tarry__Ref *ref = search->redact->task;
    struct history_question question = {.from_ns = ns_of(search->redact->from_ms),
                                        .to_ns = ns_of(search->redact->to_ms),
                                        .task = {.id = ref->id, .key = ref->key.data, .key_size = ref->key.len}};
    if (search->queues.count == 1) question.task.queue = search->queues.items[0].number;
    struct history *history;
    struct log_view view;
    const Tarry__FrameBody *body;
    int error = history_open(&history, log, search->locator->archive, &question);
    if (error != 0) return error;
    uint64_t limit = log_durable(log);
    while (!is_full(search) && !search->is_exhausted && (error = history_next(history, limit, &view, &body)) >= 0)
        if (error == 0 && body != NULL) take_frame(search, &view.header, body);
    history_close(history);
    if (search->is_exhausted) return -ENOMEM;
    return error == LOG_END ? 0 : error;
}

/* Marks the tasks of a time range whose contents are erased already. If a task was redacted after the range, no record
 * in the range shows this, so the check reads the bytes of the content. */
static void mark_erased(struct search *search) {
    for (size_t i = 0; is_range(search) && i < search->past->count; i++) {
        struct core_past_task *task = &search->past->tasks[i];
        uint8_t salt[BLOB_SALT_SIZE];
        if (task->frame == 0 || log_read(search->locator->log, task->blob_at, salt, sizeof(salt)) != 0) continue;
        if (content_is_erased(salt, sizeof(salt))) task->redacted_at = task->frame;
    }
}

static int learn_queue(void *argument, const Tarry__QueuePut *queue) {
    struct search *search = argument;
    if (strcmp(queue->name, search->redact->task->queue) != 0) return 0;
    if (queue_map_get(&search->queues, queue->number) != NULL) return 0;
    return queue_map_put(&search->queues, queue->number, search) ? 0 : -ENOMEM;
}

/* Finds the queue's numbers. `number`: the one that the core knows, which may be newer than the index; 0: the core
 * knows no such queue. */
static int find_queues(struct search *search, uint32_t number) {
    if (search->redact->task->id != 0) return 0;
    if (number != 0 && !queue_map_put(&search->queues, number, search)) return -ENOMEM;
    return index_each_queue(search->locator->index, learn_queue, search);
}

static int run_search(struct search *search) {
    int error;
    search->past->is_former = search->queues.count > 0;
    /* The queue does not exist, so no task is found, and the core refuses the operation. */
    if (search->queues.count == 0 && search->redact->task->id == 0) return 0;
    const struct arena_mark mark = arena_mark(search->engine_request->arena);
    do { /* repeat the search if a segment was retired during it */
        arena_rewind(search->engine_request->arena, mark);
        search->past->count = 0;
        error = read_past(search);
    } while (error == LOG_RETIRED);
    if (error == 0) mark_erased(search);
    return error;
}

static int locate(struct locator *locator, struct engine_request *engine_request) {
    const Tarry__Commit *commit = engine_request->event.request.message->commit;
    struct core_past *past = arena_alloc(engine_request->arena, commit->n_ops * sizeof(*past));
    if (past == NULL) return -ENOMEM;
    memset(past, 0, commit->n_ops * sizeof(*past));
    size_t room = REDACT_TASKS_MAX;
    int error = 0;
    for (size_t i = 0; i < commit->n_ops && error == 0; i++) {
        bool is_sound = engine_request->event.request.commit.contents[i].problem == NULL;
        if (commit->ops[i]->op_case != TARRY__OP__OP_REDACT || !is_sound) continue;
        struct search search = {.locator = locator,
                                .engine_request = engine_request,
                                .redact = commit->ops[i]->redact,
                                .past = &past[i],
                                .room = room};
        past[i].tasks = arena_alloc(engine_request->arena, (room + 1) * sizeof(*past[i].tasks));
        if (past[i].tasks == NULL) return -ENOMEM;
        past[i].id_end = engine_request->past_id_end;
        past[i].no_room = room == 0;
        if (past[i].no_room) continue;
        error = find_queues(&search, engine_request->queue_numbers[i]);
        if (error == 0) error = run_search(&search);
        queue_map_deinit(&search.queues, NULL);
        room -= past[i].count;
    }
    engine_request->event.request.commit.past = past;
    return error;
}

/* Waits until the records before the question are durable, because the question refers to them. */
static void wait_durable(struct locator *locator, uint64_t position) {
    pthread_mutex_lock(&locator->mutex);
    while (locator->durable < position) pthread_cond_wait(&locator->changed, &locator->mutex);
    pthread_mutex_unlock(&locator->mutex);
}

static void run_request(void *owner, struct engine_request *engine_request) {
    struct locator *locator = owner;
    wait_durable(locator, engine_request->past_end);
    int error = locate(locator, engine_request);
    if (error == -ENOMEM) engine_request_too_large(engine_request);
    if (error == 0 || error == -ENOMEM) {
        inbox_post(locator->inbox, &engine_request->item);
        return;
    }
    struct call *call = (struct call *)engine_request;
    logfmt("past_unreadable", "reason=\"%s\"", storage_error(error));
    call->answer(call, reply_pack_refusal(TARRY__CODE__FAILED, unreadable));
}

void locator_start(struct locator *locator, struct log *log, struct index *index, const struct archive *archive,
                   struct inbox *inbox) {
    locator->log = log;
    locator->index = index;
    locator->archive = archive;
    locator->inbox = inbox;
    locator->durable = log_durable(log);
    pthread_mutex_init(&locator->mutex, NULL);
    pthread_cond_init(&locator->changed, NULL);
    worker_start(&locator->worker, "tarry-locator", run_request, locator);
}

void locator_post(struct locator *locator, struct engine_request *engine_request) {
    worker_post(&locator->worker, engine_request);
}

void locator_durable(struct locator *locator, uint64_t position) {
    pthread_mutex_lock(&locator->mutex);
    locator->durable = position;
    pthread_cond_signal(&locator->changed);
    pthread_mutex_unlock(&locator->mutex);
}

void locator_stop(struct locator *locator) {
    worker_stop(&locator->worker);
}
