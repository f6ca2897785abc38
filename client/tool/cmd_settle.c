/* cmd_settle.c: tarry ack, nack, extend, release: settles one delivery by its id and token. */
#include <string.h>

#include "output.h"
#include "question.h"
#include "rfc3339.h"
#include "tool.h"

static int run_settle(struct tool *tool, const struct args *args);

#define SETTLE_TEXT                                                                                                    \
    "ID and TOKEN identify one delivery; 'tarry consume --json' prints both. If the lease of TOKEN has\n"              \
    "ended, the broker refuses, and the answer says what happened to the task."

static const struct arg_spec no_options[] = {{0}};

const struct command command_ack = {
    .name = "ack",
    .usage = "ID TOKEN",
    .summary = "report a delivered task as done",
    .text = "Ends a delivered task as acked.\n\n" SETTLE_TEXT,
    .options = no_options,
    .positional_min = 2,
    .positional_max = 2,
    .positional_names = "ID and TOKEN",
    .examples = "tarry ack 4711 3-81920",
    .run = run_settle,
};

static const struct arg_spec nack_options[] = {
    {"delay", ARG_VALUE, "DUR", "time until the task is due again [the queue's backoff]"},
    {"reason", ARG_VALUE, "TEXT", "reason for the failure, kept in the log (tarry history)"},
    {"dead", ARG_VALUE, "REASON", "make the task a dead letter at once, for this reason"},
    {0},
};

const struct command command_nack = {
    .name = "nack",
    .usage = "ID TOKEN [[--delay DUR] [--reason TEXT] | --dead REASON]",
    .summary = "report a delivered task as failed: retry it, or make it a dead letter",
    .text = "Reports a delivered task as failed. The attempt counts, and the task is due again after --delay,\n"
            "or after the queue's backoff. After max_attempts attempts, or at once with --dead, the task\n"
            "becomes a dead letter.\n\n" SETTLE_TEXT,
    .options = nack_options,
    .positional_min = 2,
    .positional_max = 2,
    .positional_names = "ID and TOKEN",
    .examples = "tarry nack 4711 3-81920 --delay 5m --reason 'the bank does not answer'\ntarry nack 4711 3-81920 "
                "--dead 'no such customer'",
    .run = run_settle,
};

static const struct arg_spec extend_options[] = {
    {"lease", ARG_VALUE, "DUR", "new lease, counted from now [the queue's]"},
    {0},
};

const struct command command_extend = {
    .name = "extend",
    .usage = "ID TOKEN [--lease DUR]",
    .summary = "extend the lease of a delivered task",
    .text = "Gives a delivered task a new lease, counted from now. The token does not change.\n\n" SETTLE_TEXT,
    .options = extend_options,
    .positional_min = 2,
    .positional_max = 2,
    .positional_names = "ID and TOKEN",
    .examples = "tarry extend 4711 3-81920 --lease 10m",
    .run = run_settle,
};

const struct command command_release = {
    .name = "release",
    .usage = "ID TOKEN",
    .summary = "return a delivered task without counting an attempt",
    .text =
        "Returns a delivered task. The task is ready again at once, and the attempt does not count.\n\n" SETTLE_TEXT,
    .options = no_options,
    .positional_min = 2,
    .positional_max = 2,
    .positional_names = "ID and TOKEN",
    .examples = "tarry release 4711 3-81920",
    .run = run_settle,
};

static int nack(struct tool *tool, const struct args *args, uint64_t id, struct tarry_token token,
                struct tarry_result *out_result) {
    struct tarry_nack_options options = {.reason = args_get(args, "dead")};
    options.dead = options.reason != NULL;
    if (options.dead && args_has(args, "reason"))
        return tool_usage(args, "--dead has the reason already: omit --reason");
    if (!options.dead) options.reason = args_get(args, "reason");
    options.has_delay = args_has(args, "delay");
    if (options.dead && options.has_delay) return tool_usage(args, "--delay and --dead exclude each other");
    int status = option_duration(args, "delay", &options.delay_ms);
    if (status == 0) status = tool_connect(tool);
    if (status == 0) tarry_nack(tool->client, id, token, &options, out_result);
    return status;
}

/* Sends the request. Returns 0, or an exit status after an error message. */
static int settle(struct tool *tool, const struct args *args, uint64_t id, struct tarry_token token,
                  struct tarry_result *out_result) {
    const char *name = args->command->name;
    uint64_t lease_ms = 0;
    if (strcmp(name, "nack") == 0) return nack(tool, args, id, token, out_result);
    int status = strcmp(name, "extend") == 0 ? option_duration_positive(args, "lease", &lease_ms) : 0;
    if (status == 0) status = tool_connect(tool);
    if (status != 0) return status;
    if (strcmp(name, "ack") == 0)
        tarry_ack(tool->client, id, token, NULL, out_result);
    else if (strcmp(name, "extend") == 0)
        tarry_extend(tool->client, id, token, lease_ms, NULL, out_result);
    else
        tarry_release(tool->client, id, token, NULL, out_result);
    return 0;
}

static void print_words(struct text *out, uint64_t id, const struct tarry_result *result) {
    char time[RFC3339_TEXT_SIZE];
    text_printf(out, "%s %llu", answer_word(result), (unsigned long long)id);
    if (result->outcome == TARRY_EXTENDED)
        text_printf(out, " until %s", rfc3339_format(result->lease_deadline_ms, time));
    if (result->outcome == TARRY_NACKED && result->due_ms != 0)
        text_printf(out, ", due again %s", rfc3339_format(result->due_ms, time));
    text_add_char(out, '\n');
}

static int run_settle(struct tool *tool, const struct args *args) {
    struct tarry_result result = {.message = ""};
    struct tarry_token token;
    struct text out = {0};
    uint64_t id = 0;
    int status = option_id(args, args->positional[0], &id);
    if (status == 0 && tarry_token_parse(args->positional[1], &token) != TARRY_OK)
        status = tool_usage(args, "'%s' is not a token such as 3-81920", args->positional[1]);
    if (status == 0) status = settle(tool, args, id, token, &result);
    if (status != 0) return status;
    if (tool->json) {
        answer_json(&out, &(struct answer){.verb = VERB_MOVE, .id = id, .result = &result});
    } else if (result.code == TARRY_OK) {
        print_words(&out, id, &result);
    }
    if (result.code != TARRY_OK && strcmp(answer_word(&result), "error") != 0) {
        struct text words = {0};
        text_printf(&words, "%s; the task is ", tarry_code_sentence(result.code));
        answer_word_words(&words, &result);
        answer_circumstances_words(&words, &result);
        tool_say("%s", text_str(&words));
        text_deinit(&words);
        status = EXIT_REFUSED;
    } else if (result.code != TARRY_OK) {
        status = tool_refused(tool, result.code, result.message);
    }
    status = output_flush(&out, status);
    text_deinit(&out);
    return status;
}
