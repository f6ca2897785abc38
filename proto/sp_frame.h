/* sp_frame.h: nng's own transports for SP: over TCP and TLS, and over IPC (a Unix socket). No I/O and no heap memory.
 *
 *     received bytes ──► sp_hello_decode ──► the peer's protocol
 *     received bytes ──► sp_decode ──► spans of messages
 *     message ──► sp_seal ──► bytes to send
 *
 * Each side sends a hello of 8 bytes: 0, 'S', 'P', a version 0, its protocol (big-endian), and two bytes 0. Then each
 * message has a header before it: over TCP its length (8 bytes, big-endian), over IPC a byte 1 and its length. */
#ifndef TARRY_PROTO_SP_FRAME_H
#define TARRY_PROTO_SP_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SP_HELLO_SIZE 8u
#define SP_HEAD_MAX 9u /* size in bytes of the longest message header, that of IPC */

/* Numbers of the protocols that Tarry uses (nng's and nanomsg's). */
enum sp_protocol {
    SP_PROTOCOL_REQ = 48,
    SP_PROTOCOL_REP = 49,
    SP_PROTOCOL_PUSH = 80,
    SP_PROTOCOL_PULL = 81,
};

enum sp_transport { SP_TCP, SP_IPC };

/* ---- the hello */

void sp_hello_encode(enum sp_protocol protocol, uint8_t out[SP_HELLO_SIZE]);
/* Returns whether the first `size` bytes can be the beginning of a hello. At most SP_HELLO_SIZE bytes are read. */
bool sp_hello_begins(const uint8_t *bytes, size_t size);
/* Decodes a whole hello. Returns the protocol's number, which may be one that Tarry does not use; -1: not a hello. */
int sp_hello_decode(const uint8_t bytes[SP_HELLO_SIZE]);

/* ---- receiving. The decoder takes the received bytes in parts of any size, and never copies payload. */

struct sp_decoder {
    enum sp_transport transport;
    uint64_t message_max; /* maximum size in bytes of one message's payload */
    /* The following fields are private to the decoder. */
    uint64_t rest;   /* payload bytes of the current message that have not been decoded */
    bool in_message; /* true: a message's header is complete, and the decoder has not reported the message's last span
                        yet */
    bool has_failed; /* final */
    uint8_t head_size;
    uint8_t head[SP_HEAD_MAX]; /* the part of a header that has arrived */
};

enum sp_event_kind {
    SP_NEEDS_MORE, /* all bytes are decoded; the next event needs further bytes */
    SP_DATA,       /* a span of a message's payload */
    SP_TOO_LARGE,  /* a message above the limit; final */
    SP_MALFORMED,  /* IPC: a message header that does not begin with a byte 1; final */
};

struct sp_event {
    enum sp_event_kind kind;
    /* SP_DATA: the span, in the caller's bytes; it may be empty */
    uint8_t *data;
    size_t size;
    uint64_t rest;       /* bytes of the message that are missing after the span */
    bool begins_message; /* the message's first span; it comes as soon as the header is complete */
    bool ends_message;   /* the message's last span */
};

void sp_decoder_init(struct sp_decoder *decoder, enum sp_transport transport, uint64_t message_max);
/* Decodes up to the next event. Returns the number of decoded bytes. After SP_TOO_LARGE or SP_MALFORMED every call
 * returns that event. */
size_t sp_decode(struct sp_decoder *decoder, uint8_t *bytes, size_t size, struct sp_event *out);

/* ---- sending */

size_t sp_head_size(enum sp_transport transport);
/* Writes the header directly before `payload`, where sp_head_size() bytes must be free. Returns the header's size. */
size_t sp_seal(enum sp_transport transport, uint8_t *payload, uint64_t size);

#endif
