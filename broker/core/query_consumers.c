/* query_consumers.c: the question about connected consumers. */
#include <string.h>

#include "callers.h"
#include "effects.h"
#include "leases.h"
#include "query.h"
#include "wishes.h"

/* Adds a name to one of the two lists of the view, and counts it, if the caller may see it. */
static void add_name(Tarry__ConsumerView *view, const struct core_request *request, const char *name, char **list,
                     size_t *count) {
    if (!caller_covers(request->caller, name)) return;
    view->queue_count++;
    if (*count < CONSUMER_QUEUES_SHOWN) list[(*count)++] = (char *)name;
}

/* Returns whether the session consumes the queue or waits for its creation. */
static bool has_queue(const struct session *session, const char *name) {
    const struct wish *wish = NULL;
    for (uint32_t i = 0; i < session->subscription_count; i++)
        if (strcmp(session->subscriptions[i].queue->name, name) == 0) return true;
    TAILQ_FOREACH(wish, &session->wishes, of_session) {
        if (strcmp(wish->awaited->name, name) == 0) return true;
    }
    return false;
}

/* Returns NULL if the caller may see none of the session's queues. */
static Tarry__ConsumerView *view_of(const struct session *session, const struct core_request *request,
                                    struct arena *arena) {
    Tarry__ConsumerView *view = must_alloc(arena, sizeof *view);
    const struct wish *wish = NULL;
    tarry__consumer_view__init(view);
    view->queues = must_alloc(arena, CONSUMER_QUEUES_SHOWN * sizeof *view->queues);
    view->awaited = must_alloc(arena, CONSUMER_QUEUES_SHOWN * sizeof *view->awaited);
    for (uint32_t i = 0; i < session->subscription_count; i++)
        add_name(view, request, session->subscriptions[i].queue->name, view->queues, &view->n_queues);
    TAILQ_FOREACH(wish, &session->wishes, of_session) {
        /* Copy the name, because the entry may be used for another name before the reply is packed. */
        add_name(view, request, must_copy_text(arena, wish->awaited->name), view->awaited, &view->n_awaited);
    }
    if (!view->queue_count) return NULL;
    view->session = session->id;
    view->client = must_copy_text(arena, session->client);
    view->peer = must_copy_text(arena, session->peer);
    view->principal = must_copy_text(arena, session->principal);
    view->prefetch = session->prefetch;
    view->in_flight = session->lease_count - session->ahead_count;
    view->settled_ms = session->settled_ms;
    view->heard_ms = session->heard_ms;
    view->shared = session_is_pooled(session->id);
    if (view->shared) view->prefetch = session->credit + view->in_flight;
    return view;
}

void query_consumers(struct core *core, const struct core_request *request, struct core_effects *effects) {
    const char *name = request->message->consumers->queue;
    Tarry__Reply *reply = reply_new(effects, TARRY__CODE__OK);
    reply->body_case = TARRY__REPLY__BODY_CONSUMERS;
    reply->consumers = must_alloc(effects->arena, sizeof *reply->consumers);
    tarry__consumers_reply__init(reply->consumers);
    reply->consumers->consumers = must_alloc(effects->arena, core->session_count * sizeof(Tarry__ConsumerView *));
    for (size_t i = 0; i < core->sessions_end; i++) {
        const struct session *session = &core->sessions[i];
        if (!session_is_present(session) || (name && *name && !has_queue(session, name))) continue;
        Tarry__ConsumerView *view = view_of(session, request, effects->arena);
        if (view) reply->consumers->consumers[reply->consumers->n_consumers++] = view;
    }
    reply_send(core, effects, request->ticket, reply);
}
