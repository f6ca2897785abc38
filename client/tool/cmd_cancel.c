/* cmd_cancel.c: tarry cancel and tarry move; both refer to a task and have the same results. */
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "output.h"
#include "stream.h"
#include "tool.h"

static int run_cancel(struct tool *tool, const struct args *args);
static int run_move(struct tool *tool, const struct args *args);

static const struct arg_spec cancel_options[] = {
    {"id", ARG_VALUE, "ID", "id of the task, instead of QUEUE and KEY"},
    {"withdraw", ARG_FLAG, NULL,
     "also end a task that is in flight; the answer to its consumer's ack then\nsays that the task is cancelled (a "
     "dead letter is left to 'tarry dead')"},
    {"from", ARG_VALUE, "FILE", "file with many tasks, one JSON object a line; - is standard input"},
    {0},
};

const struct command command_cancel = {
    .name = "cancel",
    .usage = "QUEUE KEY [--withdraw]\n--id ID [--withdraw]\n--from FILE|- [--withdraw]",
    .summary = "withdraw a task before it is delivered",
    .text = "Ends a task before it is delivered, and prints exactly one of these results:\n"
            "  cancelled          the task has ended; with its earlier deliveries (0: no consumer has seen it)\n"
            "  already_cancelled  the task was cancelled before\n"
            "  in_flight          a consumer has the task: which session, since when\n"
            "  dead               the task is a dead letter\n"
            "  acked              a consumer has acked the task: when\n"
            "  expired            the task has expired: when\n"
            "  unknown            the task is not live and has not ended since known_since_ms\n"
            "The exit status is 0 for the first two and 1 for the others.\n\n"
            "--from reads {\"queue\",\"key\"} or {\"id\"} from each line, and answers each line once, in order:\n"
            "  {\"line\":1,\"id\":\"…\",\"queue\":\"…\",\"key\":\"…\",\"result\":\"cancelled\",\"deliveries\":0}",
    .options = cancel_options,
    .positional_min = 0,
    .positional_max = 2,
    .examples = "tarry cancel close-order order-1\n"
                "tarry cancel --id 4711 --withdraw\n"
                "tarry list close-order --prefix test- --json | tarry cancel --from -",
    .run = run_cancel,
};

static const struct arg_spec move_options[] = {
    {"id", ARG_VALUE, "ID", "id of the task, instead of QUEUE and KEY"},
    {"in", ARG_VALUE, "DUR", "delay, counted from when the broker receives the request"},
    {"at", ARG_VALUE, "RFC3339", "due time, such as 2026-11-21T04:00:00+01:00"},
    {"due-ms", ARG_VALUE, "N", "due time in Unix milliseconds"},
    {"from", ARG_VALUE, "FILE", "file with many tasks, one JSON object a line; - is standard input"},
    {0},
};

const struct command command_move = {
    .name = "move",
    .usage = "QUEUE KEY (--in DUR | --at TIME | --due-ms N)\n--id ID (--in DUR | --at TIME | --due-ms N)\n--from "
             "FILE|-",
    .summary = "change when a task is due",
    .text =
        "Changes the due time of a live task. The result is 'moved' with the new due time. If the task\n"
        "cannot be moved, the result says why, as for 'tarry cancel', and the exit status is 1.\n\n"
        "--from reads {\"queue\",\"key\"} or {\"id\"}, with \"delay_ms\" or \"due_ms\", from each line, and answers\n"
        "each line once, in order.",
    .options = move_options,
    .positional_min = 0,
    .positional_max = 2,
    .examples = "tarry move close-order order-1 --in 1h\n"
                "tarry move --id 4711 --at 2026-12-01T09:00:00Z\n"
                "tarry move --from moves.ndjson --json",
    .run = run_move,
};

/* Prints the result. With --id it asks the broker for queue and key, to print them. */
static int conclude(struct tool *tool, enum verb verb, const struct tarry_ref *ref, const struct tarry_result *result) {
    struct text out = {0};
    struct tarry_view *view = NULL;
    struct answer answer = {.verb = verb,
                            .queue = ref->queue,
                            .key = ref->key,
                            .key_size = ref->key != NULL ? strlen(ref->key) : 0,
                            .id = ref->id,
                            .result = result};
    bool error = strcmp(answer_word(result), "error") == 0;
    int status = answer_refused(verb, result) ? exit_status_of(result->code) : EXIT_FINE;
    if (ref->id != 0 && !error && result->outcome != TARRY_UNKNOWN &&
        tarry_get(tool->client, ref, false, NULL, &view, NULL) == TARRY_OK && view->outcome != TARRY_UNKNOWN) {
        answer.queue = view->queue;
        answer.key = view->key;
        answer.key_size = view->key_size;
    }
    if (tool->json)
        answer_json(&out, &answer);
    else if (!error)
        answer_words(&out, &answer);
    if (error) status = tool_refused(tool, result->code, result->message);
    status = output_flush(&out, status);
    text_deinit(&out);
    tarry_view_free(view);
    return status;
}

/* Returns whether the command line has no arguments except --from (and `allowed`). */
static bool from_alone(const struct args *args, const char *allowed) {
    for (size_t i = 0; args->command->options[i].name != NULL; i++) {
        const char *name = args->command->options[i].name;
        if (args->values[i] != NULL && strcmp(name, "from") != 0 && strcmp(name, allowed) != 0) return false;
    }
    return args->positional_count == 0;
}

static int run_cancel(struct tool *tool, const struct args *args) {
    struct tarry_ref ref;
    struct tarry_result result = {0};
    bool withdraw = args_has(args, "withdraw");
    if (args_has(args, "from")) {
        if (!from_alone(args, "withdraw"))
            return tool_usage(args, "--from allows no task and no other option but --withdraw");
        return stream_run(tool, args, VERB_CANCEL, args_get(args, "from"), withdraw);
    }
    int status = option_ref(args, &ref);
    if (status == 0) status = tool_connect(tool);
    if (status != 0) return status;
    tarry_cancel(tool->client, &ref, withdraw, NULL, &result);
    return conclude(tool, VERB_CANCEL, &ref, &result);
}

static int run_move(struct tool *tool, const struct args *args) {
    struct tarry_ref ref;
    struct tarry_result result = {0};
    enum tarry_when when;
    uint64_t when_ms;
    if (args_has(args, "from")) {
        if (!from_alone(args, ""))
            return tool_usage(args, "--from allows no task and no other option: each line has its own task and time");
        return stream_run(tool, args, VERB_MOVE, args_get(args, "from"), false);
    }
    int status = option_ref(args, &ref);
    if (status == 0) status = option_when(args, &when, &when_ms);
    if (status == 0) status = tool_connect(tool);
    if (status != 0) return status;
    tarry_move(tool->client, &ref, when, when_ms, NULL, &result);
    return conclude(tool, VERB_MOVE, &ref, &result);
}
