/* gateway.c: handles, and requests and their replies; see gateway.h. */
#include "gateway.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway_parts.h"
#include "wire.h"

#define REPLY_ARENA_MAX (8ull * REQUEST_SIZE_MAX) /* maximum size of an unpacked reply */

#define INDEX_MASK (GATEWAY_SLOTS_MAX - 1)

static const char no_memory[] = "the broker has too little memory for this request: try again in a moment";

/* ---- handles */

uint64_t handle_new(struct gateway *gateway, enum handle_kind kind, void *owner) {
    if (gateway->slot_free == 0) {
        uint32_t count = gateway->slot_count > 0 ? 2 * gateway->slot_count : 256;
        if (count > GATEWAY_SLOTS_MAX) return 0;
        struct slot *grown = realloc(gateway->slots, count * sizeof(*grown));
        if (grown == NULL) return 0;
        gateway->slots = grown;
        for (uint32_t i = count; i-- > gateway->slot_count;) {
            grown[i] = (struct slot){.next_free = gateway->slot_free};
            gateway->slot_free = i + 1;
        }
        gateway->slot_count = count;
    }
    uint32_t index = gateway->slot_free - 1;
    struct slot *slot = &gateway->slots[index];
    gateway->slot_free = slot->next_free;
    *slot = (struct slot){.id = DOOR_INSIDE | (++gateway->serial << GATEWAY_INDEX_BITS) | index,
                          .kind = kind,
                          .owner = owner};
    return slot->id;
}

void *handle_find(const struct gateway *gateway, uint64_t id, enum handle_kind kind) {
    uint64_t index = id & INDEX_MASK;
    if (id == 0 || index >= gateway->slot_count) return NULL;
    const struct slot *slot = &gateway->slots[index];
    return slot->kind == kind && slot->id == id ? slot->owner : NULL;
}

void handle_free(struct gateway *gateway, uint64_t id) {
    struct slot *slot = &gateway->slots[id & INDEX_MASK];
    assert(slot->id == id && slot->kind != HANDLE_FREE);
    *slot = (struct slot){.next_free = gateway->slot_free};
    gateway->slot_free = (uint32_t)(id & INDEX_MASK) + 1;
}

void gateway_who(struct gateway *gateway, const struct gateway_caller *caller, struct gateway_who *out) {
    gateway->calls.who(gateway->calls.argument, caller->principal, out);
}

bool gateway_may(struct gateway *gateway, const struct gateway_caller *caller, Tarry__Op__OpCase operation,
                 const char *queue, char sentence[GATEWAY_SENTENCE_SIZE]) {
    return gateway->calls.may(gateway->calls.argument, caller->principal, operation, queue, sentence);
}

uint32_t gateway_epoch(struct gateway *gateway) {
    return gateway->calls.epoch(gateway->calls.argument);
}

Tarry__Code gateway_pay(struct gateway *gateway, const struct gateway_caller *caller, const struct gateway_deed *deed,
                        char sentence[GATEWAY_SENTENCE_SIZE]) {
    return gateway->calls.pay(gateway->calls.argument, caller->principal, deed, sentence);
}

void gateway_unpay(struct gateway *gateway, const struct gateway_caller *caller) {
    gateway->calls.unpay(gateway->calls.argument, caller->principal);
}

/* ---- requests */

static struct message *pack(Tarry__Request *request, const char *client) {
    request->version = WIRE_VERSION;
    request->client = (char *)client;
    size_t room = request_room(request);
    struct message *message = message_new(room);
    if (message == NULL) return NULL;
    const uint8_t *packed = request_pack(request, message->bytes + room);
    message->size = (size_t)(message->bytes + room - packed);
    memmove(message->bytes, packed, message->size);
    return message;
}

struct ask *ask_new(struct gateway *gateway, const struct gateway_caller *caller, Tarry__Request *request,
                    gateway_reply *reply, void *argument) {
    if (gateway->ask_count >= GATEWAY_ASKS_MAX) return NULL;
    struct ask *ask = calloc(1, sizeof(*ask));
    if (ask == NULL) return NULL;
    *ask = (struct ask){.gateway = gateway, .reply = reply, .argument = argument};
    ask->request = pack(request, caller->client);
    ask->id = ask->request != NULL ? handle_new(gateway, HANDLE_ASK, ask) : 0;
    if (ask->id == 0) {
        message_free(ask->request);
        free(ask);
        return NULL;
    }
    ask->principal = gateway->calls.hold(gateway->calls.argument, caller->principal);
    snprintf(ask->peer, sizeof(ask->peer), "%s", caller->peer);
    gateway->ask_count++;
    return ask;
}

static bool is_taken(struct ask *ask) {
    const struct gateway_calls *calls = &ask->gateway->calls;
    if (!calls->request(calls->argument, ask->id, ask->principal, ask->peer, ask->request)) return false;
    ask->request = NULL;
    return true;
}

/* Offers the request to the broker. While it waits for capacity, its bytes count like those of a request that waits in
 * a connection. */
void ask_offer(struct ask *ask) {
    struct gateway *gateway = ask->gateway;
    if (TAILQ_EMPTY(&gateway->offered) && is_taken(ask)) return;
    if (!door_stream_hold(gateway->door, (int64_t)ask->request->capacity)) {
        ask_refuse_later(ask, TARRY__CODE__BUSY, no_memory);
        return;
    }
    TAILQ_INSERT_TAIL(&gateway->offered, ask, waits);
}

void gateway_resumed(struct gateway *gateway) {
    struct ask *ask;
    while ((ask = TAILQ_FIRST(&gateway->offered)) != NULL) {
        assert(ask->request != NULL); /* the ask owns the request until the broker takes it */
        int64_t held = (int64_t)ask->request->capacity;
        if (!is_taken(ask)) return;
        TAILQ_REMOVE(&gateway->offered, ask, waits);
        (void)door_stream_hold(gateway->door, -held);
    }
}

static void ask_free(struct ask *ask) {
    struct gateway *gateway = ask->gateway;
    handle_free(gateway, ask->id);
    gateway->calls.release(gateway->calls.argument, ask->principal);
    gateway->ask_count--;
    message_free(ask->request);
    once_free(ask->once);
    free(ask);
}

void ask_answer(struct ask *ask, const Tarry__Reply *reply) {
    gateway_reply *tell = ask->reply;
    void *argument = ask->argument;
    ask_free(ask);
    if (tell != NULL) tell(argument, reply);
}

void ask_refuse(struct ask *ask, Tarry__Code code, const char *sentence) {
    Tarry__Reply reply = TARRY__REPLY__INIT;
    reply.code = code;
    reply.message = (char *)sentence;
    ask_answer(ask, &reply);
}

void ask_refuse_later(struct ask *ask, Tarry__Code code, const char *sentence) {
    Tarry__Reply reply = TARRY__REPLY__INIT;
    reply.code = code;
    reply.message = (char *)sentence;
    struct message *message = message_new(tarry__reply__get_packed_size(&reply));
    if (message != NULL) tarry__reply__pack(&reply, message->bytes);
    door_answer(ask->gateway->door, ask->id, message);
}

uint64_t gateway_ask(struct gateway *gateway, const struct gateway_caller *caller, Tarry__Request *request,
                     gateway_reply *reply, void *argument) {
    struct ask *ask = ask_new(gateway, caller, request, reply, argument);
    if (ask == NULL) return 0;
    uint64_t id = ask->id;
    ask_offer(ask);
    return id;
}

void gateway_forget(struct gateway *gateway, uint64_t handle) {
    struct ask *ask = handle_find(gateway, handle, HANDLE_ASK);
    if (ask != NULL) ask->reply = NULL;
}

static void replied(struct gateway *gateway, struct ask *ask, const struct message *message) {
    assert(gateway->arena.used == 0); /* a reply is never handled while another one is being handled */
    Tarry__Reply *reply = message != NULL ? reply_unpack(&gateway->arena, message->size, message->bytes) : NULL;
    if (ask->commit_at == 0 || !commit_replied(ask, reply)) ask_answer(ask, reply);
    arena_reset(&gateway->arena);
}

void gateway_inside(struct gateway *gateway, uint64_t id, const struct message *message, bool is_delivery) {
    struct ask *ask = handle_find(gateway, id, HANDLE_ASK);
    struct gateway_wakeup *wakeup = handle_find(gateway, id, HANDLE_WAKEUP);
    if (ask != NULL)
        replied(gateway, ask, message);
    else if (wakeup != NULL)
        wakeup_arrived(wakeup);
    else if (is_delivery)
        pool_delivery(gateway, id, message);
    else
        pool_ended(gateway, id);
}

/* ---- start and stop */

struct gateway *gateway_new(const struct gateway_calls *calls) {
    struct gateway *gateway = calloc(1, sizeof(*gateway));
    if (gateway == NULL) return NULL;
    gateway->calls = *calls;
    arena_init(&gateway->arena, REPLY_ARENA_MAX);
    TAILQ_INIT(&gateway->offered);
    TAILQ_INIT(&gateway->makers);
    TAILQ_INIT(&gateway->pools);
    return gateway;
}

void gateway_serve(struct gateway *gateway, struct door *door) {
    gateway->door = door;
    once_start(gateway);
}

void gateway_free(struct gateway *gateway) {
    if (gateway == NULL) return;
    for (uint32_t i = 0; i < gateway->slot_count; i++) {
        struct slot *slot = &gateway->slots[i];
        if (slot->kind == HANDLE_ASK) ask_free(slot->owner);
        if (slot->kind == HANDLE_TIMER)
            gateway_timer_cancel(gateway, slot->id); /* remove the timer from the heap before its memory is freed */
        if (slot->kind == HANDLE_LEASE) lease_forget(slot->owner);
        if (slot->kind == HANDLE_WAKEUP) wakeup_free(slot->owner);
    }
    pools_free(gateway);
    makers_free(gateway);
    free(gateway->timers.heap);
    free(gateway->slots);
    arena_deinit(&gateway->arena);
    free(gateway);
}
