/* door_frames_test.c: what door_frames.h finds in a client's frames; tests/hostile/frames_test.py tests the effects
 * at the port. */
#include "door_frames.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MASK "\x11\x22\x33\x44"
#define BYTES(text) (const uint8_t *)(text), sizeof(text) - 1

/* Parses the bytes in one piece, and byte by byte, each in its own memory. */
static const char *follow(const uint8_t *bytes, size_t size, bool *out_has_closed) {
    const char *problems[2] = {NULL, NULL};
    bool has_closed[2];
    for (size_t way = 0; way < 2; way++) {
        struct door_frames frames = {0};
        size_t step = way == 0 ? size : 1;
        for (size_t at = 0; at < size && problems[way] == NULL; at += step) {
            uint8_t *piece = malloc(step);
            assert_non_null(piece);
            memcpy(piece, bytes + at, step);
            problems[way] = door_frames_follow(&frames, piece, step);
            free(piece);
        }
        has_closed[way] = frames.has_closed;
    }
    assert_ptr_equal(problems[0], problems[1]);
    assert_int_equal(has_closed[0], has_closed[1]);
    if (out_has_closed != NULL) *out_has_closed = has_closed[0];
    return problems[0];
}

static void frames_of_every_length_are_followed(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 125, 126, 127, 65535, 65536, 200000};
    static uint8_t bytes[2 * 200000 + 100];
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t size = 0, payload = sizes[i];
        bool has_closed;
        bytes[size++] = 0x82;
        bytes[size++] = (uint8_t)(0x80 | (payload < 126 ? payload : payload < 65536 ? 126 : 127));
        for (size_t shift = payload < 126 ? 0 : payload < 65536 ? 2 : 8; shift > 0; shift--)
            bytes[size++] = (uint8_t)((uint64_t)payload >> (8 * (shift - 1)));
        memset(bytes + size, 0,
               4 + payload); /* a payload of zeros: if it were parsed as a head, it would not be masked */
        size += 4 + payload;
        assert_null(follow(bytes, size, NULL));
        memcpy(bytes + size, "\x88\x80" MASK, 6);
        assert_null(follow(bytes, size + 6, &has_closed));
        assert_true(has_closed);
        memcpy(bytes + size, "\x82\x01\0", 3);
        assert_string_equal(follow(bytes, size + 3, NULL), "a client's frames are masked");
    }
}

/* RFC 6455, 5.1 */
static void what_is_not_masked_is_found(void **state) {
    (void)state;
    assert_non_null(follow(BYTES("\x82\x00"), NULL));
    assert_non_null(follow(BYTES("\x89\x00"), NULL));
    assert_non_null(follow(BYTES("\x88\x02\x03\xe8"), NULL));
    assert_non_null(follow(BYTES("\x82\x7f\0\0\0\0\0\0\0\x01"), NULL));
    assert_null(follow(BYTES("\x82"), NULL));
    assert_null(follow(BYTES("\x82\x80\0\0"), NULL));
}

static const char *close_of(unsigned code, const char *reason, size_t size) {
    uint8_t bytes[6 + 125] = {0x88, (uint8_t)(0x80 | (2 + size)), 0x11, 0x22, 0x33, 0x44};
    static const uint8_t mask[] = {0x11, 0x22, 0x33, 0x44};
    uint8_t payload[125] = {(uint8_t)(code >> 8), (uint8_t)code};
    memcpy(payload + 2, reason, size);
    for (size_t i = 0; i < 2 + size; i++) bytes[6 + i] = payload[i] ^ mask[i % 4];
    return follow(bytes, 8 + size, NULL);
}

/* RFC 6455, 7.4 and 5.5.1 */
static void a_close_says_what_it_may(void **state) {
    (void)state;
    static const unsigned good[] = {1000, 1001, 1011, 3000, 4000, 4999};
    static const unsigned bad[] = {5000, 5001, 32768, 65535};
    bool has_closed;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) assert_null(close_of(good[i], "bye", 3));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_string_equal(close_of(bad[i], "bye", 3), "a Close has a code above 4999");
    assert_null(close_of(1000, "gr\xc3\xbc\xc3\x9f", 6));
    assert_string_equal(close_of(1000, "\xff\xfe", 2), "a Close's reason is not UTF-8");
    char longest[123];
    memset(longest, 'x', sizeof(longest));
    assert_null(close_of(1000, longest, sizeof(longest)));
    assert_null(follow(BYTES("\x88\x80" MASK), &has_closed));
    assert_true(has_closed);
    assert_string_equal(follow(BYTES("\x88\x81" MASK "\x12"), NULL), "a Close's payload has one byte: half a code");
    /* Nothing after a Close is parsed; the library itself refuses control frames that are too long. */
    assert_null(follow(BYTES("\x88\x80" MASK "\x82\x00"), &has_closed));
    assert_null(follow(BYTES("\x88\xfe\x00\x7e" MASK), &has_closed));
    assert_true(has_closed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_of_every_length_are_followed),
        cmocka_unit_test(what_is_not_masked_is_found),
        cmocka_unit_test(a_close_says_what_it_may),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
