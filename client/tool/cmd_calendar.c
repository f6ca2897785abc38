/* cmd_calendar.c: tarry calendar. */
#include <stdio.h>
#include <time.h>

#include "ndjson.h"
#include "output.h"
#include "rfc3339.h"
#include "table.h"
#include "tarry_limits.h"
#include "tool.h"
#include "units.h"

#define BAR_WIDTH 32u
#define SPANS_DEFAULT 24u
#define STEP_DEFAULT_MS 3600000ull

static int run(struct tool *tool, const struct args *args);

static const struct arg_spec options_known[] = {
    {"from", ARG_VALUE, "T",
     "start of the first span: RFC 3339, Unix ms, or +DUR from now [start of the\ncurrent --step]"},
    {"step", ARG_VALUE, "DUR", "length of each span, in whole minutes [1h]"},
    {"spans", ARG_VALUE, "N", "number of spans [24]"},
    {"by-queue", ARG_FLAG, NULL, "also print how many tasks of each queue fall due within the spans"},
    OPTIONS_FRESH,
    {0},
};

const struct command command_calendar = {
    .name = "calendar",
    .usage = "[QUEUE] [--from T] [--step DUR] [--spans N] [--by-queue]",
    .summary = "count the tasks that fall due in each minute, hour or day",
    .text = "Counts the waiting tasks (pending and ready) by due time: those of QUEUE, or the sum over all\n"
            "queues that you may see. The counts are exact for any number of tasks. They are as of a log\n"
            "position that is not older than the request. 'tarry list QUEUE --due-from T --due-to T' shows\n"
            "which tasks these are.\n\n"
            "Spans begin at whole minutes: a start within a minute is rounded down. Without --from, the first\n"
            "span is the current hour (or day, or other --step) in your time zone. Tasks in flight and dead\n"
            "letters are not counted.\n\n"
            "--json prints one object for each span, then, with --by-queue, one for each queue. The last object\n"
            "has the number of tasks that are due earlier and later, and the log position.",
    .options = options_known,
    .positional_min = 0,
    .positional_max = 1,
    .positional_names = "nothing",
    .examples = "tarry calendar\ntarry calendar close-order --step 1m --spans 60\n"
                "tarry calendar --from 2026-12-24T00:00:00Z --step 1d --spans 14 --by-queue --json",
    .run = run,
};

static uint64_t rounded(uint64_t ms, uint64_t step_ms) {
    return ms - ms % step_ms;
}

/* Returns the start of the current span in this time zone. */
static uint64_t begun_ms(uint64_t step_ms) {
    struct timespec now;
    struct tm local;
    clock_gettime(CLOCK_REALTIME, &now);
    if (localtime_r(&now.tv_sec, &local) == NULL) local.tm_gmtoff = 0;
    int64_t offset_ms = (int64_t)local.tm_gmtoff * 1000;
    uint64_t here_ms = (uint64_t)((int64_t)now.tv_sec * 1000 + offset_ms);
    return (uint64_t)((int64_t)rounded(here_ms, step_ms) - offset_ms);
}

static void print_json(struct text *out, const struct tarry_calendar_view *view, bool by_queue) {
    for (size_t i = 0; i < view->count; i++) {
        ndjson_begin(out);
        ndjson_number(out, "from_ms", view->from_ms + i * view->step_ms);
        ndjson_number(out, "to_ms", view->from_ms + (i + 1) * view->step_ms);
        ndjson_number(out, "count", view->counts[i]);
        ndjson_end(out);
    }
    for (size_t i = 0; by_queue && i < view->queue_count; i++) {
        ndjson_begin(out);
        ndjson_text(out, "queue", view->queues[i]->name);
        ndjson_number(out, "count", view->queues[i]->count);
        ndjson_end(out);
    }
    ndjson_begin(out);
    ndjson_number(out, "before", view->before);
    ndjson_number(out, "after", view->after);
    ndjson_number(out, "position", view->position);
    ndjson_number(out, "at_ms", view->at_ms);
    ndjson_number(out, "now_ms", view->now_ms);
    if (view->source.follower) ndjson_bool(out, "follower", true);
    ndjson_end(out);
}

static void add_row(struct table *table, const char *when, uint64_t count, uint64_t most) {
    struct text bar = {0};
    table_cell(table, when);
    table_cell_number(table, count);
    bar_add(&bar, (double)count, (double)most, BAR_WIDTH);
    table_cell(table, text_str(&bar));
    text_deinit(&bar);
}

static void print_words(struct text *out, const struct tarry_calendar_view *view, bool by_queue) {
    static const char *const heads[] = {"DUE FROM", ">TASKS", ""};
    static const char *const queue_heads[] = {"QUEUE", ">TASKS", ""};
    char time[RFC3339_TEXT_SIZE];
    struct table table;
    uint64_t most = 0;
    for (size_t i = 0; i < view->count; i++) most = view->counts[i] > most ? view->counts[i] : most;
    table_init(&table, heads, 3);
    if (view->before != 0) add_row(&table, "earlier", view->before, most);
    for (size_t i = 0; i < view->count; i++)
        add_row(&table, rfc3339_format(view->from_ms + i * view->step_ms, time), view->counts[i], most);
    if (view->after != 0) add_row(&table, "later", view->after, most);
    table_print(&table, out);
    table_deinit(&table);
    if (!by_queue || view->queue_count == 0) return;
    most = 0;
    for (size_t i = 0; i < view->queue_count; i++) most = view->queues[i]->count > most ? view->queues[i]->count : most;
    table_init(&table, queue_heads, 3);
    for (size_t i = 0; i < view->queue_count; i++) add_row(&table, view->queues[i]->name, view->queues[i]->count, most);
    text_add_char(out, '\n');
    table_print(&table, out);
    table_deinit(&table);
}

static int read_options(const struct tool *tool, const struct args *args, struct tarry_calendar_options *out) {
    uint64_t spans = SPANS_DEFAULT;
    *out = (struct tarry_calendar_options){
        .queue = args->positional_count > 0 ? args->positional[0] : NULL,
        .step_ms = STEP_DEFAULT_MS,
        .by_queue = args_has(args, "by-queue"),
        .at_least = tool->fresh.at_least,
        .staleness_ms = tool->fresh.staleness_ms,
    };
    int status = option_duration_positive(args, "step", &out->step_ms);
    if (status == 0 && out->step_ms % CALENDAR_UNIT_MS != 0)
        status = tool_usage(args, "--step: %s is not a whole number of minutes", args_get(args, "step"));
    if (status == 0) status = option_number(args, "spans", 1, CALENDAR_SPANS_MAX, &spans);
    if (status == 0) status = option_time(args, "from", &out->from_ms);
    if (status != 0) return status;
    out->spans = (uint32_t)spans;
    out->from_ms = args_has(args, "from") ? rounded(out->from_ms, CALENDAR_UNIT_MS)
                                          : rounded(begun_ms(out->step_ms), CALENDAR_UNIT_MS);
    return 0;
}

static int run(struct tool *tool, const struct args *args) {
    struct tarry_calendar_options options;
    struct tarry_calendar_view *view = NULL;
    char message[TARRY_MESSAGE_SIZE] = "";
    struct text out = {0};
    int status = option_fresh(tool, args);
    if (status == 0) status = read_options(tool, args, &options);
    if (status == 0) status = tool_connect(tool);
    if (status != 0) return status;
    int code = tarry_calendar(tool->client, &options, &view, message);
    if (code != TARRY_OK) return tool_failed(tool, code, message);
    if (tool->json)
        print_json(&out, view, options.by_queue);
    else
        print_words(&out, view, options.by_queue);
    tool_say_source(tool, &view->source);
    status = output_flush(&out, EXIT_FINE);
    text_deinit(&out);
    tarry_calendar_free(view);
    return status;
}
