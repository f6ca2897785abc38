/* cmd_dead.c: tarry dead list, requeue, drop: dead letters. */
#include <string.h>

#include "json_out.h"
#include "output.h"
#include "question.h"
#include "tool.h"
#include "view.h"

static int run_list(struct tool *tool, const struct args *args);
static int run_decide(struct tool *tool, const struct args *args);

static const struct arg_spec list_options[] = {
    {"all", ARG_FLAG, NULL, "list all dead letters, as without KEY"},
    {"limit", ARG_VALUE, "N", "maximum number of dead letters [no limit]"},
    OPTIONS_FRESH,
    {0},
};

const struct command command_dead_list = {
    .name = "dead list",
    .usage = "QUEUE [KEY|--all] [--limit N]",
    .summary = "list the dead letters of a queue",
    .text = "Lists dead letters with the time and the reason: tasks that have failed max_attempts times, and\n"
            "tasks that a consumer has nacked as dead. They stay until 'tarry dead requeue' or 'tarry dead\n"
            "drop'.",
    .options = list_options,
    .positional_min = 1,
    .positional_max = 2,
    .positional_names = "QUEUE",
    .examples = "tarry dead list close-order\ntarry dead list close-order order-1 --json",
    .run = run_list,
};

static const struct arg_spec decide_options[] = {
    {"id", ARG_VALUE, "ID", "id of the dead letter, instead of QUEUE and KEY"},
    {"all", ARG_FLAG, NULL, "every dead letter that the queue has at this moment"},
    {0},
};

const struct command command_dead_requeue = {
    .name = "dead requeue",
    .usage = "QUEUE KEY\nQUEUE --all\n--id ID",
    .summary = "deliver dead letters again",
    .text = "Makes a dead letter due at once, and sets its attempts to zero. The broker refuses ('exists')\n"
            "while a live task has the same key. --all skips such dead letters, and prints how many were\n"
            "requeued and how many were left ({\"queue\",\"result\",\"count\",\"left\"} with --json). The exit status\n"
            "is 1 if any was left.",
    .options = decide_options,
    .positional_min = 0,
    .positional_max = 2,
    .examples =
        "tarry dead requeue close-order order-1\ntarry dead requeue --id 4711\ntarry dead requeue close-order --all",
    .run = run_decide,
};

const struct command command_dead_drop = {
    .name = "dead drop",
    .usage = "QUEUE KEY\nQUEUE --all\n--id ID",
    .summary = "end dead letters for good",
    .text = "Ends a dead letter for good; its outcome is dropped.",
    .options = decide_options,
    .positional_min = 0,
    .positional_max = 2,
    .examples = "tarry dead drop close-order order-1\ntarry dead drop --id 4711\ntarry dead drop close-order --all",
    .run = run_decide,
};

static int run_list(struct tool *tool, const struct args *args) {
    struct view_list list = {.list = TARRY__LIST__INIT, .dead = true};
    const char *key = args->positional_count == 2 ? args->positional[1] : NULL;
    if (key != NULL && args_has(args, "all")) return tool_usage(args, "KEY and --all exclude each other");
    int status = option_number(args, "limit", 1, UINT64_MAX, &list.limit);
    if (status == 0) status = option_fresh(tool, args);
    if (status == 0) status = tool_connect(tool);
    if (status != 0) return status;
    if (key != NULL && key[0] == 0) return tool_usage(args, "the key is empty");
    list.list.queue = (char *)args->positional[0];
    list.list.states = TARRY_STATE_DEAD;
    list.key = key;
    if (key != NULL) list.list.prefix = (ProtobufCBinaryData){strlen(key), (uint8_t *)key};
    status = view_print_list(tool, &list);
    if (status == 0 && key != NULL && list.count == 0) {
        tool_say("queue %s has no dead letter with key %s", args->positional[0], key);
        status = EXIT_REFUSED;
    }
    return status;
}

static void print_job(struct tool *tool, const char *queue, const char *word, const struct tarry_job_view *job,
                      struct text *out) {
    if (tool->json) {
        out_begin(out, '{');
        out_text(out, "queue", queue);
        out_text(out, "result", word);
        job_json_count(out, job);
        out_number(out, "left", job->left);
        out_line_end(out);
        return;
    }
    text_printf(out, "%s %s", word, queue);
    job_words_count(out, job, "dead letter");
    text_add_char(out, '\n');
}

static int decide_all(struct tool *tool, const char *queue, enum tarry_dead_what what) {
    struct tarry_result result = {.message = ""};
    struct tarry_ref ref = {.queue = queue};
    struct tarry_job_view job = {0};
    struct text out = {0};
    const char *word = what == TARRY_REQUEUE ? "requeued" : "dropped";
    int code = tarry_dead(tool->client, what, &ref, true, NULL, &result);
    if (code != TARRY_OK) return tool_failed(tool, code, result.message);
    int status = job_follow(tool, queue, &result, word, &job);
    if (status != EXIT_FINE) return status;
    print_job(tool, queue, word, &job, &out);
    if (job.left > 0) {
        status = EXIT_REFUSED;
        tool_say("%llu dead letter%s skipped, because a live task has the same key", (unsigned long long)job.left,
                 job.left == 1 ? " was" : "s were");
    }
    status = output_flush(&out, status);
    text_deinit(&out);
    return status;
}

static int decide_one(struct tool *tool, const struct tarry_ref *ref, enum tarry_dead_what what) {
    struct tarry_result result = {.message = ""};
    struct text out = {0};
    int code = tarry_dead(tool->client, what, ref, false, NULL, &result);
    const char *word = answer_word(&result);
    const char *sentence = result.message[0] != 0 ? result.message : tarry_code_sentence(code);
    int status = code == TARRY_OK ? EXIT_FINE : tool_refused(tool, code, sentence);
    uint64_t id = result.id != 0 ? result.id : ref->id;
    if (tool->json) {
        const struct answer answer = {
            .verb = VERB_CANCEL,
            .id = ref->id,
            .queue = ref->queue,
            .key = ref->key,
            .key_size = ref->key != NULL ? strlen(ref->key) : 0,
            .result = &result,
        };
        answer_json(&out, &answer);
    } else if (code == TARRY_OK) {
        text_printf(&out, "%s %llu\n", word, (unsigned long long)id);
    }
    status = output_flush(&out, status);
    text_deinit(&out);
    return status;
}

static int run_decide(struct tool *tool, const struct args *args) {
    enum tarry_dead_what what = strcmp(args->command->name, "dead requeue") == 0 ? TARRY_REQUEUE : TARRY_DROP;
    bool all = args_has(args, "all");
    struct tarry_ref ref;
    if (all && (args->positional_count != 1 || args_has(args, "id")))
        return tool_usage(args, "--all needs QUEUE, and excludes KEY and --id");
    int status = all ? 0 : option_ref(args, &ref);
    if (status == 0) status = tool_connect(tool);
    if (status != 0) return status;
    return all ? decide_all(tool, args->positional[0], what) : decide_one(tool, &ref, what);
}
