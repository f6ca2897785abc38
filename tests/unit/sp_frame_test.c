/* sp_frame_test.c: nng's own transports for SP (proto/sp_frame.h). Each stream is decoded as a whole, byte by byte, and
 * in two parts with every split point. The events must be the same. */
#include "sp_frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MESSAGE_MAX 300u

struct stream {
    uint8_t bytes[1024];
    size_t size;
};

static void put(struct stream *stream, const void *bytes, size_t size) {
    assert_in_range(size, 0, sizeof(stream->bytes) - stream->size);
    memcpy(stream->bytes + stream->size, bytes, size);
    stream->size += size;
}

/* Appends a message's header, built without the codec. */
static void put_head(struct stream *stream, enum sp_transport transport, uint64_t size) {
    if (transport == SP_IPC) put(stream, "\1", 1);
    for (size_t i = 8; i > 0; i--) put(stream, &(uint8_t){(uint8_t)(size >> 8 * (i - 1))}, 1);
}

static void put_message(struct stream *stream, enum sp_transport transport, const char *text) {
    put_head(stream, transport, strlen(text));
    put(stream, text, strlen(text));
}

/* Records the events as text: "(abc)() large". Spans of one message are joined. */
struct trace {
    char text[2048];
    size_t size;
    uint64_t rest; /* bytes left of the last span */
};

static void tell(struct trace *trace, const char *before, const void *bytes, size_t size, const char *after) {
    trace->size += (size_t)snprintf(trace->text + trace->size, sizeof(trace->text) - trace->size, "%s%.*s%s", before,
                                    (int)size, size > 0 ? (const char *)bytes : "", after);
    assert_in_range(trace->size, 0, sizeof(trace->text) - 1);
}

static void tell_event(struct trace *trace, const struct sp_event *event) {
    switch (event->kind) {
    case SP_DATA:
        if (!event->begins_message) assert_int_equal(event->size + event->rest, trace->rest);
        assert_int_equal(event->ends_message, event->rest == 0);
        trace->rest = event->rest;
        tell(trace, event->begins_message ? "(" : "", event->data, event->size, event->ends_message ? ")" : "");
        break;
    case SP_TOO_LARGE:
        tell(trace, " large", NULL, 0, "");
        break;
    case SP_MALFORMED:
        tell(trace, " malformed", NULL, 0, "");
        break;
    case SP_NEEDS_MORE:
        break;
    }
}

/* Decodes a part that was copied to a block of its own, so that a sanitizer detects each byte that is read beyond it.
 * Returns true if there was an error. */
static bool decode_part(struct sp_decoder *decoder, const uint8_t *bytes, size_t size, struct trace *trace) {
    uint8_t *part = malloc(size + (size == 0));
    struct sp_event event;
    size_t at = 0;
    assert_non_null(part);
    memcpy(part, bytes, size);
    do {
        const size_t used = sp_decode(decoder, part + at, size - at, &event);
        assert_in_range(used, 0, size - at);
        if (event.kind == SP_DATA && event.size > 0) assert_ptr_equal(event.data + event.size, part + at + used);
        at += used;
        tell_event(trace, &event);
    } while (event.kind == SP_DATA);
    if (event.kind == SP_NEEDS_MORE) assert_int_equal(at, size);
    free(part);
    return event.kind != SP_NEEDS_MORE;
}

static struct trace decode(enum sp_transport transport, const struct stream *stream, size_t first, size_t step) {
    struct sp_decoder decoder;
    struct trace trace = {.size = 0};
    sp_decoder_init(&decoder, transport, MESSAGE_MAX);
    for (size_t at = 0, part = first; at < stream->size; at += part, part = step) {
        if (part > stream->size - at) part = stream->size - at;
        if (decode_part(&decoder, stream->bytes + at, part, &trace)) break;
    }
    return trace;
}

static void assert_reads(enum sp_transport transport, const struct stream *stream, const char *text) {
    struct trace trace = decode(transport, stream, stream->size, 1);
    assert_string_equal(trace.text, text);
    for (size_t split = 1; split <= stream->size; split++) {
        trace = decode(transport, stream, split, stream->size);
        assert_string_equal(trace.text, text);
    }
    trace = decode(transport, stream, 1, 1);
    assert_string_equal(trace.text, text);
}

#define EACH(transport) for (enum sp_transport transport = SP_TCP; transport <= SP_IPC; transport++)

static void messages_are_decoded(void **state) {
    (void)state;
    EACH(transport) {
        struct stream stream = {.size = 0};
        put_message(&stream, transport, "abc");
        put_message(&stream, transport, "");
        put_message(&stream, transport, "d");
        assert_reads(transport, &stream, "(abc)()(d)");
        put_head(&stream, transport, 4);
        put(&stream, "ef", 2);
        assert_reads(transport, &stream, "(abc)()(d)(ef");
    }
}

static void a_message_may_have_the_limit(void **state) {
    char text[MESSAGE_MAX + 1], expected[MESSAGE_MAX + 3];
    (void)state;
    memset(text, 'x', MESSAGE_MAX);
    text[MESSAGE_MAX] = '\0';
    snprintf(expected, sizeof(expected), "(%s)", text);
    EACH(transport) {
        struct stream stream = {.size = 0};
        put_message(&stream, transport, text);
        assert_reads(transport, &stream, expected);
    }
}

static void a_larger_one_is_an_error_before_its_first_byte(void **state) {
    static const uint64_t sizes[] = {MESSAGE_MAX + 1, 1ull << 31, 1ull << 32, 1ull << 63, UINT64_MAX};
    (void)state;
    EACH(transport) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            struct stream stream = {.size = 0};
            put_message(&stream, transport, "a");
            put_head(&stream, transport, sizes[i]);
            assert_reads(transport, &stream, "(a) large");
            put_message(&stream, transport, "b");
            assert_reads(transport, &stream, "(a) large");
        }
    }
}

static void an_error_is_final(void **state) {
    struct sp_decoder decoder;
    struct trace trace = {.size = 0};
    (void)state;
    sp_decoder_init(&decoder, SP_IPC, MESSAGE_MAX);
    for (int i = 0; i < 3; i++) assert_true(decode_part(&decoder, (const uint8_t *)"\2\0\0\0", 4, &trace));
    assert_string_equal(trace.text, " malformed malformed malformed");
}

static void ipc_knows_one_type_of_message(void **state) {
    (void)state;
    for (unsigned type = 0; type < 256; type++) {
        struct stream stream = {.size = 0};
        put(&stream, &(uint8_t){(uint8_t)type}, 1);
        put(&stream, "\0\0\0\0\0\0\0\1z", 9);
        assert_reads(SP_IPC, &stream, type == 1 ? "(z)" : " malformed");
    }
}

static void what_is_sealed_is_decoded(void **state) {
    (void)state;
    EACH(transport) {
        uint8_t bytes[SP_HEAD_MAX + 4] = {0};
        struct stream expected = {.size = 0};
        memcpy(bytes + SP_HEAD_MAX, "abcd", 4);
        put_message(&expected, transport, "abcd");
        const size_t head_size = sp_seal(transport, bytes + SP_HEAD_MAX, 4);
        assert_int_equal(head_size, sp_head_size(transport));
        assert_int_equal(head_size + 4, expected.size);
        assert_memory_equal(bytes + SP_HEAD_MAX - head_size, expected.bytes, expected.size);
        sp_seal(transport, bytes + SP_HEAD_MAX, 0x0102030405060708);
        assert_memory_equal(bytes + SP_HEAD_MAX - 8, "\1\2\3\4\5\6\7\x08", 8);
    }
}

static void the_hello_is_nngs(void **state) {
    static const uint8_t pull[SP_HELLO_SIZE] = {0, 'S', 'P', 0, 0, 81, 0, 0};
    uint8_t hello[SP_HELLO_SIZE];
    (void)state;
    sp_hello_encode(SP_PROTOCOL_PULL, hello);
    assert_memory_equal(hello, pull, SP_HELLO_SIZE);
    assert_int_equal(sp_hello_decode(hello), SP_PROTOCOL_PULL);
    hello[4] = 0x12;
    assert_int_equal(sp_hello_decode(hello), 0x1251); /* a protocol that Tarry does not use */
}

static void each_other_byte_is_no_hello(void **state) {
    (void)state;
    for (size_t place = 0; place < SP_HELLO_SIZE; place++) {
        for (unsigned value = 0; value < 256; value++) {
            uint8_t hello[SP_HELLO_SIZE];
            sp_hello_encode(SP_PROTOCOL_REQ, hello);
            const bool is_same = hello[place] == value;
            hello[place] = (uint8_t)value;
            const bool is_hello = is_same || place == 4 || place == 5;
            assert_int_equal(sp_hello_decode(hello) >= 0, is_hello);
            for (size_t size = 0; size <= SP_HELLO_SIZE; size++)
                assert_int_equal(sp_hello_begins(hello, size), is_hello || size <= place);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_are_decoded),
        cmocka_unit_test(a_message_may_have_the_limit),
        cmocka_unit_test(a_larger_one_is_an_error_before_its_first_byte),
        cmocka_unit_test(an_error_is_final),
        cmocka_unit_test(ipc_knows_one_type_of_message),
        cmocka_unit_test(what_is_sealed_is_decoded),
        cmocka_unit_test(the_hello_is_nngs),
        cmocka_unit_test(each_other_byte_is_no_hello),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
