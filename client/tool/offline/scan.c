/* scan.c: see scan.h. */
#include "scan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "consumers.h"
#include "progress.h"
#include "tarry_limits.h"

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
    source_of_store(source, store);
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
