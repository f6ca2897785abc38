/* http_head_test.c: heads and chunks of HTTP, read strictly: what a proxy might read otherwise is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "http_head.h"

static char bytes[1024];
static struct head head;
static struct head_refusal refusal;

static enum head_result parse(const char *text) {
    size_t used;
    strcpy(bytes, text);
    return http_head_parse(bytes, strlen(text), &head, &used, &refusal);
}

static void a_head_is_read(void **state) {
    (void)state;
    assert_int_equal(parse("POST /v1/queues/a%2Fb/tasks?x=1+2&y=%26 HTTP/1.1\r\nHost: h\r\nContent-Length: 12\r\n\r\n"),
                     HEAD_DONE);
    assert_int_equal(head.method, HEAD_POST);
    assert_int_equal(head.segment_count, 4);
    assert_string_equal(head.segments[2].text, "a/b");
    assert_string_equal(head_parameter(&head, "x")->text, "1 2");
    assert_string_equal(head_parameter(&head, "y")->text, "&");
    assert_int_equal(head.length, 12);
    assert_true(head.stays);
}

static void half_a_head_is_awaited(void **state) {
    (void)state;
    assert_int_equal(parse("GET /v1 HTTP/1.1\r\nHost: h\r\n"), HEAD_MORE);
}

/* F-20 */
static void what_might_be_read_otherwise_is_refused(void **state) {
    (void)state;
    static const char *const lines[] = {"Content-Length : 1\r\n",
                                        "Content-Length: 1\r\nContent-Length: 1\r\n",
                                        "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
                                        "Content_Length: 1\r\n",
                                        "Transfer.Encoding: chunked\r\n",
                                        "Content-Length: +1\r\n",
                                        "X: a\r\n b\r\n",
                                        "X: a\nY: b\r\n",
                                        "X: a\rb\r\n",
                                        "Host: other\r\n",
                                        ": x\r\n"};
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        char text[256] = "GET /v1 HTTP/1.1\r\nHost: h\r\n";
        strcat(strcat(text, lines[i]), "\r\n");
        assert_int_equal(parse(text), HEAD_BAD);
        assert_int_equal(refusal.status, 400);
    }
    assert_int_equal(parse("GET /v1/%2e%2e/x HTTP/1.1\r\nHost: h\r\n\r\n"), HEAD_BAD);
    assert_int_equal(parse("GET /v1 HTTP/1.1\r\n\r\n"), HEAD_BAD); /* no Host */
    assert_int_equal(parse("GET  /v1 HTTP/1.1\r\nHost: h\r\n\r\n"), HEAD_BAD);
}

static enum head_result chunk(const char *text, char out[64]) {
    struct chunks chunks = {0};
    enum head_result result = HEAD_MORE;
    size_t at = 0, length = strlen(text);
    strcpy(bytes, text);
    out[0] = '\0';
    while (result == HEAD_MORE && at < length) {
        size_t size = length - at, part_size;
        char *part;
        result = chunks_take(&chunks, bytes + at, &size, &part, &part_size);
        if (result != HEAD_BAD) strncat(out, part, part_size);
        at += size;
    }
    return result;
}

static void chunks_are_put_together(void **state) {
    (void)state;
    char out[64];
    assert_int_equal(chunk("3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", out), HEAD_DONE);
    assert_string_equal(out, "abcde");
    assert_int_equal(chunk("3;x=1\r\nabc\r\n0\r\n\r\n", out), HEAD_BAD);
    assert_int_equal(chunk("3\nabc\r\n0\r\n\r\n", out), HEAD_BAD);
    assert_int_equal(chunk("3\r\nabcd\r\n0\r\n\r\n", out), HEAD_BAD);
    assert_int_equal(chunk("000000003\r\nabc\r\n0\r\n\r\n", out), HEAD_BAD);
    assert_int_equal(chunk("0\r\nX: y\r\n\r\n", out), HEAD_BAD); /* a trailer */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_is_read),
        cmocka_unit_test(half_a_head_is_awaited),
        cmocka_unit_test(what_might_be_read_otherwise_is_refused),
        cmocka_unit_test(chunks_are_put_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
