/* session.c: the engine's part of consumers: subscribe, connect the lane, send heartbeats, detect losses, resume.
 *
 * All functions run on the engine's thread with the client's lock. They release it while they read; `busy` then
 * keeps the consumer from being freed. */
#include "consumer.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void state_set(tarry_consumer *consumer, enum session_state state, uint64_t now) {
    consumer->state = state;
    consumer->since_ms = now;
}

static void session_lost(tarry_consumer *consumer, uint64_t now, uint64_t retry_at_ms) {
    if (consumer->state == SESSION_UP)
        event_note(consumer->client, TARRY_LOG, consumer->client->link.addresses.items[consumer->address].place.url,
                   "session %" PRIu64 " of %s is interrupted: the client subscribes again", consumer->session,
                   consumer->queues[0]);
    state_set(consumer, SESSION_LOST, now);
    consumer->retry_at_ms = retry_at_ms;
    consumer->session = 0;
}

/* Sends a request of the session. NULL: out of memory; the caller tries again later. */
/* `timeout_ms`: as in struct op_note. The library's own calls have no timeout. */
static struct session_call *session_send(tarry_consumer *consumer, Tarry__Request *wire, request_done_fn *done,
                                         uint32_t timeout_ms) {
    tarry_client *client = consumer->client;
    struct session_call *call = malloc(sizeof(*call));
    struct request *request = call == NULL ? NULL : request_new(client, REQUEST_CALL);
    if (request == NULL || request_fill_call(client, request, wire) != TARRY_OK) {
        if (request != NULL) request_free(client, request);
        free(call);
        return NULL;
    }
    *call = (struct session_call){client, consumer};
    request->internal = timeout_ms == TIMEOUT_NEVER;
    request->timeout_ms = timeout_ms;
    request->done = done;
    request->arg = call;
    request_submit_call(client, request, false);
    return call;
}

/* ---- subscribing */

static void opened(tarry_consumer *consumer, int code, const char *message) {
    if (!consumer->opening) return;
    consumer->opening = false;
    consumer->opened = code;
    message_copy(consumer->message, sizeof(consumer->message), message);
    pthread_cond_broadcast(&consumer->client->drained);
}

/* Reports queues that do not exist yet, once per session: a misspelt name would otherwise go unnoticed. */
static void note_awaited(tarry_consumer *consumer, const Tarry__SubscribeReply *reply) {
    const char *url = consumer->client->link.addresses.items[consumer->address].place.url;
    for (size_t i = 0; i < reply->n_awaited && !reply->resumed; i++)
        event_note(consumer->client, TARRY_WARNING, url,
                   "the queue %s does not exist yet: the consumer gets its tasks once it is created",
                   reply->awaited[i]);
}

static void accepted(tarry_consumer *consumer, const struct request *request, uint64_t now) {
    const Tarry__SubscribeReply *reply = request->reply->subscribe;
    consumer->session = reply->session;
    consumer->lane = reply->lane;
    consumer->silence_ms = reply->silence_ms != 0 ? reply->silence_ms : SESSION_SILENCE_MS;
    /* Limits the heartbeat rate. No correct broker requires a shorter interval. */
    if (consumer->silence_ms < SESSION_SILENCE_MIN_MS) consumer->silence_ms = SESSION_SILENCE_MIN_MS;
    consumer->heartbeat_at_ms = now + consumer->silence_ms / 3;
    consumer->secret_size = reply->secret.len;
    if (reply->secret.len > 0) memcpy(consumer->secret, reply->secret.data, reply->secret.len);
    consumer->address = request->sent_to;
    pthread_mutex_lock(&consumer->lock);
    if (reply->resumed)
        held_resume(&consumer->held);
    else
        deliveries_forget(consumer);
    consumer->current = reply->session;
    consumer->refused = TARRY_OK;
    pthread_mutex_unlock(&consumer->lock);
    event_note(consumer->client, TARRY_LOG, consumer->client->link.addresses.items[consumer->address].place.url,
               "session %" PRIu64 " of %s %s", reply->session, consumer->queues[0],
               reply->resumed ? "continues with its leases" : "begins");
    note_awaited(consumer, reply);
    consumer->lane_tried = false;
    if (consumer->lane_missing_ms == 0) consumer->lane_missing_ms = now;
    state_set(consumer, SESSION_ACCEPTED, now);
}

static void refused(tarry_consumer *consumer, int code, const char *message, uint64_t now) {
    /* The broker may have restarted or forgotten the session; then a new one is requested. */
    bool mend = code == TARRY_NO_SUCH_SESSION || code == TARRY_NOT_PRIMARY || code >= TARRY_E_TIMEOUT;
    if (code == TARRY_NO_SUCH_SESSION || code == TARRY_INVALID) consumer->secret_size = 0;
    bool first = consumer->opening;
    session_lost(consumer, now, mend ? now + RETRY_BACKOFF_MAX_MS : now + SUBSCRIBE_AGAIN_MS);
    if (first) consumer->trouble = code;
    if (first && code == TARRY_NO_SUCH_SESSION) return;
    opened(consumer, code, message);
    if (first || mend) return;
    pthread_mutex_lock(&consumer->lock);
    consumer->refused = code;
    pthread_cond_broadcast(&consumer->arrived);
    pthread_mutex_unlock(&consumer->lock);
}

static void subscribe_done(void *arg, struct request *request) {
    struct session_call *call = arg;
    tarry_client *client = call->client;
    pthread_mutex_lock(&client->lock);
    tarry_consumer *consumer = call->consumer;
    if (consumer != NULL) {
        uint64_t now = now_ms();
        consumer->subscribing = NULL;
        const Tarry__Reply *reply = request->reply;
        if (request->code != TARRY_OK) {
            refused(consumer, request->code, request->message, now);
        } else if (reply->body_case != TARRY__REPLY__BODY_SUBSCRIBE || reply->subscribe->session == 0 ||
                   reply->subscribe->secret.len > SECRET_SIZE_MAX) {
            refused(consumer, TARRY_E_PROTOCOL, tarry_code_sentence(TARRY_E_PROTOCOL), now);
        } else {
            accepted(consumer, request, now);
        }
    }
    engine_kick(client);
    pthread_mutex_unlock(&client->lock);
    free(call);
}

/* Returns the remaining time of tarry_consumer_open. */
static uint32_t open_timeout(const tarry_consumer *consumer, uint64_t now) {
    if (!consumer->opening || consumer->open_until_ms == UINT64_MAX) return TIMEOUT_NEVER;
    return consumer->open_until_ms > now ? timeout_of(consumer->open_until_ms - now) : 1;
}

static void subscribe(tarry_consumer *consumer, uint64_t now) {
    Tarry__Request wire = TARRY__REQUEST__INIT;
    Tarry__Subscribe body = TARRY__SUBSCRIBE__INIT;
    body.n_queues = consumer->queue_count;
    body.queues = consumer->queues;
    body.prefetch = consumer->prefetch;
    body.max_batch = consumer->max_batch;
    body.lease_ms = consumer->lease_ms;
    body.resume = (ProtobufCBinaryData){consumer->secret_size, consumer->secret};
    wire.body_case = TARRY__REQUEST__BODY_SUBSCRIBE;
    wire.subscribe = &body;
    consumer->subscribing = session_send(consumer, &wire, subscribe_done, open_timeout(consumer, now));
    if (consumer->subscribing == NULL) {
        consumer->retry_at_ms = now + RETRY_BACKOFF_MAX_MS;
        return;
    }
    state_set(consumer, SESSION_SUBSCRIBING, now);
}

/* ---- heartbeats */

static void heartbeat_done(void *arg, struct request *request) {
    struct session_call *call = arg;
    tarry_client *client = call->client;
    pthread_mutex_lock(&client->lock);
    tarry_consumer *consumer = call->consumer;
    if (consumer != NULL) {
        consumer->beating = NULL;
        if (request->code == TARRY_NO_SUCH_SESSION && consumer->state >= SESSION_ACCEPTED)
            session_lost(consumer, now_ms(), 0);
    }
    engine_kick(client);
    pthread_mutex_unlock(&client->lock);
    free(call);
}

static void heartbeat(tarry_consumer *consumer, uint64_t now) {
    Tarry__Request wire = TARRY__REQUEST__INIT;
    Tarry__Heartbeat body = TARRY__HEARTBEAT__INIT;
    body.session = consumer->session;
    wire.body_case = TARRY__REQUEST__BODY_HEARTBEAT;
    wire.heartbeat = &body;
    consumer->heartbeat_at_ms = now + consumer->silence_ms / 3;
    if (consumer->beating == NULL) consumer->beating = session_send(consumer, &wire, heartbeat_done, TIMEOUT_NEVER);
}

/* ---- the lane */

static void lane_close(tarry_consumer *consumer) {
    consumer->lane_up = false;
    ws_client_close(&consumer->connection);
}

/* Connects the lane whose address the broker named. */
static void lane_open(tarry_consumer *consumer, uint64_t now) {
    tarry_client *client = consumer->client;
    char path[WS_CLIENT_PATH_MAX], secret[2 * SECRET_SIZE_MAX + 1] = "";
    snprintf(path, sizeof(path), "/lane/%u", consumer->lane);
    for (size_t i = 0; i < consumer->secret_size; i++) snprintf(secret + 2 * i, 3, "%02x", consumer->secret[i]);
    const struct tls_source tls = {credentials_tls_context, &client->credentials};
    const struct ws_client_options options = {.place = &client->link.addresses.items[consumer->address].place,
                                              .path = path,
                                              .protocol = "push.sp.nanomsg.org",
                                              .bearer = secret,
                                              .tls = &tls,
                                              .message_max = ANSWER_SIZE_MAX};
    lane_close(consumer);
    consumer->lane_tried = true;
    consumer->lane_since_ms = now;
    ws_client_open(&consumer->connection, client->loop.epoll, ++client->loop.last_id, &options);
    explicit_bzero(secret, sizeof(secret));
}

static bool lane_tries(const tarry_consumer *consumer) {
    return consumer->connection.state != WS_CLIENT_CLOSED && !consumer->lane_up;
}

/* Reads arrived messages without the client's lock. */
static void lane_turn(tarry_consumer *consumer, uint32_t events) {
    tarry_client *client = consumer->client;
    struct ws_client *connection = &consumer->connection;
    const enum ws_client_state state = connection->state;
    enum ws_client_news news;
    consumer->busy = true;
    ws_client_ready(connection, events);
    do {
        const uint8_t *data;
        size_t size;
        pthread_mutex_unlock(&client->lock);
        while ((news = ws_client_next(connection, &data, &size)) == WS_CLIENT_MESSAGE)
            delivery_take(consumer, data, size);
        pthread_mutex_lock(&client->lock);
        if (news == WS_CLIENT_OPENED) consumer->lane_up = true;
    } while (news == WS_CLIENT_OPENED);
    if (news == WS_CLIENT_LOST) lane_close(consumer);
    if (connection->state != state) consumer->lane_since_ms = now_ms();
    consumer->busy = false;
    pthread_cond_broadcast(&client->drained);
}

void sessions_turn(tarry_client *client, uint64_t id, uint32_t events) {
    for (tarry_consumer *consumer = client->consumers; consumer != NULL; consumer = consumer->next) {
        if (consumer->connection.id != id || consumer->connection.state == WS_CLIENT_CLOSED) continue;
        lane_turn(consumer, events);
        return; /* lane_turn released the lock, so the list of consumers may have changed */
    }
}

static const char no_lane[] = "the broker accepts the subscription, but its lane does not answer";

/* Subscribes again a little later, because the lane of an accepted session was not established. */
static void lane_failed(tarry_consumer *consumer, uint64_t now) {
    session_lost(consumer, now, now + RETRY_BACKOFF_MAX_MS);
    if (now >= consumer->lane_missing_ms + LANE_PATIENCE_MS && consumer->client->link.up)
        opened(consumer, TARRY_E_NO_BROKER, no_lane);
}

/* Ends tarry_consumer_open when its time has passed. (While the Subscribe request is under way, that request's own
 * timeout does this.) */
static void check_opening(tarry_consumer *consumer, uint64_t now) {
    if (!consumer->opening || consumer->subscribing != NULL || now < consumer->open_until_ms) return;
    int code = consumer->trouble != 0 ? consumer->trouble : TARRY_E_TIMEOUT;
    if (consumer->lane_missing_ms != 0)
        opened(consumer, TARRY_E_NO_BROKER, no_lane);
    else
        opened(consumer, code, tarry_code_sentence(code));
}

/* ---- functions for the engine */

/* Handles the lane of an accepted session. */
static void lane_step(tarry_consumer *consumer, uint64_t now) {
    if (!consumer->lane_tried) lane_open(consumer, now);
    if (consumer->lane_up) {
        consumer->lane_missing_ms = 0;
        state_set(consumer, SESSION_UP, now);
        opened(consumer, TARRY_OK, "");
    } else if (!lane_tries(consumer) || now >= consumer->lane_since_ms + LANE_PATIENCE_MS) {
        lane_failed(consumer, now);
    }
}

/* Returns true if the session must move to another broker: the client has found the primary at another address than the
 * session's. */
static bool is_left_behind(const tarry_consumer *consumer) {
    const tarry_client *client = consumer->client;
    return consumer->address != client->link.address && link_is_ready(&client->link) &&
           client->primary_ms >= client->link.since_ms;
}

static void session_step(tarry_consumer *consumer, uint64_t now) {
    if (consumer->closing) return;
    check_opening(consumer, now);
    switch (consumer->state) {
    case SESSION_LOST:
        lane_close(consumer);
        if (consumer->opened > TARRY_OK || consumer->subscribing != NULL || now < consumer->retry_at_ms) return;
        subscribe(consumer, now);
        return;
    case SESSION_SUBSCRIBING:
        return;
    case SESSION_ACCEPTED:
        lane_step(consumer, now);
        return;
    case SESSION_UP:
        if (!consumer->lane_up || is_left_behind(consumer))
            session_lost(consumer, now, now);
        else if (now >= consumer->heartbeat_at_ms)
            heartbeat(consumer, now);
        return;
    }
}

void sessions_step(tarry_client *client, uint64_t now) {
    for (tarry_consumer *consumer = client->consumers; consumer != NULL; consumer = consumer->next)
        session_step(consumer, now);
}

uint64_t sessions_deadline(const tarry_client *client) {
    uint64_t deadline = UINT64_MAX;
    for (const tarry_consumer *consumer = client->consumers; consumer != NULL; consumer = consumer->next) {
        uint64_t next = UINT64_MAX;
        if (consumer->closing || consumer->opened > TARRY_OK) continue;
        if (consumer->state == SESSION_LOST && consumer->subscribing == NULL) next = consumer->retry_at_ms;
        if (consumer->state == SESSION_ACCEPTED)
            next = lane_tries(consumer) ? consumer->lane_since_ms + LANE_PATIENCE_MS : 0;
        if (consumer->state == SESSION_UP) next = consumer->heartbeat_at_ms;
        if (consumer->opening && consumer->subscribing == NULL && consumer->open_until_ms < next)
            next = consumer->open_until_ms;
        if (next < deadline) deadline = next;
    }
    return deadline;
}

void sessions_host_dead(tarry_client *client, uint64_t now) {
    for (tarry_consumer *consumer = client->consumers; consumer != NULL; consumer = consumer->next)
        if (consumer->state == SESSION_UP && consumer->address == client->link.address)
            session_lost(consumer, now, now);
}

void sessions_silent(tarry_client *client) {
    event_note(client, TARRY_LOG, "",
               "no broker answered within the timeout: the client gives up the waiting settlements");
    for (tarry_consumer *consumer = client->consumers; consumer != NULL; consumer = consumer->next) {
        pthread_mutex_lock(&consumer->lock);
        consumer->silent = true;
        pthread_cond_broadcast(&consumer->arrived);
        pthread_mutex_unlock(&consumer->lock);
    }
}

bool session_handler_is_me(const tarry_consumer *consumer) {
    return consumer->thread_runs && pthread_equal(consumer->thread, pthread_self()) != 0;
}

int sessions_may_close(const tarry_client *client) {
    if (client->consumers == NULL) return TARRY_OK;
    for (const tarry_consumer *consumer = client->consumers; consumer != NULL; consumer = consumer->next)
        if (session_handler_is_me(consumer)) return TARRY_E_CALLBACK;
    return TARRY_E_ARGUMENT;
}

/* True: the operation's lease is no longer held, because the operation succeeded or came too late. */
static bool settled(const Tarry__OpResult *result) {
    return result->code == TARRY__CODE__OK || result->code == TARRY__CODE__STALE_TOKEN;
}

void sessions_settled(tarry_client *client, const struct request *request) {
    const Tarry__CommitReply *reply = request->reply->commit;
    pthread_mutex_lock(&client->lock);
    for (tarry_consumer *consumer = client->consumers; consumer != NULL; consumer = consumer->next) {
        pthread_mutex_lock(&consumer->lock);
        for (size_t i = 0; i < request->count && !reply->aborted; i++)
            if (request->notes[i].settles != 0 && settled(reply->results[i]))
                held_settle(&consumer->held, request->notes[i].settles, request->notes[i].token);
        pthread_mutex_unlock(&consumer->lock);
    }
    pthread_mutex_unlock(&client->lock);
}
