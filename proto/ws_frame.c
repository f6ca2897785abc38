/* ws_frame.c: see ws_frame.h.
 *
 * The decoder has three states: in a header, in the payload of a data frame, in the payload of a control frame. A
 * header that lies whole in the caller's bytes is read there; otherwise its parts are gathered in `head`. Control
 * payloads are always gathered, because they are small and rare. */
#include "ws_frame.h"

#include <assert.h>
#include <string.h>

#include "check.h"

#define FIN 0x80u
#define RESERVED 0x70u
#define OPCODE 0x0fu
#define MASKED 0x80u
#define LENGTH 0x7fu
#define LENGTH_16 126u /* the length is in the next 2 bytes */
#define LENGTH_64 127u /* the length is in the next 8 bytes */
#define MASK_SIZE 4u

enum ws_code ws_error_code(enum ws_error error) {
    static const uint16_t codes[] = {
#define X(name, code, text) [name] = (code),
        WS_ERRORS(X)
#undef X
    };
    return (enum ws_code)codes[error];
}

const char *ws_error_sentence(enum ws_error error) {
    static const char *const sentences[] = {
#define X(name, code, text) [name] = (text),
        WS_ERRORS(X)
#undef X
    };
    return sentences[error];
}

/* A block that the compiler keeps in a SIMD register. */
typedef uint64_t block __attribute__((vector_size(16)));

uint32_t ws_mask(uint8_t *bytes, size_t size, uint32_t mask) {
    const uint64_t wide = (uint64_t)mask << 32 | mask;
    const block key = {wide, wide};
    size_t at = 0;
    for (; size - at >= 2 * sizeof(block); at += 2 * sizeof(block)) {
        block first, second;
        memcpy(&first, bytes + at, sizeof(first));
        memcpy(&second, bytes + at + sizeof(first), sizeof(second));
        first ^= key;
        second ^= key;
        memcpy(bytes + at, &first, sizeof(first));
        memcpy(bytes + at + sizeof(first), &second, sizeof(second));
    }
    for (; size - at >= sizeof(wide); at += sizeof(wide)) {
        uint64_t word;
        memcpy(&word, bytes + at, sizeof(word));
        word ^= wide;
        memcpy(bytes + at, &word, sizeof(word));
    }
    uint8_t in_order[2 * MASK_SIZE];
    memcpy(in_order, &wide, sizeof(in_order));
    for (size_t i = 0; at + i < size; i++) bytes[at + i] ^= in_order[i];
    memcpy(&mask, in_order + size % MASK_SIZE, sizeof(mask));
    return mask;
}

/* ---- receiving */

void ws_decoder_init(struct ws_decoder *decoder, enum ws_side side, uint64_t frame_max, uint64_t message_max) {
    assert(frame_max > 0 && message_max > 0);
    *decoder = (struct ws_decoder){.side = side, .frame_max = frame_max, .message_max = message_max};
}

/* Returns the number of bytes of the extended length. */
static size_t length_extra(uint8_t second) {
    const unsigned length = second & LENGTH;
    return length < LENGTH_16 ? 0 : length == LENGTH_16 ? sizeof(uint16_t) : sizeof(uint64_t);
}

/* Returns the size of the header that begins with these two bytes. */
static size_t head_needs(const uint8_t head[2]) {
    return 2 + length_extra(head[1]) + ((head[1] & MASKED) != 0 ? MASK_SIZE : 0);
}

/* Checks the first two bytes of a header. */
static enum ws_error check_start(const struct ws_decoder *decoder, const uint8_t head[2]) {
    const bool is_masked = (head[1] & MASKED) != 0;
    const unsigned opcode = head[0] & OPCODE;
    const bool is_usual = head[0] == (FIN | WS_BINARY) && is_masked == (decoder->side == WS_SERVER);
    if (is_usual && !decoder->in_message) return WS_ERROR_NONE;
    if ((head[0] & RESERVED) != 0) return WS_ERROR_RESERVED_BIT;
    if (decoder->side == WS_SERVER && !is_masked) return WS_ERROR_UNMASKED;
    if (decoder->side == WS_CLIENT && is_masked) return WS_ERROR_MASKED;
    switch (opcode) {
    case WS_CONTINUATION:
        return decoder->in_message ? WS_ERROR_NONE : WS_ERROR_NO_MESSAGE;
    case WS_BINARY:
        return decoder->in_message ? WS_ERROR_IN_MESSAGE : WS_ERROR_NONE;
    case WS_TEXT:
        return decoder->in_message ? WS_ERROR_IN_MESSAGE : WS_ERROR_TEXT;
    case WS_CLOSE:
    case WS_PING:
    case WS_PONG:
        if ((head[0] & FIN) == 0) return WS_ERROR_CONTROL_FRAGMENT;
        return (head[1] & LENGTH) > WS_CONTROL_MAX ? WS_ERROR_CONTROL_SIZE : WS_ERROR_NONE;
    default:
        return WS_ERROR_OPCODE;
    }
}

/* Checks the length of a frame's payload. `extra`: the number of bytes of its extended length. */
static enum ws_error check_length(const struct ws_decoder *decoder, uint64_t length, size_t extra) {
    const uint64_t before = decoder->opcode == WS_CONTINUATION ? decoder->message_size : 0;
    if (extra == sizeof(uint16_t) && length < LENGTH_16) return WS_ERROR_LONG_LENGTH;
    if (extra == sizeof(uint64_t) && length <= UINT16_MAX) return WS_ERROR_LONG_LENGTH;
    if (length > INT64_MAX) return WS_ERROR_HUGE_LENGTH;
    if (decoder->opcode >= WS_CLOSE) return WS_ERROR_NONE;
    if (length > decoder->frame_max) return WS_ERROR_FRAME_SIZE;
    return length > decoder->message_max - before ? WS_ERROR_MESSAGE_SIZE : WS_ERROR_NONE;
}

static uint64_t read_length(const uint8_t *head, size_t extra) {
    uint64_t length = 0;
    if (extra == 0) return head[1] & LENGTH;
    for (size_t i = 0; i < extra; i++) length = length << 8 | head[2 + i];
    return length;
}

/* Begins the frame whose whole header is at `head`, and was checked by check_start. */
static enum ws_error begin_frame(struct ws_decoder *decoder, const uint8_t *head) {
    const size_t extra = length_extra(head[1]);
    const uint64_t length = read_length(head, extra);
    decoder->opcode = head[0] & OPCODE;
    const enum ws_error error = check_length(decoder, length, extra);
    if (error != WS_ERROR_NONE) return error;
    decoder->is_last = (head[0] & FIN) != 0;
    decoder->frame_rest = length;
    decoder->in_frame = true;
    decoder->head_size = decoder->control_size = 0;
    if (decoder->side == WS_SERVER) memcpy(&decoder->mask, head + 2 + extra, sizeof(decoder->mask));
    if (decoder->opcode < WS_CLOSE) {
        decoder->message_size = length + (decoder->opcode == WS_CONTINUATION ? decoder->message_size : 0);
        decoder->in_message = !decoder->is_last;
    }
    return WS_ERROR_NONE;
}

/* Appends bytes to `head` until it has `needed` bytes. Returns the number of bytes used. */
static size_t gather(struct ws_decoder *decoder, const uint8_t *bytes, size_t size, size_t needed) {
    if (decoder->head_size >= needed) return 0;
    const size_t missing = needed - decoder->head_size, part = size < missing ? size : missing;
    memcpy(decoder->head + decoder->head_size, bytes, part);
    decoder->head_size += (uint8_t)part;
    return part;
}

/* Reads a frame header or a part of it. Sets `in_frame` only when the header is complete. Returns the number of bytes
 * used. */
static size_t take_head(struct ws_decoder *decoder, const uint8_t *bytes, size_t size) {
    const bool is_whole = decoder->head_size == 0 && size >= WS_HEAD_MAX;
    const uint8_t *head = is_whole ? bytes : decoder->head;
    size_t used = is_whole ? 0 : gather(decoder, bytes, size, 2);
    if (!is_whole && decoder->head_size < 2) return used;
    decoder->error = check_start(decoder, head);
    if (decoder->error != WS_ERROR_NONE) return used;
    const size_t needed = head_needs(head);
    used += is_whole ? needed : gather(decoder, bytes + used, size - used, needed);
    if (is_whole || decoder->head_size == needed) decoder->error = begin_frame(decoder, head);
    return used;
}

/* Reads the next span of a data frame. Returns its size. */
static size_t take_data(struct ws_decoder *decoder, bool is_first_span, uint8_t *bytes, size_t size,
                        struct ws_event *out) {
    const size_t part = size < decoder->frame_rest ? size : (size_t)decoder->frame_rest;
    if (decoder->side == WS_SERVER) decoder->mask = ws_mask(bytes, part, decoder->mask);
    decoder->frame_rest -= part;
    decoder->in_frame = decoder->frame_rest > 0;
    *out = (struct ws_event){
        .kind = WS_DATA,
        .data = bytes,
        .size = part,
        .frame_rest = decoder->frame_rest,
        .begins_message = is_first_span && decoder->opcode != WS_CONTINUATION,
        .ends_message = !decoder->in_frame && decoder->is_last,
    };
    return part;
}

/* Returns whether a Close may have this code: one of the RFC's and of IANA's registry, or of a library or application.
 */
static bool code_is_valid(unsigned code) {
    return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) || (code >= 3000 && code <= 4999);
}

static enum ws_error end_close(struct ws_decoder *decoder, struct ws_event *out) {
    out->kind = WS_GOT_CLOSE;
    out->code = WS_CODE_NONE;
    if (out->size == 1) return WS_ERROR_CLOSE_SIZE;
    if (out->size >= 2) {
        out->code = (uint16_t)(out->data[0] << 8 | out->data[1]);
        out->data += 2;
        out->size -= 2;
        if (!code_is_valid(out->code)) return WS_ERROR_CLOSE_CODE;
        if (!is_utf8(out->data, out->size)) return WS_ERROR_CLOSE_REASON;
    }
    decoder->is_closed = true;
    return WS_ERROR_NONE;
}

/* Reads the payload of a control frame, or a part of it. Returns the number of bytes used. */
static size_t take_control(struct ws_decoder *decoder, const uint8_t *bytes, size_t size, struct ws_event *out) {
    const size_t part = size < decoder->frame_rest ? size : (size_t)decoder->frame_rest;
    uint8_t *to = decoder->control + decoder->control_size;
    if (part > 0) memcpy(to, bytes, part);
    if (decoder->side == WS_SERVER) decoder->mask = ws_mask(to, part, decoder->mask);
    decoder->control_size += (uint8_t)part;
    decoder->frame_rest -= part;
    if (decoder->frame_rest > 0) return part;
    decoder->in_frame = false;
    *out = (struct ws_event){
        .kind = decoder->opcode == WS_PING ? WS_GOT_PING : WS_GOT_PONG,
        .data = decoder->control,
        .size = decoder->control_size,
    };
    if (decoder->opcode == WS_CLOSE) decoder->error = end_close(decoder, out);
    return part;
}

size_t ws_decode(struct ws_decoder *decoder, uint8_t *bytes, size_t size, struct ws_event *out) {
    const bool is_in_head = !decoder->in_frame;
    size_t used = 0;
    out->kind = WS_NEEDS_MORE;
    if (decoder->is_closed) return size;
    if (is_in_head && size > 0 && decoder->error == WS_ERROR_NONE) used = take_head(decoder, bytes, size);
    if (decoder->in_frame && (is_in_head || size > 0)) {
        if (decoder->opcode < WS_CLOSE)
            used += take_data(decoder, is_in_head, bytes + used, size - used, out);
        else
            used += take_control(decoder, bytes + used, size - used, out);
    }
    if (decoder->error != WS_ERROR_NONE) *out = (struct ws_event){.kind = WS_FAILED, .error = decoder->error};
    return used;
}

uint64_t ws_decoder_wants(const struct ws_decoder *decoder) {
    if (decoder->error != WS_ERROR_NONE || decoder->is_closed) return 1;
    if (decoder->in_frame) return decoder->frame_rest;
    return (decoder->head_size < 2 ? 2 : head_needs(decoder->head)) - decoder->head_size;
}

/* ---- sending */

/* Returns the number of bytes of the extended length that a header of this payload needs. */
static inline size_t extra_of(uint64_t payload_size) {
    return payload_size < LENGTH_16 ? 0 : payload_size <= UINT16_MAX ? sizeof(uint16_t) : sizeof(uint64_t);
}

size_t ws_head_size(uint64_t payload_size, bool is_masked) {
    return 2 + extra_of(payload_size) + (is_masked ? MASK_SIZE : 0);
}

size_t ws_head(uint8_t out[WS_HEAD_MAX], enum ws_opcode opcode, bool is_last, uint64_t payload_size,
               const uint32_t *mask) {
    const size_t extra = extra_of(payload_size);
    const unsigned length = extra == 0 ? (unsigned)payload_size : extra == sizeof(uint16_t) ? LENGTH_16 : LENGTH_64;
    out[0] = (uint8_t)((is_last ? FIN : 0u) | (unsigned)opcode);
    out[1] = (uint8_t)((mask != NULL ? MASKED : 0u) | length);
    for (size_t i = 0; i < extra; i++) out[2 + i] = (uint8_t)(payload_size >> 8 * (extra - 1 - i));
    if (mask == NULL) return 2 + extra;
    memcpy(out + 2 + extra, mask, MASK_SIZE);
    return 2 + extra + MASK_SIZE;
}

size_t ws_seal(enum ws_opcode opcode, bool is_last, uint8_t *payload, size_t size, const uint32_t *mask) {
    const size_t head_size = ws_head_size(size, mask != NULL);
    (void)ws_head(payload - head_size, opcode, is_last, size, mask);
    if (mask != NULL) (void)ws_mask(payload, size, *mask);
    return head_size;
}

size_t ws_close_payload(uint8_t out[WS_CONTROL_MAX], enum ws_code code, const char *reason) {
    const size_t reason_size = strlen(reason);
    assert(reason_size <= WS_REASON_MAX);
    if (code == WS_CODE_NONE) return 0;
    out[0] = (uint8_t)(code >> 8);
    out[1] = (uint8_t)code;
    memcpy(out + 2, reason, reason_size);
    return 2 + reason_size;
}
