/* cmd_queue.c: tarry queues; tarry queue list, show, create, set, pause, resume, purge, delete; and tarry group list,
 * lag, create, delete (a group is a queue with a filter). */
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
static int run_groups(struct tool *tool, const struct args *args);
static int run_lag(struct tool *tool, const struct args *args);
static int run_delete_group(struct tool *tool, const struct args *args);

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

const struct command command_group_list = {
    .name = "group list",
    .usage = "[TOPIC] [--from-follower [--at-least N] [--staleness DUR]]",
    .summary = "list the groups of a topic, or of all topics, with their filters",
    .text = "Lists each group: a queue named TOPIC:GROUP that gets a share of each task of TOPIC that its filter\n"
            "matches. 'tarry group lag' shows how far its consumers are behind.",
    .options = queues_options,
    .positional_min = 0,
    .positional_max = 1,
    .positional_names = "TOPIC",
    .examples = "tarry group list\ntarry group list orders --json",
    .run = run_groups,
};

const struct command command_group_lag = {
    .name = "group lag",
    .usage = "[TOPIC] [--from-follower [--at-least N] [--staleness DUR]]",
    .summary = "show how far the consumers of each group are behind",
    .text = "Shows, for each group of TOPIC, or of all topics, how many shares are ready, how long the first of\n"
            "them has been due (LAG), how many are in flight or dead, and how many consumers are connected. A\n"
            "number of ready shares with a + is a lower bound: there may be more than the broker has in memory.\n"
            "Tasks that the topic has not shared yet are not included: see 'tarry stats TOPIC'.",
    .options = queues_options,
    .positional_min = 0,
    .positional_max = 1,
    .positional_names = "TOPIC",
    .examples = "tarry group lag\ntarry group lag orders",
    .run = run_lag,
};

static const struct arg_spec group_options[] = {
    {"filter", ARG_VALUE, "EXPR", "tasks that the group gets, by their attributes [*: all of them]"},
    {"push", ARG_VALUE, "URL", "same as push=URL"},
    {0},
};

const struct command command_group_create = {
    .name = "group create",
    .usage = "TOPIC:GROUP [--filter EXPR] [name=value…] [--push URL]",
    .summary = "create a group of a topic",
    .text = "Creates the group, which from now on gets a share of each due task of TOPIC that the filter matches.\n"
            "The queue TOPIC must exist, and the group must not: the exit status is 1 otherwise. The group has the\n"
            "default policy, or the named fields of it: see 'tarry queue set', which also changes the filter later.\n"
            "docs/GROUPS.md explains filters.",
    .options = group_options,
    .positional_min = 1,
    .positional_max = ARGS_POSITIONAL_ANY,
    .positional_names = "TOPIC:GROUP",
    .examples = "tarry group create orders:mail\n"
                "tarry group create orders:billing --filter \"tag in ('paid', 'refunded')\" max_attempts=5",
    .run = run_create,
};

const struct command command_group_delete = {
    .name = "group delete",
    .usage = "TOPIC:GROUP",
    .summary = "delete a group that is empty and has no consumers",
    .text = "Deletes the group, as 'tarry queue delete' does; its topic goes on without it, and is an ordinary\n"
            "queue again after its last group. The exit status is 1 if the queue is not a group, or still has\n"
            "shares, dead letters or consumers.",
    .positional_min = 1,
    .positional_max = 1,
    .positional_names = "TOPIC:GROUP",
    .examples = "tarry queue purge orders:billing && tarry group delete orders:billing",
    .run = run_delete_group,
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
#define COUNT_OF(columns) (sizeof(columns) / sizeof((columns)[0]))

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

/* Returns whether the queue is a group, of `topic` unless that is NULL. */
static bool is_group_of(const Tarry__QueueView *queue, const char *topic) {
    const char *colon = strrchr(queue->name, ':');
    if (queue->policy->filter[0] == 0 || colon == NULL) return false;
    if (topic == NULL) return true;
    const size_t size = strlen(topic);
    return (size_t)(colon - queue->name) == size && memcmp(queue->name, topic, size) == 0;
}

/* Output of the commands that list queues or groups: a table, or JSON lines. */
struct listing {
    struct table table;
    struct text out;
    size_t count;
};

static void add_line(const struct tool *tool, struct listing *listing, const struct column *columns, size_t count,
                     const ProtobufCMessage *message, const struct tarry_source *source) {
    listing->count++;
    if (tool->json)
        json_line(&listing->out, message, source);
    else
        columns_row(&listing->table, columns, count, message);
}

/* Prints the output, or the sentence `none` if a table has no line, and frees its memory. Returns the exit status. */
static int end_lines(struct tool *tool, struct listing *listing, const char *none, const struct tarry_source *source) {
    if (!tool->json && listing->count > 0) table_print(&listing->table, &listing->out);
    if (!tool->json && listing->count == 0) tool_say("%s", none);
    tool_say_source(tool, source);
    int status = output_flush(&listing->out, EXIT_FINE);
    table_deinit(&listing->table);
    text_deinit(&listing->out);
    return status;
}

static int run_queues(struct tool *tool, const struct args *args) {
    struct answer_of answer;
    struct listing listing = {0};
    int status = option_fresh(tool, args);
    if (status == 0) status = ask_queues(tool, &answer);
    if (status != 0) return status;
    const Tarry__QueuesReply *reply = answer.reply->queues;
    columns_table(&listing.table, queue_columns, COUNT_OF(queue_columns));
    for (size_t i = 0; i < reply->n_queues; i++)
        add_line(tool, &listing, queue_columns, COUNT_OF(queue_columns), &reply->queues[i]->base, &answer.source);
    status = end_lines(tool, &listing, "the broker has no queues", &answer.source);
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
        columns_lines(&out, queue_lines, COUNT_OF(queue_lines), sizeof "in flight" - 1, &queue->base);
    tool_say_source(tool, &answer.source);
    status = output_flush(&out, status);
    text_deinit(&out);
    answer_free(&answer);
    return status;
}

/* ---- output of the administrative commands */

/* Prints the result of a command about a queue, as JSON or as a line. If there was a job, also prints the number of
 * tasks. */
static int conclude(struct tool *tool, const char *queue, const char *word, const struct tarry_result *result,
                    const struct tarry_job_view *job) {
    struct text out = {0};
    int status = EXIT_FINE;
    if (tool->json) {
        out_begin(&out, '{');
        out_text(&out, "queue", queue);
        json_outcome(&out, word, result->code, result->message);
        if (result->code == TARRY_OK && job != NULL) job_json_count(&out, job);
        /* If `job` is NULL, the command did not wait for a job; print the log position of the reply. */
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
#define SECRET_LOOK_MS 50u

/* Warns if the queue's tasks will not be pushed, although the policy has a URL. Without permission to read statistics,
 * the client prints no warning. */
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
        pause_ms(SECRET_LOOK_MS); /* the broker uses the new policy only some time after its answer */
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

/* Takes the filter of a new group. 0, or an exit status after an error message. */
static int take_filter(const struct args *args, struct tarry_policy *policy, uint32_t *fields) {
    const char *filter = args_get(args, "filter");
    if ((*fields & TARRY_POLICY_FILTER) != 0) return tool_usage(args, "filter=…: use --filter EXPR");
    if (filter != NULL && (filter[0] == 0 || strcmp(filter, "none") == 0))
        return tool_usage(args, "--filter: '%s' is not a filter; * matches all tasks", filter);
    policy->filter = filter != NULL ? filter : "*";
    *fields |= TARRY_POLICY_FILTER;
    return 0;
}

static int run_create(struct tool *tool, const struct args *args) {
    const bool is_group = strcmp(args->command->name, "group create") == 0;
    struct tarry_policy policy = {0};
    struct tarry_result result = {.message = ""};
    struct answer_of answer;
    uint32_t fields = 0;
    const char *queue = args->positional[0];
    int status = take_policy(args, &policy, &fields);
    if (status == 0 && is_group) status = take_filter(args, &policy, &fields);
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

static int delete_queue(struct tool *tool, const char *queue) {
    struct tarry_result result = {.message = ""};
    tarry_queue_delete(tool->client, queue, NULL, &result);
    return conclude(tool, queue, "deleted", &result, NULL);
}

static int run_delete(struct tool *tool, const struct args *args) {
    int status = tool_connect(tool);
    return status != 0 ? status : delete_queue(tool, args->positional[0]);
}

static int run_delete_group(struct tool *tool, const struct args *args) {
    struct answer_of answer;
    int status = ask_queues(tool, &answer);
    if (status != 0) return status;
    const Tarry__QueueView *queue = queue_named(&answer, args->positional[0]);
    const bool is_group = queue != NULL && is_group_of(queue, NULL);
    answer_free(&answer);
    if (is_group) return delete_queue(tool, args->positional[0]);
    return tool_failed(tool, TARRY_NO_SUCH_QUEUE, "there is no such group; 'tarry group list' lists those that exist");
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

/* ---- groups */

static const struct column group_columns[] = {
    {"GROUP", "name", NULL},           {"FILTER", "policy.filter", NULL}, {">PENDING", "pending", NULL},
    {">IN FLIGHT", "in_flight", NULL}, {">DEAD", "dead", NULL},           {"PAUSED", NULL, say_paused},
    {"PUSH", "policy.push", NULL},
};

static void say_ready(struct text *out, const ProtobufCMessage *message) {
    const Tarry__QueueStats *stats = (const Tarry__QueueStats *)message;
    text_printf(out, "%llu%s", (unsigned long long)stats->ready, stats->ready_is_lower_bound ? "+" : "");
}

static void say_lag(struct text *out, const ProtobufCMessage *message) {
    char lag[UNITS_TEXT_SIZE];
    const uint64_t ms = ((const Tarry__QueueStats *)message)->oldest_overdue_ms;
    text_add_str(out, ms == 0 ? "-" : duration_format(ms < 1000 ? ms : ms / 1000 * 1000, lag));
}

static void say_is_paused(struct text *out, const ProtobufCMessage *message) {
    text_add_str(out, ((const Tarry__QueueStats *)message)->paused ? "yes" : "");
}

static const struct column lag_columns[] = {
    {"GROUP", "name", NULL},           {">READY", NULL, say_ready}, {">LAG", NULL, say_lag},
    {">IN FLIGHT", "in_flight", NULL}, {">DEAD", "dead", NULL},     {">CONSUMERS", "consumers", NULL},
    {"PAUSED", NULL, say_is_paused},
};

/* Asks for the queues, and checks that the topic, if it is named, exists. */
static int ask_topic(struct tool *tool, const struct args *args, struct answer_of *out, const char **out_topic) {
    *out_topic = args->positional_count > 0 ? args->positional[0] : NULL;
    int status = option_fresh(tool, args);
    if (status == 0) status = ask_queues(tool, out);
    if (status != 0 || *out_topic == NULL || queue_named(out, *out_topic) != NULL) return status;
    answer_free(out);
    return tool_failed(tool, TARRY_NO_SUCH_QUEUE, "the queue does not exist; 'tarry queues' lists those that do");
}

static const char *no_groups(const char *topic) {
    return topic != NULL ? "the queue has no groups" : "there are no groups";
}

static int run_groups(struct tool *tool, const struct args *args) {
    struct answer_of answer;
    struct listing listing = {0};
    const char *topic;
    int status = ask_topic(tool, args, &answer, &topic);
    if (status != 0) return status;
    columns_table(&listing.table, group_columns, COUNT_OF(group_columns));
    const Tarry__QueuesReply *reply = answer.reply->queues;
    for (size_t i = 0; i < reply->n_queues; i++)
        if (is_group_of(reply->queues[i], topic))
            add_line(tool, &listing, group_columns, COUNT_OF(group_columns), &reply->queues[i]->base, &answer.source);
    status = end_lines(tool, &listing, no_groups(topic), &answer.source);
    answer_free(&answer);
    return status;
}

static int run_lag(struct tool *tool, const struct args *args) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Stats question = TARRY__STATS__INIT;
    struct answer_of queues, stats;
    struct listing listing = {0};
    const char *topic;
    request.body_case = TARRY__REQUEST__BODY_STATS;
    request.stats = &question;
    int status = ask_topic(tool, args, &queues, &topic);
    if (status != 0) return status;
    status = question_run(tool, &request, &stats);
    if (status != 0) {
        answer_free(&queues);
        return status;
    }
    columns_table(&listing.table, lag_columns, COUNT_OF(lag_columns));
    const Tarry__StatsReply *reply = stats.reply->stats;
    for (size_t i = 0; i < reply->n_queues; i++) {
        const Tarry__QueueView *queue = queue_named(&queues, reply->queues[i]->name);
        if (queue != NULL && is_group_of(queue, topic))
            add_line(tool, &listing, lag_columns, COUNT_OF(lag_columns), &reply->queues[i]->base, &stats.source);
    }
    status = end_lines(tool, &listing, no_groups(topic), &stats.source);
    answer_free(&stats);
    answer_free(&queues);
    return status;
}
