/* ws_frame.c: see ws_frame.h.
 *
 * A frame is read once all its bytes have arrived. The payload of an unfragmented message is returned in place.
 * Fragments are moved together, each once. */
#include "ws_frame.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY ((size_t)16 << 10)
#define KEPT_CAPACITY ((size_t)1 << 20) /* larger memory is freed after the message that needed it */
#define FIN 0x80u
#define RESERVED 0x70u
#define OPCODE 0x0fu
#define MASKED 0x80u
#define SIZE_16 126u
#define SIZE_64 127u

/* ---- sending */

static void mask_apply(uint8_t *bytes, size_t size, uint32_t mask) {
    const uint64_t wide = (uint64_t)mask << 32 | mask;
    size_t i = 0;
    for (; i + sizeof(wide) <= size; i += sizeof(wide)) {
        uint64_t word;
        memcpy(&word, bytes + i, sizeof(word));
        word ^= wide;
        memcpy(bytes + i, &word, sizeof(word));
    }
    uint8_t key[sizeof(mask)];
    memcpy(key, &mask, sizeof(key));
    for (; i < size; i++) bytes[i] ^= key[i % sizeof(key)];
}

size_t frame_seal(enum frame_opcode opcode, bool is_last, uint8_t *payload, size_t size, uint32_t mask) {
    const size_t extra = size < SIZE_16 ? 0 : size <= UINT16_MAX ? 2 : 8, head_size = 2 + extra + sizeof(mask);
    uint8_t *head = payload - head_size;
    head[0] = (uint8_t)((is_last ? FIN : 0u) | (unsigned)opcode);
    head[1] = (uint8_t)(MASKED | (extra == 0 ? size : extra == 2 ? SIZE_16 : SIZE_64));
    for (size_t i = 0; i < extra; i++) head[2 + i] = (uint8_t)(size >> 8 * (extra - 1 - i));
    memcpy(head + 2 + extra, &mask, sizeof(mask));
    mask_apply(payload, size, mask);
    return head_size;
}

/* ---- receiving */

void frame_reader_init(struct frame_reader *reader, size_t message_max) {
    *reader = (struct frame_reader){.message_max = message_max};
}

void frame_reader_deinit(struct frame_reader *reader) {
    free(reader->data);
    *reader = (struct frame_reader){.message_max = reader->message_max};
}

/* Removes returned data and the headers of fragments from the buffer. */
static void compact(struct frame_reader *reader) {
    const size_t rest = reader->end - reader->at;
    if (reader->begun > 0 && reader->size > 0) memmove(reader->data, reader->data + reader->begun, reader->size);
    if (rest > 0 && reader->at > reader->size) memmove(reader->data + reader->size, reader->data + reader->at, rest);
    reader->begun = 0;
    reader->at = reader->size;
    reader->end = reader->at + rest;
}

static bool resize(struct frame_reader *reader, size_t capacity) {
    uint8_t *data = realloc(reader->data, capacity);
    if (data == NULL) return false;
    reader->data = data;
    reader->capacity = capacity;
    return true;
}

uint8_t *frame_reader_room(struct frame_reader *reader, size_t *out_size) {
    const size_t unread = reader->end - reader->at;
    const size_t missing = reader->needed > unread ? reader->needed - unread : 1;
    if (!reader->in_message) reader->size = 0;
    if (unread == 0 && reader->size == 0) {
        reader->begun = reader->at = reader->end = 0;
        if (reader->capacity > KEPT_CAPACITY && missing < FIRST_CAPACITY && !resize(reader, FIRST_CAPACITY))
            return NULL;
    }
    if (reader->capacity - reader->end < missing) compact(reader);
    if (reader->capacity - reader->end < missing) {
        const size_t all = reader->end + missing, doubled = 2 * reader->capacity;
        size_t capacity = all < doubled ? all : doubled; /* at most doubles, so the buffer follows the received bytes */
        if (capacity < FIRST_CAPACITY) capacity = FIRST_CAPACITY;
        if (capacity > reader->capacity && !resize(reader, capacity)) return NULL;
    }
    assert(reader->capacity > reader->end);
    *out_size = reader->capacity - reader->end;
    return reader->data + reader->end;
}

void frame_reader_took(struct frame_reader *reader, size_t size) {
    assert(size <= reader->capacity - reader->end);
    reader->end += size;
}

struct head {
    bool is_last;
    enum frame_opcode opcode;
    size_t size; /* bytes of the header itself */
    uint64_t payload_size;
};

/* Returns the error in a header; NULL: none. `extra`: number of bytes of its extended size field. */
static const char *head_wrong(uint8_t first, uint8_t second, uint64_t size, size_t extra) {
    if ((first & RESERVED) != 0) return "a frame with reserved bits, which nobody agreed on";
    if ((second & MASKED) != 0) return "a masked frame, which only a client may send";
    if ((extra == 2 && size < SIZE_16) || (extra == 8 && size <= UINT16_MAX)) return "a frame's size in too many bytes";
    switch (first & OPCODE) {
    case FRAME_CONTINUATION:
    case FRAME_BINARY:
        return NULL;
    case FRAME_TEXT:
        return "a text frame";
    case FRAME_CLOSE:
    case FRAME_PING:
    case FRAME_PONG:
        if ((first & FIN) == 0) return "a control frame in fragments";
        return size > FRAME_CONTROL_MAX ? "a control frame that is too long" : NULL;
    default:
        return "a frame of an unknown kind";
    }
}

/* False: more bytes are needed, or the header is invalid (*out_wrong). */
static bool head_read(struct frame_reader *reader, struct head *out, const char **out_wrong) {
    const uint8_t *bytes = reader->data + reader->at;
    const size_t unread = reader->end - reader->at;
    reader->needed = 2;
    if (unread < reader->needed) return false;
    const uint8_t code = bytes[1] & (uint8_t)~MASKED;
    const size_t extra = code < SIZE_16 ? 0 : code == SIZE_16 ? 2 : 8;
    uint64_t size = extra == 0 ? code : 0;
    reader->needed = 2 + extra;
    if (unread < reader->needed) return false;
    for (size_t i = 0; i < extra; i++) size = size << 8 | bytes[2 + i];
    *out_wrong = head_wrong(bytes[0], bytes[1], size, extra);
    if (*out_wrong != NULL) return false;
    *out = (struct head){(bytes[0] & FIN) != 0, (enum frame_opcode)(bytes[0] & OPCODE), 2 + extra, size};
    return true;
}

/* Returns the error in the order of data frames; NULL: none. */
static const char *fragment_wrong(const struct frame_reader *reader, const struct head *head) {
    if (head->opcode >= FRAME_CLOSE) return NULL;
    if (head->opcode == FRAME_CONTINUATION && !reader->in_message) return "a fragment of no message";
    if (head->opcode != FRAME_CONTINUATION && reader->in_message) return "a message within another one's fragments";
    const size_t before = reader->in_message ? reader->size : 0;
    return head->payload_size > reader->message_max - before ? "a message that is larger than any answer" : NULL;
}

/* Handles a complete data frame at `at`. */
static enum frame_news take_data(struct frame_reader *reader, const struct head *head, struct frame_read *out) {
    const size_t from = reader->at + head->size, size = (size_t)head->payload_size;
    if (!reader->in_message) {
        reader->begun = from;
        reader->size = 0;
    }
    if (reader->in_message && size > 0) memmove(reader->data + reader->begun + reader->size, reader->data + from, size);
    reader->size += size;
    reader->at = from + size;
    reader->in_message = !head->is_last;
    if (!head->is_last) return FRAME_NEEDS_MORE;
    *out = (struct frame_read){.data = reader->data + reader->begun, .size = reader->size};
    return FRAME_IS_MESSAGE;
}

static enum frame_news take_control(struct frame_reader *reader, const struct head *head, struct frame_read *out) {
    *out = (struct frame_read){.data = reader->data + reader->at + head->size, .size = (size_t)head->payload_size};
    reader->at += head->size + (size_t)head->payload_size;
    if (head->opcode == FRAME_PING) return FRAME_IS_PING;
    return head->opcode == FRAME_PONG ? FRAME_IS_PONG : FRAME_IS_CLOSE;
}

enum frame_news frame_reader_next(struct frame_reader *reader, struct frame_read *out) {
    for (;;) {
        struct head head = {0};
        const char *wrong = NULL;
        *out = (struct frame_read){.size = 0};
        if (!head_read(reader, &head, &wrong)) {
            out->wrong = wrong;
            return wrong != NULL ? FRAME_IS_WRONG : FRAME_NEEDS_MORE;
        }
        out->wrong = fragment_wrong(reader, &head);
        if (out->wrong != NULL) return FRAME_IS_WRONG;
        reader->needed = head.size + (size_t)head.payload_size;
        if (reader->end - reader->at < reader->needed) return FRAME_NEEDS_MORE;
        reader->needed = 0;
        if (head.opcode >= FRAME_CLOSE) return take_control(reader, &head, out);
        if (take_data(reader, &head, out) == FRAME_IS_MESSAGE) return FRAME_IS_MESSAGE;
    }
}
