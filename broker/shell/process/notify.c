/* notify.c: see notify.h. */
#include "notify.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "logfmt.h"

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

void watchdog_suspend(void) {
    char state[64];
    if (watchdog_us() == 0) return;
    snprintf(state, sizeof(state), "WATCHDOG_USEC=%" PRIu64,
             UINT64_MAX); /* an infinite timeout, so that the watchdog never fires */
    tell(state, 0);
}

void watchdog_resume(void) {
    char state[64];
    if (watchdog_us() == 0) return;
    snprintf(state, sizeof(state), "WATCHDOG_USEC=%" PRIu64, watchdog_us());
    tell(state, 0);
}
