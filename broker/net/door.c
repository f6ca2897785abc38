/* door.c: the door's thread, and the queue of messages from other threads; see door.h. */
#include "door.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "door_parts.h"
#include "library.h"

/* ---- messages from other threads */

static void hand_over(struct door *door, struct message *message) {
    message->next = NULL;
    door_hold(door, message->capacity);
    atomic_fetch_add(&door->queued, 1);
    pthread_mutex_lock(&door->mutex);
    bool was_empty = door->first == NULL;
    *door->last = message;
    door->last = &message->next;
    pthread_mutex_unlock(&door->mutex);
    if (was_empty && !door_is_served_here(door)) lws_cancel_service(door->context);
}

void door_answer(struct door *door, uint64_t to, struct message *answer) {
    if (answer == NULL) {
        door_close(door, to);
        return;
    }
    answer->to = to;
    answer->kind = ORDER_ANSWER;
    hand_over(door, answer);
}

void door_deliver(struct door *door, uint64_t to, struct message *message) {
    message->to = to;
    message->kind = ORDER_DELIVERY;
    hand_over(door, message);
}

void door_page(struct door *door, uint64_t to, struct message *page) {
    if (page == NULL) {
        door_close(door, to);
        return;
    }
    page->to = to;
    page->kind = ORDER_PAGE;
    hand_over(door, page);
}

static struct slot *slot_of(struct door *door, uint64_t id) {
    uint64_t place = id & UINT16_MAX;
    assert(place < door->limits.connections_max);
    return &door->slots[place];
}

static void end_inside(struct door *door, uint64_t id) {
    pthread_mutex_lock(&door->mutex);
    assert(door->inside_end_count < DOOR_INSIDE_ENDS);
    door->inside_ends[door->inside_end_count++] = id;
    pthread_mutex_unlock(&door->mutex);
    lws_cancel_service(door->context);
}

/* Queues the end of a connection; a slot is in the list only once, however often its end is requested. */
static void ask_for_end(struct door *door, uint64_t id, bool at_once) {
    if (door_is_inside(id)) {
        end_inside(door, id);
        return;
    }
    struct slot *slot = slot_of(door, id);
    pthread_mutex_lock(&door->mutex);
    bool was_empty = door->ending == NULL;
    *(at_once ? &slot->closing : &slot->lingering) = id;
    if (!slot->is_ending) {
        slot->is_ending = true;
        slot->next = door->ending;
        door->ending = slot;
    }
    pthread_mutex_unlock(&door->mutex);
    if (was_empty) lws_cancel_service(door->context);
}

void door_close(struct door *door, uint64_t id) {
    ask_for_end(door, id, true);
}

void door_linger(struct door *door, uint64_t id) {
    ask_for_end(door, id, false);
}

void door_review(struct door *door) {
    if (!atomic_exchange(&door->reviews, true)) lws_cancel_service(door->context);
}

void door_resume(struct door *door) {
    if (!atomic_exchange(&door->resumes, true)) lws_cancel_service(door->context);
}

size_t door_held(const struct door *door) {
    return atomic_load(&door->held);
}

/* ---- the thread */

static void carry_inside(struct door *door, struct message *message) {
    const struct door_calls *calls = &door->calls;
    bool is_delivery = message->kind == ORDER_DELIVERY;
    if (is_delivery && !calls->lane_leaves(calls->argument, message->lane, message->turn))
        calls->lane_sent(calls->argument, message->lane, message->turn, false, message->stamp);
    else
        calls->inside(calls->argument, message->to, message, is_delivery);
    door_done(door, message);
}

static void carry_out(struct door *door, struct message *message) {
    if (door_is_inside(message->to)) {
        carry_inside(door, message);
        return;
    }
    struct connection *connection = connection_find(door, message->to);
    bool is_there = connection != NULL && !connection->is_gone;
    if (is_there && connection->kind == CONNECTION_STREAM) {
        stream_answer(connection, message);
    } else if (is_there && message->kind == ORDER_PAGE) {
        http_answer(connection, message);
    } else if (is_there) {
        ws_send(connection, message);
    } else {
        if (message->kind == ORDER_DELIVERY)
            door->calls.lane_sent(door->calls.argument, message->lane, message->turn, false, message->stamp);
        door_done(door, message);
    }
}

void door_carry_out(struct door *door) {
    pthread_mutex_lock(&door->mutex);
    struct message *message = door->first;
    door->first = NULL;
    door->last = &door->first;
    pthread_mutex_unlock(&door->mutex);
    for (struct message *next; message != NULL; message = next) {
        next = message->next;
        carry_out(door, message);
    }
}

/* Takes the next requested end. False: the list is empty. */
static bool take_end(struct door *door, uint64_t *out_closing, uint64_t *out_lingering) {
    pthread_mutex_lock(&door->mutex);
    struct slot *slot = door->ending;
    if (slot != NULL) {
        door->ending = slot->next;
        *out_closing = slot->closing;
        *out_lingering = slot->lingering;
        slot->closing = slot->lingering = 0;
        slot->is_ending = false;
    }
    pthread_mutex_unlock(&door->mutex);
    return slot != NULL;
}

/* Takes the next ended inside id; 0: none. */
static uint64_t take_inside_end(struct door *door) {
    pthread_mutex_lock(&door->mutex);
    uint64_t id = door->inside_end_count > 0 ? door->inside_ends[--door->inside_end_count] : 0;
    pthread_mutex_unlock(&door->mutex);
    return id;
}

static void end_some(struct door *door) {
    uint64_t closing, lingering, inside;
    while ((inside = take_inside_end(door)) != 0) door->calls.inside(door->calls.argument, inside, NULL, false);
    while (take_end(door, &closing, &lingering)) {
        struct connection *connection = connection_find(door, lingering);
        if (connection != NULL) lws_set_timeout(connection->wsi, PENDING_TIMEOUT_USER_REASON_BASE, DOOR_LINGER_S);
        connection = connection_find(door, closing);
        if (connection != NULL) connection_kill(connection);
    }
}

static void review(struct door *door) {
    if (!atomic_exchange(&door->reviews, false)) return;
    for (unsigned i = 0; i < door->limits.connections_max; i++) {
        struct connection *connection = door->slots[i].connection;
        if (connection == NULL || !connection->is_admitted) continue;
        if (!door->calls.stays(door->calls.argument, connection->principal)) connection_kill(connection);
    }
}

static void look_around(struct door *door) {
    door_carry_out(door);
    end_some(door);
    review(door);
    if (atomic_exchange(&door->resumes, false)) {
        ws_offer_waiting(door);
        door->calls.resumed(door->calls.argument);
    }
    if (!atomic_load(&door->stopping)) return;
    for (unsigned i = 0; i < door->limits.connections_max; i++)
        if (door->slots[i].connection != NULL && door->slots[i].connection->kind == CONNECTION_RPC)
            ws_regulate(door->slots[i].connection);
}

static int event(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t size) {
    struct connection *connection = lws_get_opaque_user_data(wsi);
    if (connection == NULL) return 0;
    connection->door->adopting = NULL;
    connection->wsi = wsi;
    if (reason != LWS_CALLBACK_WSI_DESTROY && (connection->is_diverted || connection->speaks != NULL))
        return stream_event(connection, reason, in, size);
    switch (reason) {
    case LWS_CALLBACK_WSI_DESTROY:
        lws_set_opaque_user_data(wsi, NULL);
        connection->wsi = NULL;
        connection_free(connection);
        return 0;
    case LWS_CALLBACK_ESTABLISHED:
    case LWS_CALLBACK_RECEIVE:
    case LWS_CALLBACK_SERVER_WRITEABLE:
    case LWS_CALLBACK_WS_PEER_INITIATED_CLOSE:
    case LWS_CALLBACK_CLOSED:
        return ws_event(connection, reason, in, size);
    default:
        return http_event(connection, reason, in, size);
    }
}

/* Timer callback: checks whether the certificate files have changed. */
static void look_at_tls(lws_sorted_usec_list_t *timer) {
    struct door *door = lws_container_of(timer, struct door, tls_look);
    tls_look(door->limits.tls);
    lws_sul_schedule(door->context, 0, timer, look_at_tls, (lws_usec_t)TLS_LOOK_S * LWS_USEC_PER_SEC);
}

static int first_event(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t size) {
    if (reason == LWS_CALLBACK_EVENT_WAIT_CANCELLED) {
        look_around(lws_context_user(lws_get_context(wsi)));
        return 0;
    }
    if (reason == LWS_CALLBACK_OPENSSL_LOAD_EXTRA_SERVER_VERIFY_CERTS) { /* `user` is the vhost's SSL_CTX */
        const struct door *door = lws_context_user(lws_get_context(wsi));
        return tls_serve(door->limits.tls, user) ? 0 : -1;
    }
    return event(wsi, reason, user, in, size);
}

static const struct lws_protocols protocols[] = {
    {.name = "http", .callback = first_event, .rx_buffer_size = DOOR_FRAME_OUT},
    {.name = "rep.sp.nanomsg.org", .callback = event, .rx_buffer_size = DOOR_FRAME_OUT},
    {.name = "push.sp.nanomsg.org", .callback = event, .rx_buffer_size = DOOR_FRAME_OUT},
    {.name = "listener", .callback = accept_event},
    {.name = "stream", .callback = event, .rx_buffer_size = DOOR_FRAME_OUT},
    {0},
};

/* The kernel's keepalive checks idle connections (listen.c), so no pings are sent. */
static const lws_retry_bo_t no_pings;

void door_round(struct door *door) {
    int result = lws_service(door->context, 0);
    if (wait_fell_back(door->wait))
        door->calls.trouble(door->calls.argument, "connections are waited for by poll(2): many of them are slow");
    if (result < 0) {
        door->calls.trouble(door->calls.argument, "libwebsockets has given up: nobody could reach the broker any more");
        abort();
    }
    http_push(door);
    /* Messages queued by this thread itself need no wake-up: it sends them here. */
    door_carry_out(door);
    turns_serve(door);
    door->calls.served(door->calls.argument);
    door_carry_out(door);
    pressure_look(door);
}

static void *run(void *argument) {
    struct door *door = argument;
    pthread_mutex_lock(&door->serving);
    door->wait = wait_begin();
    door_serve_here(door, true);
    while (!atomic_load(&door->quits)) door_round(door);
    door_serve_here(door, false);
    wait_end(door->wait);
    pthread_mutex_unlock(&door->serving);
    return NULL;
}

/* ---- start and stop */

static bool make_vhosts(struct door *door) {
    const bool has_tls = door->limits.tls != NULL && tls_has_certificate(door->limits.tls);
    struct lws_context_creation_info vhost = {
        .port = CONTEXT_PORT_NO_LISTEN_SERVER,
        .vhost_name = "tarryd",
        .protocols = protocols,
        .timeout_secs = DOOR_HEAD_S,
        .timeout_secs_ah_idle = DOOR_HEAD_S,
        .keepalive_timeout = DOOR_IDLE_S,
        .retry_and_idle_policy = &no_pings,
        /* Connections that door_first.c has marked do not look like HTTP to the library, so it treats them as raw
         * bytes. */
        .options = LWS_SERVER_OPTION_FALLBACK_TO_APPLY_LISTEN_ACCEPT_CONFIG,
        .listen_accept_role = "raw-skt",
        .listen_accept_protocol = "stream",
    };
    door->vhost = lws_create_vhost(door->context, &vhost);
    if (door->vhost == NULL || !has_tls) return door->vhost != NULL;
    vhost.vhost_name = "tarryd-tls";
    vhost.options |= LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT | LWS_SERVER_OPTION_CREATE_VHOST_SSL_CTX;
    vhost.alpn = "http/1.1";
    door->vhost_tls = lws_create_vhost(door->context, &vhost);
    return door->vhost_tls != NULL;
}

struct door *door_new(const struct door_calls *calls, const struct door_limits *limits) {
    struct door *door = calloc(1, sizeof(*door));
    if (door == NULL) return NULL;
    door->calls = *calls;
    door->limits = *limits;
    door->last = &door->first;
    fair_init(&door->line);
    pthread_mutex_init(&door->mutex, NULL);
    pthread_mutex_init(&door->serving, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&door->drained, &monotonic);
    pthread_condattr_destroy(&monotonic);
    library_tell(calls->trouble, calls->argument);
    const struct lws_context_creation_info context = {
        .options = LWS_SERVER_OPTION_EXPLICIT_VHOSTS | (limits->tls != NULL ? LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT : 0),
        .port = CONTEXT_PORT_NO_LISTEN,
        .pt_serv_buf_size = DOOR_FRAME_OUT,
        .timeout_secs = DOOR_HEAD_S,
        .max_http_header_data = DOOR_HEAD_WRITTEN_MAX,
        .max_http_header_pool = 2 * DOOR_HTTP_MAX + 1,
        .retry_and_idle_policy = &no_pings,
        .user = door,
    };
    (void)library_lacked();
    if (connections_init(door)) door->context = lws_create_context(&context);
    bool is_made = door->context != NULL && make_vhosts(door);
    bool is_whole = !library_lacked();
    if (is_made && is_whole) return door;
    if (door->context != NULL && is_whole) lws_context_destroy(door->context);
    free(door->slots);
    free(door->free_slots);
    free(door);
    return NULL;
}

void door_add(struct door *door, int fd, bool over_tls, const struct door_stream_calls *speaks) {
    assert(door->listener_count < DOOR_LISTENERS_MAX);
    assert(!over_tls || door->vhost_tls != NULL);
    door->listeners[door->listener_count++] =
        (struct listener){.door = door, .fd = fd, .over_tls = over_tls, .speaks = speaks};
}

static void on_alarm(lws_sorted_usec_list_t *timer) {
    struct door *door = lws_container_of(timer, struct door, alarm);
    door->calls.alarm(door->calls.argument);
}

void door_alarm(struct door *door, uint64_t after_ms) {
    lws_sul_schedule(door->context, 0, &door->alarm, on_alarm, (lws_usec_t)after_ms * (LWS_USEC_PER_SEC / 1000));
}

int door_start(struct door *door) {
    if (!accept_begin(door)) return ENOMEM;
    if (door->limits.tls != NULL) look_at_tls(&door->tls_look);
    int error = substitute_start(door);
    if (error == 0) error = pthread_create(&door->thread, NULL, run, door);
    if (error == 0) pthread_setname_np(door->thread, "tarry-net");
    return error;
}

void door_stop(struct door *door, unsigned wait_ms) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += wait_ms / 1000;
    until.tv_nsec += (long)(wait_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    atomic_store(&door->stopping, true);
    lws_cancel_service(door->context);
    pthread_mutex_lock(&door->mutex);
    int error = 0;
    while (atomic_load(&door->queued) > 0 && error == 0)
        error = pthread_cond_timedwait(&door->drained, &door->mutex, &until);
    pthread_mutex_unlock(&door->mutex);
    atomic_store(&door->quits, true);
    lws_cancel_service(door->context);
    pthread_join(door->thread, NULL);
    substitute_stop(door);
}
