/* ws_frame.h: WebSocket frames (RFC 6455, section 5) for a client. No I/O.
 *
 * Why not wslay 1.1.1: it masks outgoing data through its own 4 KiB buffer, with one send call per buffer and one
 * for the header. It reads through another buffer, so each message is copied twice and costs twice the system calls.
 * This module masks a message in place, puts its header in front of it, and parses a reply in its receive buffer. */
#ifndef TARRY_WS_FRAME_H
#define TARRY_WS_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRAME_HEAD_MAX 14u     /* size of the header of a masked frame */
#define FRAME_CONTROL_MAX 125u /* payload size of a ping, pong or close */
/* larger messages are sent in fragments: brokers refuse frames above 1 MiB */
#define FRAME_SENT_MAX ((size_t)512 << 10)

enum frame_opcode {
    FRAME_CONTINUATION = 0,
    FRAME_TEXT = 1,
    FRAME_BINARY = 2,
    FRAME_CLOSE = 8,
    FRAME_PING = 9,
    FRAME_PONG = 10
};

/* Masks `payload` in place and writes the frame header before it, where FRAME_HEAD_MAX bytes must be free. Returns
 * the header's size. `is_last`: no more fragments of this message follow. */
size_t frame_seal(enum frame_opcode opcode, bool is_last, uint8_t *payload, size_t size, uint32_t mask);

/* ---- reading: one buffer receives bytes, and messages are read from it in place.
 *
 *   0        begun           at                       end          capacity
 *   │ gone   │ payload so far │ bytes not looked at yet │ room to receive │ */
struct frame_reader {
    uint8_t *data;
    size_t capacity;
    size_t begun;    /* start of the message whose fragments are arriving */
    size_t size;     /* bytes of its payload so far */
    bool in_message; /* its last fragment is still missing */
    size_t at;
    size_t end;
    size_t needed; /* bytes from `at` that the current frame needs */
    size_t message_max;
};

enum frame_news { FRAME_NEEDS_MORE, FRAME_IS_MESSAGE, FRAME_IS_PING, FRAME_IS_PONG, FRAME_IS_CLOSE, FRAME_IS_WRONG };

/* Message or control frame that was read. Valid until the next call. */
struct frame_read {
    const uint8_t *data;
    size_t size;
    const char *wrong; /* FRAME_IS_WRONG: the error, a static sentence */
};

void frame_reader_init(struct frame_reader *reader, size_t message_max);
void frame_reader_deinit(struct frame_reader *reader);
/* Returns the address for the next received bytes and their maximum number. The buffer grows with the received
 * bytes, not with the size that a header announces. NULL: out of memory. */
uint8_t *frame_reader_room(struct frame_reader *reader, size_t *out_size);
void frame_reader_took(struct frame_reader *reader, size_t size);
/* Reads the next message or control frame. After FRAME_IS_WRONG nothing more can be read. */
enum frame_news frame_reader_next(struct frame_reader *reader, struct frame_read *out);

#endif
