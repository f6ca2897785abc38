/* wait.c: see wait.h. `known` is a copy of the array of the last call, with `revents` 0. `seen` contains for each
 * descriptor in the epoll set its index in the array. */
#include "wait.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define READY_MAX 256
#define MS_PER_S 1000

static_assert(POLLIN == EPOLLIN && POLLPRI == EPOLLPRI && POLLOUT == EPOLLOUT && POLLERR == EPOLLERR &&
                  POLLHUP == EPOLLHUP && POLLRDHUP == EPOLLRDHUP,
              "poll's words are epoll's");
static_assert(sizeof(struct pollfd) == sizeof(uint64_t), "one comparison each");

struct seen {
    uint32_t place; /* index in the array */
    short events;
    bool is_in; /* in the epoll set */
};

struct wait {
    int epoll;
    bool is_broken; /* a descriptor could not be added: use poll */
    bool is_told;   /* wait_fell_back has reported it */
    struct pollfd *known;
    size_t known_count;
    size_t capacity;   /* of `known` and `gone` */
    int *gone;         /* descriptors that left their place */
    size_t gone_count; /* in this round */
    struct seen *seen; /* by descriptor */
    size_t seen_count;
};

static _Thread_local struct wait *mine;

struct wait *wait_begin(void) {
    struct wait *wait = calloc(1, sizeof(*wait));
    if (wait == NULL) return NULL;
    wait->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (wait->epoll < 0) {
        free(wait);
        return NULL;
    }
    mine = wait;
    return wait;
}

void wait_use(struct wait *wait) {
    mine = wait;
}

void wait_end(struct wait *wait) {
    if (wait == NULL) return;
    mine = NULL;
    close(wait->epoll);
    free(wait->known);
    free(wait->gone);
    free(wait->seen);
    free(wait);
}

void wait_new(struct wait *wait, int fd) {
    if (wait == NULL || (size_t)fd >= wait->seen_count || !wait->seen[fd].is_in) return;
    struct seen *seen = &wait->seen[fd];
    seen->is_in = false;
    if (seen->place < wait->known_count && wait->known[seen->place].fd == fd) wait->known[seen->place].fd = -1;
}

bool wait_fell_back(struct wait *wait) {
    if (wait == NULL || !wait->is_broken || wait->is_told) return false;
    wait->is_told = true;
    return true;
}

/* ---- changes of the array */

static bool has_room(struct wait *wait, size_t count) {
    if (count <= wait->capacity) return true;
    size_t capacity = 2 * count;
    struct pollfd *known = realloc(wait->known, capacity * sizeof(*known));
    if (known != NULL) wait->known = known;
    int *gone = realloc(wait->gone, 2 * capacity * sizeof(*gone)); /* at most two per place */
    if (gone != NULL) wait->gone = gone;
    if (known == NULL || gone == NULL) return false;
    wait->capacity = capacity;
    return true;
}

static struct seen *seen_of(struct wait *wait, int fd) {
    size_t count = wait->seen_count;
    if ((size_t)fd >= count) {
        struct seen *seen = realloc(wait->seen, 2 * ((size_t)fd + 1) * sizeof(*seen));
        if (seen == NULL) return NULL;
        wait->seen = seen;
        wait->seen_count = 2 * ((size_t)fd + 1);
        memset(seen + count, 0, (wait->seen_count - count) * sizeof(*seen));
    }
    return &wait->seen[fd];
}

/* Adds or updates a descriptor in the epoll set. False: epoll cannot wait for it. */
static bool put(struct wait *wait, int fd, short events, uint32_t place) {
    struct seen *seen = seen_of(wait, fd);
    struct epoll_event event = {.events = (uint32_t)events, .data.fd = fd};
    if (seen == NULL) return false;
    bool is_in = seen->is_in && seen->events == events;
    if (!is_in && !seen->is_in && epoll_ctl(wait->epoll, EPOLL_CTL_ADD, fd, &event) == 0) is_in = true;
    /* The descriptor was closed and reused (ADD), or wait_new was called although it was still in the set (MOD). */
    if (!is_in && epoll_ctl(wait->epoll, EPOLL_CTL_MOD, fd, &event) == 0) is_in = true;
    if (!is_in && epoll_ctl(wait->epoll, EPOLL_CTL_ADD, fd, &event) == 0) is_in = true;
    *seen = (struct seen){.place = place, .events = events, .is_in = is_in};
    return is_in;
}

static void remember_gone(struct wait *wait, size_t place) {
    if (wait->known[place].fd >= 0) wait->gone[wait->gone_count++] = wait->known[place].fd;
}

/* Removes descriptors that are no longer in the array from the set. (Closed ones were removed by the system.) */
static void drop_gone(struct wait *wait, const struct pollfd *fds, size_t count) {
    for (size_t i = 0; i < wait->gone_count; i++) {
        int fd = wait->gone[i];
        struct seen *seen = &wait->seen[fd];
        bool is_there = seen->is_in && seen->place < count && fds[seen->place].fd == fd;
        if (is_there || !seen->is_in) continue;
        (void)epoll_ctl(wait->epoll, EPOLL_CTL_DEL, fd, NULL);
        seen->is_in = false;
    }
    wait->gone_count = 0;
}

/* Updates the epoll set to match the array. False: impossible. */
static bool follow(struct wait *wait, struct pollfd *fds, size_t count) {
    if (!has_room(wait, count)) return false;
    for (size_t i = 0; i < count; i++) {
        struct pollfd *known = &wait->known[i];
        bool was_known = i < wait->known_count;
        if (was_known && memcmp(known, &fds[i], sizeof(*known)) == 0) continue;
        fds[i].revents = 0;
        if (was_known && known->fd != fds[i].fd) remember_gone(wait, i);
        *known = fds[i];
        if (fds[i].fd >= 0 && !put(wait, fds[i].fd, fds[i].events, (uint32_t)i)) return false;
    }
    for (size_t i = count; i < wait->known_count; i++) remember_gone(wait, i);
    wait->known_count = count;
    drop_gone(wait, fds, count);
    return true;
}

/* ---- poll */

static int wait_many(struct wait *wait, struct pollfd *fds, size_t count, int timeout_ms) {
    struct epoll_event ready[READY_MAX];
    int ready_count = epoll_wait(wait->epoll, ready, READY_MAX, timeout_ms), result = 0;
    for (int i = 0; i < ready_count; i++) {
        const struct seen *seen = &wait->seen[ready[i].data.fd];
        struct pollfd *place = &fds[seen->place];
        if (!seen->is_in || seen->place >= count || place->fd != ready[i].data.fd) continue;
        place->revents = (short)ready[i].events;
        result++;
    }
    return ready_count < 0 ? -1 : result;
}

/* Replaces the C library's poll. Other threads than the door's get the system's behaviour. */
__attribute__((visibility("default"))) int poll(struct pollfd *fds, nfds_t count, int timeout_ms) {
    struct wait *wait = mine;
    if (wait != NULL && count >= WAIT_MANY && !wait->is_broken) {
        if (follow(wait, fds, count)) return wait_many(wait, fds, count, timeout_ms);
        wait->is_broken = true;
    }
    const struct timespec time = {.tv_sec = timeout_ms / MS_PER_S,
                                  .tv_nsec = (long)(timeout_ms % MS_PER_S) * (1000000000l / MS_PER_S)};
    return ppoll(fds, count, timeout_ms >= 0 ? &time : NULL, NULL);
}
