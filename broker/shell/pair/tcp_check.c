/* tcp_check.c: see tcp_check.h. It has its own thread, because a name lookup may block. */
#include "tcp_check.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* Timeout of one attempt. A host that does not answer in this time counts as not refusing. */
#define TCP_CHECK_MS 200
/* A process that is being killed still accepts connections for a moment. The kernel resets them when the process has
 * ended. So only a connection that lasts longer than STANDS_MS proves that the process lives. If a connection ends
 * earlier, connect again, at most TRIES_MAX times in total. */
#define STANDS_MS 100
#define TRIES_MAX 8

struct tcp_check {
    struct listen_address where;
    void (*refused)(void *argument);
    void *argument;
    pthread_t thread;
    pthread_mutex_t mutex; /* protects the fields below */
    pthread_cond_t changed;
    bool is_asked;
    bool is_closed;
};

static int try_connect(int fd, const struct addrinfo *to, int wait_ms) {
    int error = 0;
    socklen_t size = sizeof(error);
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    if (connect(fd, to->ai_addr, to->ai_addrlen) != 0 && errno != EINPROGRESS)
        error = errno;
    else if (poll(&ready, 1, wait_ms) <= 0)
        error = ETIMEDOUT;
    else
        /* The call's result is not checked, because getsockopt does not fail for a socket. */
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    return error;
}

static bool stands(int fd) {
    char byte;
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    return poll(&ready, 1, STANDS_MS) <= 0 || recv(fd, &byte, 1, MSG_PEEK) > 0;
}

/* Like tcp_check_once, but returns ECONNRESET if the connection was accepted and closed at once. */
static int try_once(const struct addrinfo *to, int wait_ms, bool must_stand) {
    int fd = socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return errno;
    int error = try_connect(fd, to, wait_ms);
    if (error == 0 && must_stand && !stands(fd)) error = ECONNRESET;
    close(fd);
    return error;
}

int tcp_check_once(const struct addrinfo *to, int wait_ms) {
    return try_once(to, wait_ms, false);
}

static bool refuses(const struct addrinfo *to) {
    int error = ECONNRESET;
    for (int tries = 0; error == ECONNRESET && tries < TRIES_MAX; tries++) error = try_once(to, TCP_CHECK_MS, true);
    return error == ECONNREFUSED;
}

/* Returns whether all addresses refuse. If an address does not answer at all, the other node may still be there. */
static bool is_refused(const struct listen_address *where) {
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char port[8];
    snprintf(port, sizeof(port), "%u", where->port);
    if (getaddrinfo(where->host, port, &hints, &found) != 0) return false;
    bool all = found != NULL;
    for (const struct addrinfo *to = found; to != NULL && all; to = to->ai_next) all = refuses(to);
    if (found != NULL) freeaddrinfo(found);
    return all;
}

/* Waits until tcp_check_start is called. Returns false if the check is closed instead. */
static bool wait_for_start(struct tcp_check *tcp_check) {
    pthread_mutex_lock(&tcp_check->mutex);
    while (!tcp_check->is_asked && !tcp_check->is_closed) pthread_cond_wait(&tcp_check->changed, &tcp_check->mutex);
    tcp_check->is_asked = false;
    bool goes_on = !tcp_check->is_closed;
    pthread_mutex_unlock(&tcp_check->mutex);
    return goes_on;
}

static void *run(void *argument) {
    struct tcp_check *tcp_check = argument;
    while (wait_for_start(tcp_check))
        if (is_refused(&tcp_check->where)) tcp_check->refused(tcp_check->argument);
    return NULL;
}

int tcp_check_open(struct tcp_check **out, const struct listen_address *where, void (*refused)(void *argument),
                   void *argument) {
    struct tcp_check *tcp_check = calloc(1, sizeof(*tcp_check));
    if (tcp_check == NULL) return ENOMEM;
    tcp_check->where = *where;
    tcp_check->refused = refused;
    tcp_check->argument = argument;
    pthread_mutex_init(&tcp_check->mutex, NULL);
    pthread_cond_init(&tcp_check->changed, NULL);
    int error = pthread_create(&tcp_check->thread, NULL, run, tcp_check);
    if (error != 0) {
        free(tcp_check);
        return error;
    }
    pthread_setname_np(tcp_check->thread, "tarry-knock");
    *out = tcp_check;
    return 0;
}

void tcp_check_start(struct tcp_check *tcp_check) {
    pthread_mutex_lock(&tcp_check->mutex);
    tcp_check->is_asked = true;
    pthread_cond_signal(&tcp_check->changed);
    pthread_mutex_unlock(&tcp_check->mutex);
}

void tcp_check_close(struct tcp_check *tcp_check) {
    if (tcp_check == NULL) return;
    pthread_mutex_lock(&tcp_check->mutex);
    tcp_check->is_closed = true;
    pthread_cond_signal(&tcp_check->changed);
    pthread_mutex_unlock(&tcp_check->mutex);
    pthread_join(tcp_check->thread, NULL);
    pthread_cond_destroy(&tcp_check->changed);
    pthread_mutex_destroy(&tcp_check->mutex);
    free(tcp_check);
}
