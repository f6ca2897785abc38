/* door_head_test.c: what the library is given of a head (door_head.h); what comes of it at the port is in
 * tests/hostile. */
#include "door_head.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TEXT_MAX 400
#define ROUNDS 20000

/* What is given of the text when it comes in pieces of 1 to `piece_max` bytes (0: whole), each in memory of its own.
 * NULL: it was refused. */
static const char *given(const char *text, size_t size, size_t piece_max, size_t *out_size, bool *out_is_over) {
    static char out[2 * TEXT_MAX + 1];
    struct head head = {0};
    *out_size = 0;
    for (size_t at = 0, part; at < size; at += part) {
        part = piece_max == 0 ? size : 1 + (size_t)rand() % piece_max;
        if (part > size - at) part = size - at;
        uint8_t *piece = malloc(2 * part);
        size_t piece_size = part;
        assert_non_null(piece);
        memcpy(piece, text + at, part);
        bool is_right = head.place == HEAD_IS_OVER || head_put_right(&head, piece, &piece_size);
        if (is_right) memcpy(out + *out_size, piece, piece_size);
        free(piece);
        if (!is_right) return NULL;
        *out_size += piece_size;
    }
    out[*out_size] = '\0';
    *out_is_over = head.place == HEAD_IS_OVER;
    return out;
}

#define GET "GET / HTTP/1.1\r\n"

static void names_that_are_beginnings_get_an_end(void **state) {
    static const struct {
        const char *head, *expected; /* NULL: refused; what follows a head is in no table */
    } cases[] = {
        {GET "Host: x\r\n\r\n", GET "Host: x\r\n\r\n"},
        {GET "If: a\r\nHost: x\r\n\r\n", GET "If~: a\r\nHost: x\r\n\r\n"},
        {GET "x-AUTH: a\nA:\n\n", GET "x-AUTH~: a\nA~:\n\n"},
        {GET "X-Auth-Token: a\r\nAccept: If: b\r\n\r\n", GET "X-Auth-Token: a\r\nAccept: If: b\r\n\r\n"},
        {GET "X-Author: a\r\nIff: b\r\n\r\n", GET "X-Author: a\r\nIff: b\r\n\r\n"},
        {GET "Access-Control-Request-Headers: a\r\n\r\n", GET "Access-Control-Request-Headers: a\r\n\r\n"},
        {GET "Access-Control-Request-Header: a\r\n\r\n", GET "Access-Control-Request-Header~: a\r\n\r\n"},
        {GET "Access-Control-Request-Headers-And-More: a\r\n\r\n",
         GET "Access-Control-Request-Headers-And-More: a\r\n\r\n"},
        {GET "Content-Length : a\r\n\r\n", GET "Content-Length : a\r\n\r\n"},
        {GET "\r\nIf: behind it\r\n\r\n", GET "\r\nIf: behind it\r\n\r\n"},
        {GET "Host: a\r\n b\r\n\r\n", NULL},
        {GET "Host: a\r\n\tb\r\n\r\n", NULL},
        {GET "nocolon\r\n\r\n", NULL},
        {GET ": a\r\n\r\n", NULL},
        {GET "Ho\rst: a\r\n\r\n", NULL},
        {GET "\r\r\n", NULL},
        {"\r\n" GET "\r\n", NULL},
        {"\n", NULL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t size;
        bool is_over = false;
        const char *got = given(cases[i].head, strlen(cases[i].head), 0, &size, &is_over);
        assert_int_equal(got == NULL, cases[i].expected == NULL);
        if (got != NULL) assert_string_equal(got, cases[i].expected);
        assert_int_equal(is_over, cases[i].expected != NULL);
    }
}

/* However it is cut. */
static void the_same_comes_of_it_in_pieces(void **state) {
    static const char *const parts[] = {
        "X-Auth", ":",    "\r\n",    "\n", "\r",    "A", "If: a\r\n",
        " ",      "Host", ": x\r\n", "q",  "sec-w", GET, "access-control-request-headers"};
    srand(13);
    for (int round = 0; round < ROUNDS; round++) {
        char text[TEXT_MAX], whole[2 * TEXT_MAX + 1];
        size_t size = 0, whole_size, size_of_pieces;
        bool whole_is_over = false, is_over = false;
        while (size < TEXT_MAX - 40 && rand() % 15 != 0) {
            const char *part = parts[(size_t)rand() % (sizeof(parts) / sizeof(parts[0]))];
            memcpy(text + size, part, strlen(part));
            size += strlen(part);
        }
        const char *got = given(text, size, 0, &whole_size, &whole_is_over);
        bool is_refused = got == NULL;
        if (got != NULL) memcpy(whole, got, whole_size);
        got = given(text, size, 7, &size_of_pieces, &is_over);
        assert_int_equal(got == NULL, is_refused);
        if (got == NULL) continue;
        assert_int_equal(size_of_pieces, whole_size);
        assert_memory_equal(got, whole, whole_size);
        assert_int_equal(is_over, whole_is_over);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_that_are_beginnings_get_an_end),
        cmocka_unit_test(the_same_comes_of_it_in_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
