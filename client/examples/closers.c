/* closers.c: see closers.h. */
#include "closers.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <tarry.h>
#include <time.h>
#include <unistd.h>

#define BATCH 256
#define END_PATIENCE_MS 5000

/* ---- the closer process */

static volatile sig_atomic_t ending;

static void on_signal(int signal_number) {
    (void)signal_number;
    ending = 1;
}

static uint64_t monotonic_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void close_orders(tarry_client *client, const struct tarry_task **tasks, size_t count) {
    uint64_t now_us = monotonic_us();
    for (size_t i = 0; i < count; i++)
        printf("{\"id\":\"%s\",\"received_us\":%" PRIu64 ",\"lateness_ms\":%" PRId64 ",\"attempt\":%u}\n",
               tasks[i]->key != NULL ? tasks[i]->key : "", now_us, (int64_t)(tasks[i]->received_ms - tasks[i]->due_ms),
               tasks[i]->attempt);
    /* Exit if the output cannot be written: the parent process has ended. The broker delivers the tasks again, because
     * they are not acknowledged. */
    if (fflush(stdout) != 0) exit(1);
    for (size_t i = 0; i < count; i++) {
        /* The result does not matter here: if the lease was lost, another closer closes the order once more. */
        while (tarry_ack_async(client, tasks[i]->id, tasks[i]->token, NULL, NULL, NULL) == TARRY_E_FULL)
            if (tarry_drain(client, 0, NULL) != TARRY_OK) break;
        tarry_task_free(tasks[i]);
    }
}

int closer_main(const char *broker, const char *queue) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    signal(SIGTERM, on_signal);
    signal(SIGINT, SIG_IGN); /* Ctrl-C on the terminal must not end closers; the parent uses SIGTERM */
    struct tarry_options options = {.urls = broker, .name = "order_timeout/closer", .timeout_ms = 60000};
    tarry_client *client;
    char message[TARRY_MESSAGE_SIZE] = "";
    int rv = tarry_open(&options, &client);
    if (rv != TARRY_OK) goto failed;
    struct tarry_consumer_options consuming = {.queues = &queue, .queue_count = 1, .prefetch = 1024};
    tarry_consumer *consumer;
    rv = tarry_consumer_open(client, &consuming, &consumer, message);
    if (rv != TARRY_OK) {
        tarry_close(client);
        goto failed;
    }
    while (!ending) {
        const struct tarry_task *tasks[BATCH];
        size_t count;
        rv = tarry_consumer_next_batch(consumer, 50, tasks, BATCH, &count);
        if (rv == TARRY_OK)
            close_orders(client, tasks, count);
        else if (rv != TARRY_E_NOTHING)
            fprintf(stderr, "event=closer message=\"%s\"\n", tarry_code_sentence(rv));
    }
    tarry_consumer_close(consumer, 0, NULL);
    tarry_close(client);
    return 0;
failed:
    fprintf(stderr, "event=closer_failed message=\"%s\"\n", message[0] != 0 ? message : tarry_code_sentence(rv));
    return 1;
}

/* ---- the parent process */

static int start_one(struct closer *closer, const char *broker, const char *queue) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return -1;
    char *const argv[] = {"order_timeout", "--role",  "consumer",    "--broker",
                          (char *)broker,  "--queue", (char *)queue, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    int rv = posix_spawn(&closer->pid, "/proc/self/exe", &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (rv != 0) {
        close(ends[0]);
        closer->pid = 0;
        errno = rv;
        return -1;
    }
    closer->out = ends[0];
    closer->line_size = 0;
    fprintf(stderr, "event=consumer pid=%ld\n", (long)closer->pid);
    return 0;
}

int closers_start(struct closers *closers, size_t count, const char *broker, const char *queue) {
    for (closers->count = 0; closers->count < count; closers->count++) {
        if (start_one(&closers->items[closers->count], broker, queue) == 0) continue;
        fprintf(stderr, "order_timeout: cannot start a consumer: %s\n", strerror(errno));
        return -1;
    }
    return 0;
}

/* Parses a line {"id":"…","received_us":N,"lateness_ms":N,…} of close_orders. */
static void take_line(struct ledger *ledger, char *line) {
    char id[64];
    uint64_t received_us;
    int64_t lateness_ms;
    if (sscanf(line, "{\"id\":\"%63[^\"]\",\"received_us\":%" SCNu64 ",\"lateness_ms\":%" SCNd64, id, &received_us,
               &lateness_ms) == 3)
        ledger_closed(ledger, id, received_us, (double)lateness_ms);
    else
        fprintf(stderr, "event=closer message=\"a line that makes no sense\"\n");
}

/* Ignores an unfinished line of a killed closer, because the closer had not acknowledged that task. */
static void closer_ended(struct closer *closer) {
    close(closer->out);
    closer->out = -1;
    int status;
    if (waitpid(closer->pid, &status, 0) == closer->pid && WIFSIGNALED(status))
        fprintf(stderr, "event=consumer_killed pid=%ld signal=%d\n", (long)closer->pid, WTERMSIG(status));
    closer->pid = 0;
}

static void closer_read(struct closer *closer, struct ledger *ledger) {
    ssize_t size = read(closer->out, closer->line + closer->line_size, sizeof(closer->line) - 1 - closer->line_size);
    if (size < 0 && errno == EINTR) return;
    if (size <= 0) {
        closer_ended(closer);
        return;
    }
    closer->line_size += (size_t)size;
    closer->line[closer->line_size] = 0;
    char *at = closer->line, *end;
    while ((end = strchr(at, '\n')) != NULL) {
        *end = 0;
        take_line(ledger, at);
        at = end + 1;
    }
    closer->line_size -= (size_t)(at - closer->line);
    memmove(closer->line, at, closer->line_size);
}

size_t closers_read(struct closers *closers, struct ledger *ledger, int wait_ms) {
    struct pollfd polled[CLOSERS_MAX];
    size_t alive = 0;
    for (size_t i = 0; i < closers->count; i++) {
        polled[i] = (struct pollfd){.fd = closers->items[i].out, .events = POLLIN};
        alive += closers->items[i].out >= 0;
    }
    if (poll(polled, closers->count, wait_ms) <= 0) return alive;
    for (size_t i = 0; i < closers->count; i++)
        if (polled[i].fd >= 0 && polled[i].revents != 0) closer_read(&closers->items[i], ledger);
    return alive;
}

void closers_stop(struct closers *closers, struct ledger *ledger) {
    for (size_t i = 0; i < closers->count; i++)
        if (closers->items[i].pid != 0) kill(closers->items[i].pid, SIGTERM);
    uint64_t until = monotonic_us() + END_PATIENCE_MS * 1000ull;
    while (closers_read(closers, ledger, 50) > 0 && monotonic_us() < until) {
    }
    for (size_t i = 0; i < closers->count; i++) {
        if (closers->items[i].pid == 0) continue;
        kill(closers->items[i].pid, SIGKILL);
        closer_ended(&closers->items[i]);
    }
}
