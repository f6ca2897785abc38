/* exec.c: see exec.h. */
#include "exec.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc.h"
#include "check.h"
#include "signals.h"

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
    size_t count; /* number of entries at the start of the array that point into environ */
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
    for (size_t i = 0; i < inherited;
         i++) /* skips TARRY_ variables that an outer `tarry consume --exec` has set for its own task */
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

/* Copies new output of the command to our standard error, and keeps its end. False: the command's output has ended. */
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

/* Takes what is in the pipe when the command has ended. Another process may hold the pipe open. */
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

int exec_run(struct tool *tool, const char *command, const struct tarry_task *task, char out_reason[EXEC_REASON_SIZE]) {
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
