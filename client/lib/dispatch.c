/* dispatch.c: callbacks that wait for tarry_dispatch (tarry_loop.h).
 *
 * The engine completes operations as usual. Instead of running a callback it puts the callback and its arguments
 * into a queue and makes the descriptor (an eventfd) readable. Tasks for handlers are not in this queue. They stay
 * with their consumers, and tarry_dispatch looks for them when the queue is empty. */
#include "client.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
    struct deferred deferred; /* must be the first member, because run_result converts its address */
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

/* Calls one waiting callback. Returns whether there was one. */
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
    /* Make the eventfd unreadable before the queue is read. A callback that is queued after that makes it readable
     * again. */
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

/* ---- events */

/* Events about connections (tarry_loop.h). Events are recorded under the client's lock. The engine, or
 * tarry_dispatch, reports them without the lock. */

#define EVENTS_MAX 256u
#define SAME_AGAIN_MS 10000u

struct event {
    struct deferred deferred; /* must be the first member, because event_run converts its address; `deferred.next` links
                                 the queue of callbacks */
    tarry_client *client;
    enum tarry_event_kind kind;
    uint64_t at_ms;
    char url[ADDRESS_SIZE_MAX];
    char message[TARRY_MESSAGE_SIZE];
};

static void event_run(struct deferred *deferred) {
    struct event *event = (struct event *)deferred;
    tarry_client *client = event->client;
    const struct tarry_event told = {event->kind, event->at_ms, event->url, event->message};
    client->on_event(client->event_arg, &told);
    free(event);
    pthread_mutex_lock(&client->lock);
    client->event_count--;
    pthread_mutex_unlock(&client->lock);
}

static bool push(tarry_client *client, enum tarry_event_kind kind, const char *url, const char *format, va_list list) {
    struct event *event = malloc(sizeof(*event));
    if (event == NULL) return false;
    event->deferred.run = event_run;
    event->client = client;
    event->kind = kind;
    event->at_ms = wall_ms();
    snprintf(event->url, sizeof(event->url), "%s", url);
    vsnprintf(event->message, sizeof(event->message), format, list);
    client->event_count++;
    if (client->dispatch.on) {
        dispatch_push(client, &event->deferred);
        return true;
    }
    event->deferred.next = NULL;
    if (client->events_first == NULL)
        client->events_first = &event->deferred;
    else
        client->events_last->next = &event->deferred;
    client->events_last = &event->deferred;
    engine_kick(client);
    return true;
}

__attribute__((format(printf, 4, 5))) static bool say(tarry_client *client, enum tarry_event_kind kind, const char *url,
                                                      const char *format, ...) {
    va_list list;
    va_start(list, format);
    const bool is_kept = push(client, kind, url, format, list);
    va_end(list);
    return is_kept;
}

void event_note(tarry_client *client, enum tarry_event_kind kind, const char *url, const char *format, ...) {
    if (client->on_event == NULL) return;
    if (client->events_dropped > 0 && client->event_count < EVENTS_MAX / 2 &&
        say(client, TARRY_LOG, "", "%zu events were dropped, because too many were queued", client->events_dropped))
        client->events_dropped = 0;
    va_list list;
    va_start(list, format);
    if (client->event_count >= EVENTS_MAX || client->events_dropped > 0 || !push(client, kind, url, format, list))
        client->events_dropped++;
    va_end(list);
}

void event_note_address(tarry_client *client, struct address *address) {
    const uint64_t now = now_ms();
    if (client->on_event == NULL || address->said[0] == 0) return;
    const bool is_same = address->logged_ms != 0 && strcmp(address->said, address->logged) == 0;
    if (is_same && now < address->logged_ms + SAME_AGAIN_MS) return;
    address->logged_ms = now;
    memcpy(address->logged, address->said, sizeof(address->logged));
    event_note(client, TARRY_LOG, address->place.url, "%s", address->said);
}

void events_tell(tarry_client *client) {
    while (client->events_first != NULL) {
        struct deferred *deferred = client->events_first;
        client->events_first = deferred->next;
        pthread_mutex_unlock(&client->lock);
        deferred->run(deferred);
        pthread_mutex_lock(&client->lock);
    }
}
