/* asof.c: see asof.h: the command line, the state at the requested time, and the counts. */
#include "asof.h"

#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc.h"
#include "json_out.h"
#include "output.h"
#include "rfc3339.h"
#include "table.h"

#define NS_PER_MS 1000000u
#define DIRECTORY_SIZE 3072 /* size of the name of the temporary directory */
#define NFTW_HANDLES 8

bool asof_is_wanted(const struct asof *asof, uint32_t place) {
    const char *name = asof->queues[place].name;
    return name != NULL && (asof->queue == NULL || strcmp(name, asof->queue) == 0);
}

void asof_words(const struct asof *asof, struct text *out) {
    char time[RFC3339_TEXT_SIZE];
    text_printf(out, "%s, log position %" PRIu64, rfc3339_format(asof->moment.steady_ns / NS_PER_MS, time),
                asof->moment.meta.position);
}

/* ---- the state at the requested time */

int asof_failed(struct asof *asof, int error) {
    const struct as_of *moment = &asof->moment;
    char time[RFC3339_TEXT_SIZE];
    rfc3339_format(moment->limit_ms, time);
    switch (error) {
    case AS_OF_BEFORE:
        if (moment->limit_ms == 0) return store_damaged(&asof->store, "the log is empty");
        return store_damaged(&asof->store, "the log begins at %s, position %" PRIu64 ": the broker had no data before",
                             time, moment->limit);
    case AS_OF_TOO_OLD:
        return store_damaged(&asof->store,
                             "the log and the archive no longer have the beginning of the history: an exact answer is "
                             "possible only from %s, log position %" PRIu64,
                             time, moment->limit);
    case AS_OF_BEYOND:
        return store_damaged(&asof->store, "the log ends at position %" PRIu64, moment->limit);
    case AS_OF_DIFFERS:
        return store_damaged(
            &asof->store,
            "index and log do not belong together: the directory is damaged; 'tarry verify %s' shows where",
            asof->store.directory);
    case AS_OF_ERASED:
        return store_damaged(&asof->store,
                             "the content of a task that was live then has been redacted since: no directory of that "
                             "time can be made; counts and lists (without --into) are possible");
    case -ENOSPC:
        return store_damaged(&asof->store, "the temporary index needs more disk space: %s", strerror(ENOSPC));
    default:
        return store_damaged(&asof->store, "the state cannot be computed: %s", store_sentence(error));
    }
}

static void show(void *argument, uint64_t done, uint64_t total, uint64_t records) {
    struct asof *asof = argument;
    progress_show(&asof->progress, done, total, records);
}

static int learn_queue(void *argument, const Tarry__QueuePut *queue) {
    struct asof *asof = argument;
    if (!queue_number_is_valid(queue->number)) return INDEX_DAMAGED;
    if (queue->deleted) return 0; /* the queue did not exist at the requested time */
    asof->queues[queue_place(queue->number)] = (struct asof_queue){
        .number = queue->number,
        .name = tool_strdup(queue->name),
        .paused = queue->paused,
        .paused_until_ms = queue->paused_until_ms,
    };
    return 0;
}

int asof_find(struct asof *asof, const char *directory, bool is_lasting) {
    progress_start(&asof->progress, "records");
    int error = as_of_make(&asof->moment, &asof->source, &asof->question, directory, is_lasting);
    progress_end(&asof->progress);
    if (error == 0) error = index_each_queue(asof->moment.index, learn_queue, asof);
    if (error != 0) return asof_failed(asof, error);
    for (uint32_t place = 1; place <= QUEUE_PLACES; place++)
        if (asof_is_wanted(asof, place)) return 0;
    if (asof->queue == NULL) return 0;
    return store_damaged(&asof->store, "the queue '%s' did not exist then", asof->queue);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *at) {
    (void)status;
    (void)kind;
    (void)at;
    return remove(path);
}

/* Deletes all files of the temporary index. */
static void remove_all(const char *directory) {
    if (nftw(directory, remove_one, NFTW_HANDLES, FTW_DEPTH | FTW_PHYS) == 0) return;
    tool_say("%s cannot be deleted: %s; delete it yourself, because it has the contents of tasks", directory,
             strerror(errno));
}

/* Restores the state in a temporary directory, and deletes its files while they are open. So no files remain if the
 * process is killed later. */
static int find_for_now(struct asof *asof) {
    const char *parent = getenv("TMPDIR");
    char directory[DIRECTORY_SIZE], index[DIRECTORY_SIZE + 16];
    if (parent == NULL || parent[0] == 0) parent = "/tmp";
    if (strlen(parent) > sizeof directory - 32) return store_damaged(&asof->store, "the value of $TMPDIR is too long");
    snprintf(directory, sizeof directory, "%s/tarry-as-of-XXXXXX", parent);
    if (mkdtemp(directory) == NULL)
        return store_damaged(&asof->store,
                             "a temporary directory cannot be created in %s: %s; set $TMPDIR to another directory",
                             parent, strerror(errno));
    snprintf(index, sizeof index, "%s/index", directory);
    int status = asof_find(asof, index, false);
    remove_all(directory);
    return status;
}

/* ---- counts */

static void json_queue(struct text *out, const struct asof *asof, uint32_t place, const struct as_of_counts *counts) {
    const struct asof_queue *queue = &asof->queues[place];
    const struct queue_tally *tally = &asof->moment.meta.tally.queues[place];
    out_begin(out, '{');
    out_text(out, "queue", queue->name);
    out_number(out, "pending", counts->pending);
    out_number(out, "ready", counts->ready);
    out_number(out, "in_flight", counts->in_flight);
    out_number(out, "dead", counts->dead);
    out_number(out, "expired_unrecorded", counts->expired);
    out_bool(out, "paused", queue->paused);
    if (queue->paused_until_ms != 0) out_number(out, "paused_until_ms", queue->paused_until_ms);
    out_number(out, "scheduled", tally->scheduled);
    out_number(out, "cancelled", tally->cancelled);
    out_number(out, "delivered", tally->delivered);
    out_number(out, "acked", tally->acked);
    out_number(out, "retried", tally->retried);
    out_number(out, "expired", tally->expired);
    out_number(out, "dropped", tally->dropped);
    out_line_end(out);
}

static void json_whole(struct text *out, const struct asof *asof) {
    const struct as_of *moment = &asof->moment;
    char digest[24];
    snprintf(digest, sizeof digest, "%016" PRIx64, moment->meta.tally.digest);
    out_begin(out, '{');
    out_null(out, "queue");
    out_number(out, "as_of_ms", moment->steady_ns / NS_PER_MS);
    out_number(out, "wall_ms", moment->wall_ns / NS_PER_MS);
    out_number(out, "position", moment->meta.position);
    out_number(out, "last_record_ms", moment->meta.steady_ns / NS_PER_MS);
    out_number(out, "epoch", moment->meta.tally.epoch);
    out_number(out, "live", moment->meta.tally.live);
    out_text(out, "digest", digest);
    out_line_end(out);
}

static void words_queue(struct table *table, const struct asof_queue *queue, const struct as_of_counts *counts) {
    struct text name = {0};
    text_printf(&name, "%s%s", queue->name, queue->paused ? " (paused)" : "");
    table_cell(table, text_str(&name));
    text_deinit(&name);
    table_cell_number(table, counts->pending);
    table_cell_number(table, counts->ready);
    table_cell_number(table, counts->in_flight);
    table_cell_number(table, counts->dead);
    table_cell_number(table, counts->expired);
}

static void print_counts(const struct asof *asof, const struct as_of_counts *counts, struct text *out) {
    static const char *const heads[] = {"QUEUE", ">PENDING", ">READY", ">IN FLIGHT", ">DEAD", ">EXPIRED"};
    struct table table;
    table_init(&table, heads, 6);
    for (uint32_t place = 1; place <= QUEUE_PLACES; place++) {
        if (!asof_is_wanted(asof, place)) continue;
        if (asof->tool->json)
            json_queue(out, asof, place, &counts[place]);
        else
            words_queue(&table, &asof->queues[place], &counts[place]);
    }
    if (asof->tool->json) {
        json_whole(out, asof);
    } else {
        text_add_str(out, "as of ");
        asof_words(asof, out);
        text_printf(out, ": %" PRIu64 " live tasks\n\n", asof->moment.meta.tally.live);
        table_print(&table, out);
    }
    table_deinit(&table);
}

static int asof_counts(struct asof *asof, struct text *out) {
    struct as_of_counts *counts = tool_alloc((QUEUE_PLACES + 1) * sizeof *counts);
    int error = as_of_count(&asof->moment, counts);
    int status = error != 0 ? asof_failed(asof, error) : 0;
    if (status == 0) print_counts(asof, counts, out);
    free(counts);
    return status;
}

/* ---- the command */

static int check_options(struct asof *asof) {
    static const char *const others[] = {"from", "to", "kind", "key", "id", "producer", "session", "follow"};
    const struct args *args = asof->args;
    bool is_list = args_has(args, "list"), is_into = args_has(args, "into");
    asof->queue = args_get(args, "queue");
    asof->prefix = args_get(args, "prefix");
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (args_has(args, others[i])) return tool_usage(args, "--%s cannot be used with --as-of", others[i]);
    if (args_has(args, "as-of") && args_has(args, "as-of-position"))
        return tool_usage(args, "--as-of and --as-of-position exclude each other");
    if (is_into && (is_list || asof->queue != NULL || asof->prefix != NULL))
        return tool_usage(args,
                          "--into excludes --list, --queue, --state, --prefix and --limit: it makes a whole directory");
    if (!is_list && (asof->prefix != NULL || args_has(args, "state") || args_has(args, "limit")))
        return tool_usage(args, "--prefix, --state and --limit need --list");
    return 0;
}

static int parse(struct asof *asof) {
    const struct args *args = asof->args;
    struct as_of_question *question = &asof->question;
    int status = check_options(asof);
    asof->limit = UINT64_MAX;
    question->by_position = args_has(args, "as-of-position");
    if (status == 0) status = option_number(args, "as-of-position", 0, UINT64_MAX, &question->position);
    if (status == 0) status = option_time(args, "as-of", &question->steady_ms);
    if (status == 0) status = option_states(args, &asof->states);
    if (status == 0) status = option_number(args, "limit", 1, UINT64_MAX, &asof->limit);
    if (status == 0 && !question->by_position && question->steady_ms > wall_ms())
        status = tool_usage(args, "--as-of: the time is in the future");
    return status;
}

static int answer(struct asof *asof, struct text *out) {
    const char *into = args_get(asof->args, "into");
    if (into != NULL) return asof_into(asof, into, out);
    int status = find_for_now(asof);
    if (status != 0) return status;
    return args_has(asof->args, "list") ? asof_list(asof, out) : asof_counts(asof, out);
}

int asof_run(struct tool *tool, const struct args *args) {
    struct asof *asof = tool_alloc(sizeof *asof);
    struct text out = {0};
    *asof = (struct asof){.tool = tool, .args = args};
    int status = parse(asof);
    if (status == 0) status = store_open(&asof->store, args);
    if (status == 0) {
        asof->source = (struct as_of_source){
            .log = asof->store.log,
            .archive = &asof->store.archive,
            .end = asof->store.recovery.end,
            .index = asof->store.index,
            .meta = asof->store.meta,
            .progress = show,
            .argument = asof,
        };
        memcpy(asof->source.cluster, asof->store.cluster, sizeof asof->source.cluster);
        status = answer(asof, &out);
        as_of_close(&asof->moment);
        status = store_finish(&asof->store, &out, status);
    }
    for (size_t i = 0; i <= QUEUE_PLACES; i++) free(asof->queues[i].name);
    free(asof);
    return status;
}
