/* slots.c: requests under way, and their replies. */
#include "client.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "wire.h"

/* ---- slots */

#define TAG_MARK 0x80000000u /* SP: marks the last part of a backtrace */
#define TAG_SLOT 0x1fu       /* bits of a request's number that hold its slot; the other bits count */

static_assert(SLOTS_MAX <= TAG_SLOT + 1, "a slot's number fits");

struct slot *slot_free(tarry_client *client, uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to; i++)
        if (client->slots[i].request == NULL) return &client->slots[i];
    return NULL;
}

/* Returns a slot for a second commit beside one in flight only if both contain only blocking calls. Such calls belong
 * to different threads, so no thread can notice which of the two is executed first. */
struct slot *slot_for_commit(tarry_client *client) {
    if (client->commits_in_flight > 1) return slot_free(client, 0, client->commits_in_flight);
    struct slot *free = slot_free(client, 0, 2);
    if (free == NULL) return NULL;
    const struct slot *other = &client->slots[free == client->slots];
    if (other->request == NULL) return free;
    const struct request *next = queue_plain_next(client);
    return next != NULL && !next->ordered && !other->request->ordered ? free : NULL;
}

/* Returns the value to send in oldest_unanswered. It is 1 for a producer that the client no longer uses: its commits
 * may have unknown outcomes, and the broker must keep all its replies (once.c). */
static uint64_t oldest_of(tarry_client *client, const struct request *request) {
    if (request->kind != REQUEST_COMMIT) return 0;
    if (request->named) return ledger_oldest(&client->ledger, &request->name);
    if (request->producer != client->producer) return 1;
    return oldest_unanswered(client, request->producer, request->sequence);
}

bool slot_send(tarry_client *client, struct slot *slot, struct request *request, uint64_t now) {
    struct packet *packet = &slot->packet;
    if (!request_message(client, request, oldest_of(client, request), REQUEST_ID_SIZE, packet)) return false;
    client->last_tag += TAG_SLOT + 1;
    slot->tag = TAG_MARK | (client->last_tag & ~TAG_SLOT) | (uint32_t)(slot - client->slots);
    for (size_t i = 0; i < REQUEST_ID_SIZE; i++)
        packet->data[WS_HEAD_MAX + i] = (uint8_t)(slot->tag >> 8 * (REQUEST_ID_SIZE - 1 - i));
    slot->request = request;
    request->slot = slot;
    request->sent_ms = now;
    request->sent_over = client->link.serial;
    request->sent_to = client->link.address;
    request->unanswered++;
    ws_client_send(&client->link.connection, packet, slot->tag);
    /* Free the buffer if a large payload has made it much larger than usual. */
    if (packet->capacity > 4 * BATCH_SIZE_MAX) packet_deinit(packet);
    return true;
}

struct request *slot_release(tarry_client *client, struct slot *slot) {
    struct request *request = slot->request;
    ws_client_unsend(&client->link.connection, slot->tag);
    slot->request = NULL;
    request->slot = NULL;
    return request;
}

struct slot *slot_of(tarry_client *client, uint32_t tag) {
    const uint32_t number = tag & TAG_SLOT;
    if (number >= SLOTS_MAX) return NULL;
    struct slot *slot = &client->slots[number];
    return slot->request != NULL && slot->tag == tag ? slot : NULL;
}

size_t slots_callers(const tarry_client *client) {
    size_t count = 0;
    for (uint32_t i = 0; i < COMMITS_IN_FLIGHT_MAX; i++) {
        const struct request *request = client->slots[i].request;
        if (request != NULL && !request->ordered) count += request->count;
    }
    return count;
}

bool slots_busy(const tarry_client *client) {
    for (uint32_t i = 0; i < SLOTS_MAX; i++)
        if (client->slots[i].request != NULL) return true;
    return false;
}

/* ---- replies: their meaning, and which requests are sent again
 *
 * Meaning of a reply for a commit:
 *
 *   OK, final refusals ──────────► complete
 *   BUSY, STOPPING ──────────────► nothing was decided: retry later. If every send was refused, the sequence is
 *                                  unused and given back; otherwise it stays the same
 *   NOT_PRIMARY ─────────────────► the same, at the next address (link.c); does not count as a reply
 *   BEHIND of a follower ────────► the follower may catch up: retry until the deadline; of a primary: complete
 *   FAILED ──────────────────────► unknown: retry under the same sequence; does not count as a reply
 *   FORGOTTEN ───────────────────► if every earlier send was refused, it was never executed: retry with a new
 *                                  producer; otherwise complete as TARRY_FORGOTTEN
 *   abandoned ───────────────────► complete as TARRY_E_ABANDONED: its outcome was requested before it arrived
 *   connection lost, silence ────► retry under the same sequence */

static uint64_t back_off(struct request *request, uint64_t now) {
    request->backoff_ms = request->backoff_ms == 0 ? RETRY_BACKOFF_MIN_MS : request->backoff_ms * 2;
    if (request->backoff_ms > RETRY_BACKOFF_MAX_MS) request->backoff_ms = RETRY_BACKOFF_MAX_MS;
    return now + request->backoff_ms;
}

/* Queues the request to be sent again, not before `at_ms`. */
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

/* Queues a retry after a reply with `code` that allows one. */
static void again(tarry_client *client, struct request *request, Tarry__Code code, uint64_t now) {
    bool rests = code != TARRY__CODE__NOT_PRIMARY; /* after NOT_PRIMARY the client pauses before its next connection
                                                      attempt, so the request needs no pause of its own */
    request->refused = code == TARRY__CODE__FORGOTTEN ? TARRY__CODE__OK : code;
    if (request->unanswered == 0) request->producer = request->sequence = 0;
    bool keeps_sequence = request->sequence != 0;
    put_back(client, request, rests && (keeps_sequence || request->kind == REQUEST_CALL) ? back_off(request, now) : now,
             now);
    if (rests && request->kind == REQUEST_COMMIT) queue_rest(client, request, code == TARRY__CODE__BUSY, now);
}

/* True: the reply has the type that the request needs. */
static bool answer_fits(const struct request *request, const Tarry__Reply *reply) {
    if (reply->code != TARRY__CODE__OK || request->kind != REQUEST_COMMIT) return true;
    if (reply->body_case != TARRY__REPLY__BODY_COMMIT) return false;
    if (reply->commit->abandoned) return reply->commit->n_results == 0;
    /* The caller that asks for an outcome does not know how many results the commit has. */
    return request->inquires ? reply->commit->n_results > 0 : reply->commit->n_results == request->count;
}

/* Handles NOT_PRIMARY, or a follower's reply to a request for the primary. */
static bool is_from_elsewhere(const tarry_client *client, const struct request *request) {
    const Tarry__Reply *reply = request->reply;
    if (reply->code == TARRY__CODE__NOT_PRIMARY) return true;
    return reply->follower && request->asks && !client->follower_reads;
}

static void take_not_primary(tarry_client *client, const struct request *request) {
    const Tarry__Reply *reply = request->reply;
    client->not_primary_ms = now_ms();
    /* the link has already left the broker that sent this reply */
    if (request->sent_over != client->link.serial || client->link.again) return;
    link_not_primary(&client->link, reply->primary, reply->code == TARRY__CODE__OK ? "" : reply->message);
}

static void note_busy(tarry_client *client, struct request *request, uint64_t now) {
    const char *reason = request->reply->message;
    if (request->kind == REQUEST_CALL && request->busy_since_ms == 0) request->busy_since_ms = now;
    snprintf(client->busy_reason, sizeof(client->busy_reason), "%s",
             reason[0] != 0 ? reason : tarry_code_sentence(TARRY_BUSY));
}

/* True: the reply is as recent as the request requires. A follower with an older version ignores the requirement. */
static Tarry__Code check_new(const struct request *request, const Tarry__Reply *reply) {
    if (reply->code != TARRY__CODE__OK || !reply->follower) return reply->code;
    if (reply->position < request->at_least) return TARRY__CODE__BEHIND;
    bool is_young = reply->age_max_ms != 0 && reply->age_max_ms <= request->staleness_ms;
    return request->staleness_ms == 0 || is_young ? TARRY__CODE__OK : TARRY__CODE__TOO_OLD;
}

/* Handles BEHIND from a follower. Keeps the reply's message as the reason, in case the request reaches its deadline. */
static void note_behind(tarry_client *client, const Tarry__Reply *reply) {
    snprintf(client->busy_reason, sizeof(client->busy_reason), "%s",
             reply->message[0] != 0 ? reply->message : tarry_code_sentence(TARRY_BEHIND));
}

/* Notes that a broker handled a request. */
static void note_answer(tarry_client *client, const Tarry__Reply *reply, uint64_t now) {
    if (!reply->follower) client->primary_ms = now;
    /* Replies of a follower must not keep a request for the primary waiting for ever. */
    if (reply->follower && (client->pending > 0 || client->primary_calls > 0)) return;
    client->answered_ms = now;
    client->not_primary_ms = 0;
}

/* Handles a reply. True: the request is complete. False: it is back in its queue. */
static bool understand(tarry_client *client, struct request *request, uint64_t now) {
    Tarry__Reply *reply = request->reply;
    if (reply == NULL || !answer_fits(request, reply)) {
        request_fail(request, TARRY_E_PROTOCOL, NULL);
        return true;
    }
    Tarry__Code code = is_from_elsewhere(client, request) ? TARRY__CODE__NOT_PRIMARY : check_new(request, reply);
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
    case TARRY__CODE__BEHIND:
        if (!reply->follower) {
            request_fail(request, TARRY_BEHIND, reply->message);
            return true;
        }
        note_behind(client, reply);
        request->unanswered--;
        break;
    case TARRY__CODE__FAILED: /* the broker's disk failed, so the outcome is unknown */
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
        request_fail(request, code_from_proto(code), reply->message);
        return true;
    }
    request->reply = NULL;
    again(client, request, code, now);
    return false;
}

void answer_lost(tarry_client *client, struct request *request, uint64_t at_ms, uint64_t now) {
    request->busy_since_ms = 0; /* the next broker may not be busy */
    if (request->kind == REQUEST_COMMIT) queue_wake(&client->commits[request->rank]);
    put_back(client, request, at_ms, now);
}

void answers_lost(tarry_client *client) {
    const uint64_t now = now_ms();
    for (uint32_t i = 0; i < SLOTS_MAX; i++)
        if (client->slots[i].request != NULL) answer_lost(client, slot_release(client, &client->slots[i]), now, now);
}

/* The request stays in its slot until its reply is unpacked. If the reply cannot be unpacked, the request is sent
 * again. So no other request may say meanwhile, in oldest_unanswered, that the reply has arrived. */
bool answer_take(tarry_client *client, const uint8_t *data, size_t size) {
    uint32_t tag = 0;
    if (size < REQUEST_ID_SIZE) return false;
    for (size_t i = 0; i < REQUEST_ID_SIZE; i++) tag = tag << 8 | data[i];
    struct slot *slot = slot_of(client, tag);
    if (slot == NULL) return true; /* the request was sent again meanwhile, or its deadline has passed */
    struct request *request = slot->request;
    pthread_mutex_unlock(&client->lock);
    arena_reset(&request->arena);
    request->reply = reply_unpack(&request->arena, size - REQUEST_ID_SIZE, data + REQUEST_ID_SIZE);
    pthread_mutex_lock(&client->lock);
    slot_release(client, slot);
    const uint64_t now = now_ms();
    client->heard = true;
    if (request->reply == NULL && request->arena.starved) {
        /* Without memory the reply cannot be read. The request is sent again, and the broker gives the same reply
         * (ONCE-1). */
        answer_lost(client, request, now + RETRY_BACKOFF_MAX_MS, now);
    } else if (understand(client, request, now)) {
        timer_clear(&client->deadlines, &request->deadline);
        list_append(&client->finished, IN_QUEUE, request);
    }
    return true;
}
