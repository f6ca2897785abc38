/* reply_bytes.h: makes the bytes of a reply as they arrive, for fuzz_reply.c. */
#ifndef REPLY_BYTES_H
#define REPLY_BYTES_H

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

/* Returns the number of the field of Reply that answers a request. */
static inline uint8_t field_of(const Tarry__Request *request) {
    switch (request->body_case) {
    case TARRY__REQUEST__BODY_HELLO:
        return 10;
    case TARRY__REQUEST__BODY_COMMIT:
        return 11;
    case TARRY__REQUEST__BODY_SUBSCRIBE:
        return 13;
    case TARRY__REQUEST__BODY_GET:
        return 16;
    case TARRY__REQUEST__BODY_LIST:
        return 17;
    case TARRY__REQUEST__BODY_QUEUES:
        return 18;
    case TARRY__REQUEST__BODY_AUDIT:
        return 20;
    case TARRY__REQUEST__BODY_PAIR:
        return 23;
    case TARRY__REQUEST__BODY_CALENDAR:
        return 24;
    case TARRY__REQUEST__BODY_CONSUMERS:
        return 26;
    default:
        return 19;
    }
}

/* The bytes of a reply: the request's number, then the rest. */
struct message {
    uint8_t *data;
    size_t size;
};

static inline struct message message_of(const uint8_t *bytes, size_t size) {
    struct message message = {malloc(REQUEST_ID_SIZE + size), REQUEST_ID_SIZE + size};
    if (message.data == NULL) abort();
    if (size > 0) memcpy(message.data + REQUEST_ID_SIZE, bytes, size);
    return message;
}

/* Makes a reply whose body is `bytes`, in the field that fits the request. */
static inline struct message fitting(const Tarry__Request *request, const uint8_t *bytes, size_t size) {
    uint8_t fitted[4 + UINT8_MAX], *at = fitted;
    const uint8_t head[4] = {(uint8_t)((field_of(request) << 3 | 2) | 0x80u * (field_of(request) >= 16)),
                             (uint8_t)(field_of(request) >= 16), (uint8_t)(size & 127u) | 0x80u, (uint8_t)(size >> 7)};
    assert(size <= UINT8_MAX);
    *at++ = head[0];
    if (field_of(request) >= 16) *at++ = head[1];
    *at++ = head[2];
    *at++ = head[3];
    if (size > 0) memcpy(at, bytes, size);
    return message_of(fitted, (size_t)(at - fitted) + size);
}

#endif
