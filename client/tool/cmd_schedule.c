/* cmd_schedule.c: tarry schedule, cancel and move. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc.h"
#include "output.h"
#include "question.h"
#include "stream.h"
#include "tarry_limits.h"
#include "tool.h"

/* ---- tarry schedule */

static const struct arg_spec options[] = {
    {"key", ARG_VALUE, "KEY", "name of the task that you choose, unique among the live tasks of the queue"},
    {"in", ARG_VALUE, "DUR", "delay, counted from when the broker receives the request (30m, 1h30m, 2d)"},
    {"at", ARG_VALUE, "TIME", "due time: 2026-11-21T04:00:00+01:00, 2026-12-01, 'tomorrow 09:00'"},
    {"due-ms", ARG_VALUE, "N", "due time in Unix milliseconds; a task with a past time is due at once"},
    {"body", ARG_VALUE, "TEXT", "payload [empty]"},
    {"body-file", ARG_VALUE, "F", "file with the payload; - is standard input"},
    {"priority", ARG_VALUE, "N", "priority from 0 to 9; 9 is delivered first [0]"},
    {"attr", ARG_MANY, "k=v", "attribute; may be repeated"},
    {"serial", ARG_VALUE, "NAME",
     "serial name, such as a customer: of the queue's tasks with one name, at most one\nis in flight, in order"},
    {"max-attempts", ARG_VALUE, "N",
     "failed attempts before this task becomes a dead letter, 1 to 10000 [the queue's]"},
    {"backoff", ARG_VALUE, "DUR", "delay of this task after its first nack, at most 30 days [the queue's backoff_min]"},
    {"lease", ARG_VALUE, "DUR",
     "lease of each delivery of this task, 10 ms to 24 hours, for consumers that do not\nask for a lease duration [the "
     "queue's]"},
    {"expires", ARG_VALUE, "DUR",
     "time after the due time at which the task ends as expired and is no longer\ndelivered [never]"},
    {"on-conflict", ARG_VALUE, "WHAT",
     "action if a live task has the key: reject, replace, or keep the task that is\ndue earlier or later [reject]"},
    {"from", ARG_VALUE, "FILE", "file with many tasks, one JSON object a line; - is standard input"},
    {0},
};

static int run(struct tool *tool, const struct args *args);

const struct command command_schedule = {
    .name = "schedule",
    .usage = "QUEUE [--key K] (--in DUR | --at TIME | --due-ms N) [OPTION]…\n--from FILE|-",
    .summary = "create a task, or many from a file",
    .text =
        "Creates a task. The broker delivers the task to a consumer of QUEUE when it is due, never before.\n"
        "When the command returns, the task is on the broker's disk.\n\n"
        "If a live task has the same key, the answer is 'exists' with the id and the due time of that task,\n"
        "and the exit status is 1. So it is safe to repeat the command. With --on-conflict replace, the new\n"
        "task replaces the other one ('replaced'). With earlier or later, the task that is due earlier or\n"
        "later stays ('kept' or 'replaced').\n\n"
        "--from reads one JSON object a line; all members but the queue and the due time are optional:\n"
        "  {\"queue\",\"key\",\"in\"|\"delay_ms\"|\"at\"|\"due_ms\",\"body\"|\"body_base64\"|\"json\",\"priority\",\n"
        "   \"attributes\":{…},\"expires\"|\"expires_ms\",\"on_conflict\",\"serial\",\n"
        "   \"max_attempts\",\"backoff\"|\"backoff_ms\",\"lease\"|\"lease_ms\"}\n"
        "in, expires, backoff and lease are durations (\"30m\"), at is RFC 3339, due_ms is a Unix time; the\n"
        "lines are those of POST /v1/tasks. The tool handles each line as soon as it arrives, and answers\n"
        "each line once, in order, when the task is durable:\n"
        "  "
        "{\"line\":1,\"id\":\"…\",\"queue\":\"…\",\"key\":\"…\",\"result\":\"scheduled\",\"due_ms\":…,\"due\":\"…\"}\n"
        "The result is scheduled, replaced, kept, exists or error. An error has a code and a message, and\n"
        "the tool goes on with the next line. The exit status is 1 if any line was refused. While the\n"
        "broker is unreachable or busy (for example, its disk is full), the tool retries and says so on\n"
        "standard error. It retries without end, unless --timeout sets a timeout for each line.",
    .options = options,
    .positional_min = 0,
    .positional_max = 1,
    .examples = "tarry schedule close-order --key order-1 --in 30m --body '{\"order\":1}'\n"
                "tarry schedule reminders --at 2026-12-24T18:00:00+01:00 --attr lang=de --body 'Merry Christmas'\n"
                "tarry schedule coupons --key c-77 --in 365d --on-conflict later\n"
                "tarry schedule --from tasks.ndjson --json > answers.ndjson",
    .run = run,
};

#define READ_SIZE 65536u

static int read_body(const char *path, struct text *out) {
    int fd = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    int status = fd < 0 ? EXIT_USAGE : 0;
    while (status == 0 && out->size <= PAYLOAD_SIZE_MAX_LIMIT) { /* reads at most one byte more than a payload may have,
                                                                    which makes the broker refuse it */
        char *at = text_reserve(out, READ_SIZE);
        if (at == NULL) tool_out_of_memory();
        ssize_t count = read(fd, at, READ_SIZE);
        if (count == 0) break;
        if (count > 0)
            out->size += (size_t)count;
        else if (errno != EINTR)
            status = EXIT_USAGE;
    }
    if (status != 0) tool_say("%s: %s", path, strerror(errno));
    if (fd > STDIN_FILENO) close(fd);
    return status;
}

static int take_body(const struct args *args, struct tarry_schedule_options *schedule, struct text *file) {
    const char *body = args_get(args, "body"), *path = args_get(args, "body-file");
    if (body != NULL && path != NULL) return tool_usage(args, "--body and --body-file exclude each other");
    if (path != NULL) {
        int status = read_body(path, file);
        if (status != 0) return status;
        schedule->payload = file->data;
        schedule->payload_size = file->size;
    } else if (body != NULL) {
        schedule->payload = body;
        schedule->payload_size = strlen(body);
    }
    return 0;
}

/* Parses "k=v" into attributes; the names are in copies that the caller frees. */
static int take_attributes(const struct args *args, struct tarry_schedule_options *schedule,
                           struct tarry_attribute attributes[ATTRIBUTES_MAX]) {
    if (args->many_count > ATTRIBUTES_MAX)
        return tool_usage(args, "more than %d attributes: give fewer --attr", ATTRIBUTES_MAX);
    schedule->attributes = attributes;
    for (size_t i = 0; i < args->many_count; i++) {
        const char *text = args->many[i].value, *equals = strchr(text, '=');
        if (equals == NULL || equals == text) return tool_usage(args, "--attr: '%s' is not name=value", text);
        char *name = tool_strdup(text);
        name[equals - text] = 0;
        attributes[schedule->attribute_count++] = (struct tarry_attribute){name, equals + 1};
    }
    return 0;
}

static int take_conflict(const struct args *args, struct tarry_schedule_options *schedule) {
    static const char *const names[] = {"reject", "replace", "earlier", "later"}; /* enum tarry_on_conflict */
    const char *text = args_get(args, "on-conflict");
    for (size_t i = 0; text != NULL; i++) {
        if (i == 4) return tool_usage(args, "--on-conflict: '%s' is not reject, replace, earlier or later", text);
        if (strcmp(text, names[i]) != 0) continue;
        schedule->on_conflict = (enum tarry_on_conflict)i;
        break;
    }
    return 0;
}

static int schedule_one(struct tool *tool, const struct tarry_schedule_options *schedule) {
    struct tarry_result result = {0};
    struct text out = {0};
    int status = tool_connect(tool);
    if (status != 0) return status;
    int code = tarry_schedule(tool->client, schedule, &result);
    struct answer answer = {.verb = VERB_SCHEDULE,
                            .queue = schedule->queue,
                            .key = schedule->key,
                            .key_size = schedule->key != NULL ? strlen(schedule->key) : 0,
                            .result = &result};
    bool error = strcmp(answer_word(&result), "error") == 0;
    if (tool->json)
        answer_json(&out, &answer);
    else if (!error)
        answer_words(&out, &answer);
    status = error ? tool_refused(tool, code, result.message) : exit_status_of(code);
    status = output_flush(&out, status);
    text_deinit(&out);
    return status;
}

static int run_from(struct tool *tool, const struct args *args, const char *path) {
    bool other = args->positional_count > 0 || args->many_count > 0;
    for (size_t i = 0; options[i].name != NULL; i++)
        if (args->values[i] != NULL && strcmp(options[i].name, "from") != 0) other = true;
    if (other)
        return tool_usage(args,
                          "--from allows no QUEUE and no other option: each line has its own queue, time and body");
    return stream_run(tool, args, VERB_SCHEDULE, path, false);
}

/* Parses the task's own settings. */
static int take_own(const struct args *args, struct tarry_own_policy *own) {
    uint64_t max_attempts = 0;
    int status = option_number(args, "max-attempts", 1, TASK_ATTEMPTS_MAX, &max_attempts);
    if (status == 0) status = option_duration_positive(args, "backoff", &own->backoff_ms);
    if (status == 0) status = option_duration_positive(args, "lease", &own->lease_ms);
    own->max_attempts = (uint32_t)max_attempts;
    return status;
}

static int run(struct tool *tool, const struct args *args) {
    const char *path = args_get(args, "from");
    if (path != NULL) return run_from(tool, args, path);
    struct tarry_own_policy own = {0};
    struct tarry_schedule_options schedule = {.own = &own};
    struct tarry_attribute attributes[ATTRIBUTES_MAX] = {0};
    struct text file = {0};
    uint64_t priority = 0;
    int status = args->positional_count == 1 ? 0 : tool_usage(args, "missing queue: give QUEUE, or --from FILE");
    const char *key = args_get(args, "key");
    if (status == 0 && key != NULL && key[0] == 0)
        status = tool_usage(args, "--key: the key is empty; omit --key for a task without a key");
    schedule.serial = args_get(args, "serial");
    if (status == 0 && schedule.serial != NULL && schedule.serial[0] == 0)
        status = tool_usage(args, "--serial: the name is empty; omit --serial for a task without a serial name");
    if (status == 0) status = option_when(args, &schedule.when, &schedule.when_ms);
    if (status == 0) status = option_number(args, "priority", 0, PRIORITY_COUNT - 1, &priority);
    if (status == 0) status = option_duration_positive(args, "expires", &schedule.expires_ms);
    if (status == 0) status = take_own(args, &own);
    if (status == 0) status = take_conflict(args, &schedule);
    if (status == 0) status = take_attributes(args, &schedule, attributes);
    if (status == 0) status = take_body(args, &schedule, &file);
    if (status == 0) {
        schedule.queue = args->positional[0];
        schedule.key = key;
        schedule.priority = (uint32_t)priority;
        status = schedule_one(tool, &schedule);
    }
    for (size_t i = 0; i < schedule.attribute_count; i++) free((char *)attributes[i].name);
    text_deinit(&file);
    return status;
}

/* ---- tarry cancel and tarry move; both refer to a task and have the same results */

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

/* Prints the result of a command. With --id, first asks the broker for the task's queue and key, to print them. */
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

/* Returns whether --from is used without any other argument except those in `allowed`. */
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
