/* session.c: the engine's side of consumers: subscribe, dial the lane, heartbeat, notice loss, resume.
 *
 * Everything here runs on the engine's thread with the client's lock, which it gives up while it dials; `busy` keeps
 * the consumer from being freed meanwhile. */
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
        event_note(consumer->client, TARRY_LOG, consumer->client->link.addresses.items[consumer->address].url,
                   "session %" PRIu64 " of %s is interrupted: it is subscribed again", consumer->session,
                   consumer->queues[0]);
    state_set(consumer, SESSION_LOST, now);
    consumer->retry_at_ms = retry_at_ms;
    consumer->session = 0;
}

/* Sends a request of the session's own. NULL: out of memory, later again. */
/* `timeout_ms`: as in a note; the library's own calls have none. */
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
    request_submit_call(client, request);
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

static void accepted(tarry_consumer *consumer, const struct request *request, uint64_t now) {
    const Tarry__SubscribeReply *reply = request->reply->subscribe;
    consumer->session = reply->session;
    consumer->lane = reply->lane;
    consumer->silence_ms = reply->silence_ms != 0 ? reply->silence_ms : SESSION_SILENCE_MS;
    /* No broker asks for less; one that does would have the engine do nothing but beat. */
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
    event_note(consumer->client, TARRY_LOG, consumer->client->link.addresses.items[consumer->address].url,
               "session %" PRIu64 " of %s %s", reply->session, consumer->queues[0],
               reply->resumed ? "goes on, with its leases" : "begins");
    consumer->lane_tried = false;
    if (consumer->lane_missing_ms == 0) consumer->lane_missing_ms = now;
    state_set(consumer, SESSION_ACCEPTED, now);
}

static void refused(tarry_consumer *consumer, int code, const char *message, uint64_t now) {
    /* The broker may have gone away between two tries, or forgotten the session: then a new one. */
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

/* What is left of the time that its opening may take. */
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

/* Closes the present lane, if any, and opens the one that the broker named, if `open`. Gives the lock up. */
static int lane_change(tarry_consumer *consumer, bool open) {
    tarry_client *client = consumer->client;
    char url[ADDRESS_SIZE_MAX + DIAL_PATH_MAX], header[64 + 2 * SECRET_SIZE_MAX];
    snprintf(url, sizeof(url), "%s/lane/%u", client->link.addresses.items[consumer->address].url, consumer->lane);
    int at = snprintf(header, sizeof(header), "Authorization: Bearer ");
    for (size_t i = 0; i < consumer->secret_size; i++)
        at += snprintf(header + at, sizeof(header) - (size_t)at, "%02x", consumer->secret[i]);
    consumer->lane_up = false;
    consumer->busy = true;
    dial_end(client, &consumer->dial);
    int rv = open ? dial_begin(client, &consumer->dial, consumer->socket, url, header) : TARRY_OK;
    consumer->busy = false;
    pthread_cond_broadcast(&client->drained);
    return rv;
}

static const char no_lane[] = "the broker accepts the subscription, but its lane does not answer";

/* The lane of an accepted session did not come up: subscribe again, a little later. */
static void lane_failed(tarry_consumer *consumer, uint64_t now) {
    session_lost(consumer, now, now + RETRY_BACKOFF_MAX_MS);
    if (now >= consumer->lane_missing_ms + LANE_PATIENCE_MS && consumer->client->link.up)
        opened(consumer, TARRY_E_NO_BROKER, no_lane);
}

/* The caller of tarry_consumer_open waits no longer. While it subscribes, the request has that deadline. */
static void check_opening(tarry_consumer *consumer, uint64_t now) {
    if (!consumer->opening || consumer->subscribing != NULL || now < consumer->open_until_ms) return;
    int code = consumer->trouble != 0 ? consumer->trouble : TARRY_E_TIMEOUT;
    if (consumer->lane_missing_ms != 0)
        opened(consumer, TARRY_E_NO_BROKER, no_lane);
    else
        opened(consumer, code, tarry_code_sentence(code));
}

/* ---- the engine's calls */

/* The lane of an accepted session. True: the lock was given up, or the state has changed. */
static bool lane_step(tarry_consumer *consumer, uint64_t now) {
    if (!consumer->lane_tried) {
        consumer->lane_tried = true;
        int rv = lane_change(consumer, true);
        if (rv != TARRY_OK) { /* no memory for a dialer: not at once again, or nothing else would be done */
            session_lost(consumer, now, now + RETRY_BACKOFF_MAX_MS);
            opened(consumer, rv, tarry_code_sentence(rv));
        }
        return true;
    }
    if (consumer->lane_up) {
        consumer->lane_missing_ms = 0;
        state_set(consumer, SESSION_UP, now);
        opened(consumer, TARRY_OK, "");
        return false;
    }
    if (consumer->dial.trying && now < dial_given_up_at(&consumer->dial, LANE_PATIENCE_MS)) return false;
    lane_failed(consumer, now);
    return true;
}

/* The client has found the primary elsewhere: whoever holds the lane still is not any more. */
static bool is_left_behind(const tarry_consumer *consumer) {
    const tarry_client *client = consumer->client;
    return consumer->address != client->link.address && link_is_ready(&client->link) &&
           client->primary_ms >= client->link.dial.since_ms;
}

/* True: the lock was given up, so that the list may have changed. */
static bool session_step(tarry_consumer *consumer, uint64_t now) {
    if (consumer->closing) return false;
    check_opening(consumer, now);
    switch (consumer->state) {
    case SESSION_LOST:
        if (consumer->dial.open) {
            if (now < dial_rests_at(&consumer->dial)) return false;
            (void)lane_change(consumer, false);
            return true;
        }
        if (consumer->opened > TARRY_OK || consumer->subscribing != NULL || now < consumer->retry_at_ms) return false;
        subscribe(consumer, now);
        return false;
    case SESSION_SUBSCRIBING:
        return false;
    case SESSION_ACCEPTED:
        return lane_step(consumer, now);
    case SESSION_UP:
        if (!consumer->lane_up || is_left_behind(consumer)) {
            session_lost(consumer, now, now);
            return true;
        }
        if (now >= consumer->heartbeat_at_ms) heartbeat(consumer, now);
        return false;
    }
    return false;
}

void sessions_step(tarry_client *client, uint64_t now) {
    tarry_consumer *consumer = client->consumers;
    while (consumer != NULL) {
        if (session_step(consumer, now)) {
            consumer = client->consumers;
            now = now_ms();
        } else {
            consumer = consumer->next;
        }
    }
}

uint64_t sessions_deadline(const tarry_client *client) {
    uint64_t deadline = UINT64_MAX;
    for (const tarry_consumer *consumer = client->consumers; consumer != NULL; consumer = consumer->next) {
        uint64_t next = UINT64_MAX, rests_at_ms = dial_rests_at(&consumer->dial);
        if (consumer->closing || consumer->opened > TARRY_OK) continue;
        if (consumer->state == SESSION_LOST)
            next = consumer->retry_at_ms > rests_at_ms ? consumer->retry_at_ms : rests_at_ms;
        if (consumer->state == SESSION_ACCEPTED)
            next = consumer->dial.trying ? dial_given_up_at(&consumer->dial, LANE_PATIENCE_MS)
                                         : consumer->since_ms + LANE_PATIENCE_MS;
        if (consumer->state == SESSION_UP) next = consumer->heartbeat_at_ms;
        if (consumer->opening && consumer->subscribing == NULL && consumer->open_until_ms < next)
            next = consumer->open_until_ms;
        if (next < deadline) deadline = next;
    }
    return deadline;
}

void sessions_silent(tarry_client *client) {
    event_note(client, TARRY_LOG, "", "no broker has answered in time: what waits is given up");
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

/* What an operation that did well, or came too late, leaves held by nobody here. */
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
