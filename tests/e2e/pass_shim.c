/* pass_shim.c: preloaded into tarryd by passing.py, so that a test can make hours or days pass at once. It moves
 * REALTIME, BOOTTIME and MONOTONIC forward together. A thread that waits for a deadline reads them every 20 ms, so it
 * wakes soon after its deadline. clock_shim.c, in contrast, moves the clocks separately, and does not change waits.
 * $TARRY_PASS_SHIM names a file that is mapped; it contains one number, the nanoseconds that have passed. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S INT64_C(1000000000)
#define NS_PER_MS INT64_C(1000000)
#define SLICE_NS (20 * NS_PER_MS)
#define EXPORT __attribute__((visibility("default")))

static const _Atomic int64_t *passed;

__attribute__((constructor)) static void shim_open(void) {
    const char *path = getenv("TARRY_PASS_SHIM");
    int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    void *map = mmap(NULL, sizeof(*passed), PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (map == MAP_FAILED) abort();
    passed = map;
}

static int64_t passed_ns(void) {
    return passed == NULL ? 0 : *passed;
}

static struct timespec time_of(int64_t ns) {
    return (struct timespec){.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
}

static int64_t kernel_ns(clockid_t id) {
    struct timespec now;
    (void)syscall(SYS_clock_gettime, id, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

EXPORT int clock_gettime(clockid_t id, struct timespec *out) {
    int result = (int)syscall(SYS_clock_gettime, id, out);
    bool passes = id == CLOCK_REALTIME || id == CLOCK_BOOTTIME || id == CLOCK_MONOTONIC ||
                  id == CLOCK_REALTIME_COARSE || id == CLOCK_MONOTONIC_COARSE;
    if (result == 0 && passes) *out = time_of(out->tv_sec * NS_PER_S + out->tv_nsec + passed_ns());
    return result;
}

EXPORT time_t time(time_t *out) {
    time_t now = (kernel_ns(CLOCK_REALTIME) + passed_ns()) / NS_PER_S;
    if (out != NULL) *out = now;
    return now;
}

EXPORT int gettimeofday(struct timeval *restrict out, void *restrict zone) {
    int64_t now = kernel_ns(CLOCK_REALTIME) + passed_ns();
    (void)zone;
    *out = (struct timeval){.tv_sec = now / NS_PER_S, .tv_usec = now % NS_PER_S / 1000};
    return 0;
}

/* Returns how long to sleep before looking at the clock again, at most SLICE_NS. `*out_left` is the time until
 * `deadline_ns`. */
static int64_t slice_ns(int64_t deadline_ns, int64_t *out_left) {
    *out_left = deadline_ns - (kernel_ns(CLOCK_MONOTONIC) + passed_ns());
    if (*out_left < 0) *out_left = 0;
    return *out_left < SLICE_NS ? *out_left : SLICE_NS;
}

/* All condition variables of tarryd use CLOCK_MONOTONIC. */
EXPORT int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                                  const struct timespec *restrict until) {
    int64_t left, deadline_ns = until->tv_sec * NS_PER_S + until->tv_nsec;
    for (;;) {
        struct timespec slice = time_of(kernel_ns(CLOCK_MONOTONIC) + slice_ns(deadline_ns, &left));
        int result = pthread_cond_clockwait(condition, mutex, CLOCK_MONOTONIC, &slice);
        if (result != ETIMEDOUT || left <= SLICE_NS) return result;
    }
}

EXPORT int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask) {
    int64_t left = 0, deadline_ns = 0;
    if (timeout != NULL)
        deadline_ns = kernel_ns(CLOCK_MONOTONIC) + passed_ns() + timeout->tv_sec * NS_PER_S + timeout->tv_nsec;
    for (;;) {
        struct timespec slice = {0};
        if (timeout != NULL) slice = time_of(slice_ns(deadline_ns, &left));
        int result = (int)syscall(SYS_ppoll, fds, count, timeout != NULL ? &slice : NULL, mask, _NSIG / 8);
        if (result != 0 || left <= SLICE_NS) return result;
    }
}

EXPORT int poll(struct pollfd *fds, nfds_t count, int timeout_ms) {
    struct timespec timeout = time_of(timeout_ms * NS_PER_MS);
    return ppoll(fds, count, timeout_ms >= 0 ? &timeout : NULL, NULL);
}

EXPORT int epoll_wait(int epoll, struct epoll_event *events, int count, int timeout_ms) {
    int64_t left = 0, deadline_ns = kernel_ns(CLOCK_MONOTONIC) + passed_ns() + timeout_ms * NS_PER_MS;
    for (;;) {
        int64_t slice = timeout_ms >= 0 ? slice_ns(deadline_ns, &left) : -NS_PER_MS;
        int slice_ms = (int)((slice + NS_PER_MS - 1) / NS_PER_MS);
        if (timeout_ms < 0) slice_ms = -1;
        int result = (int)syscall(SYS_epoll_wait, epoll, events, count, slice_ms);
        if (result != 0 || left <= SLICE_NS) return result;
    }
}
