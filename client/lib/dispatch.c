/* dispatch.c: callbacks that wait for tarry_dispatch (tarry_loop.h).
 *
 * The engine completes operations as usual. Instead of running a callback it puts the callback and its arguments
 * into a queue and makes the descriptor (an eventfd) readable. Tasks for handlers are not in this queue. They stay
 * with their consumers, and tarry_dispatch looks for them when the queue is empty. */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "consumer.h"

/* ---- the queue */

void dispatch_signal(tarry_client *client) {
    const uint64_t one = 1;
    /* The write fails only if the counter is full; then the descriptor is readable anyway. */
    while (write(client->dispatch.fd, &one, sizeof(one)) < 0 && errno == EINTR) {
    }
}

void dispatch_push(tarry_client *client, struct deferred *deferred) {
    struct dispatch *dispatch = &client->dispatch;
    deferred->next = NULL;
    pthread_mutex_lock(&dispatch->lock);
    const bool was_empty = dispatch->first == NULL;
    if (was_empty)
        dispatch->first = deferred;
    else
        dispatch->last->next = deferred;
    dispatch->last = deferred;
    pthread_mutex_unlock(&dispatch->lock);
    if (was_empty) dispatch_signal(client);
}

static struct deferred *take(struct dispatch *dispatch) {
    pthread_mutex_lock(&dispatch->lock);
    struct deferred *deferred = dispatch->first;
    if (deferred != NULL) dispatch->first = deferred->next;
    pthread_mutex_unlock(&dispatch->lock);
    return deferred;
}

int dispatch_open(tarry_client *client, bool on) {
    struct dispatch *dispatch = &client->dispatch;
    dispatch->fd = -1;
    pthread_mutex_init(&dispatch->lock, NULL);
    pthread_mutex_init(&dispatch->turn, NULL);
    if (!on) return TARRY_OK;
    dispatch->on = true;
    dispatch->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return dispatch->fd < 0 ? TARRY_E_SYSTEM : TARRY_OK;
}

void dispatch_close(tarry_client *client) {
    struct dispatch *dispatch = &client->dispatch;
    for (struct deferred *deferred; (deferred = take(dispatch)) != NULL;) deferred->run(deferred);
    if (dispatch->fd >= 0) close(dispatch->fd);
    pthread_mutex_destroy(&dispatch->lock);
    pthread_mutex_destroy(&dispatch->turn);
}

bool dispatch_is_me(const tarry_client *client) {
    const struct dispatch *dispatch = &client->dispatch;
    return dispatch->on && atomic_load(&dispatch->is_running) && pthread_equal(dispatch->thread, pthread_self()) != 0;
}

/* ---- results of operations */

struct deferred_result {
    struct deferred deferred; /* must be the first member */
    tarry_client *client;
    tarry_done_fn done;
    void *arg;
    struct tarry_result result;
};

static void run_result(struct deferred *deferred) {
    struct deferred_result *waiting = (struct deferred_result *)deferred;
    waiting->done(waiting->arg, &waiting->result);
    free(waiting);
}

static void defer_result(void *arg, const struct tarry_result *result) {
    struct deferred_result *waiting = arg;
    result_copy(result, &waiting->result);
    dispatch_push(waiting->client, &waiting->deferred);
}

int dispatch_defer(tarry_client *client, struct op_note *note) {
    if (!client->dispatch.on || note->done == NULL) return TARRY_OK;
    struct deferred_result *waiting = malloc(sizeof(*waiting));
    if (waiting == NULL) return TARRY_E_NOMEM;
    waiting->deferred.run = run_result;
    waiting->client = client;
    waiting->done = note->done;
    waiting->arg = note->arg;
    note->done = defer_result;
    note->arg = waiting;
    return TARRY_OK;
}

void dispatch_undefer(const struct op_note *note) {
    if (note->done == defer_result) free(note->arg);
}

void *dispatch_argument(const struct op_note *note, tarry_done_fn done) {
    const struct deferred_result *waiting = note->arg;
    if (note->done == done) return note->arg;
    return note->done == defer_result && waiting->done == done ? waiting->arg : NULL;
}

/* ---- dispatching */

int tarry_client_fd(tarry_client *client) {
    return may_call(client) == TARRY_OK ? client->dispatch.fd : -1;
}

/* True: a callback was called. */
static bool dispatch_one(tarry_client *client) {
    struct deferred *deferred = take(&client->dispatch);
    if (deferred == NULL) return consumers_handle_one(client);
    deferred->run(deferred);
    return true;
}

int tarry_dispatch(tarry_client *client, size_t max, size_t *out_count) {
    int rv = may_call(client);
    if (rv == TARRY_OK && !client->dispatch.on) rv = TARRY_E_ARGUMENT;
    if (rv == TARRY_OK && (dispatch_is_me(client) || engine_is_me(client))) rv = TARRY_E_CALLBACK;
    if (rv != TARRY_OK) return rv;
    struct dispatch *dispatch = &client->dispatch;
    pthread_mutex_lock(&dispatch->turn);
    dispatch->thread = pthread_self();
    atomic_store(&dispatch->is_running, true);
    uint64_t signals;
    size_t count = 0;
    bool is_empty = false;
    /* The signal is cleared before the queue is read, so callbacks that arrive meanwhile signal again. */
    (void)!read(dispatch->fd, &signals, sizeof(signals));
    while (!is_empty && (max == 0 || count < max)) {
        is_empty = !dispatch_one(client);
        count += !is_empty;
    }
    if (!is_empty) dispatch_signal(client);
    atomic_store(&dispatch->is_running, false);
    pthread_mutex_unlock(&dispatch->turn);
    if (out_count != NULL) *out_count = count;
    return TARRY_OK;
}
