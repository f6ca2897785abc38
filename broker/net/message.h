/* message.h: the bytes of one SP message, request or reply, with room in front for what the wire needs there.
 *
 *     room: ◄── WebSocket's frame header ── SP's backtrace ──►│ bytes: a packed protobuf message
 *
 * The backtrace is what SP's request protocol puts before a request, and wants back before its reply: words of 4 bytes,
 * the last of which, the request's id, has its highest bit set. Thread-safety: one owner at a time. */
#ifndef TARRY_NET_MESSAGE_H
#define TARRY_NET_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MESSAGE_HEAD_MAX 32u /* a request that has come through 7 devices */
/* A WebSocket header and its mask (LWS_PRE is asserted to fit), and the backtrace. */
#define MESSAGE_ROOM (16u + MESSAGE_HEAD_MAX)

struct message {
    struct message *next; /* while it is queued */
    uint64_t to;          /* connection; the door's */
    uint64_t turn;        /* of a lane: the session it is meant for */
    uint64_t stamp;       /* the sender's, given back */
    size_t size;
    size_t capacity;
    uint32_t lane;
    uint16_t status; /* of a page */
    uint8_t kind;    /* the door's */
    uint8_t head_size;
    uint8_t start;    /* of a request: so many bytes lie before its message */
    const char *type; /* of a page; static */
    uint8_t room[MESSAGE_ROOM];
    uint8_t bytes[]; /* right behind the room */
};

/* `size` bytes to be filled in; NULL: no memory. */
struct message *message_new(size_t size);
/* Room for more bytes behind those that are there. False: no memory, and nothing has changed. */
bool message_grow(struct message **message, size_t capacity_new);
/* NULL is fine. */
void message_free(struct message *message);

/* The packed message, `message_size` bytes. */
static inline uint8_t *message_data(struct message *message) {
    return message->bytes + message->start;
}
static inline size_t message_size(const struct message *message) {
    return message->size - message->start;
}

/* Copies the backtrace at the beginning of what was received into the room; the message begins behind it. False: there
 * is none. */
bool message_take_head(struct message *message);
/* Gives `reply` the backtrace that `head` holds. */
void message_put_head(struct message *reply, const uint8_t *head, uint8_t head_size);
/* Where the backtrace is; `head_size` bytes. */
const uint8_t *message_head(const struct message *message);

#endif
