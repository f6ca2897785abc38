/* slots.c: requests under way. Each is one context of SP's REQ protocol (proto/WIRE.md), with a number that the
 * reply repeats. This file decides how many commits may be under way, and which. */
#include <string.h>

#include "client.h"

#define TAG_MARK 0x80000000u /* SP: marks the last part of a backtrace */
#define TAG_SLOT 0x1fu       /* bits of a request's number that hold its slot; the other bits count */

static_assert(SLOTS_MAX <= TAG_SLOT + 1, "a slot's number fits");

struct slot *slot_free(tarry_client *client, uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to; i++)
        if (client->slots[i].request == NULL) return &client->slots[i];
    return NULL;
}

/* With one commit in flight, a second one is allowed if both contain only blocking calls. Those belong to different
 * threads, so their order of submission cannot be observed. */
struct slot *slot_for_commit(tarry_client *client) {
    if (client->commits_in_flight > 1) return slot_free(client, 0, client->commits_in_flight);
    struct slot *free = slot_free(client, 0, 2);
    if (free == NULL) return NULL;
    const struct slot *other = &client->slots[free == client->slots];
    if (other->request == NULL) return free;
    const struct request *next = queue_plain_next(client);
    return next != NULL && !next->ordered && !other->request->ordered ? free : NULL;
}

/* Returns the value of oldest_unanswered to send. It is 1 for a producer that is no longer used, because its unknown
 * outcomes may still be requested (once.c). */
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
    /* memory that one large payload needed is freed */
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
