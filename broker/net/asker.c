/* asker.c: see asker.h. libwebsockets is the client; it calls back on the asker's thread alone. */
#include "asker.h"

#include <assert.h>
#include <errno.h>
#include <libwebsockets.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "library.h"

/* How long after a dial that failed the next one follows. */
#define DIAL_AGAIN_MIN_MS 20u
#define DIAL_AGAIN_MAX_MS 200u
#define CONNECT_S 5
#define FRAME_OUT (64u << 10)
#define ID_SIZE 4u
#define FIRST_CAPACITY (64u << 10)
#define US_PER_MS 1000

struct asker {
    struct listen_address where;
    struct asker_papers papers;
    SSL_CTX *tls; /* NULL: without */
    size_t answer_size_max;
    asker_answered answered;
    void (*told)(void *argument); /* of a lost connection; NULL: nobody is */
    void *argument;
    struct lws_context *context;
    pthread_t thread;
    _Atomic bool closed;

    pthread_mutex_t mutex;
    struct message *next; /* asked, and not begun yet */
    unsigned next_ms;

    /* the thread's own */
    struct lws *wsi;        /* dialled, or open */
    bool dials;             /* … being dialled just now, and has not failed yet */
    bool open;              /* it may be written to */
    struct message *asked;  /* without an answer yet */
    size_t sent;            /* bytes of it, on this connection */
    uint32_t id;            /* its */
    unsigned time_ms;       /* for which it is waited for without a part of it */
    struct message *coming; /* of an answer */
    unsigned again_ms;
    lws_sorted_usec_list_t too_late; /* `asked` ends without an answer */
    lws_sorted_usec_list_t again;    /* the next dial */
};

static void lost(struct asker *asker);

static void dial(struct asker *asker) {
    char host[LISTEN_HOST_SIZE + 16];
    bool is_six = strchr(asker->where.host, ':') != NULL;
    snprintf(host, sizeof(host), "%s%s%s:%u", is_six ? "[" : "", asker->where.host, is_six ? "]" : "",
             asker->where.port);
    /* The names in its certificate are checked by the context (tls_dial), also when they are IPv6 addresses. */
    const int over_tls = LCCSCF_USE_SSL | LCCSCF_SKIP_SERVER_CERT_HOSTNAME_CHECK;
    if (asker->tls != NULL) tls_refresh(asker->papers.tls, asker->tls);
    const struct lws_client_connect_info info = {
        .ssl_connection = asker->tls != NULL ? over_tls : 0,
        .alpn = "http/1.1",
        .context = asker->context,
        .address = asker->where.host,
        .port = asker->where.port,
        .path = "/rpc",
        .host = host,
        .protocol = "rep.sp.nanomsg.org",
        .local_protocol_name = "asker",
        .ietf_version_or_minus_one = -1,
        .opaque_user_data = asker,
    };
    /* It may fail before this has returned, and be called back or not. */
    asker->dials = true;
    struct lws *wsi = lws_client_connect_via_info(&info);
    if (wsi != NULL && asker->dials) asker->wsi = wsi;
    if (wsi == NULL && asker->dials) lost(asker);
    asker->dials = false;
}

static void on_again(lws_sorted_usec_list_t *sul) {
    struct asker *asker = lws_container_of(sul, struct asker, again);
    if (asker->wsi == NULL && asker->asked != NULL) dial(asker);
}

static void dial_later(struct asker *asker) {
    lws_sul_schedule(asker->context, 0, &asker->again, on_again, (lws_usec_t)asker->again_ms * US_PER_MS);
    asker->again_ms = 2 * asker->again_ms < DIAL_AGAIN_MAX_MS ? 2 * asker->again_ms : DIAL_AGAIN_MAX_MS;
}

static void hang_up(struct asker *asker) {
    if (asker->wsi == NULL) return;
    lws_set_timeout(asker->wsi, PENDING_TIMEOUT_USER_REASON_BASE, LWS_TO_KILL_ASYNC);
}

/* `answer` NULL: none came. */
static void end_question(struct asker *asker, struct message *answer) {
    message_free(asker->asked);
    asker->asked = NULL;
    lws_sul_cancel(&asker->too_late);
    if (atomic_load(&asker->closed))
        message_free(answer);
    else
        asker->answered(asker->argument, answer);
}

static void on_too_late(lws_sorted_usec_list_t *sul) {
    struct asker *asker = lws_container_of(sul, struct asker, too_late);
    hang_up(asker);
    end_question(asker, NULL);
}

/* Once it is asked, and again with each part of an answer: a large one takes longer over a slow link. */
static void wait_on(struct asker *asker) {
    lws_sul_schedule(asker->context, 0, &asker->too_late, on_too_late, (lws_usec_t)asker->time_ms * US_PER_MS);
}

/* A request's id: with it the answers to former questions are told from this one's. */
static void give_id(struct asker *asker) {
    asker->id = (asker->id + 1) | 0x80000000u;
    const uint8_t id[ID_SIZE] = {(uint8_t)(asker->id >> 24), (uint8_t)(asker->id >> 16), (uint8_t)(asker->id >> 8),
                                 (uint8_t)asker->id};
    message_put_head(asker->asked, id, sizeof(id));
}

static void look_for_question(struct asker *asker) {
    pthread_mutex_lock(&asker->mutex);
    struct message *next = asker->next;
    if (next != NULL) asker->time_ms = asker->next_ms;
    asker->next = NULL;
    pthread_mutex_unlock(&asker->mutex);
    if (next == NULL) return;
    /* What was begun must be ended, or the other side takes this for its rest. */
    bool is_half_sent = asker->asked != NULL && asker->sent > 0 && asker->sent < ID_SIZE + asker->asked->size;
    message_free(asker->asked);
    asker->asked = next;
    asker->sent = 0;
    give_id(asker);
    wait_on(asker);
    if (is_half_sent) hang_up(asker);
    if (asker->wsi == NULL && lws_dll2_is_detached(&asker->again.list)) dial(asker);
    if (asker->wsi != NULL && asker->open) lws_callback_on_writable(asker->wsi);
}

/* ---- a connection */

/* `at` is where the next header of the upgrade goes. */
static int show_token(const struct asker *asker, char **at, size_t room) {
    char token[ASKER_TOKEN_SIZE];
    if (asker->papers.token == NULL) return 0;
    if (!asker->papers.token(asker->papers.argument, token)) return -1;
    int size = snprintf(*at, room, "Authorization: Bearer %s\r\n", token);
    explicit_bzero(token, sizeof(token));
    if (size < 0 || (size_t)size >= room) return -1;
    *at += size;
    return 0;
}

static int write_some(struct asker *asker, struct lws *wsi) {
    if (asker->asked == NULL || lws_partial_buffered(wsi)) return 0;
    size_t size = ID_SIZE + asker->asked->size, rest = size - asker->sent;
    if (rest == 0) return 0;
    size_t part = rest < FRAME_OUT ? rest : FRAME_OUT;
    int kind = asker->sent == 0 ? LWS_WRITE_BINARY : LWS_WRITE_CONTINUATION;
    uint8_t frame[LWS_PRE + FRAME_OUT]; /* masking changes what is sent; it may be sent again */
    memcpy(frame + LWS_PRE, message_head(asker->asked) + asker->sent, part);
    if (part < rest) kind |= LWS_WRITE_NO_FIN;
    if (lws_write(wsi, frame + LWS_PRE, part, (enum lws_write_protocol)kind) < 0) return -1;
    asker->sent += part;
    if (part < rest) lws_callback_on_writable(wsi);
    return 0;
}

static bool is_of_question(const struct asker *asker, struct message *answer) {
    if (!message_take_head(answer) || answer->head_size != ID_SIZE || asker->asked == NULL) return false;
    return memcmp(message_head(answer), message_head(asker->asked), ID_SIZE) == 0;
}

static bool has_room(struct asker *asker, size_t size) {
    if (asker->coming == NULL) {
        asker->coming = message_new(size > FIRST_CAPACITY ? size : FIRST_CAPACITY);
        if (asker->coming == NULL) return false;
        asker->coming->size = 0;
    }
    size_t needed = asker->coming->size + size, capacity = 2 * asker->coming->capacity;
    if (needed > asker->answer_size_max) return false;
    return needed <= asker->coming->capacity || message_grow(&asker->coming, capacity > needed ? capacity : needed);
}

static int received(struct asker *asker, struct lws *wsi, const void *bytes, size_t size) {
    if (!lws_frame_is_binary(wsi) || !has_room(asker, size)) return -1;
    memcpy(asker->coming->bytes + asker->coming->size, bytes, size);
    asker->coming->size += size;
    if (asker->asked != NULL) wait_on(asker);
    if (lws_remaining_packet_payload(wsi) > 0 || !lws_is_final_fragment(wsi)) return 0;
    struct message *answer = asker->coming;
    asker->coming = NULL;
    if (is_of_question(asker, answer))
        end_question(asker, answer);
    else
        message_free(answer);
    return 0;
}

static void lost(struct asker *asker) {
    asker->dials = asker->open = false;
    asker->wsi = NULL;
    asker->sent = 0;
    message_free(asker->coming);
    asker->coming = NULL;
    if (atomic_load(&asker->closed)) return;
    if (asker->asked != NULL) dial_later(asker);
    if (asker->told != NULL) asker->told(asker->argument);
}

static int event(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t size) {
    if (reason == LWS_CALLBACK_EVENT_WAIT_CANCELLED) {
        look_for_question(lws_context_user(lws_get_context(wsi)));
        return 0;
    }
    struct asker *asker = lws_get_opaque_user_data(wsi);
    if (asker == NULL) return 0;
    switch (reason) {
    case LWS_CALLBACK_CLIENT_APPEND_HANDSHAKE_HEADER:
        return show_token(asker, in, size);
    case LWS_CALLBACK_CLIENT_ESTABLISHED:
        asker->open = true;
        asker->again_ms = DIAL_AGAIN_MIN_MS;
        lws_callback_on_writable(wsi);
        return 0;
    case LWS_CALLBACK_CLIENT_RECEIVE:
        return received(asker, wsi, in, size);
    case LWS_CALLBACK_CLIENT_WRITEABLE:
        return write_some(asker, wsi);
    case LWS_CALLBACK_CLIENT_CONNECTION_ERROR:
    case LWS_CALLBACK_CLIENT_CLOSED:
    case LWS_CALLBACK_WSI_DESTROY:
        lws_set_opaque_user_data(wsi, NULL);
        lost(asker);
        return 0;
    default:
        return 0;
    }
}

static const struct lws_protocols protocols[] = {
    {.name = "asker", .callback = event, .rx_buffer_size = FRAME_OUT},
    {0},
};
static const lws_retry_bo_t no_pings;

static void *run(void *argument) {
    struct asker *asker = argument;
    while (!atomic_load(&asker->closed) && lws_service(asker->context, 0) >= 0) {
    }
    return NULL;
}

/* ---- from beginning to end */

static void deinit(struct asker *asker) {
    if (asker->context != NULL) lws_context_destroy(asker->context); /* calls back for what is open */
    SSL_CTX_free(asker->tls);
    message_free(asker->next);
    message_free(asker->asked);
    message_free(asker->coming);
    pthread_mutex_destroy(&asker->mutex);
    free(asker);
}

int asker_open(struct asker **out, const struct listen_address *where, const struct asker_papers *papers,
               size_t answer_size_max, asker_answered answered, void *argument) {
    const bool over_tls = where->scheme == LISTEN_WSS;
    assert(!over_tls || papers->tls != NULL);
    struct asker *asker = calloc(1, sizeof(*asker));
    if (asker == NULL) return ENOMEM;
    asker->where = *where;
    asker->papers = *papers;
    if (over_tls) asker->tls = tls_dial(papers->tls, where->host);
    asker->answer_size_max = answer_size_max;
    asker->answered = answered;
    asker->argument = argument;
    asker->again_ms = DIAL_AGAIN_MIN_MS;
    pthread_mutex_init(&asker->mutex, NULL);
    library_begin();
    const struct lws_context_creation_info info = {
        .port = CONTEXT_PORT_NO_LISTEN,
        .options = over_tls ? LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT : 0,
        .provided_client_ssl_ctx = asker->tls,
        .protocols = protocols,
        .pt_serv_buf_size = FRAME_OUT,
        .timeout_secs = CONNECT_S,
        .connect_timeout_secs = CONNECT_S,
        .fd_limit_per_thread = 16,
        .retry_and_idle_policy = &no_pings,
        .user = asker,
    };
    (void)library_lacked();
    asker->context = lws_create_context(&info);
    bool is_whole = !library_lacked();
    bool is_made = asker->context != NULL && is_whole;
    int error = is_made ? pthread_create(&asker->thread, NULL, run, asker) : ENOMEM;
    if (error != 0) {
        if (is_made)
            deinit(asker);
        else
            free(asker);
        return error;
    }
    pthread_setname_np(asker->thread, "tarry-asker");
    *out = asker;
    return 0;
}

void asker_tell_lost(struct asker *asker, void (*told)(void *argument)) {
    asker->told = told;
}

void asker_ask(struct asker *asker, struct message *question, unsigned time_ms) {
    pthread_mutex_lock(&asker->mutex);
    message_free(asker->next);
    asker->next = question;
    asker->next_ms = time_ms;
    pthread_mutex_unlock(&asker->mutex);
    lws_cancel_service(asker->context);
}

void asker_close(struct asker *asker) {
    if (asker == NULL) return;
    atomic_store(&asker->closed, true);
    lws_cancel_service(asker->context);
    pthread_join(asker->thread, NULL);
    deinit(asker);
}
