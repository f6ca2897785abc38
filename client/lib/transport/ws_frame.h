/* ws_frame.h: WebSocket frames (RFC 6455, section 5), as a client makes and reads them. Pure: bytes in, bytes out.
 *
 * wslay 1.1.1 does the same and was not taken: it masks what it sends through a buffer of its own, 4 KiB at a time and
 * a call of send for each, after one for the head; and it reads through another, so that each message is copied twice
 * and costs twice the system calls. Here a message is masked where it lies, its head stands before it, and an answer is
 * unpacked where it was received. */
#ifndef TARRY_WS_FRAME_H
#define TARRY_WS_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRAME_HEAD_MAX 14u                 /* of a frame with a mask */
#define FRAME_CONTROL_MAX 125u             /* payload of a ping, pong or close */
#define FRAME_SENT_MAX ((size_t)512 << 10) /* a larger message goes in fragments: brokers refuse frames above 1 MiB */

enum frame_opcode {
    FRAME_CONTINUATION = 0,
    FRAME_TEXT = 1,
    FRAME_BINARY = 2,
    FRAME_CLOSE = 8,
    FRAME_PING = 9,
    FRAME_PONG = 10
};

/* Masks `payload` where it lies and writes the head before it, where FRAME_HEAD_MAX bytes must be free. Returns the
 * head's size. `is_last`: no fragments of the same message follow. */
size_t frame_seal(enum frame_opcode opcode, bool is_last, uint8_t *payload, size_t size, uint32_t mask);

/* ---- reading: a buffer that bytes are received into, and that messages are read from, in place.
 *
 *   0        begun           at                       end          capacity
 *   │ gone   │ payload so far │ bytes not looked at yet │ room to receive │
 */
struct frame_reader {
    uint8_t *data;
    size_t capacity;
    size_t begun;    /* of the message whose fragments have come … */
    size_t size;     /* … so many bytes of them … */
    bool in_message; /* … while the last has not */
    size_t at;
    size_t end;
    size_t needed; /* from `at`: of the frame whose head is there */
    size_t message_max;
};

enum frame_news { FRAME_NEEDS_MORE, FRAME_IS_MESSAGE, FRAME_IS_PING, FRAME_IS_PONG, FRAME_IS_CLOSE, FRAME_IS_WRONG };

/* What was read: valid until the next call. */
struct frame_read {
    const uint8_t *data;
    size_t size;
    const char *wrong; /* FRAME_IS_WRONG: a sentence; static */
};

void frame_reader_init(struct frame_reader *reader, size_t message_max);
void frame_reader_deinit(struct frame_reader *reader);
/* Where the next bytes are to be received, and how many at most. Memory grows with what has come, not with what a head
 * announces. NULL: out of memory. */
uint8_t *frame_reader_room(struct frame_reader *reader, size_t *out_size);
void frame_reader_took(struct frame_reader *reader, size_t size);
/* The next message or control frame. After FRAME_IS_WRONG nothing more can be read. */
enum frame_news frame_reader_next(struct frame_reader *reader, struct frame_read *out);

#endif
