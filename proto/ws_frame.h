/* ws_frame.h: WebSocket frames (RFC 6455, sections 5 and 7) for both sides. No I/O and no heap memory.
 *
 *     received bytes ──► ws_decode ──► events: spans of messages, pings, pongs, Closes, errors
 *     payload ──► ws_seal, ws_head ──► bytes to send
 *
 * The decoder takes the received bytes in parts of any size, and gives the same payload, pings, pongs, Close and error
 * however they are divided. It unmasks payload in the caller's buffer and never copies it. The decoder is strict: it
 * accepts no extension, no text message, and no byte that the RFC forbids. An error is final. */
#ifndef TARRY_PROTO_WS_FRAME_H
#define TARRY_PROTO_WS_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WS_HEAD_MAX 14u     /* maximum size in bytes of a frame header: 2 bytes, an 8-byte length, a 4-byte mask */
#define WS_CONTROL_MAX 125u /* maximum payload of a ping, pong or Close, in bytes */
/* Maximum size in bytes of a Close's reason: WS_CONTROL_MAX without the 2 bytes of the code. */
#define WS_REASON_MAX 123u

/* The side that uses the codec. A client masks its frames, a server never masks. */
enum ws_side { WS_SERVER, WS_CLIENT };

enum ws_opcode {
    WS_CONTINUATION = 0,
    WS_TEXT = 1,
    WS_BINARY = 2,
    WS_CLOSE = 8,
    WS_PING = 9,
    WS_PONG = 10,
};

/* Codes of a Close (RFC 6455, 7.4.1, and IANA's registry). */
enum ws_code {
    WS_CODE_NORMAL = 1000,
    WS_CODE_GOING_AWAY = 1001,
    WS_CODE_PROTOCOL_ERROR = 1002,
    WS_CODE_UNSUPPORTED_DATA = 1003,
    WS_CODE_NONE = 1005, /* the Close has no code; never sent */
    WS_CODE_INVALID_DATA = 1007,
    WS_CODE_POLICY = 1008,
    WS_CODE_TOO_BIG = 1009,
    WS_CODE_INTERNAL_ERROR = 1011,
    WS_CODE_TRY_AGAIN = 1013,
};

/* Violations of the protocol: X(constant, code of the Close frame to send, the violation as a noun phrase for error
 * messages). */
#define WS_ERRORS(X)                                                                                                   \
    X(WS_ERROR_NONE, 0, "no error")                                                                                    \
    X(WS_ERROR_RESERVED_BIT, WS_CODE_PROTOCOL_ERROR, "a frame with a reserved bit set")                                \
    X(WS_ERROR_OPCODE, WS_CODE_PROTOCOL_ERROR, "a frame with an undefined opcode")                                     \
    X(WS_ERROR_UNMASKED, WS_CODE_PROTOCOL_ERROR, "an unmasked frame; a client must mask")                              \
    X(WS_ERROR_MASKED, WS_CODE_PROTOCOL_ERROR, "a masked frame; a server must not mask")                               \
    X(WS_ERROR_LONG_LENGTH, WS_CODE_PROTOCOL_ERROR, "a frame length in more bytes than it needs")                      \
    X(WS_ERROR_HUGE_LENGTH, WS_CODE_PROTOCOL_ERROR, "a frame length of 2^63 or more")                                  \
    X(WS_ERROR_CONTROL_FRAGMENT, WS_CODE_PROTOCOL_ERROR, "a fragmented ping, pong or Close")                           \
    X(WS_ERROR_CONTROL_SIZE, WS_CODE_PROTOCOL_ERROR, "a ping, pong or Close of more than 125 bytes")                   \
    X(WS_ERROR_NO_MESSAGE, WS_CODE_PROTOCOL_ERROR, "a continuation frame outside a message")                           \
    X(WS_ERROR_IN_MESSAGE, WS_CODE_PROTOCOL_ERROR, "a new message before the last frame of the previous one")          \
    X(WS_ERROR_CLOSE_SIZE, WS_CODE_PROTOCOL_ERROR, "a Close with a payload of 1 byte")                                 \
    X(WS_ERROR_CLOSE_CODE, WS_CODE_PROTOCOL_ERROR, "a Close with a code that must not be sent")                        \
    X(WS_ERROR_CLOSE_REASON, WS_CODE_INVALID_DATA, "a Close with a reason that is not UTF-8")                          \
    X(WS_ERROR_TEXT, WS_CODE_UNSUPPORTED_DATA, "a text message; messages are binary")                                  \
    X(WS_ERROR_FRAME_SIZE, WS_CODE_TOO_BIG, "a frame above the size limit")                                            \
    X(WS_ERROR_MESSAGE_SIZE, WS_CODE_TOO_BIG, "a message above the size limit")
#define WS_ERROR_NAME(name, code, text) name,
enum ws_error { WS_ERRORS(WS_ERROR_NAME) };
#undef WS_ERROR_NAME

/* Returns the code of the Close that reports the error to the peer. */
enum ws_code ws_error_code(enum ws_error error);
/* Returns the broken rule as a noun phrase ("a masked frame; …"). */
const char *ws_error_sentence(enum ws_error error);

/* ---- receiving */

struct ws_decoder {
    enum ws_side side;
    uint64_t frame_max;   /* maximum size in bytes of the payload of one data frame */
    uint64_t message_max; /* maximum size in bytes of the payload of one message */
    /* The following fields are private to the decoder. */
    uint64_t frame_rest;   /* payload bytes of the current frame that have not been decoded */
    uint64_t message_size; /* payload size in bytes of the current message so far; includes the whole current frame */
    uint32_t mask;         /* mask for the next payload bytes, in memory order */
    uint8_t opcode;        /* opcode of the current frame */
    bool is_last;          /* the current frame ends its message */
    bool in_frame;         /* the header is complete; payload is missing */
    bool in_message;       /* the message's last frame has not begun */
    bool is_closed;        /* a Close was decoded; further bytes are ignored */
    enum ws_error error;   /* WS_ERROR_NONE, or the final error */
    uint8_t head_size;     /* number of bytes in `head` */
    uint8_t control_size;  /* number of bytes in `control` */
    uint8_t head[WS_HEAD_MAX]; /* the part of a header that has arrived */
    uint8_t control[WS_CONTROL_MAX];
};

enum ws_event_kind {
    WS_NEEDS_MORE, /* all bytes are decoded; the next event needs further bytes */
    WS_DATA,       /* a span of a message's payload */
    WS_GOT_PING,   /* answer with a pong of the same payload */
    WS_GOT_PONG,
    WS_GOT_CLOSE, /* answer with a Close, send nothing else, and close; further bytes are ignored */
    WS_FAILED,    /* the peer broke a rule: send a Close with ws_error_code(error), and close */
};

/* One event. Its kind decides which members are set. */
struct ws_event {
    enum ws_event_kind kind;
    /* WS_DATA: the span, unmasked, in the caller's bytes; it may be empty. Ping, pong: the payload. Close: the reason
     * (UTF-8). The last three are valid until the next call. */
    uint8_t *data;
    size_t size;
    /* valid for WS_DATA */
    uint64_t frame_rest; /* bytes of this frame that are still missing after the span */
    bool begins_message; /* the message's first span; it comes as soon as the frame's header is complete */
    bool ends_message;   /* the message's last span */
    /* WS_GOT_CLOSE: the code; WS_CODE_NONE: the Close has none */
    uint16_t code;
    enum ws_error error; /* valid for WS_FAILED */
};

/* Prepares a decoder for the frames that `side` receives. Limits in bytes, at least 1;
 * UINT64_MAX: no limit. */
void ws_decoder_init(struct ws_decoder *decoder, enum ws_side side, uint64_t frame_max, uint64_t message_max);
/* Decodes up to the next event. Returns the number of decoded bytes; the caller passes the bytes after them to the next
 * call. WS_NEEDS_MORE: all `size` bytes are decoded. A call reports one event at most: a WS_DATA, or one control
 * frame. So the caller repeats the call until WS_NEEDS_MORE or WS_FAILED:
 *
 *     do at += ws_decode(&decoder, bytes + at, size - at, &event);
 *     while (handle(&event) && event.kind != WS_NEEDS_MORE);
 *
 * After WS_FAILED every call returns WS_FAILED. */
size_t ws_decode(struct ws_decoder *decoder, uint8_t *bytes, size_t size, struct ws_event *out);
/* Returns how many further bytes complete the current header or payload; at least 1. */
uint64_t ws_decoder_wants(const struct ws_decoder *decoder);

/* ---- sending. `mask`: a random number for a client's frame, which must be unpredictable; NULL for a server's. */

/* Returns the size of a frame's header. */
size_t ws_head_size(uint64_t payload_size, bool is_masked);
/* Writes a frame's header. `is_last`: the frame ends its message. Returns the header's size. */
size_t ws_head(uint8_t out[WS_HEAD_MAX], enum ws_opcode opcode, bool is_last, uint64_t payload_size,
               const uint32_t *mask);
/* Masks `payload` in place and writes the header directly before it, where ws_head_size() bytes must be free (at most
 * WS_HEAD_MAX). Returns the header's size. */
size_t ws_seal(enum ws_opcode opcode, bool is_last, uint8_t *payload, size_t size, const uint32_t *mask);
/* Writes the payload of a Close. `reason`: at most WS_REASON_MAX bytes of UTF-8; "": none. WS_CODE_NONE: an empty
 * payload. Returns its size. */
size_t ws_close_payload(uint8_t out[WS_CONTROL_MAX], enum ws_code code, const char *reason);
/* Masks or unmasks bytes in place. Returns the mask for the byte that follows them. */
uint32_t ws_mask(uint8_t *bytes, size_t size, uint32_t mask);

#endif
