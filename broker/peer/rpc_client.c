/* rpc_client.c: see rpc_client.h. The client's thread owns the connection (transport/ws_client.h) and waits in epoll.
 */
#include "rpc_client.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "ws_client.h"

/* Delay after a failed connection attempt; it doubles from attempt to attempt. */
#define DIAL_AGAIN_MIN_MS 20u
#define DIAL_AGAIN_MAX_MS 200u
#define CONNECT_MAX_MS 5000u /* time for one attempt, up to the response to the upgrade */
#define ID_SIZE 4u
#define WAKE_ID 0u /* epoll's id for the eventfd; the ids of connections start at 1 */
#define NEVER UINT64_MAX
#define EVENTS_MAX 2

static_assert(RPC_CLIENT_TOKEN_SIZE <= WS_CLIENT_BEARER_MAX, "a token fits into the upgrade request");

struct rpc_client {
    struct place place;
    struct peer_credentials credentials;
    SSL_CTX *tls; /* context of TLS connections; NULL: no TLS */
    size_t answer_size_max;
    rpc_client_answered answered;
    void (*told)(void *argument); /* callback for a lost connection; may be NULL */
    void *argument;
    int epoll;
    int wake; /* eventfd */
    pthread_t thread;
    _Atomic bool closed;

    pthread_mutex_t mutex;
    struct message *next; /* the next request, not sent yet */
    unsigned next_ms;

    /* The following members are used only by the client's thread. */
    struct ws_client connection;
    uint64_t connections;  /* number of connection attempts so far */
    uint64_t received;     /* number of bytes received on the connection (connection.reader.received) when the request's
                              timeout started */
    struct packet packet;  /* buffer of the request; reused for each request */
    struct message *asked; /* the request without a reply */
    uint32_t id;           /* id of the request `asked` */
    unsigned time_ms;      /* timeout without progress of the reply */
    unsigned again_ms;     /* delay before the next connection attempt after a failure */
    uint64_t too_late_at_ms;  /* time at which the timeout of the unanswered request ends; NEVER: no request */
    uint64_t connected_by_ms; /* end of the timeout of the connection attempt; NEVER: no attempt */
    uint64_t dial_at_ms;      /* time of the next connection attempt; NEVER: none is planned */
};

static uint64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Ends the request. `answer` NULL means that no reply came. */
static void end_question(struct rpc_client *rpc_client, struct message *answer) {
    message_free(rpc_client->asked);
    rpc_client->asked = NULL;
    rpc_client->too_late_at_ms = NEVER;
    if (atomic_load(&rpc_client->closed))
        message_free(answer);
    else
        rpc_client->answered(rpc_client->argument, answer);
}

/* Starts the timeout of the unanswered request. Called after the request was made. Called again after each received
 * part of the reply, because a long reply takes longer on a slow link. */
static void wait_on(struct rpc_client *rpc_client) {
    rpc_client->received = rpc_client->connection.reader.received;
    rpc_client->too_late_at_ms = now_ms() + rpc_client->time_ms;
}

/* ---- a connection */

static void lost(struct rpc_client *rpc_client) {
    ws_client_close(&rpc_client->connection);
    rpc_client->connected_by_ms = NEVER;
    if (rpc_client->asked != NULL) {
        rpc_client->dial_at_ms = now_ms() + rpc_client->again_ms;
        const unsigned doubled = 2 * rpc_client->again_ms;
        rpc_client->again_ms = doubled < DIAL_AGAIN_MAX_MS ? doubled : DIAL_AGAIN_MAX_MS;
    }
    if (rpc_client->told != NULL) rpc_client->told(rpc_client->argument);
}

/* Gives the connection the current certificates; the function of a struct tls_source. */
static SSL_CTX *current_context(void *argument, char said[TLS_SAID_MAX]) {
    const struct rpc_client *rpc_client = argument;
    tls_refresh(rpc_client->credentials.tls, rpc_client->tls);
    return SSL_CTX_up_ref(rpc_client->tls) == 1 ? rpc_client->tls : NULL;
}

static void dial(struct rpc_client *rpc_client) {
    char token[RPC_CLIENT_TOKEN_SIZE] = "";
    const struct peer_credentials *credentials = &rpc_client->credentials;
    const struct tls_source tls = {current_context, rpc_client};
    const struct ws_client_options options = {
        .place = &rpc_client->place,
        .path = "/rpc",
        .protocol = "rep.sp.nanomsg.org",
        .bearer = token,
        .tls = rpc_client->tls != NULL ? &tls : NULL,
        .message_max = rpc_client->answer_size_max,
    };
    rpc_client->dial_at_ms = NEVER;
    rpc_client->connected_by_ms = now_ms() + CONNECT_MAX_MS;
    if (credentials->token == NULL || credentials->token(credentials->argument, token))
        ws_client_open(&rpc_client->connection, rpc_client->epoll, ++rpc_client->connections, &options);
    explicit_bzero(token, sizeof(token));
    if (rpc_client->connection.state == WS_CLIENT_CLOSED) lost(rpc_client);
}

/* Sends a copy of the request, because masking changes the bytes, and they may be needed again. Returns false if memory
 * is exhausted. */
static bool send_question(struct rpc_client *rpc_client) {
    const size_t size = ID_SIZE + rpc_client->asked->size;
    uint8_t *payload = packet_reserve(&rpc_client->packet, size);
    if (payload == NULL) return false;
    memcpy(payload, message_head(rpc_client->asked), size);
    ws_client_send(&rpc_client->connection, &rpc_client->packet, rpc_client->id);
    return true;
}

/* Handles a reply. A late reply to an earlier request has another id, and is dropped. */
static void take_answer(struct rpc_client *rpc_client, const uint8_t *data, size_t size) {
    const bool is_of_question =
        rpc_client->asked != NULL && size >= ID_SIZE && memcmp(data, message_head(rpc_client->asked), ID_SIZE) == 0;
    if (!is_of_question) return;
    struct message *answer = message_new(size);
    if (answer != NULL) memcpy(answer->bytes, data, size);
    const bool has_head = answer == NULL || message_take_head(answer);
    assert(has_head); /* message_take_head accepts the reply, because a backtrace may consist of the id only */
    end_question(rpc_client, answer);
}

static void serve(struct rpc_client *rpc_client) {
    struct ws_client *connection = &rpc_client->connection;
    const uint8_t *data;
    size_t size;
    bool is_fine = true;
    while (is_fine && connection->state != WS_CLIENT_CLOSED) {
        switch (ws_client_next(connection, &data, &size)) {
        case WS_CLIENT_NOTHING:
            return;
        case WS_CLIENT_OPENED:
            rpc_client->again_ms = DIAL_AGAIN_MIN_MS;
            rpc_client->connected_by_ms = NEVER;
            rpc_client->received = 0; /* each connection counts its received bytes from 0 */
            is_fine = rpc_client->asked == NULL || send_question(rpc_client);
            break;
        case WS_CLIENT_MESSAGE:
            take_answer(rpc_client, data, size);
            break;
        case WS_CLIENT_LOST:
            is_fine = false;
        }
    }
    if (!is_fine) lost(rpc_client);
}

/* ---- requests */

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
    message_free(rpc_client->asked);
    rpc_client->asked = next;
    give_id(rpc_client);
    wait_on(rpc_client);
    const enum ws_client_state state = rpc_client->connection.state;
    if (state == WS_CLIENT_CLOSED && rpc_client->dial_at_ms == NEVER) dial(rpc_client);
    if (state != WS_CLIENT_OPEN) return;
    /* If an earlier request was sent only in part, a new request cannot follow on the same connection. So close the
     * connection; the new request is sent on the next one. */
    if (!ws_client_is_sent(&rpc_client->connection) || !send_question(rpc_client)) lost(rpc_client);
}

/* ---- the client's thread */

static void check_timeouts(struct rpc_client *rpc_client) {
    const uint64_t now = now_ms();
    const struct ws_client *connection = &rpc_client->connection;
    const bool has_progress =
        connection->state == WS_CLIENT_OPEN && connection->reader.received != rpc_client->received;
    if (rpc_client->asked != NULL && has_progress) wait_on(rpc_client);
    if (now >= rpc_client->too_late_at_ms) {
        end_question(rpc_client, NULL);
        if (connection->state != WS_CLIENT_CLOSED) lost(rpc_client);
    }
    if (now >= rpc_client->connected_by_ms) lost(rpc_client);
    if (now < rpc_client->dial_at_ms) return;
    rpc_client->dial_at_ms = NEVER;
    if (rpc_client->asked != NULL && connection->state == WS_CLIENT_CLOSED) dial(rpc_client);
}

/* Waits for events until the next timeout. */
static void wait_for_events(struct rpc_client *rpc_client) {
    struct epoll_event events[EVENTS_MAX];
    uint64_t until = rpc_client->too_late_at_ms, number;
    if (rpc_client->connected_by_ms < until) until = rpc_client->connected_by_ms;
    if (rpc_client->dial_at_ms < until) until = rpc_client->dial_at_ms;
    const uint64_t now = now_ms(), wait_ms = until > now ? until - now : 0;
    const int patience_ms = until == NEVER ? -1 : wait_ms < INT32_MAX ? (int)wait_ms : INT32_MAX;
    const int count = epoll_wait(rpc_client->epoll, events, EVENTS_MAX, patience_ms);
    for (int i = 0; i < count; i++)
        if (events[i].data.u64 == WAKE_ID)
            (void)!read(rpc_client->wake, &number, sizeof(number));
        else if (events[i].data.u64 == rpc_client->connections)
            ws_client_ready(&rpc_client->connection, events[i].events);
}

static void *run(void *argument) {
    struct rpc_client *rpc_client = argument;
    while (!atomic_load(&rpc_client->closed)) {
        wait_for_events(rpc_client);
        look_for_question(rpc_client);
        serve(rpc_client);
        check_timeouts(rpc_client);
    }
    return NULL;
}

/* ---- life cycle */

static void deinit(struct rpc_client *rpc_client) {
    ws_client_deinit(&rpc_client->connection);
    packet_deinit(&rpc_client->packet);
    SSL_CTX_free(rpc_client->tls);
    if (rpc_client->epoll >= 0) close(rpc_client->epoll);
    if (rpc_client->wake >= 0) close(rpc_client->wake);
    message_free(rpc_client->next);
    message_free(rpc_client->asked);
    pthread_mutex_destroy(&rpc_client->mutex);
    free(rpc_client);
}

/* Makes the descriptors and the thread. Returns 0 or a positive errno. */
static int start(struct rpc_client *rpc_client) {
    struct epoll_event wake = {.events = EPOLLIN, .data.u64 = WAKE_ID};
    rpc_client->epoll = epoll_create1(EPOLL_CLOEXEC);
    rpc_client->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (rpc_client->epoll < 0 || rpc_client->wake < 0) return errno;
    if (epoll_ctl(rpc_client->epoll, EPOLL_CTL_ADD, rpc_client->wake, &wake) != 0) return errno;
    return pthread_create(&rpc_client->thread, NULL, run, rpc_client);
}

int rpc_client_open(struct rpc_client **out, const struct listen_address *where,
                    const struct peer_credentials *credentials, size_t answer_size_max, rpc_client_answered answered,
                    void *argument) {
    char url[LISTEN_URL_SIZE];
    const bool over_tls = where->scheme == LISTEN_WSS;
    assert(!over_tls || credentials->tls != NULL);
    struct rpc_client *rpc_client = calloc(1, sizeof(*rpc_client));
    if (rpc_client == NULL) return ENOMEM;
    rpc_client->epoll = rpc_client->wake = -1;
    rpc_client->credentials = *credentials;
    rpc_client->answer_size_max = answer_size_max;
    rpc_client->answered = answered;
    rpc_client->argument = argument;
    rpc_client->again_ms = DIAL_AGAIN_MIN_MS;
    rpc_client->too_late_at_ms = rpc_client->connected_by_ms = rpc_client->dial_at_ms = NEVER;
    ws_client_init(&rpc_client->connection);
    pthread_mutex_init(&rpc_client->mutex, NULL);
    listen_format(where, url, sizeof(url));
    int error = place_parse(url, strlen(url), &rpc_client->place) == 0 ? 0 : EINVAL;
    if (error == 0 && over_tls && (rpc_client->tls = tls_dial(credentials->tls)) == NULL) error = ENOMEM;
    if (error == 0) error = start(rpc_client);
    if (error != 0) {
        deinit(rpc_client);
        return error;
    }
    pthread_setname_np(rpc_client->thread, "tarry-asker");
    *out = rpc_client;
    return 0;
}

void rpc_client_tell_lost(struct rpc_client *rpc_client, void (*told)(void *argument)) {
    rpc_client->told = told;
}

static void wake(struct rpc_client *rpc_client) {
    const uint64_t one = 1;
    (void)!write(rpc_client->wake, &one, sizeof(one));
}

void rpc_client_ask(struct rpc_client *rpc_client, struct message *question, unsigned time_ms) {
    pthread_mutex_lock(&rpc_client->mutex);
    message_free(rpc_client->next);
    rpc_client->next = question;
    rpc_client->next_ms = time_ms;
    pthread_mutex_unlock(&rpc_client->mutex);
    wake(rpc_client);
}

void rpc_client_close(struct rpc_client *rpc_client) {
    if (rpc_client == NULL) return;
    atomic_store(&rpc_client->closed, true);
    wake(rpc_client);
    pthread_join(rpc_client->thread, NULL);
    deinit(rpc_client);
}
