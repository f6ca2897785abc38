/* message.h: the bytes of one SP message (request or reply), with space in front for its headers.
 *
 *     room: ◄── WebSocket's frame header ── SP's backtrace ──►│ bytes: a packed protobuf message
 *
 * SP's request protocol puts a backtrace before a request and expects it before the reply. The backtrace consists of
 * 4-byte words; the last word is the request id and has its highest bit set. Thread-safety: one owner at a time. */
#ifndef TARRY_NET_MESSAGE_H
#define TARRY_NET_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MESSAGE_HEAD_MAX 32u /* maximum backtrace bytes: a request that passed through 7 devices */
/* Space for a WebSocket header and mask (door_io.c asserts that they fit), and for the backtrace. */
#define MESSAGE_ROOM (16u + MESSAGE_HEAD_MAX)

struct message {
    struct message *next; /* next message in a queue */
    uint64_t to;          /* id of the message's connection; used by the door */
    uint64_t turn;  /* for a delivery: number that lane_leaves compares, to find out whether the lane has got another
                       session */
    uint64_t stamp; /* number that the sender sets and gets back in the report of the result */
    size_t size;
    size_t capacity;
    uint32_t lane;
    uint16_t status; /* HTTP status of a page */
    bool is_leaving; /* used by the door: a byte of the message may have been passed to the kernel */
    uint8_t kind;    /* kind of message (enum door_order); used by the door */
    uint8_t head_size;
    uint8_t start;    /* for a request: number of bytes before its message */
    const char *type; /* content type of a page; static */
    uint8_t room[MESSAGE_ROOM];
    uint8_t bytes[]; /* must directly follow `room` */
};

/* Allocates a message of `size` bytes, which the caller fills in; NULL: out of memory. */
struct message *message_new(size_t size);
/* Enlarges the capacity, keeping the content. False: out of memory, and nothing has changed. */
bool message_grow(struct message **message, size_t capacity_new);
/* Frees a message; NULL is allowed. */
void message_free(struct message *message);

/* Returns the packed protobuf message, which has message_size() bytes. */
static inline uint8_t *message_data(struct message *message) {
    return message->bytes + message->start;
}
static inline size_t message_size(const struct message *message) {
    return message->size - message->start;
}

/* Copies the backtrace from the start of the received bytes into `room`; the message starts after it. False: there is
 * no valid backtrace. */
bool message_take_head(struct message *message);
/* Sets the backtrace of `reply` to the `head_size` bytes at `head`. */
void message_put_head(struct message *reply, const uint8_t *head, uint8_t head_size);
/* Returns the backtrace, which has `head_size` bytes. */
const uint8_t *message_head(const struct message *message);

#endif
