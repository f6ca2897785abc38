/* sp_frame.c: see sp_frame.h. */
#include "sp_frame.h"

#include <string.h>

#define LENGTH_SIZE 8u
#define IPC_MESSAGE 1u /* type of a message over IPC; there is no other type */

/* ---- the hello */

void sp_hello_encode(enum sp_protocol protocol, uint8_t out[SP_HELLO_SIZE]) {
    const uint8_t hello[SP_HELLO_SIZE] = {0, 'S', 'P', 0, (uint8_t)(protocol >> 8), (uint8_t)protocol, 0, 0};
    memcpy(out, hello, SP_HELLO_SIZE);
}

bool sp_hello_begins(const uint8_t *bytes, size_t size) {
    static const uint8_t fixed[SP_HELLO_SIZE] = {0, 'S', 'P', 0}, is_fixed[SP_HELLO_SIZE] = {1, 1, 1, 1, 0, 0, 1, 1};
    for (size_t i = 0; i < size && i < SP_HELLO_SIZE; i++)
        if (is_fixed[i] && bytes[i] != fixed[i]) return false;
    return true;
}

int sp_hello_decode(const uint8_t bytes[SP_HELLO_SIZE]) {
    return sp_hello_begins(bytes, SP_HELLO_SIZE) ? bytes[4] << 8 | bytes[5] : -1;
}

/* ---- receiving */

void sp_decoder_init(struct sp_decoder *decoder, enum sp_transport transport, uint64_t message_max) {
    *decoder = (struct sp_decoder){.transport = transport, .message_max = message_max};
}

size_t sp_head_size(enum sp_transport transport) {
    return transport == SP_IPC ? 1 + LENGTH_SIZE : LENGTH_SIZE;
}

static bool is_malformed(const struct sp_decoder *decoder) {
    return decoder->transport == SP_IPC && decoder->head_size > 0 && decoder->head[0] != IPC_MESSAGE;
}

static uint64_t length_of(const struct sp_decoder *decoder) {
    const uint8_t *bytes = decoder->head + sp_head_size(decoder->transport) - LENGTH_SIZE;
    uint64_t length = 0;
    for (size_t i = 0; i < LENGTH_SIZE; i++) length = length << 8 | bytes[i];
    return length;
}

/* Returns the number of bytes that belong to the header. */
static size_t take_head(struct sp_decoder *decoder, const uint8_t *bytes, size_t size) {
    size_t missing = sp_head_size(decoder->transport) - decoder->head_size, taken = size < missing ? size : missing;
    if (taken > 0) memcpy(decoder->head + decoder->head_size, bytes, taken);
    decoder->head_size += (uint8_t)taken;
    return taken;
}

size_t sp_decode(struct sp_decoder *decoder, uint8_t *bytes, size_t size, struct sp_event *out) {
    size_t at = 0;
    bool begins = false;
    *out = (struct sp_event){.kind = SP_NEEDS_MORE};
    if (!decoder->in_message) {
        if (!decoder->has_failed) at = take_head(decoder, bytes, size);
        if (is_malformed(decoder)) {
            out->kind = SP_MALFORMED;
        } else if (decoder->head_size < sp_head_size(decoder->transport)) {
            return at;
        } else if (length_of(decoder) > decoder->message_max) {
            out->kind = SP_TOO_LARGE;
        }
        decoder->has_failed = out->kind != SP_NEEDS_MORE;
        if (decoder->has_failed) return at;
        decoder->rest = length_of(decoder);
        decoder->in_message = begins = true;
        decoder->head_size = 0;
    } else if (size == 0) {
        return 0;
    }
    size_t part = size - at < decoder->rest ? size - at : (size_t)decoder->rest;
    decoder->rest -= part;
    decoder->in_message = decoder->rest > 0;
    *out = (struct sp_event){.kind = SP_DATA,
                             .data = bytes + at,
                             .size = part,
                             .rest = decoder->rest,
                             .begins_message = begins,
                             .ends_message = !decoder->in_message};
    return at + part;
}

/* ---- sending */

size_t sp_seal(enum sp_transport transport, uint8_t *payload, uint64_t size) {
    size_t head_size = sp_head_size(transport);
    for (size_t i = 1; i <= LENGTH_SIZE; i++, size >>= 8) payload[-(ptrdiff_t)i] = (uint8_t)size;
    if (transport == SP_IPC) payload[-(ptrdiff_t)head_size] = IPC_MESSAGE;
    return head_size;
}
