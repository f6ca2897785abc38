/* knock.c: see knock.h. A thread of its own, for a name may have to be looked up. */
#include "knock.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* A host that does not answer for so long refuses nothing. */
#define KNOCK_MS 200

struct knocker {
    struct listen_address where;
    void (*refused)(void *argument);
    void *argument;
    pthread_t thread;
    pthread_mutex_t mutex; /* the rest */
    pthread_cond_t changed;
    bool is_asked;
    bool is_closed;
};

int knock_once(const struct addrinfo *to, int wait_ms) {
    int error = 0;
    socklen_t size = sizeof(error);
    int fd = socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return errno;
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    if (connect(fd, to->ai_addr, to->ai_addrlen) != 0 && errno != EINPROGRESS)
        error = errno;
    else if (poll(&ready, 1, wait_ms) <= 0)
        error = ETIMEDOUT;
    else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        error = errno;
    close(fd);
    return error;
}

/* All addresses must: at one that only does not answer the other node may still be. */
static bool is_refused(const struct listen_address *where) {
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char port[8];
    snprintf(port, sizeof(port), "%u", where->port);
    if (getaddrinfo(where->host, port, &hints, &found) != 0) return false;
    bool all = found != NULL;
    for (const struct addrinfo *to = found; to != NULL && all; to = to->ai_next)
        all = knock_once(to, KNOCK_MS) == ECONNREFUSED;
    if (found != NULL) freeaddrinfo(found);
    return all;
}

/* False: closed. */
static bool wait_for_knock(struct knocker *knocker) {
    pthread_mutex_lock(&knocker->mutex);
    while (!knocker->is_asked && !knocker->is_closed) pthread_cond_wait(&knocker->changed, &knocker->mutex);
    knocker->is_asked = false;
    bool goes_on = !knocker->is_closed;
    pthread_mutex_unlock(&knocker->mutex);
    return goes_on;
}

static void *run(void *argument) {
    struct knocker *knocker = argument;
    while (wait_for_knock(knocker))
        if (is_refused(&knocker->where)) knocker->refused(knocker->argument);
    return NULL;
}

int knocker_open(struct knocker **out, const struct listen_address *where, void (*refused)(void *argument),
                 void *argument) {
    struct knocker *knocker = calloc(1, sizeof(*knocker));
    if (knocker == NULL) return ENOMEM;
    knocker->where = *where;
    knocker->refused = refused;
    knocker->argument = argument;
    pthread_mutex_init(&knocker->mutex, NULL);
    pthread_cond_init(&knocker->changed, NULL);
    int error = pthread_create(&knocker->thread, NULL, run, knocker);
    if (error != 0) {
        free(knocker);
        return error;
    }
    pthread_setname_np(knocker->thread, "tarry-knock");
    *out = knocker;
    return 0;
}

void knocker_knock(struct knocker *knocker) {
    pthread_mutex_lock(&knocker->mutex);
    knocker->is_asked = true;
    pthread_cond_signal(&knocker->changed);
    pthread_mutex_unlock(&knocker->mutex);
}

void knocker_close(struct knocker *knocker) {
    if (knocker == NULL) return;
    pthread_mutex_lock(&knocker->mutex);
    knocker->is_closed = true;
    pthread_cond_signal(&knocker->changed);
    pthread_mutex_unlock(&knocker->mutex);
    pthread_join(knocker->thread, NULL);
    pthread_cond_destroy(&knocker->changed);
    pthread_mutex_destroy(&knocker->mutex);
    free(knocker);
}
