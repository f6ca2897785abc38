/* fuzz_ws_frame.c: received WebSocket bytes, on either side (proto/ws_frame.h).
 *
 * The events agree with those of a second decoder, which reads the whole stream at once, byte by byte, and shares no
 * code with the first. They are the same in parts of any size, lie within the limits and within the given bytes, and
 * become the same events when they are encoded again.
 *
 * Input: a byte of choices (the lowest bit is the side, the others the size of the parts), two bytes of limits, frames.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "ws_frame.h"

#define INPUT_MAX 4096u
#define EVENT_HEAD 4u

/* The events as bytes: kind, code or flags, payload. Spans of one message are joined. */
struct trace {
    uint8_t bytes[2 * INPUT_MAX * (EVENT_HEAD + 1)];
    size_t size;
    bool in_message;
    enum ws_error error;
};

static void put(struct trace *trace, const void *bytes, size_t size) {
    assert(size <= sizeof(trace->bytes) - trace->size);
    if (size > 0) memcpy(trace->bytes + trace->size, bytes, size);
    trace->size += size;
}

static void put_data(struct trace *trace, bool begins, const uint8_t *data, size_t size, bool ends) {
    assert(begins != trace->in_message);
    if (begins) put(trace, "M", 1);
    put(trace, data, size);
    if (ends) put(trace, "E", 1);
    trace->in_message = !ends;
}

static void put_control(struct trace *trace, char kind, unsigned code, const uint8_t *data, size_t size) {
    assert(size <= WS_CONTROL_MAX);
    const uint8_t head[EVENT_HEAD] = {(uint8_t)kind, (uint8_t)(code >> 8), (uint8_t)code, (uint8_t)size};
    put(trace, head, sizeof(head));
    put(trace, data, size);
}

static void reset(struct trace *trace) {
    trace->size = 0;
    trace->in_message = false;
    trace->error = WS_ERROR_NONE;
}

/* ---- the second decoder */

static bool reads_as_utf8(const uint8_t *text, size_t size) {
    for (size_t at = 0; at < size;) {
        const uint8_t lead = text[at++];
        const unsigned more = lead < 0x80 ? 0 : lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
        uint32_t number = more == 0 ? lead : lead & (0x3fu >> more);
        static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
        if ((lead >= 0x80 && lead < 0xc0) || lead >= 0xf8) return false;
        for (unsigned i = 0; i < more; i++) {
            if (at == size || (text[at] & 0xc0) != 0x80) return false;
            number = number << 6 | (text[at++] & 0x3fu);
        }
        if (number < least[more] || number > 0x10ffff || (number >= 0xd800 && number <= 0xdfff)) return false;
    }
    return true;
}

struct reference {
    const uint8_t *bytes;
    size_t size;
    size_t at;
    enum ws_side side;
    uint64_t frame_max, message_max;
    uint64_t message_size;
    bool in_message;
};

static enum ws_error judge_start(const struct reference *reference, unsigned first, unsigned second) {
    const unsigned opcode = first & 15;
    if (first & 0x70) return WS_ERROR_RESERVED_BIT;
    if ((second >= 128) != (reference->side == WS_SERVER))
        return reference->side == WS_SERVER ? WS_ERROR_UNMASKED : WS_ERROR_MASKED;
    if ((opcode >= 3 && opcode <= 7) || opcode >= 11) return WS_ERROR_OPCODE;
    if (opcode >= 8 && first < 128) return WS_ERROR_CONTROL_FRAGMENT;
    if (opcode >= 8 && second % 128 > 125) return WS_ERROR_CONTROL_SIZE;
    if (opcode == 0 && !reference->in_message) return WS_ERROR_NO_MESSAGE;
    if ((opcode == 1 || opcode == 2) && reference->in_message) return WS_ERROR_IN_MESSAGE;
    return opcode == 1 ? WS_ERROR_TEXT : WS_ERROR_NONE;
}

static enum ws_error judge_length(const struct reference *reference, unsigned opcode, uint64_t length, size_t extra) {
    if ((extra == 2 && length < 126) || (extra == 8 && length < 65536)) return WS_ERROR_LONG_LENGTH;
    if (length >> 63) return WS_ERROR_HUGE_LENGTH;
    if (opcode >= 8) return WS_ERROR_NONE;
    if (length > reference->frame_max) return WS_ERROR_FRAME_SIZE;
    return length + (opcode == 0 ? reference->message_size : 0) > reference->message_max ? WS_ERROR_MESSAGE_SIZE
                                                                                         : WS_ERROR_NONE;
}

static enum ws_error judge_close(const uint8_t *payload, size_t size) {
    const unsigned code = size >= 2 ? payload[0] * 256u + payload[1] : 0;
    if (size == 0) return WS_ERROR_NONE;
    if (size == 1) return WS_ERROR_CLOSE_SIZE;
    if (code < 1000 || code > 4999 || (code > 1003 && code < 1007) || (code > 1014 && code < 3000))
        return WS_ERROR_CLOSE_CODE;
    return reads_as_utf8(payload + 2, size - 2) ? WS_ERROR_NONE : WS_ERROR_CLOSE_REASON;
}

/* Reads a frame, or the existing part of it. Returns false if the stream has ended, or after a Close or an error. */
static bool refer_to_frame(struct reference *reference, struct trace *trace) {
    static uint8_t payload[INPUT_MAX];
    const uint8_t *frame = reference->bytes + reference->at;
    const size_t left = reference->size - reference->at;
    if (left < 2) return false;
    const unsigned opcode = frame[0] & 15;
    trace->error = judge_start(reference, frame[0], frame[1]);
    if (trace->error != WS_ERROR_NONE) return false;
    const unsigned code = frame[1] % 128;
    const size_t extra = code == 126 ? 2 : code == 127 ? 8 : 0, head = 2 + extra + (frame[1] >= 128 ? 4 : 0);
    if (left < head) return false;
    uint64_t length = extra == 0 ? code : 0;
    for (size_t i = 0; i < extra; i++) length = length * 256 + frame[2 + i];
    trace->error = judge_length(reference, opcode, length, extra);
    if (trace->error != WS_ERROR_NONE) return false;
    const size_t size = left - head < length ? left - head : (size_t)length;
    for (size_t i = 0; i < size; i++) {
        payload[i] = frame[head + i];
        if (frame[1] >= 128) payload[i] ^= frame[head - 4 + i % 4];
    }
    const bool is_whole = size == length;
    reference->at += head + size;
    if (opcode < 8) {
        const bool is_last = frame[0] >= 128;
        put_data(trace, opcode != 0, payload, size, is_last && is_whole);
        reference->message_size = length + (opcode == 0 ? reference->message_size : 0);
        reference->in_message = !is_last;
        return is_whole;
    }
    if (!is_whole) return false;
    if (opcode != 8) {
        put_control(trace, opcode == 9 ? 'P' : 'O', 0, payload, size);
        return true;
    }
    trace->error = judge_close(payload, size);
    if (trace->error != WS_ERROR_NONE) return false;
    put_control(trace, 'C', size == 0 ? 1005 : payload[0] * 256u + payload[1], payload + 2, size < 2 ? 0 : size - 2);
    return false;
}

/* ---- the codec */

static void take(struct trace *trace, const struct ws_event *event) {
    switch (event->kind) {
    case WS_DATA:
        put_data(trace, event->begins_message, event->data, event->size, event->ends_message);
        break;
    case WS_GOT_PING:
    case WS_GOT_PONG:
        put_control(trace, event->kind == WS_GOT_PING ? 'P' : 'O', 0, event->data, event->size);
        break;
    case WS_GOT_CLOSE:
        put_control(trace, 'C', event->code, event->data, event->size);
        break;
    case WS_FAILED:
        trace->error = event->error;
        assert(event->error != WS_ERROR_NONE && ws_error_code(event->error) >= WS_CODE_PROTOCOL_ERROR);
        break;
    case WS_NEEDS_MORE:
        break;
    }
}

/* Encodes the event as the other side would. Each event with data becomes one fragment. */
static size_t encode(enum ws_side receiver, const struct ws_event *event, uint8_t *out) {
    static const enum ws_opcode opcodes[] = {
        [WS_GOT_PING] = WS_PING, [WS_GOT_PONG] = WS_PONG, [WS_GOT_CLOSE] = WS_CLOSE};
    const uint32_t mask = 0x5a17c3e9u + (uint32_t)event->size, *key = receiver == WS_SERVER ? &mask : NULL;
    uint8_t room[WS_HEAD_MAX + INPUT_MAX], *payload = room + WS_HEAD_MAX;
    enum ws_opcode opcode = event->begins_message ? WS_BINARY : WS_CONTINUATION;
    size_t size = event->size;
    if (event->size > 0) memcpy(payload, event->data, event->size);
    if (event->kind ==
        WS_GOT_CLOSE) { /* skipped, because the reason may contain a 0 byte, which ws_close_payload cannot take */
        size = ws_close_payload(payload, (enum ws_code)event->code, "") + event->size;
        if (event->size > 0) memcpy(payload + 2, event->data, event->size);
    }
    if (event->kind != WS_DATA) opcode = opcodes[event->kind];
    const size_t head_size = ws_seal(opcode, event->kind != WS_DATA || event->ends_message, payload, size, key);
    assert(head_size == ws_head_size(size, key != NULL));
    memcpy(out, payload - head_size, head_size + size);
    return head_size + size;
}

/* Decodes the bytes in parts, each in memory of its own. `again` receives the events, encoded once more; NULL: they are
 * not encoded. */
static void decode(struct ws_decoder *decoder, const uint8_t *bytes, size_t size, size_t part, struct trace *trace,
                   uint8_t *again, size_t *again_size) {
    for (size_t from = 0; from < size; from += part) {
        const size_t length = size - from < part ? size - from : part;
        uint8_t *own = malloc(length);
        struct ws_event event;
        size_t at = 0;
        if (own == NULL) abort();
        memcpy(own, bytes + from, length);
        do {
            const size_t used = ws_decode(decoder, own + at, length - at, &event);
            assert(used <= length - at);
            at += used;
            assert(event.kind != WS_DATA || event.data + event.size == own + at);
            assert(event.kind != WS_DATA || event.frame_rest == 0 || at == length);
            take(trace, &event);
            if (again != NULL && event.kind != WS_NEEDS_MORE && event.kind != WS_FAILED)
                *again_size += encode(decoder->side, &event, again + *again_size);
        } while (event.kind != WS_NEEDS_MORE && event.kind != WS_FAILED);
        assert(event.kind == WS_FAILED || at == length);
        assert(ws_decoder_wants(decoder) > 0);
        free(own);
    }
}

static void compare(const struct trace *one, const struct trace *other) {
    assert(one->size == other->size && one->in_message == other->in_message);
    assert(memcmp(one->bytes, other->bytes, one->size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct trace whole, cut, reference_trace, repeated;
    static uint8_t again[INPUT_MAX * (WS_HEAD_MAX + 1)];
    if (size < 4 || size > INPUT_MAX) return 0;
    const enum ws_side side = (data[0] & 1) != 0 ? WS_CLIENT : WS_SERVER;
    const uint64_t frame_max = 1 + data[1] * 8u, message_max = 1 + data[2] * 8u;
    struct reference reference = {data + 3, size - 3, 0, side, frame_max, message_max, 0, false};
    struct ws_decoder decoder;
    size_t again_size = 0;
    reset(&reference_trace);
    while (refer_to_frame(&reference, &reference_trace)) {
    }
    reset(&whole);
    ws_decoder_init(&decoder, side, frame_max, message_max);
    decode(&decoder, data + 3, size - 3, size, &whole, again, &again_size);
    compare(&whole, &reference_trace);
    assert(whole.error == reference_trace.error);
    reset(&cut);
    ws_decoder_init(&decoder, side, frame_max, message_max);
    decode(&decoder, data + 3, size - 3, 1 + (data[0] >> 1) % 32, &cut, NULL, NULL);
    compare(&cut, &whole);
    assert(cut.error == whole.error);
    reset(&repeated);
    ws_decoder_init(&decoder, side, frame_max, message_max);
    decode(&decoder, again, again_size, 1 + (data[0] >> 1), &repeated, NULL, NULL);
    compare(&repeated, &whole);
    assert(repeated.error == WS_ERROR_NONE);
    return 0;
}
