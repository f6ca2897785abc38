/* count_calls.c: LD_PRELOADed into tarryd and tarry by way_test.py. Counts the system calls of threads whose names
 * begin with $COUNT_CALLS_THREADS, in a file that the test reads ($COUNT_CALLS_FILE): a number of eight bytes for each
 * call, in the order of `names` in the test. A sync returns at once, so the broker always measures a fast disk. */
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* System calls in the order of way_test.py. */
enum counted {
    POLLS,
    EPOLL_WAITS,
    EPOLL_CHANGES,
    RECEIVES,
    SENDS,
    READS,
    WRITES,
    APPENDS,
    SYNCS,
    TIMERS,
    IOCTLS,
    COUNTED
};

#define PUBLIC __attribute__((visibility("default")))
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static _Atomic uint64_t *counts;
static const char *threads;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("COUNT_CALLS_FILE");
    int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *page =
        fd >= 0 ? mmap(NULL, COUNTED * sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (page == MAP_FAILED) abort();
    threads = getenv("COUNT_CALLS_THREADS");
    if (threads == NULL) abort();
    counts = page;
}

static void count(enum counted what) {
    char name[17] = "";
    if (counts == NULL) return;
    prctl(PR_GET_NAME, name);
    if (strncmp(name, threads, strlen(threads)) == 0) atomic_fetch_add(&counts[what], 1);
}

PUBLIC int ppoll(struct pollfd *fds, nfds_t size, const struct timespec *time, const sigset_t *signals) {
    count(POLLS);
    return REAL(ppoll)(fds, size, time, signals);
}

PUBLIC int epoll_wait(int epoll, struct epoll_event *events, int size, int timeout_ms) {
    count(EPOLL_WAITS);
    return REAL(epoll_wait)(epoll, events, size, timeout_ms);
}

PUBLIC int epoll_ctl(int epoll, int what, int fd, struct epoll_event *event) {
    count(EPOLL_CHANGES);
    return REAL(epoll_ctl)(epoll, what, fd, event);
}

PUBLIC ssize_t recv(int fd, void *bytes, size_t size, int flags) {
    count(RECEIVES);
    return REAL(recv)(fd, bytes, size, flags);
}

PUBLIC ssize_t send(int fd, const void *bytes, size_t size, int flags) {
    count(SENDS);
    return REAL(send)(fd, bytes, size, flags);
}

PUBLIC ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    count(SENDS);
    return REAL(sendmsg)(fd, message, flags);
}

PUBLIC ssize_t read(int fd, void *bytes, size_t size) {
    count(READS);
    return REAL(read)(fd, bytes, size);
}

PUBLIC ssize_t write(int fd, const void *bytes, size_t size) {
    count(WRITES);
    return REAL(write)(fd, bytes, size);
}

/* pwrite64 under its other name: all code is built with 64-bit file offsets. */
PUBLIC ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset) {
    count(APPENDS);
    return REAL(pwrite)(fd, bytes, size, offset);
}

PUBLIC int fdatasync(int fd) {
    count(SYNCS);
    return 0;
}

PUBLIC int timerfd_settime(int fd, int flags, const struct itimerspec *time, struct itimerspec *before) {
    count(TIMERS);
    return REAL(timerfd_settime)(fd, flags, time, before);
}

PUBLIC int ioctl(int fd, unsigned long request, ...) {
    va_list arguments;
    va_start(arguments, request);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    count(IOCTLS);
    return REAL(ioctl)(fd, request, argument);
}
