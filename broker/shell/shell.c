/* shell.c: see shell.h. */
#include "shell.h"

#include <assert.h>
#include <errno.h>
#include <linux/close_range.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "logfmt.h"
#include "notify.h"

const char *storage_error(int error) {
    switch (error) {
    case LOG_DAMAGED:
        return "the log is damaged";
    case LOG_VERSION:
        return "the log has another format version";
    case LOG_FOREIGN:
        return "the log is another cluster's";
    case LOG_RETIRED:
        return "that part of the log was retired";
    case LOG_END:
        return "the log ends there";
    case INDEX_DAMAGED:
        return "the index is damaged";
    case INDEX_VERSION:
        return "the index has another format version";
    case INDEX_FOREIGN:
        return "the index is another cluster's";
    default:
        break;
    }
    /* LMDB's own codes lie around -30790. */
    return error > -4096 && error < 0 ? strerror(-error) : "LMDB failed";
}

_Noreturn void shell_fail(const char *what, int error) {
    logfmt(what, "error=%d reason=\"%s\" action=exit", error, storage_error(error));
    _exit(EXIT_STORAGE);
}

uint64_t shell_committed(const struct shell *shell) {
    return shell->node.on ? node_committed(&shell->node) : log_durable(shell->log);
}

/* A signal is either taken and known to shell_again, or still there for the next run. */
static pthread_mutex_t stop_mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool told_to_stop;

bool shell_is_told_to_stop(void) {
    return atomic_load(&told_to_stop);
}

int shell_open_signals(const sigset_t *signals) {
    int come = signalfd(-1, signals, SFD_CLOEXEC);
    return come < 0 ? -errno : come;
}

void shell_wait_for_stop(int come, const sigset_t *signals, siginfo_t *out) {
    const struct timespec now = {0};
    while (!shell_is_told_to_stop()) {
        (void)poll(&(struct pollfd){.fd = come, .events = POLLIN}, 1, -1);
        pthread_mutex_lock(&stop_mutex);
        int number = sigtimedwait(signals, out, &now);
        if (number == SIGTERM || number == SIGINT) atomic_store(&told_to_stop, true);
        pthread_mutex_unlock(&stop_mutex); /* any other, a terminal gone, is no reason to stop */
    }
    close(come);
}

_Noreturn void shell_again(const struct shell *shell) {
    pthread_mutex_lock(&stop_mutex); /* for good */
    if (shell_is_told_to_stop()) {
        logfmt("stopped", "reason=\"it was to start again, and was told to stop meanwhile\"");
        _exit(0);
    }
    watchdog_suspend();
    /* With port 0 the next run would get another port, and nobody would find it. */
    char urls[ENDPOINTS_TEXT_SIZE];
    endpoints_format(&shell->endpoints, urls);
    if (setenv(SHELL_AGAIN_URLS, urls, 1) == 0 && close_range(STDERR_FILENO + 1, ~0u, CLOSE_RANGE_CLOEXEC) == 0)
        execv("/proc/self/exe", shell->arguments);
    shell_fail("restart_failed", -errno);
}

static _Noreturn void starved(void) {
    shell_fail("memory_failed", -ENOMEM);
}

void shell_arena_init(struct arena *arena) {
    arena_init(arena, SIZE_MAX);
    arena->on_starved = starved;
}

void thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *argument) {
    int error = pthread_create(thread, NULL, run, argument);
    if (error != 0) {
        logfmt("thread_failed", "name=%s reason=\"%s\"", name, strerror(error));
        _exit(1);
    }
    pthread_setname_np(*thread, name);
}
