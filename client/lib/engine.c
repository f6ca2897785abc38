/* engine.c: the client's thread. It sends, reads answers, decides what is repeated, and runs callbacks.
 *
 * What an answer means for a commit:
 *
 *   OK, final refusals ──────────► complete
 *   BUSY, STOPPING ──────────────► nothing was decided, the sequence is unused: again, under the same one
 *   NOT_PRIMARY ─────────────────► likewise, at the next address (link.c); and it does not count as an answer
 *   FAILED ──────────────────────► unknown: again, under the same one, but it does not count as an answer
 *   FORGOTTEN ───────────────────► never executed if every earlier send was refused: a new producer and again;
 *                                  otherwise complete as TARRY_FORGOTTEN
 *   connection lost, silence ────► again, under the same sequence
 *
 * After timeout_ms without any answer everything that waits is given up at once. */
#include "client.h"

#include <assert.h>
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

/* The oldest sequence of the producer that has no answer, `sequence` if there is none below. What has been given a
 * sequence stands at the front of its queue. */
static uint64_t oldest_unanswered(const tarry_client *client, uint64_t producer, uint64_t sequence) {
    uint64_t oldest = sequence;
    for (const struct request *at = client->ready.first; at != NULL && at->sequence != 0; at = at->next)
        if (at->producer == producer && at->sequence < oldest) oldest = at->sequence;
    for (uint32_t i = 0; i < client->commits_in_flight; i++) {
        const struct request *sent = client->slots[i].request;
        if (sent != NULL && sent->producer == producer && sent->sequence < oldest) oldest = sent->sequence;
    }
    return oldest;
}

/* The request leaves its queue for good (until it comes back with an answer or none). */
static void slot_send(tarry_client *client, struct slot *slot, struct request *request, uint64_t now) {
    uint64_t oldest = 0;
    if (request->kind == REQUEST_COMMIT) oldest = oldest_unanswered(client, request->producer, request->sequence);
    nng_msg *message = request_message(client, request, oldest);
    slot->request = request;
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

static void hello_done(void *arg, struct request *request) {
    tarry_client *client = arg;
    pthread_mutex_lock(&client->lock);
    client->hello_under_way = false;
    if (request->code == TARRY_OK && request->reply->body_case == TARRY__REPLY__BODY_HELLO &&
        request->reply->hello->producer != 0) {
        client->producer = request->reply->hello->producer;
        client->next_sequence = 1;
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

static int fail(struct request *request, int code, const char *message) {
    request->code = code;
    request->message = message != NULL && message[0] != 0 ? message : tarry_code_sentence(code);
    request->reply = NULL;
    return code;
}

/* May a commit be given a sequence? The broker remembers so many answers from the oldest unanswered commit on; if those
 * behind it used them all up, it would be refused as well, and for good. */
static bool window_is_open(const tarry_client *client) {
    uint64_t next = client->next_sequence;
    return client->producer == 0 || next - oldest_unanswered(client, client->producer, next) < COMMITS_PER_PRODUCER_MAX;
}

/* The next commit that may go now; NULL: none. With one commit in flight the order is kept strictly. */
static struct request *next_commit(tarry_client *client, uint64_t now) {
    if (client->ready.first == NULL && client->gathering != NULL) {
        queue_push(&client->ready, client->gathering);
        client->gathering = NULL;
    }
    struct request *previous = NULL;
    for (struct request *at = client->ready.first; at != NULL; previous = at, at = at->next) {
        if (at->sequence == 0 && !window_is_open(client)) return NULL; /* the others have none either */
        if (at->retry_at_ms <= now) {
            queue_remove(&client->ready, at, previous);
            return at;
        }
        if (client->commits_in_flight == 1) return NULL;
    }
    return NULL;
}

static struct slot *free_slot(tarry_client *client, uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to; i++)
        if (client->slots[i].request == NULL) return &client->slots[i];
    return NULL;
}

static void send_commits(tarry_client *client, uint64_t now, struct request_queue *finished) {
    while (link_is_ready(&client->link)) {
        struct slot *slot = free_slot(client, 0, client->commits_in_flight);
        if (slot == NULL) return;
        if (client->ready.first == NULL && client->gathering == NULL) return;
        if (client->producer == 0 && client->hello_refused == 0) {
            hello_begin(client, now);
            return;
        }
        struct request *request = next_commit(client, now);
        if (request == NULL) {
            client->hello_refused = 0;
            return;
        }
        if (client->producer == 0) { /* the broker does not want us: nobody waits for it to change its mind */
            fail(request, client->hello_refused, client->hello_message);
            queue_push(finished, request);
            continue;
        }
        if (request->body.size + REQUEST_OVERHEAD_MAX > client->request_max) {
            request->code = TARRY_TOO_LARGE;
            request->message = "the request is larger than this broker takes";
            queue_push(finished, request);
            continue;
        }
        if (request->sequence == 0) {
            request->producer = client->producer;
            request->sequence = client->next_sequence++;
        }
        slot_send(client, slot, request, now);
    }
}

static void send_calls(tarry_client *client, uint64_t now) {
    if (!link_is_ready(&client->link)) return;
    struct request *previous = NULL, *at = client->calls.first;
    while (at != NULL) {
        struct slot *slot = free_slot(client, COMMITS_IN_FLIGHT_MAX, SLOTS_MAX);
        if (slot == NULL) return;
        struct request *next = at->next;
        if (at->retry_at_ms <= now) {
            queue_remove(&client->calls, at, previous);
            slot_send(client, slot, at, now);
        } else {
            previous = at;
        }
        at = next;
    }
}

/* ---- answers */

/* Back to its queue. Commits keep the order of their sequences, and stand before those that were never sent. */
static void put_back(tarry_client *client, struct request *request) {
    if (request->kind == REQUEST_CALL) {
        queue_push(&client->calls, request);
        return;
    }
    struct request *previous = NULL, *at = client->ready.first;
    while (at != NULL && at->sequence != 0 && (request->sequence == 0 || at->sequence < request->sequence)) {
        previous = at;
        at = at->next;
    }
    if (previous == NULL) {
        queue_push_front(&client->ready, request);
        return;
    }
    request->next = previous->next;
    previous->next = request;
    if (client->ready.last == previous) client->ready.last = request;
}

static void retry_later(tarry_client *client, struct request *request, uint64_t now) {
    request->backoff_ms = request->backoff_ms == 0 ? RETRY_BACKOFF_MIN_MS : request->backoff_ms * 2;
    if (request->backoff_ms > RETRY_BACKOFF_MAX_MS) request->backoff_ms = RETRY_BACKOFF_MAX_MS;
    request->retry_at_ms = now + request->backoff_ms;
    put_back(client, request);
}

/* Is the answer what was asked for? */
static bool answer_fits(const struct request *request, const Tarry__Reply *reply) {
    if (reply->code != TARRY__CODE__OK || request->kind != REQUEST_COMMIT) return true;
    return reply->body_case == TARRY__REPLY__BODY_COMMIT && reply->commit->n_results == request->count;
}

/* Somebody who is not the primary, or a follower's answer to who wants the primary's. */
static bool is_from_elsewhere(const tarry_client *client, const struct request *request) {
    const Tarry__Reply *reply = request->reply;
    if (reply->code == TARRY__CODE__NOT_PRIMARY) return true;
    return reply->follower && request->asks && !client->follower_reads;
}

static void take_not_primary(tarry_client *client, const struct request *request) {
    const Tarry__Reply *reply = request->reply;
    client->not_primary = true;
    if (request->sent_over != client->link.serial || client->link.again) return; /* we have moved on already */
    link_not_primary(&client->link, reply->primary, reply->code == TARRY__CODE__OK ? "" : reply->message);
}

static void note_busy(tarry_client *client, struct request *request, uint64_t now) {
    const char *reason = request->reply->message;
    if (request->busy_since_ms == 0) request->busy_since_ms = now;
    snprintf(client->busy_reason, sizeof(client->busy_reason), "%s",
             reason[0] != 0 ? reason : tarry_code_sentence(TARRY_BUSY));
}

/* Is there anything that only a primary can answer? */
static bool awaits_primary(const tarry_client *client) {
    if (client->pending > 0) return true;
    for (uint32_t i = 0; i < SLOTS_MAX; i++)
        if (client->slots[i].request != NULL && !client->slots[i].request->asks) return true;
    for (const struct request *at = client->calls.first; at != NULL; at = at->next)
        if (!at->asks) return true;
    return false;
}

/* Somebody is there who does what is asked. */
static void note_answer(tarry_client *client, const Tarry__Reply *reply, uint64_t now) {
    if (!reply->follower) client->primary_ms = now;
    /* A follower's answers must keep nobody who needs a primary waiting for ever. */
    if (reply->follower && awaits_primary(client)) return;
    client->answered_ms = now;
    client->broker_failed = client->not_primary = false;
}

/* Decides what the answer means. True: complete; false: it is back in its queue. */
static bool take_answer(tarry_client *client, struct request *request, uint64_t now) {
    Tarry__Reply *reply = request->reply;
    if (reply == NULL || !answer_fits(request, reply)) {
        fail(request, TARRY_E_PROTOCOL, NULL);
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
        request->code = TARRY_OK;
        return true;
    case TARRY__CODE__NOT_PRIMARY:
        take_not_primary(client, request);
        /* fall through */
    case TARRY__CODE__BUSY:
    case TARRY__CODE__STOPPING:
        request->unanswered--;
        break;
    case TARRY__CODE__FAILED:
        client->broker_failed = true;
        break;
    case TARRY__CODE__FORGOTTEN:
        if (request->kind == REQUEST_COMMIT && request->unanswered == 1) {
            if (client->producer == request->producer) client->producer = 0;
            request->producer = request->sequence = 0;
            request->unanswered = 0;
            break;
        }
        /* fall through */
    default:
        fail(request, code_from_proto(reply->code), reply->message);
        return true;
    }
    request->reply = NULL;
    if (request->expired) return false; /* the silence has given it up meanwhile */
    if (code == TARRY__CODE__NOT_PRIMARY)
        put_back(client, request); /* it is the link that waits */
    else
        retry_later(client, request, now);
    return false;
}

/* The code's sentence, and what each address said. */
static const char *search_sentence(tarry_client *client, struct request *request, int code) {
    char told[MESSAGE_SIZE_MAX];
    const char *sentence =
        code == TARRY_NOT_PRIMARY ? "no primary was found in time; nothing was done" : tarry_code_sentence(code);
    size_t size = strlen(sentence) + sizeof(told) + 3;
    char *text = arena_alloc(&request->arena, size);
    if (text == NULL) return sentence;
    link_tell(client, told, sizeof(told));
    snprintf(text, size, "%s: %s", sentence, told);
    return text;
}

static void expire(tarry_client *client, struct request *request) {
    int code = client->broker_failed ? TARRY_FAILED : TARRY_E_TIMEOUT;
    if (request->unanswered == 0) code = client->not_primary ? TARRY_NOT_PRIMARY : TARRY_E_NO_BROKER;
    if (client->closing)
        fail(request, TARRY_E_CLOSED, NULL);
    else
        fail(request, code, search_sentence(client, request, code));
}

/* Takes every finished slot's request: complete ones go to `finished`, in order of their slots. Gives up the lock while
 * it unpacks. */
static void take_slots(tarry_client *client, struct request_queue *finished) {
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
        uint64_t now = now_ms();
        if (error == 0) {
            if (take_answer(client, request, now))
                queue_push(finished, request);
            else if (request->expired)
                expire(client, request), queue_push(finished, request);
        } else if (request->expired) {
            expire(client, request);
            queue_push(finished, request);
        } else {
            if (error == NNG_ENOMEM) request->retry_at_ms = now + RETRY_BACKOFF_MAX_MS;
            request->busy_since_ms = 0; /* whoever was busy is not there any more, perhaps */
            put_back(client, request);
        }
    }
}

/* ---- silence */

static uint64_t silence_deadline(const tarry_client *client) {
    if (client->waiting == 0 || client->timeout_ms == TARRY_FOREVER) return UINT64_MAX;
    uint64_t since = client->answered_ms > client->waiting_since_ms ? client->answered_ms : client->waiting_since_ms;
    return since + client->timeout_ms;
}

static void expire_queue(tarry_client *client, struct request_queue *queue, struct request_queue *finished,
                         bool internal_too) {
    struct request_queue kept = {NULL, NULL};
    for (struct request *at = queue->first, *next; at != NULL; at = next) {
        next = at->next;
        if (at->internal && !internal_too) {
            queue_push(&kept, at);
        } else {
            expire(client, at);
            queue_push(finished, at);
        }
    }
    *queue = kept;
}

/* Gives up everything that waits; what is under way comes back through its slot. */
static void expire_all(tarry_client *client, struct request_queue *finished, bool internal_too) {
    for (uint32_t i = 0; i < SLOTS_MAX; i++) {
        struct slot *slot = &client->slots[i];
        if (slot->request == NULL || (slot->request->internal && !internal_too)) continue;
        slot->request->expired = true;
        nng_aio_abort(slot->aio, NNG_ETIMEDOUT);
    }
    if (client->gathering != NULL) {
        queue_push(&client->ready, client->gathering);
        client->gathering = NULL;
    }
    expire_queue(client, &client->ready, finished, internal_too);
    expire_queue(client, &client->calls, finished, internal_too);
}

static void check_silence(tarry_client *client, uint64_t now, struct request_queue *finished) {
    if (now < silence_deadline(client)) return;
    expire_all(client, finished, false);
    sessions_silent(client);
    client->waiting_since_ms = now;
    client->not_primary = false;
    link_stalled(client);
}

/* An answer that does not come although the connection stands: perhaps it stands on one side only. */
static void check_stalled(tarry_client *client, uint64_t now) {
    for (uint32_t i = 0; i < SLOTS_MAX; i++) {
        struct slot *slot = &client->slots[i];
        if (slot->request == NULL || slot->finished) continue;
        /* An abort between the end of the send and the start of the receive finds nothing to abort: repeat it. */
        if (slot->request->expired) nng_aio_abort(slot->aio, NNG_ETIMEDOUT);
        if (now < slot->request->sent_ms + RESEND_AFTER_MS) continue;
        uint64_t heard = client->answered_ms;
        slot->request->sent_ms = now;
        nng_aio_abort(slot->aio, NNG_ETIMEDOUT);
        if (now >= heard + RESEND_AFTER_MS) link_stalled(client);
    }
}

/* ---- the loop */

static uint64_t min_u64(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* What may go already, and still waits, waits for a slot: no time wakes it. */
static uint64_t queue_deadline(const struct request_queue *queue, uint64_t now) {
    uint64_t deadline = UINT64_MAX;
    for (const struct request *at = queue->first; at != NULL; at = at->next)
        if (at->retry_at_ms > now) deadline = min_u64(deadline, at->retry_at_ms);
    return deadline;
}

static uint64_t engine_deadline(const tarry_client *client, uint64_t now) {
    uint64_t deadline = min_u64(silence_deadline(client), sessions_deadline(client));
    if (client->waiting > 0) deadline = min_u64(deadline, link_deadline(client));
    for (uint32_t i = 0; i < SLOTS_MAX; i++) {
        const struct request *request = client->slots[i].request;
        if (request == NULL) continue;
        deadline = min_u64(deadline, request->expired ? now + ABORT_AGAIN_MS : request->sent_ms + RESEND_AFTER_MS);
    }
    if (!link_is_ready(&client->link)) return deadline;
    deadline = min_u64(deadline, queue_deadline(&client->ready, now));
    deadline = min_u64(deadline, queue_deadline(&client->calls, now));
    if (client->hello_retry_ms > now) deadline = min_u64(deadline, client->hello_retry_ms);
    return deadline;
}

/* Runs the callbacks of what is complete. Gives up the lock. */
static void complete_all(tarry_client *client, struct request_queue *finished) {
    while (finished->first != NULL) {
        struct request *request = finished->first;
        queue_remove(finished, request, NULL);
        pthread_mutex_unlock(&client->lock);
        size_t size = request->body.size, count = request->kind == REQUEST_COMMIT ? request->count : 0;
        request_complete(client, request);
        pthread_mutex_lock(&client->lock);
        assert(client->waiting > 0 && client->queued_size >= size && client->pending >= count);
        client->waiting--;
        client->queued_size -= size;
        client->pending -= count;
        client->completed += count;
        request_free(client, request);
        pthread_cond_broadcast(&client->drained);
    }
}

static bool is_idle(const tarry_client *client) {
    for (uint32_t i = 0; i < SLOTS_MAX; i++)
        if (client->slots[i].request != NULL) return false;
    return client->ready.first == NULL && client->calls.first == NULL && client->gathering == NULL;
}

void *engine_run(void *arg) {
    tarry_client *client = arg;
    pthread_mutex_lock(&client->lock);
    for (;;) {
        struct request_queue finished = {NULL, NULL};
        client->kicked = false;
        take_slots(client, &finished);
        uint64_t now = now_ms();
        if (client->closing) {
            expire_all(client, &finished, true);
            complete_all(client, &finished);
            if (is_idle(client)) break;
        } else {
            check_silence(client, now, &finished);
            check_stalled(client, now);
            if (client->waiting > 0) link_step(client, now);
            sessions_step(client, now);
            send_commits(client, now, &finished);
            send_calls(client, now);
            complete_all(client, &finished);
        }
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
    pthread_mutex_unlock(&client->lock);
    return NULL;
}
