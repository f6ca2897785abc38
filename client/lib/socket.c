/* socket.c: closing a socket of nng without hanging.
 *
 * Closing a socket closes its dialers, which nng 1.5.2 does not always survive (dial.c). Nor does it survive, with
 * Debian's patches, that another thread is closing one of them: nni_sock_shutdown gives up a reference that it did not
 * get, and the dialer is freed under that thread. (Not under the one that is told of a lost pipe: it is the one that
 * frees.) The callers let all come to rest first (dial_settle); should it hang all the same, the socket is left behind
 * instead of the caller. */
#include "client.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

struct closing {
    nng_socket socket;
    sem_t closed;
    atomic_int references; /* the closing thread and whoever waits for it */
};

static void closing_drop(struct closing *closing) {
    if (atomic_fetch_sub(&closing->references, 1) != 1) return;
    sem_destroy(&closing->closed);
    free(closing);
}

static void *close_run(void *arg) {
    struct closing *closing = arg;
    nng_close(closing->socket);
    sem_post(&closing->closed);
    closing_drop(closing);
    return NULL;
}

bool socket_close(nng_socket socket) {
    pthread_t thread;
    struct closing *closing = malloc(sizeof(*closing));
    if (closing == NULL || sem_init(&closing->closed, 0, 0) != 0) {
        free(closing);
        nng_close(socket);
        return true;
    }
    closing->socket = socket;
    atomic_init(&closing->references, 2);
    if (thread_start(&thread, close_run, closing, "tarry-close") != TARRY_OK) {
        sem_destroy(&closing->closed);
        free(closing);
        nng_close(socket);
        return true;
    }
    pthread_detach(thread);
    struct timespec until;
    deadline_after(CLOSE_PATIENCE_MS, &until);
    int rv;
    while ((rv = sem_clockwait(&closing->closed, CLOCK_MONOTONIC, &until)) != 0 && errno == EINTR) {
    }
    closing_drop(closing);
    return rv == 0;
}
