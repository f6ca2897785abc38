/* cmd_queue.c: tarry queues, and tarry queue set, pause, resume, purge, delete. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "policy.h"
#include "question.h"
#include "table.h"
#include "units.h"

static int run_queues(struct tool *tool, const struct args *args);
static int run_show(struct tool *tool, const struct args *args);
static int run_create(struct tool *tool, const struct args *args);
static int run_set(struct tool *tool, const struct args *args);
static int run_pause(struct tool *tool, const struct args *args);
static int run_delete(struct tool *tool, const struct args *args);
static int run_purge(struct tool *tool, const struct args *args);

static const struct arg_spec set_options[] = {
    {"push", ARG_VALUE, "URL", "same as push=URL"},
    {0},
};

static const struct arg_spec queues_options[] = {
    OPTIONS_FRESH,
    {0},
};

const struct command command_queues = {
    .name = "queues",
    .usage = "[--from-follower [--at-least N] [--staleness DUR]]",
    .summary = "list the queues and their policies",
    .text = "Lists each queue with its policy, whether it is paused, and how many tasks it has. PENDING\n"
            "includes ready tasks; 'tarry stats' shows the two numbers separately.",
    .options = queues_options,
    .positional_min = 0,
    .positional_max = 0,
    .examples = "tarry queues\ntarry queues --json",
    .run = run_queues,
};

const struct command command_queue_list = {
    .name = "queue list",
    .usage = "[--from-follower [--at-least N] [--staleness DUR]]",
    .summary = "list the queues and their policies, as 'tarry queues'",
    .text = "Lists each queue, as 'tarry queues' does.",
    .options = queues_options,
    .positional_min = 0,
    .positional_max = 0,
    .examples = "tarry queue list",
    .run = run_queues,
};

const struct command command_queue_show = {
    .name = "queue show",
    .usage = "QUEUE [--from-follower [--at-least N] [--staleness DUR]]",
    .summary = "show one queue with its policy and counts",
    .text = "Shows the policy of QUEUE, whether it is paused, and how many tasks it has. The exit status is 1 if\n"
            "the queue does not exist.",
    .options = queues_options,
    .positional_min = 1,
    .positional_max = 1,
    .positional_names = "QUEUE",
    .examples = "tarry queue show close-order",
    .run = run_show,
};

const struct command command_queue_create = {
    .name = "queue create",
    .usage = "QUEUE [name=value…] [--push URL]",
    .summary = "create a queue that does not exist yet",
    .text = "Creates a queue with the default policy, or with the named fields of it: see 'tarry queue set'. The\n"
            "exit status is 1 if the queue exists. (The first task of a queue creates it, too.)",
    .options = set_options,
    .positional_min = 1,
    .positional_max = ARGS_POSITIONAL_ANY,
    .positional_names = "QUEUE",
    .examples = "tarry queue create close-order\ntarry queue create close-order lease=1m max_attempts=5",
    .run = run_create,
};

const struct command command_queue_set = {
    .name = "queue set",
    .usage = "QUEUE [name=value…] [--push URL]",
    .summary = "change a queue's policy",
    .text = "Sets the named fields of a queue's policy; the other fields do not change. A queue that does not\n"
            "exist is created. lease_ms, backoff_min_ms, backoff_max_ms and rate_period_ms set the same\n"
            "durations in milliseconds.",
    .print_more = policy_print_help,
    .options = set_options,
    .positional_min = 1,
    .positional_max = ARGS_POSITIONAL_ANY,
    .positional_names = "QUEUE and name=value",
    .examples = "tarry queue set close-order lease=1m max_attempts=5\n"
                "tarry queue set calls backoff=exponential backoff_min=2s backoff_max=1h backoff_jitter=50\n"
                "tarry queue set mail rate=600/min max_in_flight=20\n"
                "tarry queue set orders:billing filter=\"tag in ('paid', 'refunded')\"\n"
                "tarry queue set close-order --push https://shop.example.org/hooks/close-order",
    .run = run_set,
};

static const struct arg_spec pause_options[] = {
    {"for", ARG_VALUE, "DUR", "time after which the queue resumes by itself [no limit]"},
    {0},
};

const struct command command_queue_pause = {
    .name = "queue pause",
    .usage = "QUEUE [--for DUR]",
    .summary = "pause the deliveries of a queue",
    .text = "Pauses the deliveries of a queue. Meanwhile clients can schedule, move and cancel tasks, and\n"
            "settle tasks that are in flight. A queue that does not exist is created.",
    .options = pause_options,
    .positional_min = 1,
    .positional_max = 1,
    .positional_names = "QUEUE",
    .examples = "tarry queue pause close-order\ntarry queue pause close-order --for 15m",
    .run = run_pause,
};

const struct command command_queue_resume = {
    .name = "queue resume",
    .usage = "QUEUE",
    .summary = "resume the deliveries of a queue",
    .text = "Ends the pause of a queue. A queue that does not exist is created.",
    .positional_min = 1,
    .positional_max = 1,
    .positional_names = "QUEUE",
    .examples = "tarry queue resume close-order",
    .run = run_pause,
};

static const struct arg_spec purge_options[] = {
    {"state", ARG_VALUE, "STATES", "states to purge, any of pending,ready,in_flight,dead [pending,ready]"},
    {0},
};

const struct command command_queue_delete = {
    .name = "queue delete",
    .usage = "QUEUE",
    .summary = "delete a queue that is empty and has no consumers",
    .text = "Deletes a queue that nobody uses, for example one with a mistyped name. Lists and statistics do\n"
            "not show the queue any more; its policy, its pause and its counts are lost. The queue must have no\n"
            "task, no dead letter and no consumer. Otherwise the answer says what prevents the deletion, and\n"
            "the exit status is 1.\n\n"
            "'tarry history' and 'tarry audit' still show what happened in the queue, and who deleted it. The\n"
            "broker still knows the outcomes of tasks that ended in the queue. A request with the same queue\n"
            "name creates the queue again. If all 4,096 queues of the broker are in use, another queue can take\n"
            "the place of the deleted one when the broker has forgotten those outcomes (tarryd\n"
            "--outcome-retention).",
    .positional_min = 1,
    .positional_max = 1,
    .positional_names = "QUEUE",
    .examples = "tarry queue purge close-odrer && tarry queue delete close-odrer",
    .run = run_delete,
};

const struct command command_queue_purge = {
    .name = "queue purge",
    .usage = "QUEUE [--state STATES]",
    .summary = "cancel the tasks of a queue",
    .text = "Ends the tasks that the queue has at this moment, as cancelled (purged). Tasks that are scheduled\n"
            "later are not affected. The command returns when all of the tasks have ended.",
    .options = purge_options,
    .positional_min = 1,
    .positional_max = 1,
    .positional_names = "QUEUE",
    .examples = "tarry queue purge close-order\ntarry queue purge close-order --state dead",
    .run = run_purge,
};

/* ---- queues */

static void say_attempts(struct text *out, const ProtobufCMessage *message) {
    const uint32_t max = ((const Tarry__QueueView *)message)->policy->max_attempts;
    if (max == 0)
        text_add_str(out, "no end");
    else
        text_add_u64(out, max);
}

static void say_backoff(struct text *out, const ProtobufCMessage *message) {
    const Tarry__Policy *policy = ((const Tarry__QueueView *)message)->policy;
    char min[UNITS_TEXT_SIZE], max[UNITS_TEXT_SIZE];
    text_add_str(out, duration_format(policy->backoff_min_ms, min));
    if (policy->backoff == TARRY__POLICY__BACKOFF__EXPONENTIAL)
        text_printf(out, " … %s", duration_format(policy->backoff_max_ms, max));
    text_printf(out, " +%u%%", policy->backoff_jitter);
}

static void say_limits(struct text *out, const ProtobufCMessage *message) {
    policy_limits(out, ((const Tarry__QueueView *)message)->policy);
}

static void say_overdue(struct text *out, const ProtobufCMessage *message) {
    policy_overdue(out, ((const Tarry__QueueView *)message)->policy);
}

static void say_paused(struct text *out, const ProtobufCMessage *message) {
    const Tarry__QueueView *queue = (const Tarry__QueueView *)message;
    if (queue->paused && queue->paused_until_ms == 0)
        text_add_str(out, "until resumed");
    else if (queue->paused)
        field_say(out, message, "paused_until_ms");
}

static const struct column queue_columns[] = {
    {"QUEUE", "name", NULL},        {">PENDING", "pending", NULL},       {">IN FLIGHT", "in_flight", NULL},
    {">DEAD", "dead", NULL},        {">LEASE", "policy.lease_ms", NULL}, {">ATTEMPTS", NULL, say_attempts},
    {"BACKOFF", NULL, say_backoff}, {"LIMITS", NULL, say_limits},        {"PAUSED", NULL, say_paused},
    {"PUSH", "policy.push", NULL},
};
#define QUEUE_COLUMNS (sizeof queue_columns / sizeof queue_columns[0])

/* Asks for all queues. 0, or an exit status after an error message. */
static int ask_queues(struct tool *tool, struct answer_of *out_answer) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Queues queues = TARRY__QUEUES__INIT;
    int status = tool_connect(tool);
    if (status != 0) return status;
    request.body_case = TARRY__REQUEST__BODY_QUEUES;
    request.queues = &queues;
    return question_run(tool, &request, out_answer);
}

/* Returns the queue with this name; NULL: it does not exist. */
static const Tarry__QueueView *queue_named(const struct answer_of *answer, const char *name) {
    const Tarry__QueuesReply *reply = answer->reply->queues;
    for (size_t i = 0; i < reply->n_queues; i++)
        if (strcmp(reply->queues[i]->name, name) == 0) return reply->queues[i];
    return NULL;
}

static int run_queues(struct tool *tool, const struct args *args) {
    struct answer_of answer;
    struct table table;
    struct text out = {0};
    int status = option_fresh(tool, args);
    if (status == 0) status = ask_queues(tool, &answer);
    if (status != 0) return status;
    const Tarry__QueuesReply *reply = answer.reply->queues;
    columns_table(&table, queue_columns, QUEUE_COLUMNS);
    for (size_t i = 0; i < reply->n_queues; i++) {
        if (tool->json)
            json_line(&out, &reply->queues[i]->base, &answer.source);
        else
            columns_row(&table, queue_columns, QUEUE_COLUMNS, &reply->queues[i]->base);
    }
    if (!tool->json && reply->n_queues > 0) table_print(&table, &out);
    if (!tool->json && reply->n_queues == 0) tool_say("the broker has no queues");
    tool_say_source(tool, &answer.source);
    status = output_flush(&out, EXIT_FINE);
    table_deinit(&table);
    text_deinit(&out);
    answer_free(&answer);
    return status;
}

static const struct column queue_lines[] = {
    {"queue", "name", NULL},        {"pending", "pending", NULL},       {"in flight", "in_flight", NULL},
    {"dead", "dead", NULL},         {"lease", "policy.lease_ms", NULL}, {"attempts", NULL, say_attempts},
    {"backoff", NULL, say_backoff}, {"limits", NULL, say_limits},       {"overdue", NULL, say_overdue},
    {"paused", NULL, say_paused},   {"push", "policy.push", NULL},      {"filter", "policy.filter", NULL},
};

static int run_show(struct tool *tool, const struct args *args) {
    struct answer_of answer;
    struct text out = {0};
    int status = option_fresh(tool, args);
    if (status == 0) status = ask_queues(tool, &answer);
    if (status != 0) return status;
    const Tarry__QueueView *queue = queue_named(&answer, args->positional[0]);
    if (queue == NULL)
        status = tool_failed(tool, TARRY_NO_SUCH_QUEUE, "the queue does not exist; 'tarry queues' lists those that do");
    else if (tool->json)
        json_line(&out, &queue->base, &answer.source);
    else
        columns_lines(&out, queue_lines, sizeof queue_lines / sizeof queue_lines[0], sizeof "in flight" - 1,
                      &queue->base);
    tool_say_source(tool, &answer.source);
    status = output_flush(&out, status);
    text_deinit(&out);
    answer_free(&answer);
    return status;
}

/* ---- output of the administrative commands */

/* Prints the result as {"queue","result",…} or as a line; with the number of tasks if there was a job. */
static int conclude(struct tool *tool, const char *queue, const char *word, const struct tarry_result *result,
                    const struct tarry_job_view *job) {
    struct text out = {0};
    int status = EXIT_FINE;
    if (tool->json) {
        out_begin(&out, '{');
        out_text(&out, "queue", queue);
        json_outcome(&out, word, result->code, result->message);
        if (result->code == TARRY_OK && job != NULL) job_json_count(&out, job);
        /* Without `job`, the command did not wait for the job. Then the reply's log position is printed. */
        if (job == NULL && result->position != 0) out_number(&out, "position", result->position);
        out_line_end(&out);
    } else if (result->code == TARRY_OK) {
        text_printf(&out, "%s %s", word, queue);
        if (job != NULL) job_words_count(&out, job, "task");
        text_add_char(&out, '\n');
    }
    if (result->code != TARRY_OK) status = tool_refused(tool, result->code, result->message);
    status = output_flush(&out, status);
    text_deinit(&out);
    return status;
}

/* ---- queue set */

/* Parses the fields of a policy. 0, or an exit status after an error message. */
static int take_policy(const struct args *args, struct tarry_policy *policy, uint32_t *fields) {
    int status = 0;
    for (size_t i = 1; i < args->positional_count && status == 0; i++)
        status = policy_field(args, args->positional[i], policy, fields);
    const char *push = args_get(args, "push");
    if (status == 0 && push != NULL && (*fields & TARRY_POLICY_PUSH) != 0)
        status = tool_usage(args, "push is given twice");
    if (status == 0 && push != NULL) {
        policy->push = policy_push(push);
        *fields |= TARRY_POLICY_PUSH;
    }
    return status;
}

#define SECRET_WAIT_MS 2000u
#define SECRET_LOOK_MS 50

/* Warns if the queue's tasks will not be pushed, although the policy has a URL. A client that may not see statistics
 * learns nothing. */
static void warn_of_push(struct tool *tool, const char *queue, const struct tarry_policy *policy) {
    if (policy->push == NULL || policy->push[0] == 0) return;
    for (uint64_t until_ms = steady_ms() + SECRET_WAIT_MS; steady_ms() < until_ms;) {
        struct tarry_stats_view *view = NULL;
        if (tarry_stats(tool->client, queue, NULL, &view, NULL) != TARRY_OK) return;
        const struct tarry_push_stats *push = view->push_count > 0 ? view->push[0] : NULL;
        bool is_known = push != NULL && (push->signs || push->error[0] != 0);
        if (is_known && !push->signs)
            tool_say("nothing is pushed yet: %s: give the queue a secret (docs/WEBHOOKS.md)", push->error);
        tarry_stats_free(view);
        if (is_known) return;
        (void)poll(NULL, 0, SECRET_LOOK_MS); /* the broker takes up the new policy after its answer */
    }
}

static int run_set(struct tool *tool, const struct args *args) {
    struct tarry_policy policy = {0};
    struct tarry_result result = {.message = ""};
    uint32_t fields = 0;
    int status = take_policy(args, &policy, &fields);
    if (status == 0 && fields == 0) status = tool_usage(args, "missing field: give name=value or --push URL");
    if (status == 0) status = tool_connect(tool);
    if (status != 0) return status;
    tarry_queue_set(tool->client, args->positional[0], &policy, fields, NULL, &result);
    if (result.code == TARRY_OK) warn_of_push(tool, args->positional[0], &policy);
    return conclude(tool, args->positional[0], "set", &result, NULL);
}

static int run_create(struct tool *tool, const struct args *args) {
    struct tarry_policy policy = {0};
    struct tarry_result result = {.message = ""};
    struct answer_of answer;
    uint32_t fields = 0;
    const char *queue = args->positional[0];
    int status = take_policy(args, &policy, &fields);
    if (status == 0) status = ask_queues(tool, &answer);
    if (status != 0) return status;
    bool is_there = queue_named(&answer, queue) != NULL;
    answer_free(&answer);
    if (is_there) return tool_failed(tool, TARRY_EXISTS, "the queue exists; 'tarry queue set' changes its policy");
    if (fields != 0)
        tarry_queue_set(tool->client, queue, &policy, fields, NULL, &result);
    else
        /* Creates the queue, with the default policy. */
        tarry_queue_pause(tool->client, queue, false, 0, NULL, &result);
    if (result.code == TARRY_OK) warn_of_push(tool, queue, &policy);
    return conclude(tool, queue, "created", &result, NULL);
}

/* ---- pause, resume, purge */

static int run_pause(struct tool *tool, const struct args *args) {
    struct tarry_result result = {.message = ""};
    bool pause = strcmp(args->command->name, "queue pause") == 0;
    uint64_t for_ms = 0;
    int status = pause ? option_duration_positive(args, "for", &for_ms) : 0;
    if (status == 0) status = tool_connect(tool);
    if (status != 0) return status;
    tarry_queue_pause(tool->client, args->positional[0], pause, for_ms, NULL, &result);
    return conclude(tool, args->positional[0], pause ? "paused" : "resumed", &result, NULL);
}

static int run_delete(struct tool *tool, const struct args *args) {
    struct tarry_result result = {.message = ""};
    int status = tool_connect(tool);
    if (status != 0) return status;
    tarry_queue_delete(tool->client, args->positional[0], NULL, &result);
    return conclude(tool, args->positional[0], "deleted", &result, NULL);
}

static int run_purge(struct tool *tool, const struct args *args) {
    struct tarry_result result = {.message = ""};
    struct tarry_job_view job = {0};
    const char *queue = args->positional[0];
    uint32_t states = 0;
    int status = option_states(args, &states);
    if (status == 0) status = tool_connect(tool);
    if (status != 0) return status;
    if (tarry_queue_purge(tool->client, queue, states, NULL, &result) == TARRY_OK) {
        status = job_follow(tool, queue, &result, "purged", &job);
        if (status != 0) return status;
    }
    return conclude(tool, queue, "purged", &result, &job);
}
