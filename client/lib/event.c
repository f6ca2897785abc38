/* event.c: events about connections (tarry_loop.h). Events are recorded under the client's lock. The engine, or
 * tarry_dispatch, reports them without the lock. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

#define EVENTS_MAX 256u
#define SAME_AGAIN_MS 10000u

struct event {
    struct deferred deferred; /* must be the first member; its `next` belongs to the queue */
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
