/* http_head_test.c: strict parsing of HTTP heads and chunks. A head that a proxy might parse differently is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "http_head.h"

static char bytes[HEAD_SIZE_MAX + 128];
static struct head head;
static struct head_refusal refusal;

static enum head_result parse(const char *text) {
    size_t used;
    strcpy(bytes, text);
    const enum head_result result = http_head_parse(bytes, strlen(text), &head, &used, &refusal);
    if (result == HEAD_DONE) assert_int_equal(used, strlen(text));
    return result;
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
    assert_int_equal(parse("GET /v1 HTTP/1.1\r"), HEAD_MORE);
    assert_int_equal(parse("GET /v1 HTTP/1.1\rX"), HEAD_BAD);
    assert_int_equal(parse("\r\n\r\n"), HEAD_BAD);
}

/* F-20 */
static void what_might_be_read_otherwise_is_refused(void **state) {
    (void)state;
    static const char *const lines[] = {"Content-Length : 1\r\n", "Content-Length: 1\r\nContent-Length: 1\r\n",
                                        "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", "Content_Length: 1\r\n",
                                        "Transfer.Encoding: chunked\r\n", "Content-Length: +1\r\n", "X: a\r\n b\r\n",
                                        "X: a\nY: b\r\n", "X: a\rb\r\n",
                                        /* A parser that accepts CR alone as a line end would see two fields. */
                                        "X: a\rYZ: b\r\n", "Host: other\r\n", ": x\r\n"};
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

/* Each refusal has its status and a part of its message (F-20). */
static void each_refusal_says_what_is_wrong(void **state) {
    (void)state;
    static const struct {
        const char *line, *fields;
        unsigned status;
        const char *word;
    } cases[] = {
        {"\nGET / HTTP/1.1", "Host: h\r\n", 400, "CR LF"},
        {"\r\nGET / HTTP/1.1", "Host: h\r\n", 400, "first line"},
        {"\x01GET / HTTP/1.1", "Host: h\r\n", 400, "control character"},
        {"GET  HTTP/1.1", "Host: h\r\n", 400, "must be a path"},
        {"GET /  HTTP/1.1", "Host: h\r\n", 400, "first line"},
        {"GET / HTTP/1.1", "Hos: h\r\n", 400, "the Host header is missing"},
        {"GET / HTTP/1.1", "Hosts: h\r\n", 400, "the Host header is missing"},
        {"GET v1 HTTP/1.1", "Host: h\r\n", 400, "must be a path"},
        {"GET /v1#x HTTP/1.1", "Host: h\r\n", 400, "must be escaped with %"},
        {"GET /v1\x80 HTTP/1.1", "Host: h\r\n", 400, "must be escaped with %"},
        {"GET /v1\tx HTTP/1.1", "Host: h\r\n", 400, "must be escaped with %"},
        {"GET /a/%4 HTTP/1.1", "Host: h\r\n", 400, "the path contains a %"},
        {"GET /a/%00 HTTP/1.1", "Host: h\r\n", 400, "the path contains a %"},
        {"GET /a/%g1 HTTP/1.1", "Host: h\r\n", 400, "the path contains a %"},
        {"GET /a/./b HTTP/1.1", "Host: h\r\n", 400, ". or .."},
        {"GET /1/2/3/4/5/6/7/8/9 HTTP/1.1", "Host: h\r\n", 404, "unknown path"},
        {"GET /?a=%4 HTTP/1.1", "Host: h\r\n", 400, "the query contains a %"},
        {"GET /?%zz=a HTTP/1.1", "Host: h\r\n", 400, "the query contains a %"},
        {"GET /?a&a&a&a&a&a&a&a&a&a&a&a&a&a&a&a&a HTTP/1.1", "Host: h\r\n", 400, "too many parameters"},
        {"G@T / HTTP/1.1", "Host: h\r\n", 400, "malformed method"},
        {" / HTTP/1.1", "Host: h\r\n", 400, "first line"},
        {"GET /", "Host: h\r\n", 400, "first line"},
        {"GET / HTTP/1.1 ", "Host: h\r\n", 400, "first line"},
        {"GET / HTTP/1.2", "Host: h\r\n", 505, "HTTP/1.1"},
        {"GET / HTTP/1.1", "", 400, "the Host header is missing"},
        {"GET / HTTP/1.1", "Host: h\r\nno colon\r\n", 400, "no name followed by a colon"},
        {"GET / HTTP/1.1", "Host: h\r\nX(: y\r\n", 400, "an invalid byte"},
        {"GET / HTTP/1.1", "Host: h\r\n\tx\r\n", 400, "obs-fold"},
        {"GET / HTTP/1.1", "Host: h\r\nOrigin: a\r\nORIGIN: a\r\n", 400, "only once is repeated"},
        {"GET / HTTP/1.1", "Host: h\r\nX: \x7f\r\n", 400, "control character"},
        {"GET / HTTP/1.1", "Host: h\r\nX: \x01\r\n", 400, "control character"},
        {"GET / HTTP/1.1", "Host: h\r\nContent-Length:\r\n", 400, "must be a number of bytes"},
        {"GET / HTTP/1.1", "Host: h\r\nContent-Length: 1234567890123456789\r\n", 400, "must be a number of bytes"},
        {"GET / HTTP/1.0", "Transfer-Encoding: chunked\r\n", 400, "needs HTTP/1.1"},
        {"GET / HTTP/1.1", "Host: h\r\nTransfer-Encoding: gzip\r\n", 501, "chunked"},
        {"GET / HTTP/1.1", "Host: h\r\nExpect: more\r\n", 417, "100-continue"},
        {"GET / HTTP/1.1", "Host: h\r\nTransfer_Encoding: chunked\r\n", 400, "could be confused"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[256];
        snprintf(text, sizeof(text), "%s\r\n%s\r\n", cases[i].line, cases[i].fields);
        assert_int_equal(parse(text), HEAD_BAD);
        assert_int_equal(refusal.status, cases[i].status);
        assert_non_null(strstr(refusal.sentence, cases[i].word));
    }
}

static void what_is_just_allowed_is_read(void **state) {
    (void)state;
    assert_int_equal(parse("GET /1/2/3/4/5/6/7/8?a&a&a&a&a&a&a&a&a&a&a&a&a&a&a&last=%7E HTTP/1.1\r\nhOST: h\r\n\r\n"),
                     HEAD_DONE);
    assert_int_equal(head.segment_count, HEAD_SEGMENTS_MAX);
    assert_int_equal(head.parameter_count, HEAD_PARAMETERS_MAX);
    assert_string_equal(head_parameter(&head, "a")->text, "");
    assert_string_equal(head_parameter(&head, "last")->text, "~");
    assert_null(head_parameter(&head, "b"));
    assert_int_equal(parse("GET /a+b/%3A%af HTTP/1.1\r\nHost:\t h \t\r\n\r\n"), HEAD_DONE);
    assert_string_equal(head.segments[0].text, "a+b");
    assert_string_equal(head.segments[1].text, ":\xaf");
    assert_int_equal(head.segments[1].size, 2);
    assert_string_equal(head.fields[HEAD_FIELD_host].text, "h");
    assert_int_equal(head.fields[HEAD_FIELD_host].size, 1);
    assert_int_equal(parse("GET / HTTP/1.1\r\nHost: h\r\nUser-Agent: a\r\nUser-Agent: b\r\nContent-Length: "
                           "123456789012345678\r\n\r\n"),
                     HEAD_DONE);
    assert_string_equal(head.fields[HEAD_FIELD_agent].text, "b");
    assert_int_equal(head.length, 123456789012345678);
    assert_false(head.is_chunked);
    assert_int_equal(parse("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\nExpect: 100-Continue\r\n\r\n"),
                     HEAD_DONE);
    assert_true(head.is_chunked);
    assert_true(head.wants_go_ahead);
    assert_int_equal(head.length, 0);
    assert_int_equal(parse("GET /%09%39?abc&d HTTP/1.1\r\nHost: h\r\nAUTHORIZATION: z\r\n\r\n"), HEAD_DONE);
    assert_string_equal(head.segments[0].text, "\t9");
    assert_string_equal(head_parameter(&head, "abc")->text, "");
    assert_string_equal(head.fields[HEAD_FIELD_authorization].text, "z");
}

/* Only fields with exactly these names determine the body, not those with similar names that some gateway treats as
 * equal. */
static void what_only_resembles_is_passed_over(void **state) {
    (void)state;
    static const char *const names[] = {"0123456789",     "ABCXYZabcxyz",   "!#$%&'*+-.^_`|~", "ContentaLength",
                                        "ContentzLength", "Content0Length", "Content9Length",  "Content-Lengths",
                                        "Content-Lengt",  "C!ntent-Length", "abcdefghijklmn",  "Transfer-Encodings"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char text[128];
        snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: h\r\n%s: 1\r\n\r\n", names[i]);
        assert_int_equal(parse(text), HEAD_DONE);
        assert_int_equal(head.length, 0);
    }
}

static void each_method_is_told_from_the_others(void **state) {
    (void)state;
    static const char *const names[] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "get", "ZAP0"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char text[64];
        snprintf(text, sizeof(text), "%s / HTTP/1.1\r\nHost: h\r\n\r\n", names[i]);
        assert_int_equal(parse(text), HEAD_DONE);
        assert_int_equal(head.method, i < HEAD_OTHER ? i : HEAD_OTHER);
    }
}

static bool stays(const char *version, const char *connection) {
    char text[128];
    snprintf(text, sizeof(text), "GET / HTTP/%s\r\nHost: h\r\nConnection: %s\r\n\r\n", version, connection);
    assert_int_equal(parse(text), HEAD_DONE);
    assert_int_equal(head.is_old, strcmp(version, "1.0") == 0);
    return head.stays;
}

static void a_connection_stays_if_it_may(void **state) {
    (void)state;
    assert_true(stays("1.1", "upgrade"));
    assert_false(stays("1.1", "upgrade, Close"));
    assert_true(stays("1.1", "closed"));
    assert_true(stays("1.1", "closX"));
    assert_false(stays("1.1", "close, upgrade"));
    assert_false(stays("1.0", "keep-alivX"));
    assert_true(stays("1.0", "keep-alive \t, x"));
    assert_false(stays("1.0", "upgrade"));
    assert_true(stays("1.0", "x,Keep-Alive"));
    assert_false(stays("1.0", "keep-alive,\tclose"));
    assert_false(stays("1.0", "keep-aliveX"));
    assert_int_equal(parse("GET / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n"),
                     HEAD_DONE); /* an HTTP/1.0 request needs no Host */
    assert_false(head.wants_go_ahead);
}

static void the_path_is_that_of_a_page_or_none(void **state) {
    (void)state;
    char path[HEAD_PATH_SIZE];
    assert_int_equal(parse("GET /a%20b/c?d HTTP/1.1\r\nHost: h\r\n\r\n"), HEAD_DONE);
    assert_string_equal(head_path(&head, path), "/a b/c");
    for (unsigned longer = 0; longer < 2; longer++) {
        char text[128];
        snprintf(text, sizeof(text), "GET /1/%.*s HTTP/1.1\r\nHost: h\r\n\r\n", (int)(HEAD_PATH_SIZE - 4 + longer),
                 "123456789012345678901234567890123456789012345678901234567890123456789");
        assert_int_equal(parse(text), HEAD_DONE);
        assert_int_equal(strlen(head_path(&head, path)), longer ? 0 : HEAD_PATH_SIZE - 1);
    }
}

static void a_head_and_its_fields_are_bounded(void **state) {
    (void)state;
    char text[HEAD_SIZE_MAX + 64] = "GET / HTTP/1.1\r\nHost: h\r\n";
    for (unsigned i = 1; i < HEAD_FIELDS_MAX; i++) strcat(text, "X: y\r\n");
    char *end = strchr(text, '\0');
    strcpy(end, "\r\n");
    assert_int_equal(parse(text), HEAD_DONE);
    strcpy(end, "X: y\r\n\r\n");
    assert_int_equal(parse(text), HEAD_BAD);
    assert_int_equal(refusal.status, 431);
    assert_non_null(strstr(refusal.sentence, "64"));

    end = strchr(text, 'X') + strlen("X: ");
    for (size_t more = 0; more < 2; more++) {
        memset(end, 'z', sizeof(text) - (size_t)(end - text));
        memcpy(text + HEAD_SIZE_MAX - 4 + more, "\r\n\r\n", 5);
        assert_int_equal(parse(text), more ? HEAD_BAD : HEAD_DONE);
    }
    assert_int_equal(refusal.status, 431);
    assert_non_null(strstr(refusal.sentence, "16 KiB"));
    text[HEAD_SIZE_MAX - 3] = 'z';
    text[HEAD_SIZE_MAX] = '\0';
    text[HEAD_SIZE_MAX - 1] = text[HEAD_SIZE_MAX - 2] = 'z';
    assert_int_equal(parse(text), HEAD_BAD);
    text[HEAD_SIZE_MAX - 1] = '\0';
    assert_int_equal(parse(text), HEAD_MORE);
}

/* Parses data that arrives in two parts; the first part has `first` bytes. */
static enum head_result chunk_in_parts(const char *text, size_t first, char out[64]) {
    struct chunks chunks = {0};
    enum head_result result = HEAD_MORE;
    const size_t ends[] = {first, strlen(text)};
    size_t at = 0;
    strcpy(bytes, text);
    out[0] = '\0';
    for (size_t i = 0; i < 2; i++)
        while (result == HEAD_MORE && at < ends[i]) {
            size_t size = ends[i] - at, part_size;
            char *part;
            result = chunks_take(&chunks, bytes + at, &size, &part, &part_size);
            assert_true(size <= ends[i] - at);
            if (result != HEAD_BAD) strncat(out, part, part_size);
            at += size;
        }
    return result;
}

static enum head_result chunk(const char *text, char out[64]) {
    const enum head_result result = chunk_in_parts(text, strlen(text), out);
    for (size_t first = 0; first < strlen(text); first++) {
        char other[64];
        assert_int_equal(chunk_in_parts(text, first, other), result);
        if (result == HEAD_DONE) assert_string_equal(other, out);
    }
    return result;
}

static void chunks_are_put_together(void **state) {
    (void)state;
    char out[64];
    assert_int_equal(chunk("3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", out), HEAD_DONE);
    assert_string_equal(out, "abcde");
    assert_int_equal(chunk("1\r\na\r\n00000011\r\n12345678901234567\r\n0\r\n\r\n", out), HEAD_DONE);
    assert_string_equal(out, "a12345678901234567");
    assert_int_equal(chunk("0\r\n\r\n", out), HEAD_DONE);
    assert_int_equal(chunk("\r\n\r\n", out), HEAD_BAD);
    assert_int_equal(chunk("3x\nabc\r\n0\r\n\r\n", out), HEAD_BAD);
    assert_int_equal(chunk("3\r\nabc\rX0\r\n\r\n", out), HEAD_BAD);
    assert_int_equal(chunk("0\r\n\rX", out), HEAD_BAD);
    assert_int_equal(chunk("3\nabc\r\n0\r\n\r\n", out), HEAD_BAD);
    assert_int_equal(chunk("3\r\nabcd\r\n0\r\n\r\n", out), HEAD_BAD);
    assert_int_equal(chunk("000000003\r\nabc\r\n0\r\n\r\n", out), HEAD_BAD);
}

/* Chunk extensions and trailers are accepted and ignored (RFC 9112, 7.1.1 and 7.1.2). */
static void chunk_extensions_and_trailers_are_passed_over(void **state) {
    (void)state;
    static const char *const good[] = {"3;x=1\r\nabc\r\n0\r\n\r\n", "3;x\r\nabc\r\n0;last\r\n\r\n",
                                       "3 \t; x=\"a;\xc3\"\r\nabc\r\n0\r\n\r\n", "3\r\nabc\r\n0\r\nX: y\r\n\r\n",
                                       "3\r\nabc\r\n0\r\nX:\r\nY:\tz \r\n\r\n"};
    static const char *const bad[] = {"3 \r\nabc\r\n0\r\n\r\n",     ";x\r\n\r\n",
                                      "3;x=1\nabc\r\n0\r\n\r\n",    "3;x\rabc\r\n0\r\n\r\n",
                                      "3;\x01\r\nabc\r\n0\r\n\r\n", "3;\x7f\r\nabc\r\n0\r\n\r\n",
                                      "3 4;x\r\nabc\r\n0\r\n\r\n",  "0\r\nX: y\n\r\n",
                                      "0\r\nX: y\rZ\r\n\r\n",       "0\r\nX : y\r\n\r\n",
                                      "0\r\n: y\r\n\r\n",           "0\r\nX\r\n\r\n",
                                      "0\r\nX: y\r\n z\r\n\r\n",    "0\r\nGET / HTTP/1.1\r\n\r\n",
                                      "0\r\nX: \x01\r\n\r\n",       "0\n\r\n"};
    char out[64];
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(chunk(good[i], out), HEAD_DONE);
        assert_string_equal(out, "abc");
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) assert_int_equal(chunk(bad[i], out), HEAD_BAD);
}

/* The limit applies to the sum of all extensions in a body, so that many chunks with short extensions cannot exceed it.
 */
static void chunk_extensions_and_trailers_are_bounded(void **state) {
    (void)state;
    static const struct {
        unsigned count; /* number of chunks, each with the text `extension` */
        const char *extension, *trailer;
        enum head_result result;
    } cases[] = {{CHUNKS_PASSED_OVER_MAX / 2, ";x", "", HEAD_DONE},
                 {CHUNKS_PASSED_OVER_MAX / 2 - 3, ";x", "X: y\r\n", HEAD_DONE},
                 {CHUNKS_PASSED_OVER_MAX / 2 - 2, ";x", "X: y\r\n", HEAD_BAD},
                 {CHUNKS_PASSED_OVER_MAX / 2 + 1, ";x", "", HEAD_BAD}};
    static char text[8 * CHUNKS_PASSED_OVER_MAX];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct chunks chunks = {0};
        enum head_result result = HEAD_MORE;
        size_t size = 0, part_size, body_size = 0;
        char *part;
        for (unsigned n = 0; n < cases[i].count; n++)
            size += (size_t)sprintf(text + size, "1%s\r\na\r\n", cases[i].extension);
        size += (size_t)sprintf(text + size, "0\r\n%s\r\n", cases[i].trailer);
        for (size_t at = 0, taken; at < size && result == HEAD_MORE; at += taken) {
            taken = size - at;
            result = chunks_take(&chunks, text + at, &taken, &part, &part_size);
            body_size += part_size;
        }
        assert_int_equal(result, cases[i].result);
        if (result == HEAD_DONE) assert_int_equal(body_size, cases[i].count);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_is_read),
        cmocka_unit_test(half_a_head_is_awaited),
        cmocka_unit_test(what_might_be_read_otherwise_is_refused),
        cmocka_unit_test(each_refusal_says_what_is_wrong),
        cmocka_unit_test(what_is_just_allowed_is_read),
        cmocka_unit_test(what_only_resembles_is_passed_over),
        cmocka_unit_test(each_method_is_told_from_the_others),
        cmocka_unit_test(a_connection_stays_if_it_may),
        cmocka_unit_test(the_path_is_that_of_a_page_or_none),
        cmocka_unit_test(a_head_and_its_fields_are_bounded),
        cmocka_unit_test(chunks_are_put_together),
        cmocka_unit_test(chunk_extensions_and_trailers_are_passed_over),
        cmocka_unit_test(chunk_extensions_and_trailers_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
