/* engine.c: the client's thread. It sends, reads answers, decides what is repeated, and runs callbacks.
 *
 * What an answer means for a commit:
 *
 *   OK, final refusals ──────────► complete
 *   BUSY, STOPPING ──────────────► nothing was decided: again, later. If every send was refused the sequence is unused,
 *                                  and given back; otherwise it stays the same
 *   NOT_PRIMARY ─────────────────► likewise, at the next address (link.c); and it does not count as an answer
 *   FAILED ──────────────────────► unknown: again, under the same one, but it does not count as an answer
 *   FORGOTTEN ───────────────────► never executed if every earlier send was refused: a new producer and again;
 *                                  otherwise complete as TARRY_FORGOTTEN
 *   abandoned ───────────────────► complete as TARRY_E_ABANDONED: somebody asked what became of it, too early
 *   connection lost, silence ────► again, under the same sequence
 *
 * In which order commits go: queue.c. Until when: expiry.c. */
#include "client.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

void engine_kick(tarry_client *client) {
    if (client->kicked) return;
    client->kicked = true;
    if (client->engine_waits) pthread_cond_signal(&client->wake);
}

bool engine_is_me(const tarry_client *client) {
    return pthread_equal(client->engine, pthread_self()) != 0;
}

/* ---- slots */

/* nng's callback: a send is followed by its receive at once; everything else is the engine's. */
void slot_finished(void *arg) {
    struct slot *slot = arg;
    tarry_client *client = slot->client;
    int error = nng_aio_result(slot->aio);
    if (error == 0 && !slot->receiving) {
        slot->receiving = true;
        nng_ctx_recv(slot->ctx, slot->aio);
        return;
    }
    if (error != 0 && !slot->receiving) {
        nng_msg *unsent = nng_aio_get_msg(slot->aio);
        if (unsent != NULL) nng_msg_free(unsent);
        nng_aio_set_msg(slot->aio, NULL);
    }
    pthread_mutex_lock(&client->lock);
    slot->error = error;
    slot->message = error == 0 ? nng_aio_get_msg(slot->aio) : NULL;
    slot->finished = true;
    engine_kick(client);
    pthread_mutex_unlock(&client->lock);
}

/* Of a producer that was left: there are outcomes that somebody may still ask for (once.c). */
static uint64_t oldest_of(tarry_client *client, const struct request *request) {
    if (request->producer != client->producer) return 1;
    return oldest_unanswered(client, request->producer, request->sequence);
}

/* The request leaves its queue for good (until it comes back with an answer or none). */
static void slot_send(tarry_client *client, struct slot *slot, struct request *request, uint64_t now) {
    uint64_t oldest = 0;
    if (request->kind == REQUEST_COMMIT)
        oldest = request->named ? ledger_oldest(&client->ledger, &request->name) : oldest_of(client, request);
    nng_msg *message = request_message(client, request, oldest);
    slot->request = request;
    request->slot = slot;
    slot->receiving = slot->finished = false;
    request->sent_ms = now;
    request->sent_over = client->link.serial;
    request->sent_to = client->link.address;
    if (message == NULL) { /* out of memory: as if the connection had been lost, a little later again */
        slot->error = NNG_ENOMEM;
        slot->message = NULL;
        slot->finished = true;
        client->kicked = true;
        return;
    }
    request->unanswered++;
    nng_aio_set_msg(slot->aio, message);
    nng_ctx_send(slot->ctx, slot->aio);
}

void slot_abort(struct slot *slot) {
    nng_aio_abort(slot->aio, NNG_ETIMEDOUT);
}

bool engine_awaits(const tarry_client *client) {
    for (uint32_t i = 0; i < SLOTS_MAX; i++) {
        const struct request *request = client->slots[i].request;
        if (request != NULL && request->sent_over == client->link.serial) return true;
    }
    return false;
}

/* ---- hello: the producer's number (ONCE-1) */

/* Wherever the client comes to: its producer's number means somebody else in another cluster. With one address it is
 * the user's business what is there. */
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
        if (request->code > TARRY_OK && request->code < TARRY_E_TIMEOUT) {
            client->hello_refused = request->code;
            snprintf(client->hello_message, sizeof(client->hello_message), "%s", request->message);
        }
    }
    engine_kick(client); /* commits wait for this */
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
    request_submit_call(client, request);
}

/* ---- sending */

int request_fail(struct request *request, int code, const char *message) {
    request->code = code;
    request->message = message != NULL && message[0] != 0 ? message : tarry_code_sentence(code);
    request->reply = NULL;
    return code;
}

static struct slot *free_slot(tarry_client *client, uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to; i++)
        if (client->slots[i].request == NULL) return &client->slots[i];
    return NULL;
}

static void send_commits(tarry_client *client, uint64_t now, struct request_list *finished) {
    while (link_is_ready(&client->link)) {
        struct slot *slot = free_slot(client, 0, client->commits_in_flight);
        if (slot == NULL) return;
        if (queue_is_empty(client)) return;
        bool waits_for_hello = client->producer == 0 && client->hello_refused == 0;
        if (waits_for_hello) hello_begin(client, now);
        struct request *request = queue_next(client, now, !waits_for_hello);
        if (request == NULL) {
            if (!waits_for_hello) client->hello_refused = 0;
            return;
        }
        if (client->producer == 0 &&
            request->sequence == 0) { /* the broker does not want us: nobody waits for it to change its mind */
            request_fail(request, client->hello_refused, client->hello_message);
            list_append(finished, IN_QUEUE, request);
            continue;
        }
        if (request->body.size + REQUEST_OVERHEAD_MAX > client->request_max) {
            request->code = TARRY_TOO_LARGE;
            request->message = "the request is larger than this broker takes";
            list_append(finished, IN_QUEUE, request);
            continue;
        }
        if (request->named) {
            request->producer = request->name.producer;
            request->sequence = request->name.sequence;
        } else if (request->sequence == 0) {
            request->producer = client->producer;
            request->sequence = client->next_sequence++;
        }
        slot_send(client, slot, request, now);
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
        struct slot *slot = free_slot(client, COMMITS_IN_FLIGHT_MAX, SLOTS_MAX);
        if (slot == NULL) return;
        list_remove(IN_QUEUE, call);
        slot_send(client, slot, call, now);
    }
}

/* ---- answers */

static uint64_t back_off(struct request *request, uint64_t now) {
    request->backoff_ms = request->backoff_ms == 0 ? RETRY_BACKOFF_MIN_MS : request->backoff_ms * 2;
    if (request->backoff_ms > RETRY_BACKOFF_MAX_MS) request->backoff_ms = RETRY_BACKOFF_MAX_MS;
    return now + request->backoff_ms;
}

/* Again, not before `at_ms`. */
static void put_back(tarry_client *client, struct request *request, uint64_t at_ms, uint64_t now) {
    if (request->kind == REQUEST_COMMIT) {
        request->retry_at_ms = at_ms;
        queue_put_back(client, request);
    } else if (at_ms > now) {
        timer_set(&client->retries, &request->retry, at_ms);
    } else {
        list_append(&client->calls, IN_QUEUE, request);
    }
}

/* After an answer that allows it, `code`. */
static void again(tarry_client *client, struct request *request, Tarry__Code code, uint64_t now) {
    bool rests = code != TARRY__CODE__NOT_PRIMARY; /* there it is the link that waits */
    request->refused = code == TARRY__CODE__FORGOTTEN ? TARRY__CODE__OK : code;
    if (request->unanswered == 0) request->producer = request->sequence = 0;
    bool keeps_sequence = request->sequence != 0;
    put_back(client, request, rests && (keeps_sequence || request->kind == REQUEST_CALL) ? back_off(request, now) : now,
             now);
    if (rests && request->kind == REQUEST_COMMIT) queue_rest(client, request, code == TARRY__CODE__BUSY, now);
}

/* Is the answer what was asked for? */
static bool answer_fits(const struct request *request, const Tarry__Reply *reply) {
    if (reply->code != TARRY__CODE__OK || request->kind != REQUEST_COMMIT) return true;
    if (reply->body_case != TARRY__REPLY__BODY_COMMIT) return false;
    if (reply->commit->abandoned) return reply->commit->n_results == 0;
    /* Who asks does not know how many there were. */
    return request->inquires ? reply->commit->n_results > 0 : reply->commit->n_results == request->count;
}

/* Somebody who is not the primary, or a follower's answer to who wants the primary's. */
static bool is_from_elsewhere(const tarry_client *client, const struct request *request) {
    const Tarry__Reply *reply = request->reply;
    if (reply->code == TARRY__CODE__NOT_PRIMARY) return true;
    return reply->follower && request->asks && !client->follower_reads;
}

static void take_not_primary(tarry_client *client, const struct request *request) {
    const Tarry__Reply *reply = request->reply;
    client->not_primary_ms = now_ms();
    if (request->sent_over != client->link.serial || client->link.again) return; /* we have moved on already */
    link_not_primary(&client->link, reply->primary, reply->code == TARRY__CODE__OK ? "" : reply->message);
}

static void note_busy(tarry_client *client, struct request *request, uint64_t now) {
    const char *reason = request->reply->message;
    if (request->kind == REQUEST_CALL && request->busy_since_ms == 0) request->busy_since_ms = now;
    snprintf(client->busy_reason, sizeof(client->busy_reason), "%s",
             reason[0] != 0 ? reason : tarry_code_sentence(TARRY_BUSY));
}

/* Somebody is there who does what is asked. */
static void note_answer(tarry_client *client, const Tarry__Reply *reply, uint64_t now) {
    if (!reply->follower) client->primary_ms = now;
    /* A follower's answers must keep nobody who needs a primary waiting for ever. */
    if (reply->follower && (client->pending > 0 || client->primary_calls > 0)) return;
    client->answered_ms = now;
    client->not_primary_ms = 0;
}

/* Decides what the answer means. True: complete; false: it is back in its queue. */
static bool take_answer(tarry_client *client, struct request *request, uint64_t now) {
    Tarry__Reply *reply = request->reply;
    if (reply == NULL || !answer_fits(request, reply)) {
        request_fail(request, TARRY_E_PROTOCOL, NULL);
        return true;
    }
    Tarry__Code code = is_from_elsewhere(client, request) ? TARRY__CODE__NOT_PRIMARY : reply->code;
    if (code == TARRY__CODE__BUSY)
        note_busy(client, request, now);
    else
        request->busy_since_ms = 0;
    if (code != TARRY__CODE__FAILED && code != TARRY__CODE__NOT_PRIMARY) note_answer(client, reply, now);
    switch (code) {
    case TARRY__CODE__OK:
        if (request->kind == REQUEST_COMMIT) queue_wake(&client->commits[request->rank]);
        if (request->kind == REQUEST_COMMIT && reply->commit->abandoned) {
            request_fail(request, TARRY_E_ABANDONED, NULL);
            return true;
        }
        request->code = TARRY_OK;
        return true;
    case TARRY__CODE__NOT_PRIMARY:
        take_not_primary(client, request);
        /* fall through */
    case TARRY__CODE__BUSY:
    case TARRY__CODE__STOPPING:
        request->unanswered--;
        break;
    case TARRY__CODE__FAILED: /* whether it took effect is unknown */
        break;
    case TARRY__CODE__FORGOTTEN:
        if (request->kind == REQUEST_COMMIT && request->unanswered == 1 && !request->named) {
            if (client->producer == request->producer) client->producer = 0;
            request->unanswered = 0;
            break;
        }
        /* fall through */
    default:
        if (request->kind == REQUEST_COMMIT) queue_wake(&client->commits[request->rank]);
        request_fail(request, code_from_proto(reply->code), reply->message);
        return true;
    }
    request->reply = NULL;
    if (!request->expired) again(client, request, code, now); /* otherwise its time was over meanwhile */
    return false;
}

/* The connection was lost, or there was no memory: the fate of this send is unknown. */
static void take_loss(tarry_client *client, struct request *request, int error, uint64_t now) {
    request->busy_since_ms = 0; /* whoever was busy is not there any more, perhaps */
    if (request->kind == REQUEST_COMMIT) queue_wake(&client->commits[request->rank]);
    put_back(client, request, error == NNG_ENOMEM ? now + RETRY_BACKOFF_MAX_MS : now, now);
}

/* Takes every finished slot's request: complete ones go to `finished`, in order of their slots. Gives up the lock while
 * it unpacks. */
static void take_slots(tarry_client *client, struct request_list *finished) {
    for (uint32_t i = 0; i < SLOTS_MAX; i++) {
        struct slot *slot = &client->slots[i];
        if (slot->request == NULL || !slot->finished) continue;
        struct request *request = slot->request;
        nng_msg *message = slot->message;
        int error = slot->error;
        slot->message = NULL;
        slot->finished = false;
        if (message != NULL) {
            pthread_mutex_unlock(&client->lock);
            arena_reset(&request->arena);
            request->reply =
                tarry__reply__unpack(&request->arena.pb, nng_msg_len(message), (const uint8_t *)nng_msg_body(message));
            nng_msg_free(message);
            pthread_mutex_lock(&client->lock);
        }
        slot->request = NULL;
        request->slot = NULL;
        uint64_t now = now_ms();
        /* Out of memory says nothing about the answer: asked again, the broker gives the same one (ONCE-1). */
        if (error == 0 && request->reply == NULL && request->arena.starved) error = NNG_ENOMEM;
        if (error == 0 && take_answer(client, request, now)) {
            timer_clear(&client->deadlines, &request->deadline);
            list_append(finished, IN_QUEUE, request);
        } else if (request->expired) {
            expire(client, request);
            list_append(finished, IN_QUEUE, request);
        } else if (error != 0) {
            take_loss(client, request, error, now);
        }
    }
}

/* ---- silence */

static uint64_t silence_deadline(const tarry_client *client) {
    if (client->waiting == 0 || client->timeout_ms == TARRY_FOREVER) return UINT64_MAX;
    uint64_t since = client->answered_ms > client->waiting_since_ms ? client->answered_ms : client->waiting_since_ms;
    return since + client->timeout_ms;
}

/* Calls end by their own deadlines; consumers, which have none, are told, and the next address has its turn. */
static void check_silence(tarry_client *client, uint64_t now) {
    if (now < silence_deadline(client)) return;
    sessions_silent(client);
    client->waiting_since_ms = now;
    link_stalled(client);
}

/* An answer that does not come although the connection stands: perhaps it stands on one side only. */
static void check_stalled(tarry_client *client, uint64_t now) {
    for (uint32_t i = 0; i < SLOTS_MAX; i++) {
        struct slot *slot = &client->slots[i];
        if (slot->request == NULL || slot->finished) continue;
        /* An abort between the end of the send and the start of the receive finds nothing to abort: repeat it. */
        if (slot->request->expired) slot_abort(slot);
        if (now < slot->request->sent_ms + RESEND_AFTER_MS) continue;
        uint64_t heard = client->answered_ms;
        slot->request->sent_ms = now;
        slot_abort(slot);
        if (now >= heard + RESEND_AFTER_MS) link_stalled(client);
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

static uint64_t engine_deadline(tarry_client *client, uint64_t now) {
    uint64_t deadline = min_u64(silence_deadline(client), sessions_deadline(client));
    deadline = min_u64(deadline, first_of(&client->deadlines));
    if (client->waiting > 0) deadline = min_u64(deadline, link_deadline(client));
    for (uint32_t i = 0; i < SLOTS_MAX; i++) {
        const struct request *request = client->slots[i].request;
        if (request == NULL) continue;
        deadline = min_u64(deadline, request->expired ? now + ABORT_AGAIN_MS : request->sent_ms + RESEND_AFTER_MS);
    }
    if (!link_is_ready(&client->link)) return deadline;
    deadline = min_u64(deadline, queue_deadline(client, now));
    deadline = min_u64(deadline, first_of(&client->retries));
    if (client->hello_retry_ms > now) deadline = min_u64(deadline, client->hello_retry_ms);
    return deadline;
}

/* Runs the callbacks of what is complete. Gives up the lock. */
static void complete_all(tarry_client *client, struct request_list *finished) {
    while (finished->first != NULL) {
        struct request *request = finished->first;
        list_remove(IN_QUEUE, request);
        pthread_mutex_unlock(&client->lock);
        request_complete(client, request);
        pthread_mutex_lock(&client->lock);
        if (request->named) ledger_close(&client->ledger, &request->name);
        request_retire(client, request);
        request_free(client, request);
        pthread_cond_broadcast(&client->drained);
    }
}

static bool is_idle(const tarry_client *client) {
    for (uint32_t i = 0; i < SLOTS_MAX; i++)
        if (client->slots[i].request != NULL) return false;
    return queue_is_empty(client) && client->calls.first == NULL && timers_first(&client->retries) == NULL;
}

void *engine_run(void *arg) {
    tarry_client *client = arg;
    pthread_mutex_lock(&client->lock);
    for (;;) {
        struct request_list finished = {NULL, NULL};
        client->kicked = false;
        take_slots(client, &finished);
        uint64_t now = now_ms();
        if (client->closing) {
            expiry_all(client, &finished);
            complete_all(client, &finished);
            if (is_idle(client)) break;
        } else {
            expiry_step(client, now, &finished);
            check_silence(client, now);
            check_stalled(client, now);
            if (client->waiting > 0) link_step(client, now);
            sessions_step(client, now);
            send_commits(client, now, &finished);
            send_calls(client, now);
            complete_all(client, &finished);
        }
        events_tell(client);
        if (client->kicked) continue;
        now = now_ms();
        uint64_t deadline = client->closing ? now + ABORT_AGAIN_MS : engine_deadline(client, now);
        if (deadline <= now) continue;
        struct timespec until;
        deadline_after(deadline - now, &until);
        client->engine_waits = true;
        pthread_cond_timedwait(&client->wake, &client->lock, &until);
        client->engine_waits = false;
    }
    events_tell(client);
    pthread_mutex_unlock(&client->lock);
    return NULL;
}
