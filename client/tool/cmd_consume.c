/* cmd_consume.c: tarry consume.
 *
 * One loop on the main thread receives tasks, prints them, and settles the printed ones. Invariants: a task is settled
 * only after its whole line was written to standard output; the sum of the fields `settled` and `under_way` never
 * exceeds --count; received tasks that are not printed are released. The callbacks for settlements run on the library's
 * thread, and only change these numbers. Each command of --exec has a thread that waits for the command's exit. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "alloc.h"
#include "check.h"
#include "json_map.h"
#include "output.h"
#include "rfc3339.h"
#include "signals.h"
#include "table.h"
#include "tarry_limits.h"
#include "tool.h"

/* ---- a command for each task */

/* Runs a command for one delivery.
 *
 * Runs `sh -c COMMAND` with the body on standard input. The body is a file in memory, so a command that does not read
 * it cannot block the tool. The environment has TARRY_ID, TARRY_TOKEN, TARRY_QUEUE, TARRY_KEY, TARRY_ATTEMPT,
 * TARRY_DELIVERIES, TARRY_DUE_MS, TARRY_BROKER, and TARRY_ATTR_NAME for an attribute NAME (capital letters; an
 * underscore for other characters than letters and digits). The command has its own process group, so Ctrl-C ends the
 * tool and lets the command finish. Uses posix_spawn and not fork, because the library's threads do not survive a
 * fork. */

#define EXEC_REASON_SIZE (REASON_SIZE_MAX + 1u)

#define OWN_VARIABLES 8u
#define LEASE_STEP_MIN_MS 10u
#define STDERR_KEPT 1024u

/* The last bytes of a command's standard error. */
struct said {
    int fd; /* the reading end of the pipe, not blocking; -1: closed */
    char kept[STDERR_KEPT];
    size_t size;
};

/* Environment of the command for one task: strings and a NULL-terminated array in one block. */
struct environment {
    char **strings;
    size_t count; /* number of strings at the start of the array that belong to the process's own environment, and are
                     not freed */
    size_t total;
};

static void add(struct environment *environment, const char *name, const char *value, size_t size) {
    struct text text = {0};
    text_printf(&text, "%s=", name);
    text_add(&text, value, size);
    environment->strings[environment->total++] = tool_strdup(text_str(&text));
    text_deinit(&text);
}

static void add_number(struct environment *environment, const char *name, uint64_t number) {
    char digits[24];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)number);
    add(environment, name, digits, strlen(digits));
}

static void add_attribute(struct environment *environment, const struct tarry_attribute *attribute) {
    struct text name = {0};
    text_add_str(&name, "TARRY_ATTR_");
    for (const char *at = attribute->name; *at != 0; at++) {
        unsigned char c = (unsigned char)*at;
        text_add_char(&name, c < 0x80 && isalnum(c) ? (char)toupper(c) : '_');
    }
    add(environment, text_str(&name), attribute->value, strlen(attribute->value));
    text_deinit(&name);
}

/* Returns whether this variable has credentials, which the command needs to connect to the same broker. */
static bool is_credential(const char *variable) {
    static const char *const beginnings[] = {"TARRY_TLS_", "TARRY_TOKEN_FILE=", "TARRY_UNSAFE_PLAIN_TOKEN="};
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++)
        if (strncmp(variable, beginnings[i], strlen(beginnings[i])) == 0) return true;
    return false;
}

static struct environment environment_new(const struct tool *tool, const struct tarry_task *task) {
    struct environment env = {0};
    size_t inherited = 0;
    char token[TARRY_TOKEN_SIZE];
    while (environ[inherited] != NULL) inherited++;
    env.strings = tool_alloc(sizeof *env.strings * (inherited + OWN_VARIABLES + task->attribute_count + 1));
    /* Skips TARRY_ variables that an outer `tarry consume --exec` has set for its own task. */
    for (size_t i = 0; i < inherited; i++)
        if (strncmp(environ[i], "TARRY_", 6) != 0 || is_credential(environ[i])) env.strings[env.count++] = environ[i];
    env.total = env.count;
    const char *broker = tool->broker != NULL ? tool->broker : TARRY_DEFAULT_URL;
    add(&env, "TARRY_BROKER", broker, strlen(broker));
    add_number(&env, "TARRY_ID", task->id);
    tarry_token_format(task->token, token);
    add(&env, "TARRY_TOKEN", token, strlen(token));
    add(&env, "TARRY_QUEUE", task->queue, strlen(task->queue));
    add(&env, "TARRY_KEY", task->key != NULL ? task->key : "", task->key != NULL ? task->key_size : 0);
    add_number(&env, "TARRY_ATTEMPT", task->attempt);
    add_number(&env, "TARRY_DELIVERIES", task->deliveries);
    add_number(&env, "TARRY_DUE_MS", task->due_ms);
    for (size_t i = 0; i < task->attribute_count; i++) add_attribute(&env, &task->attributes[i]);
    env.strings[env.total] = NULL;
    return env;
}

static void environment_free(struct environment *env) {
    for (size_t i = env->count; i < env->total; i++) free(env->strings[i]);
    free(env->strings);
}

/* Returns an unnamed file with the body, positioned at its start; or a negative errno. */
static int body_fd(const struct tarry_task *task) {
    int fd = memfd_create("tarry-body", MFD_CLOEXEC);
    if (fd < 0) return -errno;
    const char *at = task->payload;
    size_t left = task->payload_size;
    while (left > 0) {
        ssize_t count = write(fd, at, left);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) {
            int error = -errno;
            close(fd);
            return error;
        }
        at += count;
        left -= (size_t)count;
    }
    if (lseek(fd, 0, SEEK_SET) == 0) return fd;
    int error = -errno;
    close(fd);
    return error;
}

/* Starts the command. With --json, its standard output goes to standard error, because standard output has only JSON.
 */
static int spawn(const struct tool *tool, const char *command, int body, int said, char **env, pid_t *out_pid) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t defaults;
    char *argv[] = {"sh", "-c", (char *)command, NULL};
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    int error = posix_spawn_file_actions_adddup2(&actions, body, STDIN_FILENO);
    if (error == 0) error = posix_spawn_file_actions_adddup2(&actions, said, STDERR_FILENO);
    if (error == 0 && tool->json) error = posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    if (error == 0) error = posix_spawnattr_setsigmask(&attributes, signals_original_mask());
    if (error == 0) error = posix_spawnattr_setsigdefault(&attributes, &defaults);
    if (error == 0) error = posix_spawnattr_setpgroup(&attributes, 0);
    if (error == 0)
        error = posix_spawnattr_setflags(&attributes,
                                         POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    if (error == 0) error = posix_spawn(out_pid, "/bin/sh", &actions, &attributes, argv, env);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return -error;
}

/* Copies new output of the command to our standard error, and stores the last STDERR_KEPT bytes. Returns false when the
 * output has ended. */
static bool take_said(struct said *said) {
    char bytes[4096];
    ssize_t size = read(said->fd, bytes, sizeof bytes);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (size <= 0) return false;
    for (ssize_t at = 0, count; at < size; at += count) {
        count = write(STDERR_FILENO, bytes + at, (size_t)(size - at));
        if (count < 0 && errno != EINTR) break; /* writing fails if our own standard error is closed */
        if (count < 0) count = 0;
    }
    size_t add = (size_t)size < STDERR_KEPT ? (size_t)size : STDERR_KEPT;
    size_t keep = said->size + add <= STDERR_KEPT ? said->size : STDERR_KEPT - add;
    memmove(said->kept, said->kept + said->size - keep, keep);
    memcpy(said->kept + keep, bytes + size - add, add);
    said->size = keep + add;
    return true;
}

static void said_close(struct said *said) {
    if (said->fd >= 0) close(said->fd);
    said->fd = -1;
}

/* Called when the command has ended: copies the output that is still in the pipe. Does not wait for the pipe's end,
 * because another process may hold the pipe open. */
static void take_rest(struct said *said) {
    struct pollfd poll_fd = {.fd = said->fd, .events = POLLIN};
    for (size_t i = 0; i < 64 && said->fd >= 0 && poll(&poll_fd, 1, 0) > 0; i++)
        if (!take_said(said)) break;
    said_close(said);
}

/* Appends the end of standard error to the reason, as one line of valid text. */
static void add_said(const struct said *said, char out[EXEC_REASON_SIZE]) {
    const size_t used = strlen(out), room = EXEC_REASON_SIZE - 1 - used;
    const char *text = said->kept;
    size_t size = said->size;
    while (size > 0 && isspace((unsigned char)text[size - 1])) size--;
    if (size == 0 || room < 3) return;
    if (size > room - 2) text += size - (room - 2), size = room - 2;
    /* Skips the remaining bytes of a character whose beginning was cut off. */
    while (size > 0 && ((unsigned char)*text & 0xC0) == 0x80) text++, size--;
    char *at = out + used;
    at += sprintf(at, ": ");
    for (size_t i = 0; i < size; i++) *at++ = (unsigned char)text[i] < 0x20 || text[i] == 0x7F ? ' ' : text[i];
    *at = 0;
    if (is_utf8(out + used, strlen(out + used))) return;
    for (at = out + used; *at != 0; at++)
        if ((unsigned char)*at >= 0x80) *at = '?';
}

/* Waits for the end of the command. Renews the lease every third of its duration, so that a long command keeps its
 * task. */
static int await(struct tool *tool, const struct tarry_task *task, pid_t pid, struct said *said) {
    int status = 0;
    uint64_t lease_ms = task->lease_deadline_ms > task->delivered_ms ? task->lease_deadline_ms - task->delivered_ms : 0;
    uint64_t step_ms = lease_ms / 3 > LEASE_STEP_MIN_MS ? lease_ms / 3 : LEASE_STEP_MIN_MS;
    int fd = pidfd_open(pid, 0);
    struct pollfd fds[2] = {{.fd = fd, .events = POLLIN}, {.events = POLLIN}};
    uint64_t extend_at_ms = steady_ms() + step_ms;
    while (fd >= 0) {
        fds[1].fd = said->fd; /* poll ignores a negative descriptor */
        uint64_t now_ms = steady_ms(), left_ms = now_ms < extend_at_ms ? extend_at_ms - now_ms : 0;
        int count = poll(fds, 2, left_ms > 3600000 ? 3600000 : (int)left_ms);
        if (count < 0 && errno != EINTR) break;
        if (count > 0 && fds[1].revents != 0 && !take_said(said)) said_close(said);
        if (count > 0 && fds[0].revents != 0) break;
        if (steady_ms() < extend_at_ms) continue;
        extend_at_ms = steady_ms() + step_ms;
        if (tarry_extend_async(tool->client, task->id, task->token, lease_ms,
                               &(struct tarry_call){.timeout_ms = lease_ms}, NULL, NULL) != TARRY_OK)
            tool_say("task %llu: its lease could not be renewed", (unsigned long long)task->id);
    }
    if (fd >= 0) close(fd);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) return -1;
    return status;
}

/* Runs the command until it ends, and meanwhile extends the lease of the task. Any thread. Passes the command's
 * standard error on. `out_reason`, for the log and the dead letter: exit status and the end of standard error; empty
 * after exit status 0. Returns 0, or a negative errno if the command could not be started. */
static int exec_run(struct tool *tool, const char *command, const struct tarry_task *task,
                    char out_reason[EXEC_REASON_SIZE]) {
    pid_t pid = 0;
    int body = body_fd(task), ends[2];
    if (body < 0) return body;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        int error = -errno;
        close(body);
        return error;
    }
    struct said said = {.fd = ends[0]};
    (void)fcntl(said.fd, F_SETFL, O_NONBLOCK);
    struct environment env = environment_new(tool, task);
    int error = spawn(tool, command, body, ends[1], env.strings, &pid);
    environment_free(&env);
    close(body);
    close(ends[1]);
    if (error != 0) {
        said_close(&said);
        return error;
    }
    signals_child_add(pid);
    int status = await(tool, task, pid, &said);
    signals_child_remove(pid);
    take_rest(&said);
    if (WIFSIGNALED(status))
        snprintf(out_reason, EXEC_REASON_SIZE, "signal %d ended the command", WTERMSIG(status));
    else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        snprintf(out_reason, EXEC_REASON_SIZE, "the command exited with status %d", WEXITSTATUS(status));
    else
        out_reason[0] = 0;
    if (out_reason[0] != 0) add_said(&said, out_reason);
    if (out_reason[0] != 0) tool_say("task %llu: %s", (unsigned long long)task->id, out_reason);
    return 0;
}

/* ---- the command line */

/* Maximum number of tasks that are written together. None of them is acked before all are written. */
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
    uint64_t until_ms;   /* time on the steady clock at which `tarry consume` stops (--for); UINT64_MAX: no such time */
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
        /* Prints the payload in quotes, because its control characters must not reach the terminal. */
        out_string(out, task->payload, task->payload_size);
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

/* Returns true if the next task may be fetched only after a task is settled or a command ends. */
static bool is_full(const struct consume *c) {
    if (c->command != NULL && c->running >= c->parallel) return true;
    return c->count > 0 && c->settled < c->count && c->settled + c->under_way + c->running >= c->count;
}

/* Returns how many tasks may be fetched now; 0: `tarry consume` ends. If settled and unsettled tasks together already
 * reach --count, waits until some are settled. */
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
    /* Prefetches no more than --count tasks, because the rest would only be released again. */
    if (c.count > 0 && c.count < prefetch) prefetch = c.count;
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
