/* cmd_consume.c: tarry consume.
 *
 * One loop on the main thread: receive tasks, print them, settle the printed ones. Invariants: a task is settled only
 * after its whole line was written to standard output; settled + under_way never exceeds --count; received tasks that
 * are not printed are released. Completions run on the library's thread and only count. Each command of --exec has a
 * thread that waits for its end. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "alloc.h"
#include "exec.h"
#include "json_map.h"
#include "output.h"
#include "rfc3339.h"
#include "signals.h"
#include "table.h"
#include "tarry_limits.h"
#include "tool.h"

/* Maximum number of tasks per write: the first of them is acked only after the write of the last. */
#define CONSUME_BATCH 256u

/* Interval of the check whether standard output is still open, while no task arrives. */
#define LOOK_MS 500u

enum ack_mode { ACK_AUTO, ACK_NONE, ACK_NACK };

struct consume {
    struct tool *tool;
    enum ack_mode mode;
    const char *command; /* shell command of --exec; NULL: no --exec */
    uint64_t parallel;   /* maximum number of commands that run at the same time */
    uint64_t count;      /* number of tasks to consume; 0: no limit */
    uint64_t until_ms;   /* end of the command on the steady clock; UINT64_MAX: no end */
    tarry_consumer *consumer;
    struct text out;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t settled;
    uint64_t refused;   /* number of leases that ended before their tasks were settled */
    uint64_t under_way; /* unanswered settlements */
    uint64_t running;   /* number of commands of --exec that are running */
    pthread_mutex_t printing;
    int failure; /* code of the failure that ends the command; TARRY_OK: none */
};

static int run(struct tool *tool, const struct args *args);

static const struct arg_spec options[] = {
    {"count", ARG_VALUE, "N", "number of tasks to settle before the command ends [no limit]"},
    {"for", ARG_VALUE, "DUR", "time after which the command ends [no limit]"},
    {"prefetch", ARG_VALUE, "N",
     "maximum number of tasks that are received and not yet settled [256; with\n--exec as many as --parallel]"},
    {"lease", ARG_VALUE, "DUR",
     "lease of each delivery: after that time another consumer may get the task\n[the queue's, 30s]"},
    {"ack", ARG_VALUE, "MODE",
     "auto: ack each task after it is printed; none: do not settle (use 'tarry\nack', or let the lease end); nack: "
     "nack after it is printed [auto]"},
    {"exec", ARG_VALUE, "CMD",
     "command to run for each task (sh -c CMD), with the body on standard input;\nexit status 0 acks the task, any "
     "other nacks it with the status and the end of\nits standard error as the reason"},
    {"parallel", ARG_VALUE, "N", "number of commands of --exec at a time, at most 64 [1]"},
    {0},
};

const struct command command_consume = {
    .name = "consume",
    .usage = "QUEUE… [--count N] [--for DUR] [--prefetch N] [--lease DUR] [--ack auto|none|nack] [--exec CMD "
             "[--parallel N]]",
    .summary = "receive tasks, print or run them, and settle them",
    .text = "Prints each task when it is delivered, and acks it after its line was written. With --json a line\n"
            "is a task as POST /v1/lease answers it, with delivered_ms and received_ms:\n"
            "  "
            "{\"id\",\"queue\",\"key\",\"due_ms\",\"due\",\"attempt\",\"deliveries\",\"token\",\"priority\","
            "\"attributes\",\n"
            "   \"json\"|\"body\"|\"body_base64\",…}\n\n"
            "A queue that does not exist is not created: the command says so on standard error, and waits until\n"
            "a task is scheduled there.\n\n"
            "When the command ends (--count, --for, SIGINT or SIGTERM), it settles the tasks that it has\n"
            "printed and releases the others. A release costs no attempt. With --ack none, printed tasks stay\n"
            "leased.\n\n"
            "While no broker answers, the command retries, and says so on standard error after one second. It\n"
            "retries without end, unless --timeout is given. If no broker answers at the start, the command\n"
            "gives up after --timeout (10s by default).\n\n"
            "The command of --exec has these environment variables: TARRY_ID, TARRY_TOKEN, TARRY_QUEUE,\n"
            "TARRY_KEY, TARRY_ATTEMPT, TARRY_DELIVERIES, TARRY_DUE_MS, TARRY_BROKER, and TARRY_ATTR_NAME for\n"
            "each attribute. Its standard error is passed on; if it fails, as much of the end of that as fits\n"
            "into 255 bytes becomes the reason of the nack, and of the dead letter. The tool renews the lease of\n"
            "the task while the command runs. With --json the standard output of the command goes to standard\n"
            "error.",
    .options = options,
    .positional_min = 1,
    .positional_max = QUEUES_PER_SUBSCRIBE_MAX,
    .positional_names = "at least one QUEUE",
    .examples = "tarry consume close-order\n"
                "tarry consume close-order calls --json --count 100 > done.ndjson\n"
                "tarry consume close-order --exec './close-order.sh \"$TARRY_KEY\"'\n"
                "tarry consume close-order --ack none --lease 5m --json",
    .run = run,
};

/* ---- settling */

static void settle_done(void *arg, const struct tarry_result *result) {
    struct consume *c = arg;
    pthread_mutex_lock(&c->lock);
    c->under_way--;
    if (result->code == TARRY_OK)
        c->settled++;
    else if (result->outcome != TARRY_NONE)
        c->refused++;
    else if (c->failure == TARRY_OK)
        c->failure = result->code;
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->lock);
    if (result->code != TARRY_OK && result->outcome != TARRY_NONE)
        tool_say("task %llu: %s; it is %s", (unsigned long long)result->id, tarry_code_sentence(result->code),
                 tarry_outcome_name(result->outcome));
}

/* Submits a nack with the options in `nack`, or an ack if `nack` is NULL. */
static int submit(struct consume *c, const struct tarry_task *task, const struct tarry_nack_options *nack) {
    if (nack != NULL) return tarry_nack_async(c->tool->client, task->id, task->token, nack, settle_done, c);
    return tarry_ack_async(c->tool->client, task->id, task->token, NULL, settle_done, c);
}

static void settle(struct consume *c, const struct tarry_task *task, const struct tarry_nack_options *nack) {
    pthread_mutex_lock(&c->lock);
    if (c->mode == ACK_NONE)
        c->settled++; /* with --ack none, a printed task counts as settled */
    else
        c->under_way++;
    pthread_mutex_unlock(&c->lock);
    if (c->mode == ACK_NONE) return;
    int code;
    while ((code = submit(c, task, nack)) == TARRY_E_FULL)
        if (tarry_drain(c->tool->client, CONSUME_BATCH, &(struct tarry_call){.timeout_ms = LOOK_MS}) != TARRY_OK &&
            signals_ended())
            break;
    if (code != TARRY_OK) settle_done(c, &(struct tarry_result){.code = code, .id = task->id, .message = ""});
}

static void release(struct consume *c, const struct tarry_task *task) {
    int code = tarry_release_async(c->tool->client, task->id, task->token, NULL, NULL, NULL);
    if (code != TARRY_OK)
        tool_say("task %llu could not be released: %s", (unsigned long long)task->id, tarry_code_sentence(code));
}

/* ---- printing */

/* Prints the task as POST /v1/lease returns it, and when it was delivered and received. */
static void print_json(struct text *out, const struct tarry_task *task) {
    Tarry__DeliveredTask message = TARRY__DELIVERED_TASK__INIT;
    Tarry__Token token = TARRY__TOKEN__INIT;
    Tarry__Content content = TARRY__CONTENT__INIT;
    Tarry__Attribute attributes[ATTRIBUTES_MAX], *listed[ATTRIBUTES_MAX];
    message.id = task->id;
    message.queue = (char *)task->queue;
    message.key = (ProtobufCBinaryData){task->key_size, (uint8_t *)task->key};
    message.due_ms = task->due_ms;
    message.attempt = task->attempt;
    message.deliveries = task->deliveries;
    message.priority = task->priority;
    message.lease_deadline_ms = task->lease_deadline_ms;
    token.epoch = task->token.epoch;
    token.position = task->token.position;
    message.token = &token;
    for (size_t i = 0; i < task->attribute_count && i < ATTRIBUTES_MAX; i++) {
        tarry__attribute__init(listed[i] = &attributes[i]);
        attributes[i].name = (char *)task->attributes[i].name;
        attributes[i].value = (char *)task->attributes[i].value;
        content.n_attributes++;
    }
    content.attributes = listed;
    content.payload = (ProtobufCBinaryData){task->payload_size, (uint8_t *)task->payload};
    content.properties = (ProtobufCBinaryData){task->properties_size, (uint8_t *)task->properties};
    out_begin(out, '{');
    json_members(out, &message.base);
    json_content(out, &content);
    out_time(out, "delivered", task->delivered_ms);
    out_time(out, "received", task->received_ms);
    out_line_end(out);
}

static void print_words(struct text *out, const struct tarry_task *task, bool with_token) {
    char due[RFC3339_TEXT_SIZE], token[TARRY_TOKEN_SIZE];
    text_printf(out, "%llu  %s", (unsigned long long)task->id, task->queue);
    if (task->key != NULL) text_printf(out, "  %s", task->key);
    text_printf(out, "  due %s", rfc3339_format(task->due_ms, due));
    uint64_t late_ms = task->delivered_ms > task->due_ms ? task->delivered_ms - task->due_ms : 0;
    text_printf(out, "  +%llums  attempt %u", (unsigned long long)late_ms, task->attempt);
    if (with_token) text_printf(out, "  token %s", tarry_token_format(task->token, token));
    for (size_t i = 0; i < task->attribute_count; i++) {
        text_printf(out, "  %s=", task->attributes[i].name);
        plain_add(out, task->attributes[i].value, strlen(task->attributes[i].value));
    }
    if (task->payload_size > 0) {
        text_add_str(out, "  ");
        out_string(out, task->payload,
                   /* Prints the payload in quotes, because its control characters must not reach the terminal. */
                   task->payload_size);
    }
    text_add_char(out, '\n');
}

/* ---- the loop */

/* Prints the batch with one write, then settles the tasks whose lines were written whole, and releases the others. */
static void print_and_settle(struct consume *c, const struct tarry_task **tasks, size_t count) {
    size_t ends[CONSUME_BATCH];
    for (size_t i = 0; i < count; i++) {
        if (c->tool->json)
            print_json(&c->out, tasks[i]);
        else
            print_words(&c->out, tasks[i], c->mode == ACK_NONE);
        ends[i] = c->out.size;
    }
    static const struct tarry_nack_options again = {.reason = ""};
    size_t written = output_write(&c->out, true);
    for (size_t i = 0; i < count; i++) {
        if (ends[i] <= written)
            settle(c, tasks[i], c->mode == ACK_NACK ? &again : NULL);
        else
            release(c, tasks[i]);
    }
}

/* Returns whether this consumer still has the lease. A task that waited in the batch may have lost it to another
 * consumer. */
static bool still_ours(struct consume *c, const struct tarry_task *task) {
    uint64_t lease_ms = task->lease_deadline_ms > task->delivered_ms ? task->lease_deadline_ms - task->delivered_ms : 0;
    uint64_t now_ms = wall_ms();
    if (now_ms >= task->received_ms && now_ms - task->received_ms < lease_ms / 3) return true;
    struct tarry_result result = {.message = ""};
    /* Tests the lease by extending it: only a lease that has not ended can be extended. */
    if (tarry_extend(c->tool->client, task->id, task->token, lease_ms, &(struct tarry_call){.timeout_ms = lease_ms},
                     &result) == TARRY_OK)
        return true;
    tool_say("task %llu was not run: its lease ended while it waited: %s", (unsigned long long)task->id,
             tarry_code_sentence(result.code));
    return false;
}

/* Prints the line of one task. Returns false if the line was not written whole. */
static bool print_one(struct consume *c, const struct tarry_task *task) {
    struct text out = {0};
    if (c->tool->json)
        print_json(&out, task);
    else
        print_words(&out, task, false);
    size_t size = out.size;
    pthread_mutex_lock(&c->printing);
    bool is_whole = output_write(&out, true) == size;
    pthread_mutex_unlock(&c->printing);
    text_deinit(&out);
    return is_whole;
}

static void execute(struct consume *c, const struct tarry_task *task) {
    char reason[EXEC_REASON_SIZE] = "";
    if (signals_ended()) {
        release(c, task);
        return;
    }
    if (!still_ours(c, task)) return;
    if (!print_one(c, task)) {
        release(c, task);
        return;
    }
    int error = exec_run(c->tool, c->command, task, reason);
    if (error != 0) {
        snprintf(reason, sizeof reason, "the command cannot be run: %s", strerror(-error));
        tool_say("task %llu: %s", (unsigned long long)task->id, reason);
    }
    const struct tarry_nack_options nack = {.reason = reason};
    settle(c, task, reason[0] != 0 ? &nack : NULL);
}

struct execution {
    struct consume *consume;
    const struct tarry_task *task; /* owned */
};

static void *execution_run(void *argument) {
    struct execution *execution = argument;
    struct consume *c = execution->consume;
    execute(c, execution->task);
    tarry_task_free(execution->task);
    free(execution);
    pthread_mutex_lock(&c->lock);
    c->running--;
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* Runs the command for the task on a thread of its own; takes ownership of the task. */
static void execution_start(struct consume *c, const struct tarry_task *task) {
    struct execution *execution = tool_alloc(sizeof *execution);
    pthread_t thread;
    *execution = (struct execution){c, task};
    pthread_mutex_lock(&c->lock);
    c->running++;
    pthread_mutex_unlock(&c->lock);
    if (pthread_create(&thread, NULL, execution_run, execution) == 0)
        pthread_detach(thread);
    else
        execution_run(execution); /* without a new thread, the command runs on this thread */
}

/* Returns whether no further task may be fetched until a task is settled or a command ends. */
static bool is_full(const struct consume *c) {
    if (c->command != NULL && c->running >= c->parallel) return true;
    return c->count > 0 && c->settled < c->count && c->settled + c->under_way + c->running >= c->count;
}

/* Returns how many tasks may be fetched now; 0: the command ends. While the tasks in progress would reach --count,
 * waits until some are settled. */
static size_t may_fetch(struct consume *c) {
    pthread_mutex_lock(&c->lock);
    while (is_full(c) && c->failure == TARRY_OK && !signals_ended()) pthread_cond_wait(&c->changed, &c->lock);
    size_t most = c->command != NULL ? (size_t)(c->parallel - c->running) : CONSUME_BATCH;
    uint64_t left = c->count > 0 ? c->count - c->settled - c->under_way - c->running : most;
    if (c->failure != TARRY_OK || signals_ended()) left = 0;
    pthread_mutex_unlock(&c->lock);
    return left < most ? (size_t)left : most;
}

static uint64_t wait_ms(const struct consume *c) {
    uint64_t now_ms = steady_ms();
    uint64_t left_ms = now_ms < c->until_ms ? c->until_ms - now_ms : 0;
    return left_ms < LOOK_MS ? left_ms : LOOK_MS;
}

/* Runs the main loop of the command. Returns the code that ended it; TARRY_OK: an orderly end. */
static int loop(struct consume *c) {
    const struct tarry_task *tasks[CONSUME_BATCH];
    size_t most;
    while (!signals_ended() && !output_closed() && (most = may_fetch(c)) > 0) {
        size_t count = 0;
        int code = tarry_consumer_next_batch(c->consumer, wait_ms(c), tasks, most, &count);
        if (code == TARRY_E_NOTHING || code == TARRY_E_WOKEN) {
            if (c->until_ms != UINT64_MAX && steady_ms() >= c->until_ms) break;
            continue;
        }
        if (code != TARRY_OK) return code;
        if (c->command == NULL) print_and_settle(c, tasks, count);
        for (size_t i = 0; i < count; i++)
            if (c->command != NULL)
                execution_start(c, tasks[i]);
            else
                tarry_task_free(tasks[i]);
        if (c->until_ms != UINT64_MAX && steady_ms() >= c->until_ms) break;
    }
    return c->failure;
}

static void wake(void *argument) {
    struct consume *c = argument;
    tarry_consumer_wake(c->consumer);
    pthread_mutex_lock(&c->lock);
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

/* Waits for the answers to settlements, and then ends the session. After a timeout, unanswered settlements fail with
 * TARRY_E_CLOSED. Returns the code of the wait. */
static int finish(struct consume *c) {
    int code = tarry_drain(c->tool->client, 0, &(struct tarry_call){.timeout_ms = c->tool->timeout_ms});
    signals_on_end(NULL, NULL);
    const uint32_t flags = c->mode == ACK_NONE ? TARRY_KEEP_LEASES : 0;
    tarry_consumer_close(c->consumer, flags,
                         &(struct tarry_call){.timeout_ms = code == TARRY_OK ? c->tool->timeout_ms : 1});
    return code;
}

static int consume(struct consume *c, const struct tarry_consumer_options *subscription) {
    char message[TARRY_MESSAGE_SIZE];
    int code = tarry_consumer_open(c->tool->client, subscription, &c->consumer, message);
    if (code != TARRY_OK) return tool_refused(c->tool, code, message);
    signals_on_end(wake, c);
    code = loop(c);
    pthread_mutex_lock(&c->lock);
    while (c->running > 0) pthread_cond_wait(&c->changed, &c->lock);
    pthread_mutex_unlock(&c->lock);
    int finished = finish(c);
    if (code == TARRY_OK) code = finished;
    if (code != TARRY_OK) (void)tool_refused(c->tool, code, NULL);
    tool_disconnect(c->tool); /* tool_disconnect closes the client; afterwards no completion runs */
    if (code == TARRY_OK && c->failure != TARRY_OK) (void)tool_refused(c->tool, code = c->failure, NULL);
    if (!c->tool->json)
        tool_say("%llu %s%s", (unsigned long long)c->settled, c->mode == ACK_NONE ? "printed" : "settled",
                 c->refused > 0 ? ", for some of them the lease had ended" : "");
    if (code != TARRY_OK) return exit_status_of(code);
    return output_lost() ? EXIT_REFUSED : EXIT_FINE;
}

static int take_mode(const struct args *args, struct consume *c) {
    static const char *const names[] = {"auto", "none", "nack"}; /* enum ack_mode */
    const char *text = args_get(args, "ack");
    c->command = args_get(args, "exec");
    if (text == NULL) return 0;
    if (c->command != NULL)
        return tool_usage(args, "--ack and --exec exclude each other: the exit status of the command decides");
    for (size_t i = 0; i < 3; i++)
        if (strcmp(text, names[i]) == 0) {
            c->mode = (enum ack_mode)i;
            return 0;
        }
    return tool_usage(args, "--ack: '%s' is not auto, none or nack", text);
}

static int run(struct tool *tool, const struct args *args) {
    struct consume c = {.tool = tool, .until_ms = UINT64_MAX, .parallel = 1};
    uint64_t prefetch = 0, for_ms = 0, lease_ms = 0;
    int status = take_mode(args, &c);
    if (status == 0) status = option_number(args, "count", 1, UINT64_MAX, &c.count);
    if (status == 0) status = option_number(args, "prefetch", 1, PREFETCH_MAX, &prefetch);
    if (status == 0) status = option_number(args, "parallel", 1, SIGNALS_CHILDREN_MAX, &c.parallel);
    if (status == 0 && args_has(args, "parallel") && c.command == NULL)
        status = tool_usage(args, "--parallel is for --exec: without a command tasks are only printed");
    if (status == 0) status = option_duration(args, "for", &for_ms);
    if (status == 0) status = option_duration_positive(args, "lease", &lease_ms);
    if (status == 0) status = tool_connect_lasting(tool);
    if (status != 0) return status;
    signals_graceful();
    if (args_has(args, "for")) c.until_ms = steady_ms() + for_ms;
    if (prefetch == 0) prefetch = c.command != NULL ? c.parallel : PREFETCH_DEFAULT;
    if (c.count > 0 && c.count < prefetch)
        prefetch = c.count; /* tasks beyond --count would only be fetched to be released again */
    struct tarry_consumer_options subscription = {.queues = args->positional,
                                                  .queue_count = args->positional_count,
                                                  .prefetch = (uint32_t)prefetch,
                                                  .lease_ms = lease_ms,
                                                  .call.timeout_ms = tool->timeout_ms};
    pthread_mutex_init(&c.lock, NULL);
    pthread_mutex_init(&c.printing, NULL);
    pthread_cond_init(&c.changed, NULL);
    status = consume(&c, &subscription);
    pthread_cond_destroy(&c.changed);
    pthread_mutex_destroy(&c.printing);
    pthread_mutex_destroy(&c.lock);
    text_deinit(&c.out);
    return status;
}
