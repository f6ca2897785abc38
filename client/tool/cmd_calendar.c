/* cmd_calendar.c: tarry calendar. */
#include <stdio.h>
#include <time.h>

#include "json_out.h"
#include "output.h"
#include "question.h"
#include "rfc3339.h"
#include "table.h"
#include "tarry_limits.h"
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
            "--json prints what GET /v1/calendar answers: one object with the counts of the spans, the number\n"
            "of tasks that are due earlier and later, and the log position.",
    .options = options_known,
    .positional_min = 0,
    .positional_max = 1,
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

/* Prints the calendar in the form of /v1/calendar. */
static void print_json(struct text *out, const Tarry__Calendar *asked, const struct answer_of *answer) {
    out_begin(out, '{');
    out_time(out, "from", asked->from_ms);
    out_number(out, "step_ms", asked->step_ms);
    json_members(out, &answer->reply->calendar->base);
    if (answer->source.follower) out_bool(out, "follower", true);
    out_line_end(out);
}

static void add_row(struct table *table, const char *when, uint64_t count, uint64_t most) {
    struct text bar = {0};
    table_cell(table, when);
    table_cell_number(table, count);
    bar_add(&bar, (double)count, (double)most, BAR_WIDTH);
    table_cell(table, text_str(&bar));
    text_deinit(&bar);
}

static void print_words(struct text *out, const Tarry__Calendar *asked, const Tarry__CalendarReply *reply) {
    static const char *const heads[] = {"DUE FROM", ">TASKS", ""};
    static const char *const queue_heads[] = {"QUEUE", ">TASKS", ""};
    char time[RFC3339_TEXT_SIZE];
    struct table table;
    uint64_t most = 0;
    for (size_t i = 0; i < reply->n_counts; i++) most = reply->counts[i] > most ? reply->counts[i] : most;
    table_init(&table, heads, 3);
    if (reply->before != 0) add_row(&table, "earlier", reply->before, most);
    for (size_t i = 0; i < reply->n_counts; i++)
        add_row(&table, rfc3339_format(asked->from_ms + i * asked->step_ms, time), reply->counts[i], most);
    if (reply->after != 0) add_row(&table, "later", reply->after, most);
    table_print(&table, out);
    table_deinit(&table);
    if (!asked->by_queue || reply->n_queues == 0) return;
    most = 0;
    for (size_t i = 0; i < reply->n_queues; i++) most = reply->queues[i]->count > most ? reply->queues[i]->count : most;
    table_init(&table, queue_heads, 3);
    for (size_t i = 0; i < reply->n_queues; i++) add_row(&table, reply->queues[i]->name, reply->queues[i]->count, most);
    text_add_char(out, '\n');
    table_print(&table, out);
    table_deinit(&table);
}

static int read_options(const struct args *args, Tarry__Calendar *out) {
    uint64_t spans = SPANS_DEFAULT;
    tarry__calendar__init(out);
    if (args->positional_count > 0) out->queue = (char *)args->positional[0];
    out->step_ms = STEP_DEFAULT_MS;
    out->by_queue = args_has(args, "by-queue");
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
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Calendar asked;
    struct answer_of answer;
    char message[TARRY_MESSAGE_SIZE] = "";
    struct text out = {0};
    int status = option_fresh(tool, args);
    if (status == 0) status = read_options(args, &asked);
    if (status == 0) status = tool_connect(tool);
    if (status != 0) return status;
    request.body_case = TARRY__REQUEST__BODY_CALENDAR;
    request.calendar = &asked;
    int code = question_ask(tool->client, &request, &tool->fresh, &answer, message);
    if (code != TARRY_OK) return tool_failed(tool, code, message);
    if (tool->json)
        print_json(&out, &asked, &answer);
    else
        print_words(&out, &asked, answer.reply->calendar);
    tool_say_source(tool, &answer.source);
    status = output_flush(&out, EXIT_FINE);
    text_deinit(&out);
    answer_free(&answer);
    return status;
}
