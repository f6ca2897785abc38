/* cmd_recur.c: tarry recur set, list, show, next, pause, resume, trigger, delete. offline/recur_history.c has the past.
 */
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "check.h"
#include "output.h"
#include "question.h"
#include "rfc3339.h"
#include "table.h"
#include "tarry_limits.h"
#include "units.h"

static int run_set(struct tool *tool, const struct args *args);
static int run_list(struct tool *tool, const struct args *args);
static int run_show(struct tool *tool, const struct args *args);
static int run_next(struct tool *tool, const struct args *args);
static int run_change(struct tool *tool, const struct args *args);

static const struct arg_spec set_options[] = {
    {"queue", ARG_VALUE, "QUEUE", "queue that gets the occurrences"},
    {"cron", ARG_VALUE, "EXPR", "cron expression: minute hour day month weekday, or with seconds first"},
    {"every", ARG_VALUE, "DUR", "interval of elapsed time, counted from --from"},
    {"rrule", ARG_VALUE, "RULE", "recurrence rule of RFC 5545; its DTSTART is --from"},
    {"zone", ARG_VALUE, "ZONE", "IANA time zone of the local times, such as Europe/Berlin [UTC]"},
    {"from", ARG_VALUE, "TIME", "no occurrence before: RFC 3339, Unix milliseconds, or +DUR [now]"},
    {"until", ARG_VALUE, "TIME", "no occurrence after [no end]"},
    {"count", ARG_VALUE, "N", "number of occurrences [no limit]"},
    {"jitter", ARG_VALUE, "DUR", "each occurrence is due up to DUR later, fixed when it is created [0]"},
    {"gap", ARG_VALUE, "WHAT", "a local time that does not exist: next (when the gap ends) or skip [next]"},
    {"fold", ARG_VALUE, "WHAT",
     "a local time that exists twice: first or both [both if it recurs hourly\nor more often, else first]"},
    {"missed", ARG_VALUE, "WHAT", "what was due while no broker served: last, none or all:N [last]"},
    {"missed-window", ARG_VALUE, "DUR", "older missed occurrences do not run [no limit]"},
    {"overlap", ARG_VALUE, "WHAT", "an earlier occurrence has not ended: skip, queue-one or allow [skip]"},
    {"days", ARG_VALUE, "WHAT", "cron with day of month and weekday: and, or"},
    {"body", ARG_VALUE, "TEXT", "payload of each occurrence [empty]"},
    {"attr", ARG_MANY, "k=v", "attribute of each occurrence; may be repeated"},
    {"priority", ARG_VALUE, "N", "priority from 0 to 9; 9 is delivered first [0]"},
    {"expires", ARG_VALUE, "DUR", "time after the due time at which an occurrence expires [never]"},
    {0},
};

static const struct arg_spec name_options[] = {
    {"queue", ARG_VALUE, "QUEUE", "queue of the recurrence [the one that has it]"},
    {0},
};

static const struct arg_spec next_options[] = {
    {"queue", ARG_VALUE, "QUEUE", "queue of the recurrence [the one that has it]"},
    {"count", ARG_VALUE, "N", "number of occurrences, 1 to 100 [10]"},
    {0},
};

static const struct arg_spec list_options[] = {
    {"queue", ARG_VALUE, "QUEUE", "only recurrences of this queue"},
    {0},
};

const struct command command_recur_set = {
    .name = "recur set",
    .usage = "NAME --queue QUEUE (--cron EXPR | --every DUR | --rrule RULE) [OPTION]…",
    .summary = "create or replace a recurring task",
    .text = "Creates the recurrence NAME of the queue, or replaces it. Each occurrence is an ordinary task of\n"
            "the queue, with the key recur:NAME@2026-11-28T09:00:00+08:00. The next one always waits there: get,\n"
            "list, move and cancel work on it (cancelled: this one is skipped). When it falls due, the same record\n"
            "of the log creates the one after it: none is lost and none comes twice, over crash and failover.\n\n"
            "The answer shows when the recurrence fires first. An expression that is wrong or never fires, or\n"
            "an unknown zone, is refused, and nothing is stored. docs/RECURRING.md explains the options.",
    .options = set_options,
    .positional_min = 1,
    .positional_max = 1,
    .positional_names = "NAME",
    .examples = "tarry recur set daily --queue reports --cron '0 9 * * MON-FRI' --zone Asia/Shanghai\n"
                "tarry recur set poll --queue calls --every 15m --overlap skip\n"
                "tarry recur set payday --queue wages --rrule 'FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=8;BYMINUTE=0;BYSECOND=0'",
    .run = run_set,
};

const struct command command_recur_list = {
    .name = "recur list",
    .usage = "[--queue QUEUE]",
    .summary = "list recurring tasks",
    .text = "Lists the recurrences, with when each fires next and when it fired last.",
    .options = list_options,
    .positional_min = 0,
    .positional_max = 0,
    .examples = "tarry recur list\ntarry recur list --queue reports --json",
    .run = run_list,
};

const struct command command_recur_show = {
    .name = "recur show",
    .usage = "NAME [--queue QUEUE]",
    .summary = "show a recurring task",
    .text = "Shows what was set, the next occurrence, and how many fell due, were missed or were skipped.",
    .options = name_options,
    .positional_min = 1,
    .positional_max = 1,
    .positional_names = "NAME",
    .examples = "tarry recur show daily",
    .run = run_show,
};

const struct command command_recur_next = {
    .name = "recur next",
    .usage = "NAME [--queue QUEUE] [--count N]",
    .summary = "list the next times of a recurring task",
    .text = "Lists the next occurrences, in the recurrence's time zone, before jitter.",
    .options = next_options,
    .positional_min = 1,
    .positional_max = 1,
    .positional_names = "NAME",
    .examples = "tarry recur next daily --count 20",
    .run = run_next,
};

#define CHANGE(word, sentence, details)                                                                                \
    const struct command command_recur_##word = {                                                                      \
        .name = "recur " #word,                                                                                        \
        .usage = "NAME [--queue QUEUE]",                                                                               \
        .summary = sentence,                                                                                           \
        .text = details,                                                                                               \
        .options = name_options,                                                                                       \
        .positional_min = 1,                                                                                           \
        .positional_max = 1,                                                                                           \
        .positional_names = "NAME",                                                                                    \
        .examples = "tarry recur " #word " daily",                                                                     \
        .run = run_change,                                                                                             \
    };
CHANGE(pause, "pause a recurring task",
       "Cancels the next occurrence; none follows until 'tarry recur resume'. Earlier ones stay.")
CHANGE(resume, "resume a recurring task",
       "Plans the next occurrence from now on. Occurrences during the pause are left out.")
CHANGE(trigger, "make one occurrence of a recurring task now",
       "Creates one task now, besides the others. Its key ends with # and the task's id.")
CHANGE(delete, "delete a recurring task",
       "Deletes the recurrence and cancels its next occurrence. Occurrences that fell due earlier stay.")

/* ---- questions */

static int ask(struct tool *tool, Tarry__Recurrences *question, struct answer_of *out) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    request.body_case = TARRY__REQUEST__BODY_RECURRENCES;
    request.recurrences = question;
    return question_run(tool, &request, out);
}

/* Finds the only queue that has a recurrence of this name. The caller frees *out_queue. */
static int find_queue(struct tool *tool, const char *name, char **out_queue) {
    Tarry__Recurrences question = TARRY__RECURRENCES__INIT;
    int status = 0;
    *out_queue = NULL;
    do {
        struct answer_of answer;
        status = ask(tool, &question, &answer);
        if (status != 0) break;
        const Tarry__RecurrencesReply *reply = answer.reply->recurrences;
        for (size_t i = 0; i < reply->n_recurrences && status == 0; i++) {
            if (strcmp(reply->recurrences[i]->name, name) != 0) continue;
            if (*out_queue != NULL) {
                tool_say("the queues %s and %s both have a recurrence %s: add --queue", *out_queue,
                         reply->recurrences[i]->queue, name);
                status = EXIT_USAGE;
            } else {
                *out_queue = tool_strdup(reply->recurrences[i]->queue);
            }
        }
        question.cursor = reply->next;
        answer_free(&answer);
    } while (status == 0 && question.cursor != 0);
    if (status == 0 && *out_queue == NULL)
        status =
            tool_refused(tool, TARRY_NOT_DONE, "there is no such recurrence; tarry recur list shows those that exist");
    return status;
}

/* Connects, and finds the queue: --queue, or the one that has the recurrence. */
static int begin(struct tool *tool, const struct args *args, char **out_queue) {
    const char *queue = args_get(args, "queue");
    *out_queue = NULL;
    int status = tool_connect(tool);
    if (status != 0) return status;
    if (queue == NULL) return find_queue(tool, args->positional[0], out_queue);
    *out_queue = tool_strdup(queue);
    return 0;
}

static int ask_one(struct tool *tool, const struct args *args, uint32_t times, struct answer_of *out) {
    Tarry__Recurrences question = TARRY__RECURRENCES__INIT;
    char *queue;
    int status = begin(tool, args, &queue);
    question.queue = queue;
    question.name = (char *)args->positional[0];
    question.times = times;
    if (status == 0) status = ask(tool, &question, out);
    if (status == 0 && out->reply->recurrences->n_recurrences == 0) {
        answer_free(out);
        status = tool_refused(tool, TARRY_NOT_DONE, "the queue has no such recurrence");
    }
    free(queue);
    return status;
}

/* ---- output */

static void say_rule(struct text *out, const ProtobufCMessage *message) {
    const Tarry__RecurView *view = (const Tarry__RecurView *)message;
    char every[UNITS_TEXT_SIZE];
    if (view->every_ms != 0)
        text_printf(out, "every %s", duration_format(view->every_ms, every));
    else
        text_add_str(out, view->cron[0] != '\0' ? view->cron : view->rrule);
}

static const struct column list_columns[] = {
    {"NAME", "name", NULL},
    {"QUEUE", "queue", NULL},
    {"STATE", "state", NULL},
    {"WHEN", NULL, say_rule},
    {"ZONE", "zone", NULL},
    {"NEXT", "next_ms", NULL},
    {"LAST", "last_ms", NULL},
    {"RESULT", "last_state", NULL},
    {">FELL DUE", "occurrences", NULL},
    {">MISSED", "missed_count", NULL},
    {">SKIPPED", "skipped_count", NULL},
};
#define LIST_COLUMNS (sizeof list_columns / sizeof list_columns[0])

static int run_list(struct tool *tool, const struct args *args) {
    Tarry__Recurrences question = TARRY__RECURRENCES__INIT;
    struct table table;
    struct text out = {0};
    size_t count = 0;
    const char *queue = args_get(args, "queue");
    if (queue != NULL) question.queue = (char *)queue;
    int status = tool_connect(tool);
    columns_table(&table, list_columns, LIST_COLUMNS);
    while (status == 0) {
        struct answer_of answer;
        status = ask(tool, &question, &answer);
        if (status != 0) break;
        const Tarry__RecurrencesReply *reply = answer.reply->recurrences;
        for (size_t i = 0; i < reply->n_recurrences; i++, count++) {
            if (tool->json)
                json_line(&out, &reply->recurrences[i]->base, &answer.source);
            else
                columns_row(&table, list_columns, LIST_COLUMNS, &reply->recurrences[i]->base);
        }
        question.cursor = reply->next;
        answer_free(&answer);
        if (question.cursor == 0) break;
    }
    if (status == 0 && !tool->json && count > 0) table_print(&table, &out);
    if (status == 0 && !tool->json && count == 0) tool_say("there are no recurrences");
    if (status == 0) status = output_flush(&out, EXIT_FINE);
    table_deinit(&table);
    text_deinit(&out);
    return status;
}

static void say_payload(struct text *out, const ProtobufCMessage *message) {
    const Tarry__RecurView *view = (const Tarry__RecurView *)message;
    Tarry__Content *content = tarry__content__unpack(NULL, view->content.len, view->content.data);
    if (content != NULL) text_add(out, content->payload.data, content->payload.len);
    tarry__content__free_unpacked(content, NULL);
}

static const struct column show_columns[] = {
    {"name", "name", NULL},
    {"queue", "queue", NULL},
    {"state", "state", NULL},
    {"problem", "problem", NULL},
    {"when", NULL, say_rule},
    {"zone", "zone", NULL},
    {"from", "from_ms", NULL},
    {"until", "until_ms", NULL},
    {"count", "count", NULL},
    {"jitter", "jitter_ms", NULL},
    {"gap", "gap", NULL},
    {"fold", "fold", NULL},
    {"missed", "missed", NULL},
    {"missed window", "missed_window_ms", NULL},
    {"overlap", "overlap", NULL},
    {"days", "days", NULL},
    {"priority", "priority", NULL},
    {"expires", "expires_ms", NULL},
    {"body", NULL, say_payload},
    {"next", "next_ms", NULL},
    {"next due", "next_due_ms", NULL},
    {"next id", "next_id", NULL},
    {"last", "last_ms", NULL},
    {"last result", "last_state", NULL},
    {"last ended", "last_ended_ms", NULL},
    {"fell due", "occurrences", NULL},
    {"missed count", "missed_count", NULL},
    {"skipped count", "skipped_count", NULL},
    {"not ended", "open", NULL},
    {"tzdata", "tzdata", NULL},
};
#define SHOW_COLUMNS (sizeof show_columns / sizeof show_columns[0])
#define SHOW_WIDTH 15

static int run_show(struct tool *tool, const struct args *args) {
    struct answer_of answer;
    struct text out = {0};
    int status = ask_one(tool, args, 0, &answer);
    if (status != 0) return status;
    const Tarry__RecurView *view = answer.reply->recurrences->recurrences[0];
    if (tool->json)
        json_line(&out, &view->base, &answer.source);
    else
        columns_lines(&out, show_columns, SHOW_COLUMNS, SHOW_WIDTH, &view->base);
    status = output_flush(&out, EXIT_FINE);
    text_deinit(&out);
    answer_free(&answer);
    return status;
}

static int run_next(struct tool *tool, const struct args *args) {
    struct answer_of answer;
    struct text out = {0};
    uint64_t count = 10;
    int status = option_number(args, "count", 1, RECUR_TIMES_MAX, &count);
    if (status == 0) status = ask_one(tool, args, (uint32_t)count, &answer);
    if (status != 0) return status;
    const Tarry__RecurView *view = answer.reply->recurrences->recurrences[0];
    for (size_t i = 0; i < view->n_times; i++) {
        if (tool->json)
            json_line(&out, &view->times[i]->base, &answer.source);
        else
            text_printf(&out, "%s\n", view->times[i]->local);
    }
    if (view->n_times == 0) tool_say("no occurrence follows: the recurrence is %s", view->state);
    status = output_flush(&out, EXIT_FINE);
    text_deinit(&out);
    answer_free(&answer);
    return status;
}

/* ---- changes */

static int conclude(struct tool *tool, const char *name, const char *queue, const char *word,
                    const struct tarry_result *result) {
    struct text out = {0};
    int status = EXIT_FINE;
    if (tool->json) {
        out_begin(&out, '{');
        out_text(&out, "name", name);
        out_text(&out, "queue", queue);
        json_outcome(&out, word, result->code, result->message);
        if (result->code == TARRY_OK) out_id(&out, "id", result->id);
        if (result->code == TARRY_OK) out_time(&out, "due", result->due_ms);
        if (result->position != 0) out_number(&out, "position", result->position);
        out_line_end(&out);
    } else if (result->code == TARRY_OK) {
        text_printf(&out, "%s %s", word, name);
        if (result->due_ms != 0) {
            char time[RFC3339_TEXT_SIZE];
            text_printf(&out, ", next %s", rfc3339_format(result->due_ms, time));
        }
        text_add_char(&out, '\n');
    }
    if (result->code != TARRY_OK) status = tool_refused(tool, result->code, result->message);
    status = output_flush(&out, status);
    text_deinit(&out);
    return status;
}

static int run_change(struct tool *tool, const struct args *args) {
    static const struct {
        const char *command, *word;
    } changes[] = {{"recur pause", "paused"},
                   {"recur resume", "resumed"},
                   {"recur trigger", "triggered"},
                   {"recur delete", "deleted"}}; /* enum tarry_recur_what */
    struct tarry_result result = {.message = ""};
    char *queue;
    size_t what = 0;
    while (strcmp(changes[what].command, args->command->name) != 0) what++;
    int status = begin(tool, args, &queue);
    if (status == 0) {
        tarry_recur_do(tool->client, queue, args->positional[0], (enum tarry_recur_what)what, NULL, &result);
        status = conclude(tool, args->positional[0], queue, changes[what].word, &result);
    }
    free(queue);
    return status;
}

/* Copies the options whose value is one of a list of words. `words`: the allowed words, separated by a comma and a
 * space. */
static int take_words(const struct args *args, struct tarry_recur_options *set) {
    const struct {
        const char *name, *words;
        const char **out;
    } options[] = {{"gap", "next, skip", &set->gap},
                   {"fold", "first, both", &set->fold},
                   {"missed", "last, none, all:N (N from 1 to 100)", &set->missed},
                   {"overlap", "skip, queue-one, allow", &set->overlap},
                   {"days", "and, or", &set->days}};
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        const char *text = *options[i].out = args_get(args, options[i].name), *words = options[i].words;
        if (text == NULL) continue;
        uint32_t count;
        bool is_known = strcmp(options[i].name, "missed") == 0 && recur_missed_count(text, &count);
        for (const char *word = words; !is_known && word != NULL; word = strchr(word, ',')) {
            word += strspn(word, ", ");
            is_known = strcspn(word, ",") == strlen(text) && strncmp(word, text, strlen(text)) == 0;
        }
        if (!is_known) return tool_usage(args, "--%s: '%s' is not one of %s", options[i].name, text, words);
    }
    return 0;
}

static int take_set(const struct args *args, struct tarry_recur_options *set) {
    uint64_t priority = 0;
    set->name = args->positional[0];
    set->queue = args_get(args, "queue");
    set->cron = args_get(args, "cron");
    set->rrule = args_get(args, "rrule");
    set->zone = args_get(args, "zone");
    set->payload = args_get(args, "body");
    if (set->payload != NULL) set->payload_size = strlen(set->payload);
    int status = option_duration_positive(args, "every", &set->every_ms);
    if (status == 0) status = option_time(args, "from", &set->from_ms);
    if (status == 0) status = option_time(args, "until", &set->until_ms);
    if (status == 0) status = option_number(args, "count", 1, UINT32_MAX, &set->count);
    if (status == 0) status = option_duration(args, "jitter", &set->jitter_ms);
    if (status == 0) status = option_duration_positive(args, "missed-window", &set->missed_window_ms);
    if (status == 0) status = option_number(args, "priority", 0, PRIORITY_COUNT - 1, &priority);
    if (status == 0) status = option_duration_positive(args, "expires", &set->expires_ms);
    set->priority = (uint32_t)priority;
    if (status == 0) status = take_words(args, set);
    if (status == 0 && set->queue == NULL) status = tool_usage(args, "missing queue: give --queue QUEUE");
    const int rules = (set->cron != NULL) + (set->rrule != NULL) + (set->every_ms != 0);
    if (status == 0 && rules != 1) status = tool_usage(args, "give exactly one of --cron, --every and --rrule");
    return status;
}

static int run_set(struct tool *tool, const struct args *args) {
    struct tarry_attribute attributes[ATTRIBUTES_MAX] = {0};
    struct tarry_recur_options set = {.attributes = attributes};
    struct tarry_result result = {.message = ""};
    int status = take_set(args, &set);
    if (status == 0) status = option_attributes(args, attributes, &set.attribute_count);
    if (status == 0) status = tool_connect(tool);
    if (status == 0) {
        tarry_recur_set(tool->client, &set, &result);
        status = conclude(tool, set.name, set.queue, "set", &result);
    }
    for (size_t i = 0; i < set.attribute_count; i++) free((char *)attributes[i].name);
    return status;
}
