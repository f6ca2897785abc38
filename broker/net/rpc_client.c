/* rpc_client.c: see rpc_client.h. Uses libwebsockets as the client; all its callbacks run on the client's own thread.
 */
#include "rpc_client.h"

#include <assert.h>
#include <errno.h>
#include <libwebsockets.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "library.h"

/* Backoff between a failed connection attempt and the next one. */
#define DIAL_AGAIN_MIN_MS 20u
#define DIAL_AGAIN_MAX_MS 200u
#define CONNECT_S 5
#define FRAME_OUT (64u << 10)
#define ID_SIZE 4u
#define FIRST_CAPACITY (64u << 10)
#define US_PER_MS 1000

struct rpc_client {
    struct listen_address where;
    struct peer_credentials credentials;
    SSL_CTX *tls; /* NULL: no TLS */
    size_t answer_size_max;
    rpc_client_answered answered;
    void (*told)(void *argument); /* called when a connection is lost; may be NULL */
    void *argument;
    struct lws_context *context;
    pthread_t thread;
    _Atomic bool closed;

    pthread_mutex_t mutex;
    struct message *next; /* the next request, not begun yet */
    unsigned next_ms;

    /* used only by the client's thread */
    struct lws *wsi;        /* connecting, or open */
    bool dials;             /* lws_client_connect_via_info runs */
    bool open;              /* `wsi` may be written to */
    struct message *asked;  /* the request without a reply */
    size_t sent;            /* bytes of `asked` sent on this connection */
    uint32_t id;            /* id of `asked` */
    unsigned time_ms;       /* timeout without progress of the reply */
    struct message *coming; /* the reply's bytes so far */
    unsigned again_ms;
    lws_sorted_usec_list_t too_late; /* timeout of `asked` */
    lws_sorted_usec_list_t again;    /* the next connection attempt */
};

static void lost(struct rpc_client *rpc_client);

static void dial(struct rpc_client *rpc_client) {
    char host[LISTEN_HOST_SIZE + 16];
    bool is_six = strchr(rpc_client->where.host, ':') != NULL;
    snprintf(host, sizeof(host), "%s%s%s:%u", is_six ? "[" : "", rpc_client->where.host, is_six ? "]" : "",
             rpc_client->where.port);
    /* The context (tls_dial) checks the names in the server's certificate, also for IPv6 addresses. */
    const int over_tls = LCCSCF_USE_SSL | LCCSCF_SKIP_SERVER_CERT_HOSTNAME_CHECK;
    if (rpc_client->tls != NULL) tls_refresh(rpc_client->credentials.tls, rpc_client->tls);
    const struct lws_client_connect_info info = {
        .ssl_connection = rpc_client->tls != NULL ? over_tls : 0,
        .alpn = "http/1.1",
        .context = rpc_client->context,
        .address = rpc_client->where.host,
        .port = rpc_client->where.port,
        .path = "/rpc",
        .host = host,
        .protocol = "rep.sp.nanomsg.org",
        .local_protocol_name = "rpc_client",
        .ietf_version_or_minus_one = -1,
        .opaque_user_data = rpc_client,
    };
    /* The call may fail before it returns, with or without a callback. */
    rpc_client->dials = true;
    struct lws *wsi = lws_client_connect_via_info(&info);
    if (wsi != NULL && rpc_client->dials) rpc_client->wsi = wsi;
    if (wsi == NULL && rpc_client->dials) lost(rpc_client);
    rpc_client->dials = false;
}

static void on_again(lws_sorted_usec_list_t *sul) {
    struct rpc_client *rpc_client = lws_container_of(sul, struct rpc_client, again);
    if (rpc_client->wsi == NULL && rpc_client->asked != NULL) dial(rpc_client);
}

static void dial_later(struct rpc_client *rpc_client) {
    lws_sul_schedule(rpc_client->context, 0, &rpc_client->again, on_again,
                     (lws_usec_t)rpc_client->again_ms * US_PER_MS);
    rpc_client->again_ms = 2 * rpc_client->again_ms < DIAL_AGAIN_MAX_MS ? 2 * rpc_client->again_ms : DIAL_AGAIN_MAX_MS;
}

static void hang_up(struct rpc_client *rpc_client) {
    if (rpc_client->wsi == NULL) return;
    lws_set_timeout(rpc_client->wsi, PENDING_TIMEOUT_USER_REASON_BASE, LWS_TO_KILL_ASYNC);
}

/* Ends the request. `answer` NULL: there is no reply. */
static void end_question(struct rpc_client *rpc_client, struct message *answer) {
    message_free(rpc_client->asked);
    rpc_client->asked = NULL;
    lws_sul_cancel(&rpc_client->too_late);
    if (atomic_load(&rpc_client->closed))
        message_free(answer);
    else
        rpc_client->answered(rpc_client->argument, answer);
}

static void on_too_late(lws_sorted_usec_list_t *sul) {
    struct rpc_client *rpc_client = lws_container_of(sul, struct rpc_client, too_late);
    hang_up(rpc_client);
    end_question(rpc_client, NULL);
}

/* Starts the timeout: after a request is made, and after each part of a reply, since a slow link needs longer for it.
 */
static void wait_on(struct rpc_client *rpc_client) {
    lws_sul_schedule(rpc_client->context, 0, &rpc_client->too_late, on_too_late,
                     (lws_usec_t)rpc_client->time_ms * US_PER_MS);
}

/* Gives the request a new id, so that late replies to earlier requests are recognized and dropped. */
static void give_id(struct rpc_client *rpc_client) {
    rpc_client->id = (rpc_client->id + 1) | 0x80000000u;
    const uint8_t id[ID_SIZE] = {(uint8_t)(rpc_client->id >> 24), (uint8_t)(rpc_client->id >> 16),
                                 (uint8_t)(rpc_client->id >> 8), (uint8_t)rpc_client->id};
    message_put_head(rpc_client->asked, id, sizeof(id));
}

static void look_for_question(struct rpc_client *rpc_client) {
    pthread_mutex_lock(&rpc_client->mutex);
    struct message *next = rpc_client->next;
    if (next != NULL) rpc_client->time_ms = rpc_client->next_ms;
    rpc_client->next = NULL;
    pthread_mutex_unlock(&rpc_client->mutex);
    if (next == NULL) return;
    /* A half-sent message must not be continued by another one, so the connection is closed. */
    bool is_half_sent =
        rpc_client->asked != NULL && rpc_client->sent > 0 && rpc_client->sent < ID_SIZE + rpc_client->asked->size;
    message_free(rpc_client->asked);
    rpc_client->asked = next;
    rpc_client->sent = 0;
    give_id(rpc_client);
    wait_on(rpc_client);
    if (is_half_sent) hang_up(rpc_client);
    if (rpc_client->wsi == NULL && lws_dll2_is_detached(&rpc_client->again.list)) dial(rpc_client);
    if (rpc_client->wsi != NULL && rpc_client->open) lws_callback_on_writable(rpc_client->wsi);
}

/* ---- a connection */

/* Adds the token to the upgrade request. `at`: position of the next header. */
static int show_token(const struct rpc_client *rpc_client, char **at, size_t room) {
    char token[RPC_CLIENT_TOKEN_SIZE];
    if (rpc_client->credentials.token == NULL) return 0;
    if (!rpc_client->credentials.token(rpc_client->credentials.argument, token)) return -1;
    int size = snprintf(*at, room, "Authorization: Bearer %s\r\n", token);
    explicit_bzero(token, sizeof(token));
    if (size < 0 || (size_t)size >= room) return -1;
    *at += size;
    return 0;
}

static int write_some(struct rpc_client *rpc_client, struct lws *wsi) {
    if (rpc_client->asked == NULL || lws_partial_buffered(wsi)) return 0;
    size_t size = ID_SIZE + rpc_client->asked->size, rest = size - rpc_client->sent;
    if (rest == 0) return 0;
    size_t part = rest < FRAME_OUT ? rest : FRAME_OUT;
    int kind = rpc_client->sent == 0 ? LWS_WRITE_BINARY : LWS_WRITE_CONTINUATION;
    uint8_t frame[LWS_PRE + FRAME_OUT]; /* a copy, because masking changes the bytes and they may be sent again */
    memcpy(frame + LWS_PRE, message_head(rpc_client->asked) + rpc_client->sent, part);
    if (part < rest) kind |= LWS_WRITE_NO_FIN;
    if (lws_write(wsi, frame + LWS_PRE, part, (enum lws_write_protocol)kind) < 0) return -1;
    rpc_client->sent += part;
    if (part < rest) lws_callback_on_writable(wsi);
    return 0;
}

static bool is_of_question(const struct rpc_client *rpc_client, struct message *answer) {
    if (!message_take_head(answer) || answer->head_size != ID_SIZE || rpc_client->asked == NULL) return false;
    return memcmp(message_head(answer), message_head(rpc_client->asked), ID_SIZE) == 0;
}

static bool has_room(struct rpc_client *rpc_client, size_t size) {
    if (rpc_client->coming == NULL) {
        rpc_client->coming = message_new(size > FIRST_CAPACITY ? size : FIRST_CAPACITY);
        if (rpc_client->coming == NULL) return false;
        rpc_client->coming->size = 0;
    }
    size_t needed = rpc_client->coming->size + size, capacity = 2 * rpc_client->coming->capacity;
    if (needed > rpc_client->answer_size_max) return false;
    return needed <= rpc_client->coming->capacity ||
           message_grow(&rpc_client->coming, capacity > needed ? capacity : needed);
}

static int received(struct rpc_client *rpc_client, struct lws *wsi, const void *bytes, size_t size) {
    if (!lws_frame_is_binary(wsi) || !has_room(rpc_client, size)) return -1;
    memcpy(rpc_client->coming->bytes + rpc_client->coming->size, bytes, size);
    rpc_client->coming->size += size;
    if (rpc_client->asked != NULL) wait_on(rpc_client);
    if (lws_remaining_packet_payload(wsi) > 0 || !lws_is_final_fragment(wsi)) return 0;
    struct message *answer = rpc_client->coming;
    rpc_client->coming = NULL;
    if (is_of_question(rpc_client, answer))
        end_question(rpc_client, answer);
    else
        message_free(answer);
    return 0;
}

static void lost(struct rpc_client *rpc_client) {
    rpc_client->dials = rpc_client->open = false;
    rpc_client->wsi = NULL;
    rpc_client->sent = 0;
    message_free(rpc_client->coming);
    rpc_client->coming = NULL;
    if (atomic_load(&rpc_client->closed)) return;
    if (rpc_client->asked != NULL) dial_later(rpc_client);
    if (rpc_client->told != NULL) rpc_client->told(rpc_client->argument);
}

static int event(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t size) {
    if (reason == LWS_CALLBACK_EVENT_WAIT_CANCELLED) {
        look_for_question(lws_context_user(lws_get_context(wsi)));
        return 0;
    }
    struct rpc_client *rpc_client = lws_get_opaque_user_data(wsi);
    if (rpc_client == NULL) return 0;
    switch (reason) {
    case LWS_CALLBACK_CLIENT_APPEND_HANDSHAKE_HEADER:
        return show_token(rpc_client, in, size);
    case LWS_CALLBACK_CLIENT_ESTABLISHED:
        rpc_client->open = true;
        rpc_client->again_ms = DIAL_AGAIN_MIN_MS;
        lws_callback_on_writable(wsi);
        return 0;
    case LWS_CALLBACK_CLIENT_RECEIVE:
        return received(rpc_client, wsi, in, size);
    case LWS_CALLBACK_CLIENT_WRITEABLE:
        return write_some(rpc_client, wsi);
    case LWS_CALLBACK_CLIENT_CONNECTION_ERROR:
    case LWS_CALLBACK_CLIENT_CLOSED:
    case LWS_CALLBACK_WSI_DESTROY:
        lws_set_opaque_user_data(wsi, NULL);
        lost(rpc_client);
        return 0;
    default:
        return 0;
    }
}

static const struct lws_protocols protocols[] = {
    {.name = "rpc_client", .callback = event, .rx_buffer_size = FRAME_OUT},
    {0},
};
static const lws_retry_bo_t no_pings;

static void *run(void *argument) {
    struct rpc_client *rpc_client = argument;
    while (!atomic_load(&rpc_client->closed) && lws_service(rpc_client->context, 0) >= 0) {
    }
    return NULL;
}

/* ---- life cycle */

static void deinit(struct rpc_client *rpc_client) {
    if (rpc_client->context != NULL) lws_context_destroy(rpc_client->context); /* calls back for open connections */
    SSL_CTX_free(rpc_client->tls);
    message_free(rpc_client->next);
    message_free(rpc_client->asked);
    message_free(rpc_client->coming);
    pthread_mutex_destroy(&rpc_client->mutex);
    free(rpc_client);
}

int rpc_client_open(struct rpc_client **out, const struct listen_address *where,
                    const struct peer_credentials *credentials, size_t answer_size_max, rpc_client_answered answered,
                    void *argument) {
    const bool over_tls = where->scheme == LISTEN_WSS;
    assert(!over_tls || credentials->tls != NULL);
    struct rpc_client *rpc_client = calloc(1, sizeof(*rpc_client));
    if (rpc_client == NULL) return ENOMEM;
    rpc_client->where = *where;
    rpc_client->credentials = *credentials;
    if (over_tls) rpc_client->tls = tls_dial(credentials->tls, where->host);
    rpc_client->answer_size_max = answer_size_max;
    rpc_client->answered = answered;
    rpc_client->argument = argument;
    rpc_client->again_ms = DIAL_AGAIN_MIN_MS;
    pthread_mutex_init(&rpc_client->mutex, NULL);
    library_begin();
    const struct lws_context_creation_info info = {
        .port = CONTEXT_PORT_NO_LISTEN,
        .options = over_tls ? LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT : 0,
        .provided_client_ssl_ctx = rpc_client->tls,
        .protocols = protocols,
        .pt_serv_buf_size = FRAME_OUT,
        .timeout_secs = CONNECT_S,
        .connect_timeout_secs = CONNECT_S,
        .fd_limit_per_thread = 16,
        .retry_and_idle_policy = &no_pings,
        .user = rpc_client,
    };
    (void)library_lacked();
    rpc_client->context = lws_create_context(&info);
    bool is_whole = !library_lacked();
    bool is_made = rpc_client->context != NULL && is_whole;
    int error = is_made ? pthread_create(&rpc_client->thread, NULL, run, rpc_client) : ENOMEM;
    if (error != 0) {
        if (is_made)
            deinit(rpc_client);
        else
            free(rpc_client);
        return error;
    }
    pthread_setname_np(rpc_client->thread, "tarry-asker");
    *out = rpc_client;
    return 0;
}

void rpc_client_tell_lost(struct rpc_client *rpc_client, void (*told)(void *argument)) {
    rpc_client->told = told;
}

void rpc_client_ask(struct rpc_client *rpc_client, struct message *question, unsigned time_ms) {
    pthread_mutex_lock(&rpc_client->mutex);
    message_free(rpc_client->next);
    rpc_client->next = question;
    rpc_client->next_ms = time_ms;
    pthread_mutex_unlock(&rpc_client->mutex);
    lws_cancel_service(rpc_client->context);
}

void rpc_client_close(struct rpc_client *rpc_client) {
    if (rpc_client == NULL) return;
    atomic_store(&rpc_client->closed, true);
    lws_cancel_service(rpc_client->context);
    pthread_join(rpc_client->thread, NULL);
    deinit(rpc_client);
}
