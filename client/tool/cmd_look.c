/* cmd_look.c: tarry get, list, consumers and calendar. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "json_out.h"
#include "output.h"
#include "question.h"
#include "rfc3339.h"
#include "table.h"
#include "tarry_limits.h"
#include "tool.h"
#include "units.h"
#include "view.h"

/* ---- tarry get and tarry list */

static int run_get(struct tool *tool, const struct args *args);
static int run_list(struct tool *tool, const struct args *args);

static const struct arg_spec get_options[] = {
    {"id", ARG_VALUE, "ID", "id of the task, instead of QUEUE and KEY"},
    OPTIONS_FRESH,
    {0},
};

const struct command command_get = {
    .name = "get",
    .usage = "QUEUE KEY\n--id ID",
    .summary = "show one task",
    .text = "Shows a task with its state (pending, ready, in_flight or dead) and its body. The broker remembers\n"
            "the outcome of a task that has ended (for one hour by default). For such a task the command shows\n"
            "the state acked, cancelled, expired or dropped, the time, and whether the task was redacted. The\n"
            "exit status is 1 if the task is unknown.",
    .options = get_options,
    .positional_min = 0,
    .positional_max = 2,
    .examples = "tarry get close-order order-1\ntarry get --id 4711 --json\n"
                "tarry get close-order order-1 --from-follower --staleness 500ms --broker ws://b:7272",
    .run = run_get,
};

static const struct arg_spec list_options[] = {
    {"state", ARG_VALUE, "STATES", "states to list, any of pending,ready,in_flight,dead [all but dead]"},
    {"due-from", ARG_VALUE, "T", "only tasks that are due at T or later: RFC 3339, Unix ms, or +DUR from now"},
    {"due-to", ARG_VALUE, "T", "only tasks that are due before T"},
    {"prefix", ARG_VALUE, "P", "only tasks whose key starts with P"},
    {"limit", ARG_VALUE, "N", "maximum number of tasks [no limit]"},
    OPTIONS_FRESH,
    {0},
};

const struct command command_list = {
    .name = "list",
    .usage = "QUEUE [--state STATES] [--due-from T] [--due-to T] [--prefix P] [--limit N]",
    .summary = "list a queue's tasks in order of due time",
    .text = "Lists the tasks of QUEUE in order of due time, without their bodies. The tool fetches a long list\n"
            "in several result pages, so that the broker can serve other requests in between.",
    .options = list_options,
    .positional_min = 1,
    .positional_max = 1,
    .positional_names = "QUEUE",
    .examples = "tarry list close-order --due-to +10m\n"
                "tarry list close-order --state in_flight\n"
                "tarry list close-order --prefix order-2026 --limit 100 --json",
    .run = run_list,
};

static void unknown(struct tool *tool, const Tarry__Ref *ref, const struct answer_of *answer, struct text *out) {
    char time[RFC3339_TEXT_SIZE];
    /* Time since which the broker remembers outcomes; 0: it has not forgotten any. */
    const uint64_t since_ms = answer->reply->get->known_since_ms;
    if (!tool->json) {
        tool_say("unknown: the task is not live, and has not ended recently%s%s", since_ms != 0 ? " since " : "",
                 since_ms != 0 ? rfc3339_format(since_ms, time) : "");
        return;
    }
    out_begin(out, '{');
    json_members(out, &ref->base);
    out_text(out, "state", "unknown");
    out_time(out, "known_since", since_ms);
    json_source(out, &answer->source);
    out_line_end(out);
}

static int run_get(struct tool *tool, const struct args *args) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Get get = TARRY__GET__INIT;
    Tarry__Ref ref = TARRY__REF__INIT;
    struct tarry_ref named;
    struct answer_of answer;
    struct text out = {0};
    int status = option_ref(args, &named);
    if (status == 0) status = option_fresh(tool, args);
    if (status == 0) status = tool_connect(tool);
    if (status != 0) return status;
    ref_to_message(&named, &ref);
    get.task = &ref;
    get.with_content = true;
    request.body_case = TARRY__REQUEST__BODY_GET;
    request.get = &get;
    status = question_run(tool, &request, &answer);
    if (status != 0) return status;
    const Tarry__TaskReply *reply = answer.reply->get;
    if (reply->outcome == TARRY__OUTCOME__UNKNOWN || reply->task == NULL) {
        unknown(tool, &ref, &answer, &out);
        status = EXIT_REFUSED;
    } else if (tool->json) {
        json_line(&out, &reply->task->base, &answer.source);
    } else {
        view_words(&out, reply->task);
    }
    tool_say_source(tool, &answer.source);
    status = output_flush(&out, status);
    text_deinit(&out);
    answer_free(&answer);
    return status;
}

static int run_list(struct tool *tool, const struct args *args) {
    struct view_list list = {.list = TARRY__LIST__INIT};
    const char *prefix = args_get(args, "prefix");
    list.list.queue = (char *)args->positional[0];
    if (prefix != NULL) list.list.prefix = (ProtobufCBinaryData){strlen(prefix), (uint8_t *)prefix};
    int status = option_states(args, &list.list.states);
    if (status == 0) status = option_fresh(tool, args);
    if (status == 0) status = option_time(args, "due-from", &list.list.due_from_ms);
    if (status == 0) status = option_time(args, "due-to", &list.list.due_to_ms);
    if (status == 0 && args_has(args, "due-to") && list.list.due_to_ms == 0)
        status = tool_usage(
            args, "--due-to: T must be later than 1970-01-01T00:00:00Z"); /* --due-to 0 is refused, because the value 0
                                                                             means "no limit" in the request */
    if (status == 0) status = option_number(args, "limit", 1, UINT64_MAX, &list.limit);
    if (status == 0) status = tool_connect(tool);
    return status == 0 ? view_print_list(tool, &list) : status;
}

/* ---- tarry consumers */

static int run_consumers(struct tool *tool, const struct args *args);

const struct command command_consumers = {
    .name = "consumers",
    .usage = "[QUEUE]",
    .summary = "list the connected consumers: who, from where, which queues, what they have",
    .text = "Lists the consumers that are connected to the primary now, or those of QUEUE. IN FLIGHT counts the\n"
            "tasks that the consumer has and has not settled, of at most PREFETCH. LAST SETTLED is the time of\n"
            "its last ack, nack or release. A queue in parentheses does not exist: the consumer gets its tasks\n"
            "when the queue is created. Check that its name is spelled correctly.\n\n"
            "Clients of HTTP and of beanstalkd's protocol that wait for the same queues share one consumer,\n"
            "which is marked (shared), and is shown under the name of the client that was first. It is connected\n"
            "while at least one of them waits, and two seconds longer.",
    .positional_min = 0,
    .positional_max = 1,
    .examples = "tarry consumers\ntarry consumers close-order --json",
    .run = run_consumers,
};

static const Tarry__ConsumerView *view_of(const ProtobufCMessage *message) {
    return (const Tarry__ConsumerView *)message;
}

static void say_client(struct text *out, const ProtobufCMessage *message) {
    field_say(out, message, "client");
    if (view_of(message)->shared) text_add_str(out, " (shared)");
}

static void say_queues(struct text *out, const ProtobufCMessage *message) {
    const Tarry__ConsumerView *view = view_of(message);
    const char *gap = "";
    for (size_t i = 0; i < view->n_queues; i++, gap = " ") text_printf(out, "%s%s", gap, view->queues[i]);
    for (size_t i = 0; i < view->n_awaited; i++, gap = " ") text_printf(out, "%s(%s)", gap, view->awaited[i]);
    const size_t shown = view->n_queues + view->n_awaited;
    if (view->queue_count > shown) text_printf(out, " and %zu more", view->queue_count - shown);
}

static const struct column columns[] = {
    {"CLIENT", NULL, say_client},         {"ADDRESS", "peer", NULL},       {"PRINCIPAL", "principal", NULL},
    {"QUEUES", NULL, say_queues},         {">PREFETCH", "prefetch", NULL}, {">IN FLIGHT", "in_flight", NULL},
    {"LAST SETTLED", "settled_ms", NULL},
};
#define COLUMNS (sizeof columns / sizeof columns[0])

static int run_consumers(struct tool *tool, const struct args *args) {
    struct answer_of answer;
    char message[TARRY_MESSAGE_SIZE] = "";
    struct table table;
    struct text out = {0};
    const char *queue = args->positional_count > 0 ? args->positional[0] : NULL;
    int status = tool_connect(tool);
    if (status != 0) return status;
    int code = question_consumers(tool->client, queue, &tool->fresh, &answer, message);
    if (code != TARRY_OK) return tool_failed(tool, code, message);
    const Tarry__ConsumersReply *reply = answer.reply->consumers;
    columns_table(&table, columns, COLUMNS);
    for (size_t i = 0; i < reply->n_consumers; i++) {
        if (tool->json)
            json_line(&out, &reply->consumers[i]->base, &answer.source);
        else
            columns_row(&table, columns, COLUMNS, &reply->consumers[i]->base);
    }
    if (!tool->json && reply->n_consumers > 0) table_print(&table, &out);
    if (!tool->json && reply->n_consumers == 0) tool_say("no consumer is connected");
    status = output_flush(&out, EXIT_FINE);
    table_deinit(&table);
    text_deinit(&out);
    answer_free(&answer);
    return status;
}

/* ---- tarry calendar */

#define BAR_WIDTH 32u
#define SPANS_DEFAULT 24u
#define STEP_DEFAULT_MS 3600000ull

static int run_calendar(struct tool *tool, const struct args *args);

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
    .run = run_calendar,
};

static uint64_t rounded(uint64_t ms, uint64_t step_ms) {
    return ms - ms % step_ms;
}

/* Divides the time of this time zone into spans of `step_ms`, and returns the start of the span that contains the
 * present time. */
static uint64_t begun_ms(uint64_t step_ms) {
    struct timespec now;
    struct tm local;
    clock_gettime(CLOCK_REALTIME, &now);
    if (localtime_r(&now.tv_sec, &local) == NULL) local.tm_gmtoff = 0;
    int64_t offset_ms = (int64_t)local.tm_gmtoff * 1000;
    uint64_t here_ms = (uint64_t)((int64_t)now.tv_sec * 1000 + offset_ms);
    return (uint64_t)((int64_t)rounded(here_ms, step_ms) - offset_ms);
}

/* Prints the calendar as JSON, with the members of /v1/calendar. */
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

static int run_calendar(struct tool *tool, const struct args *args) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Calendar asked;
    struct answer_of answer;
    struct text out = {0};
    int status = option_fresh(tool, args);
    if (status == 0) status = read_options(args, &asked);
    if (status == 0) status = tool_connect(tool);
    if (status != 0) return status;
    request.body_case = TARRY__REQUEST__BODY_CALENDAR;
    request.calendar = &asked;
    status = question_run(tool, &request, &answer);
    if (status != 0) return status;
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
