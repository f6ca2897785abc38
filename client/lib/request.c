/* request.c: requests outside the engine: memory, lists, packed bytes, completion.
 *
 * Operations are packed in the memory from which they are sent, and that memory is reused. So an operation normally
 * needs no allocation. */
#include "client.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "requests.h"

struct request *request_new(tarry_client *client, enum request_kind kind) {
    struct request *request = client->pool;
    if (request != NULL) {
        client->pool = request->links[IN_QUEUE].next;
        client->pool_count--;
        request->links[IN_QUEUE].next = NULL;
    } else {
        /* Reserves the timer's place now, because setting a timer must not fail later. */
        size_t count = client->request_count + 1;
        if (!timers_reserve(&client->deadlines, count) || !timers_reserve(&client->retries, count)) return NULL;
        request = calloc(1, sizeof(*request));
        if (request == NULL) return NULL;
        arena_init(&request->arena, REPLY_ARENA_MAX);
        client->request_count = count;
    }
    request->kind = kind;
    request->rank = NEEDS_ROOM;
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

/* Resets a request but keeps its memory. */
static void request_reset(struct request *request) {
    struct request empty = {.body = request->body, .notes = request->notes, .note_capacity = request->note_capacity};
    arena_reset(&request->arena);
    empty.body.size = 0;
    empty.arena = request->arena;
    *request = empty;
}

void request_free(tarry_client *client, struct request *request) {
    assert(request->deadline.place == 0 && request->retry.place == 0 && request->slot == NULL);
    /* Frees the memory if one large payload needed it, and keeps it otherwise. */
    if (client->pool_count >= REQUEST_POOL_MAX || request->body.capacity > 4 * BATCH_SIZE_MAX) {
        request_destroy(request);
        client->request_count--;
        return;
    }
    request_reset(request);
    request->links[IN_QUEUE].next = client->pool;
    client->pool = request;
    client->pool_count++;
}

static int reserve_notes(struct request *request, size_t count) {
    if (count <= request->note_capacity) return TARRY_OK;
    size_t capacity = request->note_capacity == 0 ? 64 : request->note_capacity;
    while (capacity < count) capacity *= 2;
    struct op_note *notes = realloc(request->notes, capacity * sizeof(*notes));
    if (notes == NULL) return TARRY_E_NOMEM;
    request->notes = notes;
    request->note_capacity = capacity;
    return TARRY_OK;
}

int request_add_note(struct request *request, const struct op_note *note) {
    int rv = reserve_notes(request, request->count + 1);
    if (rv != TARRY_OK) return rv;
    request->notes[request->count++] = *note;
    request->of_rank[note->rank]++;
    request->ordered = request->ordered || !note->waits;
    return TARRY_OK;
}

struct request *request_divide(tarry_client *client, struct request *request,
                               bool is_meant(const struct op_note *note, uint64_t argument), uint64_t argument,
                               size_t *out_count) {
    size_t count = 0, size = 0;
    for (size_t i = 0; i < request->count; i++) {
        if (!is_meant(&request->notes[i], argument)) continue;
        count++;
        size += request->notes[i].size;
    }
    *out_count = count;
    if (count == 0 || count == request->count) return NULL;
    struct request *part = request_new(client, REQUEST_COMMIT);
    if (part == NULL) return NULL;
    if (buffer_reserve(&part->body, size) != TARRY_OK || reserve_notes(part, count) != TARRY_OK) {
        request_free(client, part);
        return NULL;
    }
    /* kept: number of operations that stay in `request`; from, to: offsets in its body. */
    size_t kept = 0, from = 0, to = 0;
    for (size_t i = 0; i < request->count; i++) {
        const struct op_note note = request->notes[i];
        if (is_meant(&note, argument)) {
            memcpy(part->body.data + part->body.size, request->body.data + from, note.size);
            part->body.size += note.size;
            part->notes[part->count++] = note;
            part->of_rank[note.rank]++;
            request->of_rank[note.rank]--;
        } else {
            memmove(request->body.data + to, request->body.data + from, note.size);
            request->notes[kept++] = note;
            to += note.size;
        }
        from += note.size;
    }
    assert(from == request->body.size);
    request->count = kept;
    request->body.size = to;
    part->ordered = request->ordered;
    return part;
}

/* ---- lists */

void list_insert(struct request_list *list, enum request_link link, struct request *previous, struct request *request) {
    assert(request->links[link].list == NULL);
    struct request *next = previous != NULL ? previous->links[link].next : list->first;
    request->links[link].list = list;
    request->links[link].previous = previous;
    request->links[link].next = next;
    if (previous != NULL)
        previous->links[link].next = request;
    else
        list->first = request;
    if (next != NULL)
        next->links[link].previous = request;
    else
        list->last = request;
}

void list_append(struct request_list *list, enum request_link link, struct request *request) {
    list_insert(list, link, list->last, request);
}

void list_remove(enum request_link link, struct request *request) {
    struct request_list *list = request->links[link].list;
    if (list == NULL) return;
    struct request *previous = request->links[link].previous, *next = request->links[link].next;
    if (previous != NULL)
        previous->links[link].next = next;
    else
        list->first = next;
    if (next != NULL)
        next->links[link].previous = previous;
    else
        list->last = previous;
    request->links[link].list = NULL;
    request->links[link].next = request->links[link].previous = NULL;
}

/* ---- bytes */

static uint8_t *put_number(uint8_t *out, uint8_t number, uint64_t value) {
    *out++ = (uint8_t)(number << 3);
    return put_varint(out, value);
}

/* Writes Request{version, client, cluster, commit{producer, sequence, oldest_unanswered, atomic, ops}}. The
 * operations are packed already, so the few other fields are written by hand. */
static bool commit_message(const tarry_client *client, const struct request *request, uint64_t oldest,
                           size_t prefix_size, struct packet *packet) {
    uint8_t head[64], *at = head;
    at = put_number(at, 1, request->producer);
    at = put_number(at, 2, request->sequence);
    at = put_number(at, 3, oldest);
    if (request->atomic) at = put_number(at, 4, 1);
    if (request->inquires) at = put_number(at, 6, 1);
    /* A named commit is sent with its cluster, even if there is only one address. */
    const uint8_t *cluster = request->named ? request->name.cluster : client->cluster;
    static const uint8_t unknown[CLUSTER_ID_SIZE];
    size_t cluster_size = request->named ? CLUSTER_ID_SIZE : client->cluster_size;
    if (request->named && memcmp(cluster, unknown, sizeof(unknown)) == 0) cluster_size = 0;
    size_t head_size = (size_t)(at - head), commit_size = head_size + request->body.size;
    size_t name_size = strlen(client->name);
    size_t outer =
        1 + varint_size(WIRE_VERSION) + 1 + varint_size(name_size) + name_size + 1 + varint_size(commit_size);
    if (cluster_size > 0) outer += 1 + varint_size(cluster_size) + cluster_size;
    assert(outer + head_size <= REQUEST_OVERHEAD_MAX);
    uint8_t *room = packet_reserve(packet, prefix_size + outer + commit_size);
    if (room == NULL) return false;
    uint8_t *out = put_number(room + prefix_size, 1, WIRE_VERSION);
    *out++ = 2 << 3 | 2;
    out = put_varint(out, name_size);
    memcpy(out, client->name, name_size);
    out += name_size;
    if (cluster_size > 0) {
        *out++ = 3 << 3 | 2;
        out = put_varint(out, cluster_size);
        memcpy(out, cluster, cluster_size);
        out += cluster_size;
    }
    *out++ = 11 << 3 | 2;
    out = put_varint(out, commit_size);
    memcpy(out, head, head_size);
    if (request->body.size > 0) memcpy(out + head_size, request->body.data, request->body.size);
    return true;
}

bool request_message(const tarry_client *client, const struct request *request, uint64_t oldest, size_t prefix_size,
                     struct packet *out) {
    if (request->kind == REQUEST_COMMIT) return commit_message(client, request, oldest, prefix_size, out);
    uint8_t *room = packet_reserve(out, prefix_size + request->body.size);
    if (room == NULL) return false;
    memcpy(room + prefix_size, request->body.data, request->body.size);
    return true;
}

int request_fill_call(const tarry_client *client, struct request *request, Tarry__Request *wire) {
    wire->version = WIRE_VERSION;
    wire->client = (char *)client->name;
    wire->cluster = (ProtobufCBinaryData){client->cluster_size, (uint8_t *)client->cluster};
    request->asks = request_is_question(wire);
    request->at_least = wire->at_least;
    request->staleness_ms = wire->staleness_ms;
    size_t size = tarry__request__get_packed_size(wire);
    if (size > REQUEST_SIZE_MAX) return TARRY_TOO_LARGE;
    int rv = buffer_reserve(&request->body, size);
    if (rv != TARRY_OK) return rv;
    request->body.size = tarry__request__pack(wire, request->body.data);
    return TARRY_OK;
}

/* ---- in and out of the engine */

void request_submit_call(tarry_client *client, struct request *request, bool sends) {
    if (client->waiting++ == 0) client->waiting_since_ms = now_ms();
    client->queued_size += request->body.size;
    client->primary_calls += !request->asks;
    if (!request->internal) {
        request->made_ms = now_ms();
        expiry_watch(client, request, deadline_of(client, request->made_ms, request->timeout_ms));
    }
    list_append(&client->calls, IN_QUEUE, request);
    /* If no calling thread waits for this reply, the engine must read from the connection again. */
    if (!request->blocks) caller_take_back(client);
    engine_submitted(client, sends);
}

int request_submit_commit(tarry_client *client, struct request *request, bool wait_for_room) {
    request->made_ms = now_ms();
    const uint64_t until_ms = deadline_of(client, request->made_ms, request->timeout_ms);
    int rv = queue_wait_for_room(client, request->body.size, wait_for_room, until_ms);
    if (rv != TARRY_OK) return rv;
    request->whole = true;
    request->ordered = !wait_for_room;
    queue_admit_whole(client, request);
    expiry_watch(client, request, until_ms);
    engine_submitted(client, wait_for_room);
    return TARRY_OK;
}

void request_retire(tarry_client *client, struct request *request) {
    assert(request->links[IN_QUEUE].list == NULL && request->slot == NULL);
    assert(client->waiting > 0 && client->queued_size >= request->body.size);
    timer_clear(&client->deadlines, &request->deadline);
    client->waiting--;
    client->queued_size -= request->body.size;
    if (request->kind == REQUEST_CALL) {
        client->primary_calls -= !request->asks;
        return;
    }
    assert(client->pending >= request->count - request->told);
    client->pending -= request->count - request->told;
    queue_forget(client, request);
}

void request_result(const struct request *request, size_t index, struct tarry_result *out) {
    if (request->code != TARRY_OK) {
        result_failed(request->code, request->message, out);
    } else {
        result_from_proto(request->reply->commit->results[index], out);
    }
    out->position = request->reply != NULL ? request->reply->position : 0;
    out->producer = request->producer;
    out->sequence = request->sequence;
    out->index = request->tells ? request->notes[index].index : index;
}

/* Runs the callbacks of the request's blocking calls (`waits` true), or of its other operations (`waits` false). */
static void complete_notes(const struct request *request, bool waits) {
    for (size_t i = 0; i < request->count; i++) {
        const struct op_note *note = &request->notes[i];
        if (note->done == NULL || note->waits != waits) continue;
        struct tarry_result result;
        request_result(request, i, &result);
        note->done(note->arg, &result);
    }
}

/* Wakes the threads of the request's blocking calls. They usually wait at the same gate. */
static void open_gates(tarry_client *client, const struct request *request) {
    uint64_t open = 0;
    static_assert(GATES <= 64, "a bit for each gate");
    for (size_t i = 0; i < request->count; i++) {
        const struct op_note *note = &request->notes[i];
        if (note->done != NULL && note->waits) open |= 1ull << note->gate;
    }
    for (unsigned gate = 0; open != 0; gate++, open >>= 1)
        if ((open & 1) != 0) gate_open(&client->gates[gate]);
}

void request_complete(tarry_client *client, struct request *request) {
    if (request->kind == REQUEST_COMMIT && request->code == TARRY_OK) sessions_settled(client, request);
    if (request->done != NULL) {
        request->done(request->arg, request);
        return;
    }
    complete_notes(request, true);
    open_gates(client, request);
    if (request->ordered) complete_notes(request, false);
}
