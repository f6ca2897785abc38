/* lifecycle.c: see lifecycle.h. */
#include "lifecycle.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/close_range.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "endpoints.h"
#include "fatal.h"
#include "logfmt.h"

/* ---- systemd */

static void tell(const char *state, int flags) {
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (path == NULL || path[0] == '\0') return;
    size_t size = strlen(path);
    if (size >= sizeof(address.sun_path)) {
        logfmt("notify_failed", "reason=\"NOTIFY_SOCKET is too long\"");
        return;
    }
    memcpy(address.sun_path, path, size);
    if (path[0] == '@') address.sun_path[0] = '\0'; /* abstract namespace */
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size);
    if (fd < 0 || sendto(fd, state, strlen(state), MSG_NOSIGNAL | flags, (struct sockaddr *)&address, length) < 0)
        logfmt("notify_failed", "reason=\"%s\"", strerror(errno));
    if (fd >= 0) close(fd);
}

void notify(const char *state) {
    tell(state, 0);
}

/* ---- the watchdog */

#define NS_PER_US 1000u
#define NS_PER_S 1000000000u
#define FEEDS 3u /* number of pings per watchdog timeout */

/* Returns 0 if there is no watchdog, or it watches another process. */
static uint64_t watchdog_us(void) {
    const char *us = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    if (us == NULL || (pid != NULL && strtoll(pid, NULL, 10) != getpid())) return 0;
    uint64_t value = strtoull(us, NULL, 10);
    return value < UINT64_MAX / NS_PER_US ? value : 0;
}

void watchdog_init(struct watchdog *watchdog) {
    *watchdog = (struct watchdog){.every_ns = watchdog_us() * NS_PER_US / FEEDS};
}

uint64_t watchdog_feed(struct watchdog *watchdog) {
    struct timespec now;
    if (watchdog->every_ns == 0) return UINT64_MAX;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t now_ns = (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
    uint64_t past_ns = now_ns - watchdog->fed_ns;
    if (watchdog->fed_ns != 0 && past_ns < watchdog->every_ns) return watchdog->every_ns - past_ns;
    tell("WATCHDOG=1", MSG_DONTWAIT);
    watchdog->fed_ns = now_ns;
    return watchdog->every_ns;
}

/* Suspends the watchdog while the process starts again. Call watchdog_resume once it is ready. */
static void watchdog_suspend(void) {
    char state[64];
    if (watchdog_us() == 0) return;
    /* An infinite timeout, so that the watchdog never fires. */
    snprintf(state, sizeof(state), "WATCHDOG_USEC=%" PRIu64, UINT64_MAX);
    tell(state, 0);
}

void watchdog_resume(void) {
    char state[64];
    if (watchdog_us() == 0) return;
    snprintf(state, sizeof(state), "WATCHDOG_USEC=%" PRIu64, watchdog_us());
    tell(state, 0);
}

/* ---- stop and restart */

/* The following are global variables, because there is one of each per process. */
static char **process_arguments;
static char listens_at[ENDPOINTS_TEXT_SIZE];

void restart_remember(char **arguments) {
    process_arguments = arguments;
}

void restart_remember_urls(const char *urls) {
    strncpy(listens_at, urls, sizeof(listens_at) - 1);
}

/* Guards told_to_stop and the read of the stop signal, so that a restart loses no signal. If stop_wait has read the
 * signal, the restart sees told_to_stop. Otherwise the signal stays pending, and the next run receives it. */
static pthread_mutex_t stop_mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool told_to_stop;

bool stop_is_told(void) {
    return atomic_load(&told_to_stop);
}

int stop_open_signals(const sigset_t *signals) {
    int come = signalfd(-1, signals, SFD_CLOEXEC);
    return come < 0 ? -errno : come;
}

void stop_wait(int come, const sigset_t *signals, siginfo_t *out) {
    const struct timespec now = {0};
    while (!stop_is_told()) {
        (void)poll(&(struct pollfd){.fd = come, .events = POLLIN}, 1, -1);
        pthread_mutex_lock(&stop_mutex);
        int number = sigtimedwait(signals, out, &now);
        /* Other signals, such as SIGHUP of a closed terminal, do not stop the broker. */
        if (number == SIGTERM || number == SIGINT) atomic_store(&told_to_stop, true);
        pthread_mutex_unlock(&stop_mutex);
    }
    close(come);
}

_Noreturn void restart(void) {
    pthread_mutex_lock(&stop_mutex); /* never unlocked */
    if (stop_is_told()) {
        logfmt("stopped", "reason=\"the broker was restarting when it received the signal to stop\"");
        _exit(0);
    }
    watchdog_suspend();
    if (setenv(RESTART_URLS, listens_at, 1) == 0 && close_range(STDERR_FILENO + 1, ~0u, CLOSE_RANGE_CLOEXEC) == 0)
        execv("/proc/self/exe", process_arguments);
    fatal("restart_failed", -errno);
}
