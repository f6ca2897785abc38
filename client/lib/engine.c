/* engine.c: the client's thread. It sends the requests that no other thread has sent, reads replies, decides what to
 * send again, and runs callbacks.
 *
 * See also loop.c (waiting), slots.c (meaning of replies), queue.c (order of commits) and expiry.c (deadlines). */
#include "client.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* ---- the engine */

void engine_kick(tarry_client *client) {
    if (client->kicked) return;
    client->kicked = true;
    if (client->engine_waits) loop_kick(&client->loop);
}

bool engine_is_me(const tarry_client *client) {
    return pthread_equal(client->engine, pthread_self()) != 0;
}

/* ---- hello: the producer's number (ONCE-1) */

/* Remembers the cluster for Request.cluster, because another cluster may have given the same producer number to another
 * client. With one address the client accepts any cluster. */
static void take_cluster(tarry_client *client, ProtobufCBinaryData cluster) {
    if (client->link.addresses.count == 1 || cluster.len != CLUSTER_ID_SIZE) return;
    memcpy(client->cluster, cluster.data, CLUSTER_ID_SIZE);
    client->cluster_size = CLUSTER_ID_SIZE;
}

void note_greeting(tarry_client *client, ProtobufCBinaryData cluster) {
    if (cluster.len == CLUSTER_ID_SIZE) memcpy(client->greeted, cluster.data, CLUSTER_ID_SIZE);
}

static void hello_done(void *arg, struct request *request) {
    tarry_client *client = arg;
    pthread_mutex_lock(&client->lock);
    client->hello_under_way = false;
    if (request->code == TARRY_OK && request->reply->body_case == TARRY__REPLY__BODY_HELLO &&
        request->reply->hello->producer != 0) {
        client->producer = request->reply->hello->producer;
        client->next_sequence = 1;
        note_greeting(client, request->reply->hello->cluster);
        if (request->reply->hello->request_max != 0) client->request_max = request->reply->hello->request_max;
        take_cluster(client, request->reply->hello->cluster);
    } else {
        client->hello_retry_ms = now_ms() + RETRY_BACKOFF_MAX_MS;
        /* A refused client may be accepted later, for example with a new token in the file. */
        if (request->code > TARRY_OK && request->code < TARRY_E_TIMEOUT && !link_is_denied(&client->link)) {
            client->hello_refused = request->code;
            snprintf(client->hello_message, sizeof(client->hello_message), "%s", request->message);
        }
    }
    engine_kick(client); /* wakes the engine, because commits have waited for the producer's number */
    pthread_mutex_unlock(&client->lock);
}

static void hello_begin(tarry_client *client, uint64_t now) {
    if (client->hello_under_way || now < client->hello_retry_ms) return;
    Tarry__Request wire = TARRY__REQUEST__INIT;
    Tarry__Hello hello = TARRY__HELLO__INIT;
    wire.body_case = TARRY__REQUEST__BODY_HELLO;
    wire.hello = &hello;
    struct request *request = request_new(client, REQUEST_CALL);
    if (request == NULL || request_fill_call(client, request, &wire) != TARRY_OK) {
        if (request != NULL) request_free(client, request);
        client->hello_retry_ms = now + RETRY_BACKOFF_MAX_MS;
        return;
    }
    request->internal = true;
    request->done = hello_done;
    request->arg = client;
    client->hello_under_way = true;
    request_submit_call(client, request, false);
}

/* ---- sending */

int request_fail(struct request *request, int code, const char *message) {
    request->code = code;
    request->message = message != NULL && message[0] != 0 ? message : tarry_code_sentence(code);
    request->reply = NULL;
    return code;
}

/* Completes a request that the broker would refuse: it is too large, or Hello was refused for good. False: neither. */
static bool refuse_unsent(tarry_client *client, struct request *request) {
    if (client->producer == 0 && request->sequence == 0)
        request_fail(
            request, client->hello_refused,
            client->hello_message); /* the broker has refused Hello permanently, so it would refuse this request too */
    else if (request->body.size + REQUEST_OVERHEAD_MAX > client->request_max)
        request_fail(request, TARRY_TOO_LARGE, "the request is larger than the maximum of this broker");
    else
        return false;
    list_append(&client->finished, IN_QUEUE, request);
    return true;
}

static void take_sequence(tarry_client *client, struct request *request) {
    if (request->named) {
        request->producer = request->name.producer;
        request->sequence = request->name.sequence;
    } else if (request->sequence == 0) {
        request->producer = client->producer;
        request->sequence = client->next_sequence++;
    }
}

static void send_request(tarry_client *client, struct slot *slot, struct request *request, uint64_t now) {
    if (!slot_send(client, slot, request, now)) answer_lost(client, request, now + RETRY_BACKOFF_MAX_MS, now);
}

/* True: the gathering request contains only blocking calls and waits for more of them. */
static bool gathers_on(tarry_client *client, uint64_t now) {
    const struct request *next = queue_plain_next(client);
    const bool may = next != NULL && !next->ordered && next == client->commits[NEEDS_ROOM].gathering;
    const bool has_time = may && (next->deadline.place == 0 || next->deadline.at_ms > now + GROUP_SPARE_MS);
    return group_waits(&client->group, has_time ? next->count : 0, slots_callers(client), now);
}

static void send_commits(tarry_client *client, uint64_t now) {
    if (gathers_on(client, now)) return;
    while (link_is_ready(&client->link) && !queue_is_empty(client)) {
        struct slot *slot = slot_for_commit(client);
        if (slot == NULL) return;
        bool waits_for_hello = client->producer == 0 && client->hello_refused == 0;
        if (waits_for_hello) hello_begin(client, now);
        struct request *request = queue_next(client, now, !waits_for_hello);
        if (request == NULL) {
            if (!waits_for_hello) client->hello_refused = 0;
            return;
        }
        if (refuse_unsent(client, request)) continue;
        take_sequence(client, request);
        send_request(client, slot, request, now);
    }
}

static void send_calls(tarry_client *client, uint64_t now) {
    if (!link_is_ready(&client->link)) return;
    for (struct timer *timer; (timer = timers_first(&client->retries)) != NULL && timer->at_ms <= now;) {
        timer_clear(&client->retries, timer);
        list_append(&client->calls, IN_QUEUE, (struct request *)((char *)timer - offsetof(struct request, retry)));
    }
    while (client->calls.first != NULL) {
        struct request *call = client->calls.first;
        struct slot *slot = slot_free(client, COMMITS_IN_FLIGHT_MAX, SLOTS_MAX);
        if (slot == NULL) return;
        list_remove(IN_QUEUE, call);
        send_request(client, slot, call, now);
    }
}

/* ---- silence */

static uint64_t silence_deadline(const tarry_client *client) {
    if (client->waiting == 0 || client->timeout_ms == TARRY_FOREVER) return UINT64_MAX;
    uint64_t since = client->answered_ms > client->waiting_since_ms ? client->answered_ms : client->waiting_since_ms;
    return since + client->timeout_ms;
}

/* Reports silence to consumers, which have no deadlines, and tries the next address. Calls end by their own
 * deadlines. */
static void check_silence(tarry_client *client, uint64_t now) {
    if (now < silence_deadline(client)) return;
    sessions_silent(client);
    client->waiting_since_ms = now;
    link_stalled(client);
}

/* Returns whether a commit without a reply may be sent to another address after RESEND_ELSEWHERE_MS. After one such
 * change of address, false until a reply comes. Otherwise a slow primary would lose its clients again and again. */
static bool may_leave(const tarry_client *client) {
    return client->link.addresses.count > 1 && client->answered_ms >= client->left_ms;
}

/* Returns when the request is sent again if no reply comes although the connection is up. */
static uint64_t resend_at_ms(const tarry_client *client, const struct request *request) {
    uint64_t at_ms = request->sent_ms + RESEND_AFTER_MS;
    if (request->kind != REQUEST_COMMIT || !may_leave(client)) return at_ms;
    uint64_t since_ms = client->answered_ms > request->sent_ms ? client->answered_ms : request->sent_ms;
    return since_ms + RESEND_ELSEWHERE_MS < at_ms ? since_ms + RESEND_ELSEWHERE_MS : at_ms;
}

/* Sends requests again that have no reply although the connection is up. The connection may be broken at the other
 * side, or the broker may be stopped: then the client goes to the next address. */
static void check_stalled(tarry_client *client, uint64_t now) {
    const uint64_t silent_ms = may_leave(client) ? RESEND_ELSEWHERE_MS : RESEND_AFTER_MS;
    for (uint32_t i = 0; i < SLOTS_MAX; i++) {
        struct slot *slot = &client->slots[i];
        if (slot->request == NULL || now < resend_at_ms(client, slot->request)) continue;
        answer_lost(client, slot_release(client, slot), now, now);
        if (now < client->answered_ms + silent_ms) continue;
        link_stalled(client);
        if (silent_ms == RESEND_ELSEWHERE_MS) client->left_ms = now;
    }
}

/* ---- the loop */

static uint64_t min_u64(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static uint64_t first_of(const struct timers *timers) {
    const struct timer *first = timers_first(timers);
    return first != NULL ? first->at_ms : UINT64_MAX;
}

/* Returns the time of the next timeout: a call's deadline, or the library's limit for a broker's reply. */
static uint64_t patience_deadline(const tarry_client *client) {
    uint64_t deadline = min_u64(silence_deadline(client), first_of(&client->deadlines));
    if (client->waiting > 0) deadline = min_u64(deadline, link_deadline(client));
    for (uint32_t i = 0; i < SLOTS_MAX; i++) {
        const struct request *request = client->slots[i].request;
        if (request == NULL) continue;
        deadline = min_u64(deadline, resend_at_ms(client, request));
    }
    return deadline;
}

static uint64_t engine_deadline(tarry_client *client, uint64_t now) {
    uint64_t deadline = min_u64(patience_deadline(client), sessions_deadline(client));
    if (!link_is_ready(&client->link)) return deadline;
    deadline = min_u64(deadline, queue_deadline(client, now));
    deadline = min_u64(deadline, group_deadline(&client->group, now));
    deadline = min_u64(deadline, first_of(&client->retries));
    if (client->hello_retry_ms > now) deadline = min_u64(deadline, client->hello_retry_ms);
    return deadline;
}

void engine_submitted(tarry_client *client, bool sends) {
    const bool is_waiting = client->engine_waits;
    const uint64_t now = now_ms();
    if (!sends || client->waiting > 1) caller_take_back(client);
    if (sends) group_came(&client->group);
    if (sends && link_is_ready(&client->link) && client->producer != 0 && !engine_is_me(client)) {
        send_commits(client, now);
        send_calls(client, now);
        const uint64_t deadline = min_u64(min_u64(first_of(&client->deadlines), group_deadline(&client->group, now)),
                                          now + RESEND_ELSEWHERE_MS);
        if (client->finished.first == NULL && is_waiting && client->engine_until_ms <= deadline &&
            client->engine_until_ms <= silence_deadline(client))
            return; /* the engine has nothing to do for this request before the reply */
    }
    engine_kick(client);
}

static void expect_callers(tarry_client *client, const struct request *request) {
    const struct request *gathering = client->commits[NEEDS_ROOM].gathering;
    if (request->kind != REQUEST_COMMIT || request->ordered || request->whole) return;
    group_woke(&client->group, request->count - request->told,
               slots_callers(client) + (gathering != NULL ? gathering->count : 0), now_ms());
}

/* Runs the callbacks of the first completed request. Releases the lock meanwhile. */
static void complete_first(tarry_client *client) {
    struct request *request = client->finished.first;
    list_remove(IN_QUEUE, request);
    expect_callers(client, request);
    pthread_mutex_unlock(&client->lock);
    request_complete(client, request);
    pthread_mutex_lock(&client->lock);
    if (request->named) ledger_close(&client->ledger, &request->name);
    request_retire(client, request);
    request_free(client, request);
    pthread_cond_broadcast(&client->drained);
}

static void complete_all(tarry_client *client) {
    while (client->finished.first != NULL) complete_first(client);
}

void engine_complete_callers(tarry_client *client) {
    for (struct request *first; (first = client->finished.first) != NULL;) {
        const bool is_of_callers = first->kind == REQUEST_COMMIT ? !first->ordered : first->blocks;
        if (!is_of_callers) return;
        complete_first(client);
    }
}

static bool is_idle(const tarry_client *client) {
    return !slots_busy(client) && queue_is_empty(client) && client->calls.first == NULL &&
           timers_first(&client->retries) == NULL;
}

/* Before a timeout counts as exceeded, reads all that has arrived (F-13). This process or a callback may have stopped
 * for a while, so the reply may already be in the socket. */
static void read_first(tarry_client *client, uint64_t now) {
    if (now < patience_deadline(client)) return;
    caller_take_back(client);
    loop_wait(client, 0);
}

/* Runs one iteration of the loop. */
static void step(tarry_client *client) {
    const uint64_t now = now_ms();
    read_first(client, now);
    expiry_step(client, now);
    check_silence(client, now);
    check_stalled(client, now);
    if (caller_is_gone(client, now)) caller_take_back(client);
    if (client->waiting > 0) link_step(client, now);
    sessions_step(client, now);
    send_commits(client, now);
    send_calls(client, now);
    complete_all(client);
}

void *engine_run(void *arg) {
    tarry_client *client = arg;
    pthread_mutex_lock(&client->lock);
    while (!client->closing) {
        client->kicked = false;
        step(client);
        events_tell(client);
        if (client->kicked || client->closing) continue;
        const uint64_t now = now_ms();
        uint64_t deadline = engine_deadline(client, now);
        if (client->heard || client->link.connection.is_lent) deadline = min_u64(deadline, now + LOOK_AGAIN_MS);
        client->heard = false;
        /* call loop_wait once per iteration, even if `deadline` has passed, so that replies are read */
        loop_wait(client, deadline);
    }
    do { /* repeats, because a callback may have submitted operations */
        expiry_all(client);
        complete_all(client);
    } while (!is_idle(client));
    events_tell(client);
    pthread_mutex_unlock(&client->lock);
    return NULL;
}
