/* door_accept.c: accepts new connections: counts them, and sets their socket options. */
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "door_parts.h"

/* Maximum number of connections accepted in a row, before open connections get their turn. */
#define ACCEPTED_IN_A_ROW 32
/* Pause after accept failed for lack of resources. */
#define ACCEPT_AGAIN_MS 100

static void refuse(struct door *door, int fd, const char *peer, const char *sentence) {
    door->calls.refused(door->calls.argument, peer, 503, sentence);
    close(fd);
}

static void listen_or_not(struct door *door, bool listens) {
    for (unsigned i = 0; i < door->listener_count; i++) {
        struct epoll_event event = {.events = listens ? EPOLLIN : 0, .data.ptr = &door->listeners[i]};
        /* EPOLL_CTL_MOD cannot fail, because the listener's descriptor is registered. */
        (void)epoll_ctl(door->epoll_fd, EPOLL_CTL_MOD, door->listeners[i].fd, &event);
    }
}

static void on_again(struct deadline *timer) {
    struct door *door = (struct door *)((char *)timer - offsetof(struct door, accept_again));
    listen_or_not(door, true);
}

/* Pauses accepting. Otherwise the connection that cannot be accepted would wake the thread again and again. */
static void back_off(struct door *door) {
    listen_or_not(door, false);
    deadline_arm(&door->deadlines, &door->accept_again, door->now_us + ACCEPT_AGAIN_MS * DOOR_US_PER_MS);
}

/* Refuses one client with the reserve descriptor; without it the waiting client would wake the thread forever. False:
 * no reserve descriptor. */
static bool refuse_for_want_of_descriptors(struct door *door, int listener) {
    if (door->spare_fd >= 0) close(door->spare_fd);
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0) refuse(door, fd, "", "the broker has no free file descriptors for connections");
    /* open fails if another thread has used the last free descriptor meanwhile. */
    door->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return fd >= 0;
}

static void take(const struct listener *listener, int fd) {
    struct refused_peer refused;
    struct connection *connection = connection_new(listener, fd, &refused);
    if (connection == NULL) {
        refuse(listener->door, fd, refused.peer, refused.sentence);
        return;
    }
    listen_tune_connection(fd);
    if (!io_open(connection) || (!connection->over_tls && !stream_begin(connection))) connection_kill(connection);
}

static void accept_some(const struct listener *listener) {
    struct door *door = listener->door;
    for (int i = 0; i < ACCEPTED_IN_A_ROW; i++) {
        int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            take(listener, fd);
        } else if (errno == EAGAIN) {
            return; /* no client is waiting */
        } else if (errno == EMFILE || errno == ENFILE) {
            if (refuse_for_want_of_descriptors(door, listener->fd)) continue;
            back_off(door);
            return;
        } else if (errno == ENOBUFS || errno == ENOMEM || errno == EPERM) {
            back_off(door);
            return;
        } /* other errors mean that the client or its network has gone (accept(2)) */
    }
}

void accept_event(struct listener *listener) {
    if (atomic_load(&listener->door->stopping))
        listen_or_not(listener->door, false);
    else
        accept_some(listener);
}

bool accept_begin(struct door *door) {
    door->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    door->accept_again.fire = on_again;
    for (unsigned i = 0; i < door->listener_count; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &door->listeners[i]};
        if (epoll_ctl(door->epoll_fd, EPOLL_CTL_ADD, door->listeners[i].fd, &event) != 0) return false;
    }
    return true;
}
