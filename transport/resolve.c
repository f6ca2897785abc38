/* resolve.c: see resolve.h. getaddrinfo may take half a minute and cannot be stopped. So the caller and the
 * resolving thread share the lookup, and the last one to drop it frees it. */
#include "resolve.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct resolving {
    atomic_int holders;
    atomic_bool is_done;
    int fd;
    int error;
    struct addrinfo *list;
    char host[256]; /* size in bytes; longer than any host name (NI_MAXHOST is larger) */
    char port[6];
};

static void drop(struct resolving *resolving) {
    if (atomic_fetch_sub(&resolving->holders, 1) != 1) return;
    if (resolving->list != NULL) freeaddrinfo(resolving->list);
    close(resolving->fd);
    free(resolving);
}

static void say_done(struct resolving *resolving) {
    const uint64_t one = 1;
    atomic_store(&resolving->is_done, true);
    while (write(resolving->fd, &one, sizeof(one)) < 0 && errno == EINTR) {
    }
}

static int look_up(struct resolving *resolving, int flags) {
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags};
    return getaddrinfo(resolving->host, resolving->port, &hints, &resolving->list);
}

static void *run(void *arg) {
    struct resolving *resolving = arg;
    resolving->error = look_up(resolving, AI_ADDRCONFIG);
    say_done(resolving);
    drop(resolving);
    return NULL;
}

static bool start(struct resolving *resolving) {
    pthread_t thread;
    atomic_store(&resolving->holders, 2);
    if (pthread_create(&thread, NULL, run, resolving) != 0) {
        atomic_store(&resolving->holders, 1);
        return false;
    }
    pthread_setname_np(thread, "tarry-resolve");
    pthread_detach(thread);
    return true;
}

struct resolving *resolve_begin(const char *host, const char *port) {
    struct resolving *resolving = calloc(1, sizeof(*resolving));
    if (resolving == NULL) return NULL;
    resolving->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (resolving->fd < 0) {
        free(resolving);
        return NULL;
    }
    atomic_store(&resolving->holders, 1);
    const int host_size = snprintf(resolving->host, sizeof(resolving->host), "%s", host);
    snprintf(resolving->port, sizeof(resolving->port), "%s", port);
    resolving->error = EAI_NONAME;
    if (host_size < (int)sizeof(resolving->host))
        resolving->error = look_up(resolving, AI_NUMERICHOST | AI_NUMERICSERV);
    if (resolving->error != EAI_NONAME || host_size >= (int)sizeof(resolving->host)) {
        say_done(resolving);
    } else if (!start(resolving)) {
        drop(resolving);
        return NULL;
    }
    return resolving;
}

int resolve_fd(const struct resolving *resolving) {
    return resolving->fd;
}

bool resolve_done(struct resolving *resolving, int *out_error, const struct addrinfo **out_list) {
    if (!atomic_load(&resolving->is_done)) return false;
    *out_error = resolving->error;
    *out_list = resolving->list;
    return true;
}

void resolve_end(struct resolving *resolving) {
    if (resolving != NULL) drop(resolving);
}
