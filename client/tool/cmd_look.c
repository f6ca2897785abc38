/* cmd_look.c: tarry get and tarry list. */
#include "ndjson.h"
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
    .positional_names = "QUEUE and KEY",
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

static void unknown(struct tool *tool, const struct tarry_ref *ref, const struct tarry_view *view, struct text *out) {
    char time[RFC3339_TEXT_SIZE];
    if (!tool->json) {
        bool forgot = view->known_since_ms != 0; /* 0: no outcome was ever forgotten */
        tool_say("unknown: neither live nor ended%s%s", forgot ? " since " : "",
                 forgot ? rfc3339_format(view->known_since_ms, time) : "");
        return;
    }
    ndjson_begin(out);
    ndjson_id(out, "id", ref->id);
    ndjson_text(out, "queue", ref->queue);
    ndjson_text(out, "key", ref->key);
    ndjson_text(out, "state", "unknown");
    ndjson_number(out, "known_since_ms", view->known_since_ms);
    json_source(out, &view->source);
    ndjson_end(out);
}

static int run_get(struct tool *tool, const struct args *args) {
    struct tarry_ref ref;
    struct tarry_view *view = NULL;
    char message[TARRY_MESSAGE_SIZE] = "";
    struct text out = {0};
    int status = option_ref(args, &ref);
    if (status == 0) status = option_fresh(tool, args);
    if (status == 0) status = tool_connect(tool);
    if (status != 0) return status;
    int code = tarry_get(tool->client, &ref, true, &tool->fresh, &view, message);
    if (code != TARRY_OK) return tool_failed(tool, code, message);
    if (view->outcome == TARRY_UNKNOWN) {
        unknown(tool, &ref, view, &out);
        status = EXIT_REFUSED;
    } else if (tool->json) {
        view_json(&out, view);
    } else {
        view_words(&out, view);
    }
    tool_say_source(tool, &view->source);
    status = output_flush(&out, status);
    text_deinit(&out);
    tarry_view_free(view);
    return status;
}

static int run_list(struct tool *tool, const struct args *args) {
    struct tarry_list_options options = {.queue = args->positional[0], .prefix = args_get(args, "prefix")};
    int status = option_states(args, &options.states);
    if (status == 0) status = option_fresh(tool, args);
    options.at_least = tool->fresh.at_least;
    options.staleness_ms = tool->fresh.staleness_ms;
    if (status == 0) status = option_time(args, "due-from", &options.due_from_ms);
    if (status == 0) status = option_time(args, "due-to", &options.due_to_ms);
    if (status == 0 && args_has(args, "due-to") && options.due_to_ms == 0)
        status =
            tool_usage(args, "--due-to: T must be later than 1970-01-01T00:00:00Z"); /* 0 means no limit on the wire */
    if (status == 0) status = option_number(args, "limit", 1, UINT64_MAX, &options.limit);
    if (status == 0) status = tool_connect(tool);
    return status == 0 ? view_print_list(tool, &options, false, NULL, NULL, NULL) : status;
}
