/* ws_frame_test.c: the WebSocket codec (proto/ws_frame.h), rule by rule, for both sides. Each stream is decoded as a
 * whole, byte by byte, and in two parts with every split point. The events must be the same. */
#include "ws_frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FRAME_MAX 1000u
#define MESSAGE_MAX 1500u
#define FIN 0x80u

/* ---- streams and traces */

struct stream {
    uint8_t bytes[8192];
    size_t size;
};

static void put(struct stream *stream, const void *bytes, size_t size) {
    assert_in_range(size, 0, sizeof(stream->bytes) - stream->size);
    memcpy(stream->bytes + stream->size, bytes, size);
    stream->size += size;
}

/* Appends a frame for `receiver`, built without the product's codec. `extra`: number of bytes of the extended payload
 * length (0, 2 or 8). */
static void put_frame(struct stream *stream, enum ws_side receiver, unsigned first, const void *payload, uint64_t size,
                      size_t extra) {
    static const uint8_t mask[4] = {0x37, 0xfa, 0x21, 0x3d};
    const bool is_masked = receiver == WS_SERVER;
    uint64_t length = size;
    if (extra != 0) length = extra == 2 ? 126 : 127;
    if (is_masked) length |= 0x80;
    const uint8_t start[2] = {(uint8_t)first, (uint8_t)length};
    put(stream, start, sizeof(start));
    for (size_t i = extra; i > 0; i--) put(stream, &(uint8_t){(uint8_t)(size >> 8 * (i - 1))}, 1);
    if (is_masked) put(stream, mask, sizeof(mask));
    for (size_t i = 0; payload != NULL && i < size; i++) {
        uint8_t byte = ((const uint8_t *)payload)[i];
        if (is_masked) byte ^= mask[i % 4];
        put(stream, &byte, 1);
    }
}

/* Records the events as text: "message(abc) ping(hi) close(1000 bye)". Spans of one message are joined. */
struct trace {
    char text[8192];
    size_t size;
    enum ws_error error;
};

static void tell(struct trace *trace, const char *before, const void *bytes, size_t size, const char *after) {
    const int wrote = snprintf(trace->text + trace->size, sizeof(trace->text) - trace->size, "%s%.*s%s", before,
                               (int)size, size > 0 ? (const char *)bytes : "", after);
    assert_in_range(wrote, 0, sizeof(trace->text) - trace->size - 1);
    trace->size += (size_t)wrote;
}

static void tell_event(struct trace *trace, const struct ws_event *event) {
    char code[32];
    switch (event->kind) {
    case WS_DATA:
        tell(trace, event->begins_message ? "message(" : "", event->data, event->size, event->ends_message ? ")" : "");
        break;
    case WS_GOT_PING:
        tell(trace, "ping(", event->data, event->size, ")");
        break;
    case WS_GOT_PONG:
        tell(trace, "pong(", event->data, event->size, ")");
        break;
    case WS_GOT_CLOSE:
        snprintf(code, sizeof(code), "close(%u ", event->code);
        tell(trace, code, event->data, event->size, ")");
        break;
    case WS_FAILED:
        trace->error = event->error;
        assert_int_not_equal(event->error, WS_ERROR_NONE);
        break;
    case WS_NEEDS_MORE:
        break;
    }
}

/* Decodes a part that was copied to a block of its own, so that a sanitizer detects each byte that is read or written
 * beyond it. */
static void decode_part(struct ws_decoder *decoder, const uint8_t *bytes, size_t size, struct trace *trace) {
    uint8_t *part = malloc(size + (size == 0));
    struct ws_event event;
    size_t at = 0;
    assert_non_null(part);
    memcpy(part, bytes, size);
    do {
        const size_t used = ws_decode(decoder, part + at, size - at, &event);
        assert_in_range(used, 0, size - at);
        if (event.kind == WS_DATA && event.size > 0) assert_ptr_equal(event.data + event.size, part + at + used);
        at += used;
        tell_event(trace, &event);
    } while (event.kind != WS_NEEDS_MORE && event.kind != WS_FAILED);
    if (event.kind == WS_NEEDS_MORE) assert_int_equal(at, size);
    assert_in_range(ws_decoder_wants(decoder), 1, UINT64_MAX);
    free(part);
}

/* Decodes the stream in parts of `step` bytes, the first of `first` bytes. */
static struct trace decode(enum ws_side side, const struct stream *stream, size_t first, size_t step) {
    struct ws_decoder decoder;
    struct trace trace = {.size = 0};
    ws_decoder_init(&decoder, side, FRAME_MAX, MESSAGE_MAX);
    for (size_t at = 0, part = first; at < stream->size; at += part, part = step) {
        if (part > stream->size - at) part = stream->size - at;
        decode_part(&decoder, stream->bytes + at, part, &trace);
    }
    return trace;
}

static void expect(enum ws_side side, const struct stream *stream, const char *text, enum ws_error error) {
    const struct trace whole = decode(side, stream, stream->size, stream->size);
    assert_string_equal(whole.text, text);
    assert_string_equal(ws_error_sentence(whole.error), ws_error_sentence(error));
    for (size_t first = 1; first < stream->size; first++) {
        const struct trace cut = decode(side, stream, first, stream->size);
        assert_string_equal(cut.text, text);
        assert_int_equal(cut.error, error);
    }
    const struct trace bytes = decode(side, stream, 1, 1);
    assert_string_equal(bytes.text, text);
    assert_int_equal(bytes.error, error);
}

/* ---- rules */

struct frame {
    unsigned first; /* first byte of the frame; 0 and no payload: end of the list */
    const char *payload;
};
#define MESSAGE(text)                                                                                                  \
    { FIN | WS_BINARY, (text) }
#define SENTINEL MESSAGE("later") /* a valid message, whose arrival shows that the frames before it were accepted */

static char long_text[127];
static const struct {
    struct frame frames[6];
    const char *trace;
    enum ws_error error;
} rules[] = {
    {{MESSAGE("abc"), SENTINEL}, "message(abc)message(later)", 0},
    {{MESSAGE(""), SENTINEL}, "message()message(later)", 0},
    {{{WS_BINARY, "ab"}, {0, "c"}, {FIN, "de"}, SENTINEL}, "message(abcde)message(later)", 0},
    {{{WS_BINARY, ""}, {0, ""}, {FIN, ""}, SENTINEL}, "message()message(later)", 0},
    {{{WS_BINARY, "ab"}, {FIN | WS_PING, "hi"}, {FIN | WS_PONG, ""}, {FIN, "c"}, SENTINEL},
     "message(abping(hi)pong()c)message(later)",
     0},
    {{{WS_BINARY, "ab"}, {FIN | WS_CLOSE, "\x03\xe8"}, {FIN, "c"}}, "message(abclose(1000 )", 0},
    {{{FIN | WS_PING, ""}, {FIN | WS_PONG, "ho"}, SENTINEL}, "ping()pong(ho)message(later)", 0},
    /* ---- reserved bits and opcodes */
    {{MESSAGE("a"), {FIN | 0x40 | WS_BINARY, "x"}}, "message(a)", WS_ERROR_RESERVED_BIT},
    {{{FIN | 0x20 | WS_BINARY, "x"}}, "", WS_ERROR_RESERVED_BIT},
    {{{FIN | 0x10 | WS_PING, ""}}, "", WS_ERROR_RESERVED_BIT},
    {{{FIN | 0x40 | WS_CLOSE, "\x03\xe8"}}, "", WS_ERROR_RESERVED_BIT},
    {{{FIN | 3, "x"}}, "", WS_ERROR_OPCODE},
    {{{FIN | 4, ""}}, "", WS_ERROR_OPCODE},
    {{{FIN | 5, ""}}, "", WS_ERROR_OPCODE},
    {{{FIN | 6, ""}}, "", WS_ERROR_OPCODE},
    {{{FIN | 7, ""}}, "", WS_ERROR_OPCODE},
    {{{FIN | 11, ""}}, "", WS_ERROR_OPCODE},
    {{{FIN | 12, ""}}, "", WS_ERROR_OPCODE},
    {{{FIN | 13, ""}}, "", WS_ERROR_OPCODE},
    {{{FIN | 14, ""}}, "", WS_ERROR_OPCODE},
    {{{FIN | 15, "x"}}, "", WS_ERROR_OPCODE},
    /* text */
    {{{FIN | WS_TEXT, "hello"}}, "", WS_ERROR_TEXT},
    {{{WS_TEXT, ""}}, "", WS_ERROR_TEXT},
    /* fragments */
    {{{FIN, "x"}}, "", WS_ERROR_NO_MESSAGE},
    {{{0, "x"}}, "", WS_ERROR_NO_MESSAGE},
    {{MESSAGE("a"), {FIN, "x"}}, "message(a)", WS_ERROR_NO_MESSAGE},
    {{{WS_BINARY, "a"}, {FIN, "b"}, {FIN, "x"}}, "message(ab)", WS_ERROR_NO_MESSAGE},
    {{{WS_BINARY, "a"}, MESSAGE("x")}, "message(a", WS_ERROR_IN_MESSAGE},
    {{{WS_BINARY, "a"}, {WS_BINARY, "x"}}, "message(a", WS_ERROR_IN_MESSAGE},
    {{{WS_BINARY, "a"}, {FIN | WS_TEXT, "x"}}, "message(a", WS_ERROR_IN_MESSAGE},
    {{{WS_PING, "x"}}, "", WS_ERROR_CONTROL_FRAGMENT},
    {{{WS_PONG, ""}}, "", WS_ERROR_CONTROL_FRAGMENT},
    {{{WS_CLOSE, "\x03\xe8"}}, "", WS_ERROR_CONTROL_FRAGMENT},
    /* closes */
    {{{FIN | WS_CLOSE, ""}, SENTINEL}, "close(1005 )", 0},
    {{{FIN | WS_CLOSE, "\x03\xe8"}, {FIN | 15, "x"}}, "close(1000 )", 0},
    {{{FIN | WS_CLOSE, "\x03\xe8"
                       "bye"},
      SENTINEL},
     "close(1000 bye)",
     0},
    {{{FIN | WS_CLOSE, "\x0f\xa0"
                       "gr\xc3\xbc\xc3\x9f"}},
     "close(4000 gr\xc3\xbc\xc3\x9f)",
     0},
    {{{FIN | WS_CLOSE, "\x03"}}, "", WS_ERROR_CLOSE_SIZE},
    {{{FIN | WS_CLOSE, "\x03\xed"}}, "", WS_ERROR_CLOSE_CODE},
    {{{FIN | WS_CLOSE, "\x03\xe8\xff"}}, "", WS_ERROR_CLOSE_REASON},
    {{{FIN | WS_CLOSE, "\x03\xe8\xc0\x80"}}, "", WS_ERROR_CLOSE_REASON},     /* overlong */
    {{{FIN | WS_CLOSE, "\x03\xe8\xed\xa0\x80"}}, "", WS_ERROR_CLOSE_REASON}, /* a surrogate */
    {{{FIN | WS_CLOSE, "\x03\xe8"
                       "a\xc3"}},
     "",
     WS_ERROR_CLOSE_REASON}, /* the reason ends within a UTF-8 character */
    {{{FIN | WS_CLOSE, long_text}}, "", WS_ERROR_CONTROL_SIZE},
    {{{FIN | WS_PING, long_text}}, "", WS_ERROR_CONTROL_SIZE},
    {{{FIN | WS_PONG, long_text}}, "", WS_ERROR_CONTROL_SIZE},
};

static void each_rule_is_checked_on_both_sides(void **state) {
    (void)state;
    memset(long_text, 'x', WS_CONTROL_MAX + 1);
    for (enum ws_side side = WS_SERVER; side <= WS_CLIENT; side++)
        for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
            struct stream stream = {.size = 0};
            for (const struct frame *frame = rules[i].frames; frame->payload != NULL; frame++) {
                const size_t size = strlen(frame->payload);
                put_frame(&stream, side, frame->first, frame->payload, size, size < 126 ? 0 : 2);
            }
            expect(side, &stream, rules[i].trace, rules[i].error);
        }
}

static void masks_are_required_from_clients_and_forbidden_to_servers(void **state) {
    (void)state;
    static const unsigned firsts[] = {FIN | WS_BINARY, WS_BINARY, FIN | WS_PING, FIN | WS_CLOSE};
    for (size_t i = 0; i < sizeof(firsts) / sizeof(firsts[0]); i++) {
        struct stream masked = {.size = 0}, plain = {.size = 0};
        put_frame(&masked, WS_SERVER, firsts[i], "\x03\xe8", 2, 0);
        put_frame(&plain, WS_CLIENT, firsts[i], "\x03\xe8", 2, 0);
        expect(WS_CLIENT, &masked, "", WS_ERROR_MASKED);
        expect(WS_SERVER, &plain, "", WS_ERROR_UNMASKED);
    }
}

/* RFC 6455, 5.2: the length must use as few bytes as possible, and its highest bit must be 0. */
static void lengths_are_minimal(void **state) {
    (void)state;
    static const struct {
        size_t extra;
        uint64_t length;
        enum ws_error error;
    } cases[] = {
        {2, 0, WS_ERROR_LONG_LENGTH},          {2, 125, WS_ERROR_LONG_LENGTH},
        {8, 0, WS_ERROR_LONG_LENGTH},          {8, 125, WS_ERROR_LONG_LENGTH},
        {8, 126, WS_ERROR_LONG_LENGTH},        {8, 65535, WS_ERROR_LONG_LENGTH},
        {8, 65536, WS_ERROR_FRAME_SIZE},       {2, 1001, WS_ERROR_FRAME_SIZE},
        {8, INT64_MAX, WS_ERROR_FRAME_SIZE},   {8, 1ull << 63, WS_ERROR_HUGE_LENGTH},
        {8, UINT64_MAX, WS_ERROR_HUGE_LENGTH},
    };
    for (enum ws_side side = WS_SERVER; side <= WS_CLIENT; side++)
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            struct stream stream = {.size = 0};
            put_frame(&stream, side, FIN | WS_BINARY, NULL, cases[i].length, cases[i].extra);
            expect(side, &stream, "", cases[i].error);
        }
}

static void limits_include_their_values(void **state) {
    (void)state;
    static char text[FRAME_MAX + 1];
    memset(text, 'x', sizeof(text));
    for (enum ws_side side = WS_SERVER; side <= WS_CLIENT; side++) {
        struct stream stream = {.size = 0};
        put_frame(&stream, side, WS_BINARY, text, FRAME_MAX, 2);
        put_frame(&stream, side, FIN, text, MESSAGE_MAX - FRAME_MAX, 2);
        put_frame(&stream, side, WS_BINARY, text, FRAME_MAX, 2); /* the size of each message is counted from 0 */
        put_frame(&stream, side, FIN, text, MESSAGE_MAX - FRAME_MAX, 2);
        struct trace trace = decode(side, &stream, stream.size, 1);
        assert_int_equal(trace.error, WS_ERROR_NONE);
        assert_int_equal(trace.size, 2 * (MESSAGE_MAX + strlen("message()")));
        put_frame(&stream, side, WS_BINARY, text, FRAME_MAX, 2);
        put_frame(&stream, side, 0, text, MESSAGE_MAX - FRAME_MAX, 2);
        /* The bytes of a ping inside of the message do not count. */
        put_frame(&stream, side, FIN | WS_PING, text, WS_CONTROL_MAX, 0);
        put_frame(&stream, side, 0, "", 0, 0);
        assert_int_equal(decode(side, &stream, stream.size, 1).error, WS_ERROR_NONE);
        put_frame(&stream, side, 0, "x", 1, 0);
        assert_int_equal(decode(side, &stream, stream.size, 1).error, WS_ERROR_MESSAGE_SIZE);
        assert_int_equal(decode(side, &stream, 1, 1).error, WS_ERROR_MESSAGE_SIZE);
    }
}

static void each_close_code_is_judged(void **state) {
    (void)state;
    for (enum ws_side side = WS_SERVER; side <= WS_CLIENT; side++)
        for (unsigned code = 0; code <= UINT16_MAX; code++) {
            struct stream stream = {.size = 0};
            const uint8_t payload[2] = {(uint8_t)(code >> 8), (uint8_t)code};
            put_frame(&stream, side, FIN | WS_CLOSE, payload, sizeof(payload), 0);
            const struct trace trace = decode(side, &stream, stream.size, 1);
            bool is_valid = code >= 3000 && code <= 4999;
            switch (code) { /* codes of RFC 6455, 7.4.1, and of IANA's registry */
            case 1000:
            case 1001:
            case 1002:
            case 1003:
            case 1007:
            case 1008:
            case 1009:
            case 1010:
            case 1011:
            case 1012:
            case 1013:
            case 1014:
                is_valid = true;
            }
            assert_int_equal(trace.error, is_valid ? WS_ERROR_NONE : WS_ERROR_CLOSE_CODE);
            assert_int_equal(trace.size > 0, is_valid);
        }
}

static void an_error_is_final_and_has_a_code(void **state) {
    (void)state;
    struct ws_decoder decoder;
    struct ws_event event;
    uint8_t bytes[] = {0x83, 0x00, 0x82, 0x00};
    ws_decoder_init(&decoder, WS_CLIENT, FRAME_MAX, MESSAGE_MAX);
    (void)ws_decode(&decoder, bytes, 2, &event);
    assert_int_equal(event.kind, WS_FAILED);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ws_decode(&decoder, bytes + 2, 2, &event), 0);
        assert_int_equal(event.kind, WS_FAILED);
        assert_int_equal(event.error, WS_ERROR_OPCODE);
    }
    for (enum ws_error error = WS_ERROR_RESERVED_BIT; error <= WS_ERROR_MESSAGE_SIZE; error++) {
        assert_in_range(ws_error_code(error), WS_CODE_PROTOCOL_ERROR, WS_CODE_TOO_BIG);
        /* Every sentence fits into the reason of a Close. */
        assert_in_range(strlen(ws_error_sentence(error)), 5, WS_REASON_MAX);
    }
    assert_int_equal(ws_error_code(WS_ERROR_TEXT), 1003);
    assert_int_equal(ws_error_code(WS_ERROR_CLOSE_REASON), 1007);
    assert_int_equal(ws_error_code(WS_ERROR_MESSAGE_SIZE), 1009);
    assert_int_equal(ws_error_code(WS_ERROR_MASKED), 1002);
}

/* A message begins with the event for its header, so the receiver can refuse it or allocate memory before its payload
 * arrives. */
static void a_message_begins_with_its_header(void **state) {
    (void)state;
    struct ws_decoder decoder;
    struct ws_event event;
    struct stream stream = {.size = 0};
    put_frame(&stream, WS_SERVER, FIN | WS_BINARY, "abcdefgh", 8, 0);
    ws_decoder_init(&decoder, WS_SERVER, FRAME_MAX, MESSAGE_MAX);
    assert_int_equal(ws_decoder_wants(&decoder), 2);
    assert_int_equal(ws_decode(&decoder, stream.bytes, 1, &event), 1);
    assert_int_equal(event.kind, WS_NEEDS_MORE);
    assert_int_equal(ws_decoder_wants(&decoder), 1);
    assert_int_equal(ws_decode(&decoder, stream.bytes + 1, 2, &event), 2);
    assert_int_equal(ws_decoder_wants(&decoder), 3); /* three bytes of the mask are missing */
    assert_int_equal(ws_decode(&decoder, stream.bytes + 3, 3, &event), 3);
    assert_int_equal(event.kind, WS_DATA);
    assert_true(event.begins_message && !event.ends_message);
    assert_int_equal(event.size, 0);
    assert_int_equal(event.frame_rest, 8);
    assert_int_equal(ws_decoder_wants(&decoder), 8);
    assert_int_equal(ws_decode(&decoder, stream.bytes + 6, 0, &event), 0);
    assert_int_equal(event.kind, WS_NEEDS_MORE);
    assert_int_equal(ws_decode(&decoder, stream.bytes + 6, 5, &event), 5);
    assert_true(!event.begins_message && !event.ends_message);
    assert_memory_equal(event.data, "abcde", 5);
    assert_int_equal(event.frame_rest, 3);
    assert_int_equal(ws_decode(&decoder, stream.bytes + 11, 3, &event), 3);
    assert_true(!event.begins_message && event.ends_message);
    assert_memory_equal(event.data, "fgh", 3);
    assert_int_equal(ws_decoder_wants(&decoder), 2);
}

/* ---- sending */

/* Encodes the examples of RFC 6455, section 5.7. */
static void the_rfcs_examples_are_encoded(void **state) {
    (void)state;
    uint8_t room[WS_HEAD_MAX + 5], head[WS_HEAD_MAX];
    const uint32_t *no_mask = NULL;
    uint32_t mask;
    memcpy(&mask, "\x37\xfa\x21\x3d", sizeof(mask));
    memcpy(room + WS_HEAD_MAX, "Hello", 5);
    assert_int_equal(ws_seal(WS_PING, true, room + WS_HEAD_MAX, 5, no_mask), 2);
    assert_memory_equal(room + WS_HEAD_MAX - 2, "\x89\x05Hello", 7);
    assert_int_equal(ws_seal(WS_PONG, true, room + WS_HEAD_MAX, 5, &mask), 6);
    assert_memory_equal(room + WS_HEAD_MAX - 6, "\x8a\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58", 11);
    assert_int_equal(ws_head(head, WS_BINARY, true, 256, no_mask), 4);
    assert_memory_equal(head, "\x82\x7e\x01\x00", 4);
    assert_int_equal(ws_head(head, WS_BINARY, true, 65536, no_mask), 10);
    assert_memory_equal(head, "\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00", 10);
    assert_int_equal(ws_head(head, WS_CONTINUATION, false, 65536, &mask), WS_HEAD_MAX);
    assert_memory_equal(head, "\x00\xff\x00\x00\x00\x00\x00\x01\x00\x00\x37\xfa\x21\x3d", 14);
    assert_int_equal(ws_head_size(125, false), 2);
    assert_int_equal(ws_head_size(126, false), 4);
    assert_int_equal(ws_head_size(65535, true), 8);
    assert_int_equal(ws_head_size(65536, true), 14);
}

static void a_close_payload_has_a_code_and_a_reason(void **state) {
    (void)state;
    uint8_t out[WS_CONTROL_MAX];
    char reason[WS_REASON_MAX + 1] = {0};
    assert_int_equal(ws_close_payload(out, WS_CODE_NONE, ""), 0);
    assert_int_equal(ws_close_payload(out, WS_CODE_NORMAL, ""), 2);
    assert_memory_equal(out, "\x03\xe8", 2);
    assert_int_equal(ws_close_payload(out, WS_CODE_TOO_BIG, "too big"), 9);
    assert_memory_equal(out, "\x03\xf1too big", 9);
    memset(reason, 'r', WS_REASON_MAX);
    assert_int_equal(ws_close_payload(out, WS_CODE_POLICY, reason), WS_CONTROL_MAX);
}

/* Masks each size and alignment in one call and in two calls. The second call continues with the mask where the first
 * call ended. */
static void masking_goes_on_across_parts(void **state) {
    (void)state;
    enum { SIZE = 100, ALIGNMENTS = 32 };
    static const uint8_t key[4] = {0x12, 0x34, 0x56, 0x78};
    uint8_t bytes[SIZE + ALIGNMENTS + 1];
    uint32_t mask;
    memcpy(&mask, key, sizeof(mask));
    for (size_t size = 0; size <= SIZE; size++)
        for (size_t cut = 0; cut <= size; cut++) {
            const size_t from = (size + cut) % ALIGNMENTS;
            memset(bytes, 0xa5, sizeof(bytes));
            const uint32_t after = ws_mask(bytes + from, cut, mask);
            const uint32_t end = ws_mask(bytes + from + cut, size - cut, after);
            for (size_t i = 0; i < sizeof(bytes); i++) {
                const bool is_inside = i >= from && i < from + size;
                assert_int_equal(bytes[i], is_inside ? 0xa5 ^ key[(i - from) % 4] : 0xa5);
            }
            for (size_t i = 0; i < 4; i++) assert_int_equal(((const uint8_t *)&end)[i], key[(size + i) % 4]);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rule_is_checked_on_both_sides),
        cmocka_unit_test(masks_are_required_from_clients_and_forbidden_to_servers),
        cmocka_unit_test(lengths_are_minimal),
        cmocka_unit_test(limits_include_their_values),
        cmocka_unit_test(each_close_code_is_judged),
        cmocka_unit_test(an_error_is_final_and_has_a_code),
        cmocka_unit_test(a_message_begins_with_its_header),
        cmocka_unit_test(the_rfcs_examples_are_encoded),
        cmocka_unit_test(a_close_payload_has_a_code_and_a_reason),
        cmocka_unit_test(masking_goes_on_across_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
