/* message.c: see message.h. */
#include "message.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define WORD 4u
#define IS_ID 0x80u

static_assert(offsetof(struct message, bytes) == offsetof(struct message, room) + MESSAGE_ROOM,
              "the reserved space is directly before the bytes");

struct message *message_new(size_t size) {
    struct message *message = malloc(sizeof(*message) + size);
    if (message == NULL) return NULL;
    *message = (struct message){.size = size, .capacity = size};
    return message;
}

bool message_grow(struct message **message, size_t capacity_new) {
    assert(capacity_new >= (*message)->size);
    struct message *grown = realloc(*message, sizeof(*grown) + capacity_new);
    if (grown == NULL) return false;
    grown->capacity = capacity_new;
    *message = grown;
    return true;
}

void message_free(struct message *message) {
    free(message);
}

bool message_take_head(struct message *message) {
    size_t size = 0;
    do {
        if (message->size - size < WORD || size + WORD > MESSAGE_HEAD_MAX) return false;
        size += WORD;
    } while (!(message->bytes[size - WORD] & IS_ID));
    message_put_head(message, message->bytes, (uint8_t)size);
    message->start = (uint8_t)size;
    return true;
}

void message_put_head(struct message *reply, const uint8_t *head, uint8_t head_size) {
    assert(head_size <= MESSAGE_HEAD_MAX);
    reply->head_size = head_size;
    memmove(reply->room + MESSAGE_ROOM - head_size, head, head_size);
}

const uint8_t *message_head(const struct message *message) {
    return message->room + MESSAGE_ROOM - message->head_size;
}
