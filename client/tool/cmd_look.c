/* cmd_look.c: tarry get and tarry list. */
#include <string.h>

#include "output.h"
#include "rfc3339.h"
#include "tool.h"
#include "view.h"

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
    const uint64_t since_ms = answer->reply->get->known_since_ms; /* 0: the broker has not forgotten any outcome */
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
    char message[TARRY_MESSAGE_SIZE] = "";
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
    int code = question_ask(tool->client, &request, &tool->fresh, &answer, message);
    if (code != TARRY_OK) return tool_failed(tool, code, message);
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
        status =
            tool_usage(args,
                       "--due-to: T must be later than 1970-01-01T00:00:00Z"); /* on the wire, 0 would mean no limit */
    if (status == 0) status = option_number(args, "limit", 1, UINT64_MAX, &list.limit);
    if (status == 0) status = tool_connect(tool);
    return status == 0 ? view_print_list(tool, &list) : status;
}
