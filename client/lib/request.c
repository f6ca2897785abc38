/* request.c: requests outside the engine: memory, queues, bytes, completion.
 *
 * A commit's operations are packed where they will be sent from, and its memory is used again, so that an operation
 * costs no allocation in the steady state. */
#include "client.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "varint.h"

struct request *request_new(tarry_client *client, enum request_kind kind) {
    struct request *request = client->pool;
    if (request != NULL) {
        client->pool = request->next;
        client->pool_count--;
    } else {
        request = calloc(1, sizeof(*request));
        if (request == NULL) return NULL;
        arena_init(&request->arena, REPLY_ARENA_MAX);
    }
    request->next = NULL;
    request->kind = kind;
    request->message = "";
    return request;
}

void request_destroy(struct request *request) {
    if (request == NULL) return;
    arena_deinit(&request->arena);
    free(request->body.data);
    free(request->notes);
    free(request);
}

void request_free(tarry_client *client, struct request *request) {
    /* What one large payload needed is not kept. */
    if (client->pool_count >= REQUEST_POOL_MAX || request->body.capacity > 4 * BATCH_SIZE_MAX) {
        request_destroy(request);
        return;
    }
    arena_reset(&request->arena);
    request->body.size = 0;
    request->count = 0;
    request->atomic = request->asks = request->internal = request->expired = false;
    request->done = NULL;
    request->arg = NULL;
    request->producer = request->sequence = request->retry_at_ms = request->sent_ms = 0;
    request->busy_since_ms = 0;
    request->unanswered = request->backoff_ms = 0;
    request->code = TARRY_OK;
    request->reply = NULL;
    request->next = client->pool;
    client->pool = request;
    client->pool_count++;
}

int request_add_note(struct request *request, struct op_note note) {
    if (request->count == request->note_capacity) {
        size_t capacity = request->note_capacity == 0 ? 64 : request->note_capacity * 2;
        struct op_note *notes = realloc(request->notes, capacity * sizeof(*notes));
        if (notes == NULL) return TARRY_E_NOMEM;
        request->notes = notes;
        request->note_capacity = capacity;
    }
    request->notes[request->count++] = note;
    return TARRY_OK;
}

void queue_push(struct request_queue *queue, struct request *request) {
    request->next = NULL;
    if (queue->last != NULL) queue->last->next = request;
    if (queue->first == NULL) queue->first = request;
    queue->last = request;
}

void queue_push_front(struct request_queue *queue, struct request *request) {
    request->next = queue->first;
    queue->first = request;
    if (queue->last == NULL) queue->last = request;
}

void queue_remove(struct request_queue *queue, struct request *request, struct request *previous) {
    if (previous != NULL)
        previous->next = request->next;
    else
        queue->first = request->next;
    if (queue->last == request) queue->last = previous;
    request->next = NULL;
}

/* ---- bytes */

static uint8_t *put_number(uint8_t *out, uint8_t number, uint64_t value) {
    *out++ = (uint8_t)(number << 3);
    return put_varint(out, value);
}

/* Request{version, client, cluster, commit{producer, sequence, oldest_unanswered, atomic, ops}}: the operations are
 * packed already, so the few fields around them are written by hand. */
static nng_msg *commit_message(const tarry_client *client, const struct request *request, uint64_t oldest) {
    uint8_t head[64], *at = head;
    at = put_number(at, 1, request->producer);
    at = put_number(at, 2, request->sequence);
    at = put_number(at, 3, oldest);
    if (request->atomic) at = put_number(at, 4, 1);
    size_t head_size = (size_t)(at - head), commit_size = head_size + request->body.size;
    size_t name_size = strlen(client->name), cluster_size = client->cluster_size;
    size_t outer =
        1 + varint_size(WIRE_VERSION) + 1 + varint_size(name_size) + name_size + 1 + varint_size(commit_size);
    if (cluster_size > 0) outer += 1 + varint_size(cluster_size) + cluster_size;
    assert(outer + head_size <= REQUEST_OVERHEAD_MAX);
    nng_msg *message;
    if (nng_msg_alloc(&message, outer + commit_size) != 0) return NULL;
    uint8_t *out = put_number(nng_msg_body(message), 1, WIRE_VERSION);
    *out++ = 2 << 3 | 2;
    out = put_varint(out, name_size);
    memcpy(out, client->name, name_size);
    out += name_size;
    if (cluster_size > 0) {
        *out++ = 3 << 3 | 2;
        out = put_varint(out, cluster_size);
        memcpy(out, client->cluster, cluster_size);
        out += cluster_size;
    }
    *out++ = 11 << 3 | 2;
    out = put_varint(out, commit_size);
    memcpy(out, head, head_size);
    if (request->body.size > 0) memcpy(out + head_size, request->body.data, request->body.size);
    return message;
}

nng_msg *request_message(const tarry_client *client, const struct request *request, uint64_t oldest) {
    if (request->kind == REQUEST_COMMIT) return commit_message(client, request, oldest);
    nng_msg *message;
    if (nng_msg_alloc(&message, request->body.size) != 0) return NULL;
    memcpy(nng_msg_body(message), request->body.data, request->body.size);
    return message;
}

/* What a follower may answer. */
static bool is_question(const Tarry__Request *wire) {
    switch (wire->body_case) {
    case TARRY__REQUEST__BODY_GET:
    case TARRY__REQUEST__BODY_LIST:
    case TARRY__REQUEST__BODY_QUEUES:
    case TARRY__REQUEST__BODY_STATS:
    case TARRY__REQUEST__BODY_AUDIT:
        return true;
    default:
        return false;
    }
}

int request_fill_call(const tarry_client *client, struct request *request, Tarry__Request *wire) {
    wire->version = WIRE_VERSION;
    wire->client = (char *)client->name;
    wire->cluster = (ProtobufCBinaryData){client->cluster_size, (uint8_t *)client->cluster};
    request->asks = is_question(wire);
    size_t size = tarry__request__get_packed_size(wire);
    if (size > REQUEST_SIZE_MAX) return TARRY_TOO_LARGE;
    int rv = buffer_reserve(&request->body, size);
    if (rv != TARRY_OK) return rv;
    request->body.size = tarry__request__pack(wire, request->body.data);
    return TARRY_OK;
}

/* ---- in and out of the engine */

static void count_in(tarry_client *client, struct request *request) {
    if (client->waiting++ == 0) client->waiting_since_ms = now_ms();
    client->queued_size += request->body.size;
}

void request_submit_call(tarry_client *client, struct request *request) {
    count_in(client, request);
    queue_push(&client->calls, request);
    engine_kick(client);
}

int request_submit_commit(tarry_client *client, struct request *request, bool wait_for_room) {
    while (!client->closing && client->queued_size > 0 &&
           client->queued_size + request->body.size > client->queued_size_max) {
        if (!wait_for_room) return TARRY_E_FULL;
        pthread_cond_wait(&client->drained, &client->lock);
    }
    if (client->closing) return TARRY_E_CLOSED;
    if (client->gathering != NULL) {
        queue_push(&client->ready, client->gathering);
        client->gathering = NULL;
    }
    count_in(client, request);
    client->pending += request->count;
    queue_push(&client->ready, request);
    engine_kick(client);
    return TARRY_OK;
}

void request_result(const struct request *request, size_t index, struct tarry_result *out) {
    if (request->code != TARRY_OK) {
        result_failed(request->code, request->message, out);
    } else {
        result_from_proto(request->reply->commit->results[index], out);
    }
    out->producer = request->producer;
    out->sequence = request->sequence;
}

void request_complete(tarry_client *client, struct request *request) {
    if (request->kind == REQUEST_COMMIT && request->code == TARRY_OK) sessions_settled(client, request);
    if (request->done != NULL) {
        request->done(request->arg, request);
        return;
    }
    for (size_t i = 0; i < request->count; i++) {
        if (request->notes[i].done == NULL) continue;
        struct tarry_result result;
        request_result(request, i, &result);
        request->notes[i].done(request->notes[i].arg, &result);
    }
}
