/* ws_stream_test.c: what one side of a WebSocket encodes, the other side decodes (proto/ws_frame.h): random messages in
 * random fragments with pings, pongs and a Close between them, received in random parts. TARRY_SEED seeds. */
#include "ws_frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../random.h"

#define STREAMS 1000
#define STREAM_MAX ((size_t)256 << 10)
#define FRAMES_MAX 60u
#define PAYLOAD_BITS 17u
#define MESSAGE_MAX ((uint64_t)1 << 30)

/* A stream of frames and its expected contents: payloads in order, messages, and control frames. */
struct stream {
    uint8_t bytes[STREAM_MAX + WS_HEAD_MAX];
    size_t size;
    uint8_t data[STREAM_MAX]; /* payloads of all messages */
    size_t data_size;
    uint8_t control[STREAM_MAX]; /* opcode, size and payload of each control frame */
    size_t control_size;
    size_t messages;
    bool in_message;
};

static struct random random_state;
static struct stream sent, got;

static void empty(struct stream *stream) {
    stream->size = stream->data_size = stream->control_size = stream->messages = 0;
    stream->in_message = false;
}

static uint64_t below(uint64_t limit) {
    return random_below(&random_state, limit);
}

static void note_control(struct stream *stream, unsigned opcode, const uint8_t *payload, size_t size) {
    stream->control[stream->control_size++] = (uint8_t)opcode;
    stream->control[stream->control_size++] = (uint8_t)size;
    if (size > 0) memcpy(stream->control + stream->control_size, payload, size);
    stream->control_size += size;
}

static void put_frame(bool is_masked, enum ws_opcode opcode, bool is_last, const uint8_t *payload, size_t size) {
    const uint32_t mask = (uint32_t)random_u64(&random_state);
    uint8_t *room = sent.bytes + sent.size + ws_head_size(size, is_masked);
    if (size > 0) memcpy(room, payload, size);
    sent.size += size + ws_seal(opcode, is_last, room, size, is_masked ? &mask : NULL);
}

static void put_control(bool is_masked) {
    uint8_t payload[WS_CONTROL_MAX];
    const size_t size = below(sizeof(payload) + 1);
    const enum ws_opcode opcode = below(2) == 0 ? WS_PING : WS_PONG;
    for (size_t i = 0; i < size; i++) payload[i] = (uint8_t)random_u64(&random_state);
    put_frame(is_masked, opcode, true, payload, size);
    note_control(&sent, opcode, payload, size);
}

static void put_data(bool is_masked) {
    const size_t left = STREAM_MAX - sent.size, wanted = (size_t)random_magnitude(&random_state, PAYLOAD_BITS);
    const size_t size = wanted + WS_HEAD_MAX > left ? 0 : wanted;
    const bool is_last = below(3) > 0;
    uint8_t *payload = sent.data + sent.data_size;
    for (size_t i = 0; i < size; i++) payload[i] = (uint8_t)random_u64(&random_state);
    put_frame(is_masked, sent.in_message ? WS_CONTINUATION : WS_BINARY, is_last, payload, size);
    sent.data_size += size;
    sent.messages += is_last;
    sent.in_message = !is_last;
}

static void make_stream(bool is_masked) {
    static const uint16_t codes[] = {1000, 1001, 1011, 1013, 3000, 4999};
    uint8_t payload[WS_CONTROL_MAX];
    empty(&sent);
    for (size_t frames = below(FRAMES_MAX); frames > 0 && sent.size + 1024 < STREAM_MAX; frames--)
        if (below(4) == 0)
            put_control(is_masked);
        else
            put_data(is_masked);
    if (below(2) == 0) return;
    const size_t size = ws_close_payload(payload, codes[below(sizeof(codes) / sizeof(codes[0]))], "gr\xc3\xbc\xc3\x9f");
    put_frame(is_masked, WS_CLOSE, true, payload, size);
    note_control(&sent, WS_CLOSE, payload, size);
}

static void take(const struct ws_event *event) {
    uint8_t close[WS_CONTROL_MAX] = {(uint8_t)(event->code >> 8), (uint8_t)event->code};
    switch (event->kind) {
    case WS_DATA:
        assert_int_equal(event->begins_message, !got.in_message);
        memcpy(got.data + got.data_size, event->data, event->size);
        got.data_size += event->size;
        got.messages += event->ends_message;
        got.in_message = !event->ends_message;
        break;
    case WS_GOT_PING:
    case WS_GOT_PONG:
        note_control(&got, event->kind == WS_GOT_PING ? WS_PING : WS_PONG, event->data, event->size);
        break;
    case WS_GOT_CLOSE:
        memcpy(close + 2, event->data, event->size);
        note_control(&got, WS_CLOSE, close, 2 + event->size);
        break;
    case WS_FAILED:
        fail_msg("%s", ws_error_sentence(event->error));
        break;
    case WS_NEEDS_MORE:
        break;
    }
}

static void receive(enum ws_side side) {
    struct ws_decoder decoder;
    const unsigned bits = (unsigned)below(18);
    empty(&got);
    ws_decoder_init(&decoder, side, STREAM_MAX, MESSAGE_MAX);
    for (size_t at = 0; at < sent.size;) {
        const size_t wanted = 1 + (size_t)random_magnitude(&random_state, bits), left = sent.size - at;
        size_t size = wanted < left ? wanted : left;
        struct ws_event event;
        do {
            const size_t used = ws_decode(&decoder, sent.bytes + at, size, &event);
            at += used;
            size -= used;
            take(&event);
        } while (event.kind != WS_NEEDS_MORE);
        assert_int_equal(size, 0);
    }
}

static void what_is_encoded_is_decoded(void **state) {
    (void)state;
    random_state.state = random_seed(17);
    for (int i = 0; i < STREAMS; i++) {
        const enum ws_side receiver = below(2) == 0 ? WS_SERVER : WS_CLIENT;
        make_stream(receiver == WS_SERVER);
        receive(receiver);
        assert_int_equal(got.messages, sent.messages);
        assert_int_equal(got.data_size, sent.data_size);
        assert_memory_equal(got.data, sent.data, sent.data_size);
        assert_int_equal(got.control_size, sent.control_size);
        assert_memory_equal(got.control, sent.control, sent.control_size);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_encoded_is_decoded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
