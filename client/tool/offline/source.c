/* source.c: see source.h. Queue names come from the log itself, and, for queues that are older than the log, from the
 * index or the broker. */
#include "source.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "entry.h"
#include "entry_words.h"
#include "history.h"
#include "output.h"
#include "progress.h"
#include "signals.h"
#include "tarry_limits.h"
#include "wire.h"

#define NS_PER_MS 1000000u
#define BODY_SIZE_MAX ((size_t)256 << 20) /* after decompression */
/* Interval of the check whether standard output is still open, while no record arrives. */
#define LOOK_MS 500u

int source_open(struct source *source, struct tool *tool, const struct args *args, bool follow) {
    *source = (struct source){.tool = tool, .store = &source->own, .follow = follow};
    store_init(source->store, NULL);
    bool is_wish = args_has(args, "at-least") || args_has(args, "staleness");
    if (args_has(args, "data") && is_wish)
        return tool_usage(args, "--at-least and --staleness need a running broker: omit --data");
    if (args_has(args, "data")) return store_open(source->store, args);
    if (args_has(args, "archive"))
        return tool_usage(args, "--archive needs --data: a running broker knows its archive");
    source->is_live = true;
    int status = option_fresh(tool, args);
    if (status != 0) return status;
    return follow ? tool_connect_lasting(tool) : tool_connect(tool);
}

/* ---- names of queues */

static void name_queue(struct source *source, uint32_t number, const char *name) {
    if (!queue_map_learn(&source->queues, number, name)) tool_out_of_memory();
}

static int learn_queue(void *argument, const Tarry__QueuePut *queue) {
    struct source *source = argument;
    if (queue_number_is_valid(queue->number)) name_queue(source, queue->number, queue->name);
    return 0;
}

static void learn_queues(struct source *source, const Tarry__FrameBody *body) {
    for (size_t i = 0; i < body->n_records; i++)
        if (body->records[i]->fact_case == TARRY__RECORD__FACT_QUEUE) learn_queue(source, body->records[i]->queue);
}

/* Gets the name of a queue from the audit stream, if the name is not known yet. */
static void hear_queue(struct source *source, uint32_t number) {
    if (number == 0 || queue_map_get(&source->queues, number) != NULL) return;
    const char *name = tarry_audit_queue(source->audit, number);
    if (name != NULL) name_queue(source, number, name);
}

static void hear_queues(struct source *source, const Tarry__FrameBody *body) {
    for (size_t i = 0; i < body->n_records; i++) {
        const Tarry__Record *record = body->records[i];
        hear_queue(source, entry_queue(&(struct entry){.record = record}));
        if (record->fact_case != TARRY__RECORD__FACT_SESSION) continue;
        for (size_t k = 0; k < record->session->n_queues; k++) hear_queue(source, record->session->queues[k]);
    }
}

/* Prints a warning if a follower answered, because the JSON lines of records have no member that says so. */
static void mark_follower(struct source *source) {
    struct tarry_audit_view view;
    tarry_audit_look(source->audit, &view);
    if (view.source.follower && !source->is_marked) tool_warn_source(&view.source);
    source->is_marked |= view.source.follower;
}

struct source_question {
    uint64_t from_ms;
    uint64_t to_ms; /* end of the time range, exclusive; 0: no end */
    /* The only task of interest: the source may omit changes of other tasks; without id and key: all tasks. */
    struct tarry_ref task;
};

/* ---- a directory */

/* Limits the history to the task's id, or to the key in its queue. If the index does not know the queue, the queue was
 * created after the index's position, so only the log after that position can have the key. */
static void ask_about(const struct source *source, const struct tarry_ref *task, struct history_question *out) {
    out->task.id = task->id;
    if (task->id != 0 || task->key == NULL) return;
    uint32_t number;
    const size_t count = queue_map_find(&source->queues, task->queue, &number);
    if (count == 0) {
        out->position = source->store->meta.position;
        return;
    }
    /* Searches the key in all queues if several queues had this name one after another. */
    out->task =
        (struct history_task){.key = task->key, .key_size = strlen(task->key), .queue = count == 1 ? number : 0};
}

static uint64_t ns_of(uint64_t ms) {
    return ms > UINT64_MAX / NS_PER_MS ? UINT64_MAX : ms * NS_PER_MS;
}

static int begin_store(struct source *source, const struct source_question *question) {
    struct store *store = source->store;
    int error = index_each_queue(store->index, learn_queue, source);
    struct history_question asked = {
        .from_ns = ns_of(question->from_ms),
        .to_ns = ns_of(question->to_ms),
    };
    ask_about(source, &question->task, &asked);
    if (error == 0) error = history_open(&source->history, store->log, &store->archive, &asked);
    if (error != 0) return store_damaged(store, "%s cannot be read: %s", store->directory, store_sentence(error));
    source->start = history_start(source->history);
    return 0;
}

/* Reports a gap. A missing part of the archive is reported once, and is no damage. A part that cannot be read makes the
 * command fail, but only after everything else was printed. */
static void tell_gap(struct source *source) {
    struct history_gap gap;
    char path[ARCHIVE_PATH_SIZE];
    history_gap(source->history, &gap);
    if (gap.problem == NULL) {
        tool_say("the log and the archive do not have the positions %" PRIu64 " to %" PRIu64
                 ": they were pruned, or the archive is elsewhere (--archive DIR)",
                 gap.from, gap.to);
        return;
    }
    archive_path(&source->store->archive, gap.base, path);
    tool_say("the log's positions %" PRIu64 " to %" PRIu64 " cannot be read: %s %s", gap.from, gap.to, path,
             gap.problem);
    source->unread++;
}

static int next_of_store(struct source *source, const Tarry__FrameBody **out_body) {
    struct log_view view;
    int error;
    while ((error = history_next(source->history, source->store->recovery.end, &view, out_body)) == HISTORY_GAP)
        tell_gap(source);
    source->header = view.header;
    if (error == 0) return 0;
    if (error == LOG_END) return SOURCE_END;
    return store_damaged(source->store, "log position %" PRIu64 ": %s", history_position(source->history),
                         store_sentence(error));
}

/* ---- a broker */

static void wake(void *argument) {
    tarry_audit_wake(argument);
}

static int refused(struct source *source, int code, const char *message) {
    source->code = code;
    return store_damaged(source->store, "%s", message);
}

static int begin_live(struct source *source, const struct source_question *question) {
    const struct tarry_ref *task = &question->task;
    struct tarry_audit_options options = {
        .from_ms = question->from_ms,
        .to_ms = question->to_ms,
        .follow = source->follow,
        .at_end = source->follow && question->from_ms == 0,
        .task = task->id != 0 || task->key != NULL ? task : NULL,
        .call.at_least = source->tool->fresh.at_least,
        .call.staleness_ms = source->tool->fresh.staleness_ms,
    };
    arena_init(&source->arena, BODY_SIZE_MAX);
    int code = tarry_audit_open(source->tool->client, &options, &source->audit);
    if (code != TARRY_OK) return refused(source, code, tarry_code_sentence(code));
    if (!source->follow) return 0;
    signals_graceful();
    signals_on_end(wake, source->audit);
    return 0;
}

/* Reads the next frame, or returns why there is no next frame. */
static int await_frame(struct source *source, const struct tarry_frame **out_frame,
                       char out_message[TARRY_MESSAGE_SIZE]) {
    int code = tarry_audit_next(source->audit, source->follow ? 0 : TARRY_FOREVER, out_frame, out_message);
    if (code != TARRY_E_NOTHING) return code;
    if (source->idle != NULL) source->idle(source->idle_argument);
    while (code == TARRY_E_NOTHING && !signals_ended() && !output_closed())
        code = tarry_audit_next(source->audit, LOOK_MS, out_frame, out_message);
    return code;
}

static int next_of_broker(struct source *source, const Tarry__FrameBody **out_body) {
    const struct tarry_frame *frame;
    char message[TARRY_MESSAGE_SIZE] = "";
    int code;
    do {
        code = signals_ended() && source->follow ? TARRY_E_END : await_frame(source, &frame, message);
        if (code == TARRY_E_GAP) tool_say("%s", message);
    } while (code == TARRY_E_GAP);
    if (code == TARRY_E_END || code == TARRY_E_WOKEN || code == TARRY_E_NOTHING) return SOURCE_END;
    if (code != TARRY_OK) return refused(source, code, message);
    mark_follower(source);
    arena_reset(&source->arena);
    *out_body = NULL;
    if (source->start == 0) source->start = frame->position;
    if (frame->body_size != 0) *out_body = frame_body_unpack(&source->arena, frame->body_size, frame->body);
    bool is_whole =
        frame_header_decode(frame->header, &source->header) && (frame->body_size == 0) == (*out_body == NULL);
    return is_whole ? 0 : refused(source, TARRY_E_PROTOCOL, tarry_code_sentence(TARRY_E_PROTOCOL));
}

/* ---- both */

static int source_begin(struct source *source, const struct source_question *question) {
    return source->is_live ? begin_live(source, question) : begin_store(source, question);
}

int source_next(struct source *source, const struct frame_header **out_header, const Tarry__FrameBody **out_body) {
    int status = source->is_live ? next_of_broker(source, out_body) : next_of_store(source, out_body);
    *out_header = &source->header;
    if (status == 0 && *out_body != NULL) learn_queues(source, *out_body);
    if (status == 0 && *out_body != NULL && source->is_live) hear_queues(source, *out_body);
    if (status != SOURCE_END) return status;
    struct tarry_audit_view view = {0};
    if (source->is_live) tarry_audit_look(source->audit, &view);
    uint64_t unread = source->unread + view.gaps_damaged;
    if (unread == 0) return SOURCE_END;
    return store_damaged(source->store, "%" PRIu64 " archived segments are damaged: their records are missing here",
                         unread);
}

/* Outputs the number of log bytes that were read, and their total. */
static void source_progress(const struct source *source, uint64_t *out_done, uint64_t *out_total) {
    struct tarry_audit_view view = {0};
    uint64_t end = source->store->recovery.end;
    if (source->is_live) {
        tarry_audit_look(source->audit, &view);
        end = view.durable;
    }
    *out_done = source->header.position - source->start;
    *out_total = source->follow ? 0 : end - source->start;
}

static void source_end(struct source *source) {
    signals_on_end(NULL, NULL);
    history_close(source->history);
    tarry_audit_close(source->audit);
    if (source->is_live) arena_deinit(&source->arena);
    queue_map_deinit(&source->queues, free);
    source->history = NULL;
    source->audit = NULL;
}

int source_finish(struct source *source, struct text *out, int status) {
    if (source->code == TARRY_OK) return store_finish(source->store, out, status);
    char message[sizeof source->store->message];
    memcpy(message, source->store->message, sizeof message);
    source->store->message[0] = 0;
    store_finish(source->store, out, status);
    return tool_failed(source->tool, source->code, message);
}

/* ---- records that pass a filter */

struct scan {
    struct source *source;
    const struct scan_filter *filter;
    int (*each)(void *argument, const struct entry *entry);
    void *argument;
    uint64_t seen; /* records */
    struct consumers *consumers;
};

static bool task_passes(const struct scan_filter *filter, const struct entry *entry) {
    if (filter->id == 0 && filter->key == NULL && filter->prefix == NULL) return true;
    ProtobufCBinaryData key = {0};
    uint64_t id = entry_id(entry, &key);
    if (id == 0 || (filter->id != 0 && id != filter->id)) return false;
    if (filter->key != NULL && (key.len != strlen(filter->key) || memcmp(key.data, filter->key, key.len) != 0))
        return false;
    if (filter->prefix == NULL) return true;
    size_t size = strlen(filter->prefix);
    return key.len >= size && memcmp(key.data, filter->prefix, size) == 0;
}

static bool passes(const struct scan_filter *filter, const struct entry *entry) {
    if (filter->kinds != 0 && (filter->kinds & 1ull << entry_kind(entry)) == 0) return false;
    if (filter->producer != 0 && entry->body->producer != filter->producer) return false;
    if (filter->session != 0 && entry_session(entry) != filter->session) return false;
    if (!task_passes(filter, entry)) return false;
    return filter->queue == NULL || entry_concerns_queue(entry, filter->queue);
}

static int take_frame(struct scan *scan, const struct frame_header *header, const Tarry__FrameBody *body) {
    int status = 0;
    for (size_t i = 0; i < body->n_records && status == 0; i++) {
        struct entry entry = {.header = header,
                              .body = body,
                              .record = body->records[i],
                              .queues = &scan->source->queues};
        scan->seen++;
        entry.queue = queue_map_get(entry.queues, entry_queue(&entry));
        consumers_learn(scan->consumers, body, entry.record);
        entry.consumer = consumers_find(scan->consumers, entry_session(&entry));
        if (passes(scan->filter, &entry)) status = scan->each(scan->argument, &entry);
    }
    return status;
}

static int read_frames(struct scan *scan) {
    struct source *source = scan->source;
    struct progress progress = {0};
    const struct frame_header *header;
    const Tarry__FrameBody *body;
    uint64_t done, total;
    int status = 0;
    progress_start(&progress, "records");
    while (status == 0 && (status = source_next(source, &header, &body)) == 0) {
        if (body != NULL) status = take_frame(scan, header, body);
        source_progress(source, &done, &total);
        progress_show(&progress, done, total, scan->seen);
    }
    progress_end(&progress);
    return status == SOURCE_END ? 0 : status;
}

int scan_source(struct source *source, const struct scan_filter *filter,
                int (*each)(void *argument, const struct entry *entry), void *argument) {
    struct scan scan = {
        .source = source, .filter = filter, .each = each, .argument = argument, .consumers = consumers_new()};
    struct source_question question = {
        .from_ms = filter->from_ms,
        .to_ms = filter->to_ms,
        .task = {.id = filter->id, .queue = filter->queue, .key = filter->key},
    };
    int status = source_begin(source, &question);
    if (status == 0) status = read_frames(&scan);
    source_end(source);
    consumers_free(scan.consumers);
    return status;
}

int scan(struct store *store, const struct scan_filter *filter, int (*each)(void *argument, const struct entry *entry),
         void *argument) {
    struct source *source = tool_alloc(sizeof *source);
    *source = (struct source){.store = store};
    int status = scan_source(source, filter, each, argument);
    free(source);
    return status;
}

static int no_kind(const struct args *args, const char *given, size_t size) {
    struct text kinds = {0};
    for (int kind = 1; kind < ENTRY_KINDS; kind++)
        text_printf(&kinds, "%s%s", kind > 1 ? ", " : "", entry_kind_name((enum entry_kind)kind));
    int status = tool_usage(args, "--kind: '%.*s' is not one of %s", (int)size, given, text_str(&kinds));
    text_deinit(&kinds);
    return status;
}

static int option_kinds(const struct args *args, uint64_t *out_kinds) {
    const char *list = args_get(args, "kind");
    while (list != NULL && *list != 0) {
        char name[32];
        size_t size = strcspn(list, ",");
        if (size >= sizeof name) return no_kind(args, list, size);
        memcpy(name, list, size);
        name[size] = 0;
        enum entry_kind kind = entry_kind_find(name);
        if (kind == 0) return no_kind(args, list, size);
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
