/* scan.c: see scan.h. Queue names are learnt from the log itself and, for queues that are older than it, from the
 * index. */
#include "scan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "history.h"
#include "progress.h"
#include "tarry_limits.h"

#define NS_PER_MS 1000000u

struct scan {
    struct store *store;
    const struct scan_filter *filter;
    int (*each)(void *argument, const struct entry *entry);
    void *argument;
    char *queues[QUEUES_MAX + 1]; /* names, by number */
    uint64_t seen;                /* records */
};

static int learn_queue(void *argument, const Tarry__QueuePut *queue) {
    struct scan *scan = argument;
    if (queue->number == 0 || queue->number > QUEUES_MAX || scan->queues[queue->number] != NULL) return 0;
    scan->queues[queue->number] = tool_strdup(queue->name);
    return 0;
}

static bool task_passes(const struct scan_filter *filter, const Tarry__Task *task) {
    if (filter->id == 0 && filter->key == NULL && filter->prefix == NULL && filter->session == 0) return true;
    if (task == NULL) return false;
    if (filter->id != 0 && task->id != filter->id) return false;
    if (filter->session != 0 && task->session != filter->session) return false;
    if (filter->key != NULL &&
        (task->key.len != strlen(filter->key) || memcmp(task->key.data, filter->key, task->key.len) != 0))
        return false;
    if (filter->prefix == NULL) return true;
    size_t size = strlen(filter->prefix);
    return task->key.len >= size && memcmp(task->key.data, filter->prefix, size) == 0;
}

static bool passes(const struct scan_filter *filter, const struct entry *entry) {
    if (filter->kinds != 0 && (filter->kinds & 1ull << entry_kind(entry)) == 0) return false;
    if (filter->producer != 0 && entry->body->producer != filter->producer) return false;
    if (!task_passes(filter, entry_task(entry))) return false;
    if (filter->queue == NULL) return true;
    return entry->queue != NULL && strcmp(entry->queue, filter->queue) == 0;
}

static int take_frame(struct scan *scan, const struct log_view *view, const Tarry__FrameBody *body) {
    int status = 0;
    for (size_t i = 0; i < body->n_records && status == 0; i++) {
        struct entry entry = {.header = &view->header, .body = body, .record = body->records[i]};
        scan->seen++;
        if (entry.record->fact_case == TARRY__RECORD__FACT_QUEUE) learn_queue(scan, entry.record->queue);
        uint32_t queue = entry_queue(&entry);
        entry.queue = queue <= QUEUES_MAX ? scan->queues[queue] : NULL;
        if (passes(scan->filter, &entry)) status = scan->each(scan->argument, &entry);
    }
    return status;
}

/* What the segments' summaries are asked for: the task, or the key of a queue whose number is known. */
static uint64_t hash_of(const struct scan *scan) {
    const struct scan_filter *filter = scan->filter;
    if (filter->id != 0) return summary_task_hash(filter->id);
    if (filter->key == NULL) return 0;
    for (uint32_t number = 1; number <= QUEUES_MAX; number++) {
        if (scan->queues[number] != NULL && strcmp(scan->queues[number], filter->queue) == 0)
            return summary_key_hash(number, filter->key, strlen(filter->key));
    }
    return 0;
}

static uint64_t ns_of(uint64_t ms) {
    return ms > UINT64_MAX / NS_PER_MS ? UINT64_MAX : ms * NS_PER_MS;
}

static int read_frames(struct scan *scan, struct history *history) {
    struct store *store = scan->store;
    struct progress progress = {0};
    struct log_view view;
    const Tarry__FrameBody *body;
    int status = 0, error = 0;
    progress_start(&progress, "records");
    while (status == 0 && (error = history_next(history, store->recovery.end, &view, &body)) == 0) {
        if (body != NULL) status = take_frame(scan, &view, body);
        progress_show(&progress, view.header.position - store->recovery.start,
                      store->recovery.end - store->recovery.start, scan->seen);
    }
    progress_end(&progress);
    if (status == 0 && error != LOG_END)
        status = store_damaged(store, "log position %" PRIu64 ": %s", history_position(history), store_sentence(error));
    return status;
}

int scan(struct store *store, const struct scan_filter *filter, int (*each)(void *argument, const struct entry *entry),
         void *argument) {
    struct scan *scan = tool_alloc(sizeof *scan);
    *scan = (struct scan){.store = store, .filter = filter, .each = each, .argument = argument};
    struct history *history = NULL;
    int error = index_each_queue(store->index, learn_queue, scan);
    struct history_question question = {
        .from_ns = ns_of(filter->from_ms),
        .to_ns = ns_of(filter->to_ms),
        .hash = hash_of(scan),
    };
    if (error == 0) error = history_open(&history, store->log, &question);
    int status = error == 0 ? read_frames(scan, history)
                            : store_damaged(store, "%s cannot be read: %s", store->directory, store_sentence(error));
    history_close(history);
    for (size_t i = 0; i <= QUEUES_MAX; i++) free(scan->queues[i]);
    free(scan);
    return status;
}

static int option_kinds(const struct args *args, uint64_t *out_kinds) {
    const char *list = args_get(args, "kind");
    while (list != NULL && *list != 0) {
        char name[32];
        size_t size = strcspn(list, ",");
        if (size >= sizeof name) return tool_usage(args, "--kind: '%.*s' is no kind", (int)size, list);
        memcpy(name, list, size);
        name[size] = 0;
        enum entry_kind kind = entry_kind_find(name);
        if (kind == 0) return tool_usage(args, "--kind: '%s' is no kind", name);
        *out_kinds |= 1ull << kind;
        list += size + (list[size] == ',');
    }
    return 0;
}

int scan_options(const struct args *args, struct scan_filter *out) {
    struct scan_filter filter = {.queue = args_get(args, "queue"),
                                 .key = args_get(args, "key"),
                                 .prefix = args_get(args, "prefix")};
    int status = option_time(args, "from", &filter.from_ms);
    if (status == 0) status = option_time(args, "to", &filter.to_ms);
    if (status == 0) status = option_kinds(args, &filter.kinds);
    if (status == 0 && args_has(args, "id")) status = option_id(args, args_get(args, "id"), &filter.id);
    if (status == 0) status = option_number(args, "producer", 1, UINT64_MAX, &filter.producer);
    if (status == 0) status = option_number(args, "session", 1, UINT64_MAX, &filter.session);
    if (status == 0 && filter.key != NULL && filter.queue == NULL)
        status = tool_usage(args, "--key needs --queue: a key is a name within its queue");
    if (status == 0) *out = filter;
    return status;
}
