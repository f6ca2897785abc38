/* http_head_test.c: which requests the port takes (F-20, F-23). */
#include "http_head.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../random.h"

static unsigned judge_with(const char *head, const char *origins) {
    size_t size = strlen(head);
    char *exact = malloc(size > 0 ? size : 1); /* ASan: nothing behind it is read */
    memcpy(exact, head, size);
    struct http_refusal refusal = http_head_judge(exact, size, origins);
    free(exact);
    assert_int_equal(refusal.status == 0, refusal.reason == NULL);
    return refusal.status;
}

static unsigned judge(const char *head) {
    return judge_with(head, "");
}

static unsigned judge_target(const char *target) {
    char head[2000];
    snprintf(head, sizeof(head), "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", target);
    return judge(head);
}

static void what_clients_send_is_taken(void **state) {
    (void)state;
    assert_int_equal(judge("GET /rpc HTTP/1.1\r\nHost: 127.0.0.1:7272\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                           "Sec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==\r\nSec-WebSocket-Version: 13\r\n"
                           "Sec-WebSocket-Protocol: rep.sp.nanomsg.org\r\n\r\n"),
                     0);
    assert_int_equal(judge("HEAD / HTTP/1.0\r\n\r\n"), 0);
    assert_int_equal(judge("GET /metrics HTTP/1.1\r\nContent-Length: 0\r\nX:\r\n\r\n"), 0);
    const char *const targets[] = {"/",         "/rpc", "/lane/0", "/lane/4095", "/healthz", "/metrics?a=b&c=d",
                                   "/nowhere/", "/a.b"};
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) assert_int_equal(judge_target(targets[i]), 0);
}

static void a_target_means_itself(void **state) { /* F-20: nng's reader of escapes goes beyond the end of its memory */
    (void)state;
    const char *const targets[] = {"/aaaaaaaaaaaaaaaaaaa%41",
                                   "/%",
                                   "/%4",
                                   "/%zz",
                                   "/a?b=%41",
                                   "/a?%",
                                   "//rpc",
                                   "/rpc/../etc/passwd",
                                   "/./rpc",
                                   "/..",
                                   "http://127.0.0.1/rpc",
                                   "http://127.0.0.1/%41",
                                   "rpc",
                                   "*",
                                   "?",
                                   "/a#b",
                                   "/a\\b",
                                   "/guard!",
                                   "/a\tb",
                                   "/\x7f",
                                   "/\xc3\xa4"};
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) assert_int_equal(judge_target(targets[i]), 400);
    char lengthy[400] = "/";
    memset(lengthy + 1, 'a', 255);
    assert_int_equal(judge_target(lengthy), 0);
    lengthy[256] = 'a';
    assert_int_equal(judge_target(lengthy), 414);
}

static void what_has_an_escape_anywhere_in_the_target_is_refused(void **state) { /* F-20 */
    (void)state;
    struct random random = {random_seed(9)};
    static const char letters[] = "/ab.%41?=& \r\n:GETHP1";
    size_t refused = 0;
    for (int i = 0; i < 300000; i++) {
        char head[64];
        size_t size = 1 + random_below(&random, sizeof(head) - 1);
        for (size_t j = 0; j < size; j++) head[j] = letters[random_below(&random, sizeof(letters) - 1)];
        if (random_below(&random, 2) == 0) memcpy(head, "GET /", size < 5 ? size : 5);
        if (random_below(&random, 2) == 0 && size > 24) memcpy(head + size - 13, " HTTP/1.1\r\n\r\n", 13);
        const char *line_end = memchr(head, '\n', size);
        bool has_escape = memchr(head, '%', line_end != NULL ? (size_t)(line_end - head) : size) != NULL;
        bool is_taken = http_head_judge(head, size, "").status == 0;
        assert_false(is_taken && has_escape);
        refused += !is_taken;
    }
    assert_true(refused < 300000); /* some are taken */
}

static void an_origin_is_allowed_by_name_only(void **state) { /* F-23 */
    (void)state;
    const char *const allowed = "https://one.example http://two.example:8080";
    const struct {
        const char *origin;
        unsigned status;
    } cases[] = {{"https://one.example", 0},
                 {"HTTPS://One.Example", 0},
                 {"http://two.example:8080", 0},
                 {"http://one.example", 403},
                 {"https://one.example:443", 403},
                 {"https://one.example.evil", 403},
                 {"https://one", 403},
                 {"http://two.example", 403},
                 {"null", 403},
                 {"", 403},
                 {"*", 403},
                 {"https://one.example http://two.example:8080", 403},
                 {"http://127.0.0.1:7272", 403}};
    const char *const requests[] = {"GET /rpc",  "GET /lane/1",  "GET /metrics", "HEAD /",
                                    "POST /rpc", "OPTIONS /rpc", "GET /%41"};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (size_t j = 0; j < sizeof(requests) / sizeof(requests[0]); j++) {
            char head[400];
            snprintf(head, sizeof(head), "%s HTTP/1.1\r\nHost: x\r\noRiGiN:  %s \r\nUpgrade: websocket\r\n\r\n",
                     requests[j], cases[i].origin);
            unsigned status = judge_with(head, allowed);
            if (cases[i].status == 403 || j < 4) assert_int_equal(status, cases[i].status);
            assert_int_equal(judge(head), 403);
        }
    }
    assert_int_equal(judge_with("GET / HTTP/1.1\r\nOrigin: https://one.example\r\nOrigin: http://x\r\n\r\n", allowed),
                     403);
    assert_int_equal(judge_with("GET / HTTP/1.1\r\nOrigin: null\r\n\r\n", "null"), 0);
}

static void other_requests_have_no_place_here(void **state) {
    (void)state;
    assert_int_equal(judge("POST /rpc HTTP/1.1\r\nContent-Length: 3\r\n\r\n"), 405);
    assert_int_equal(judge("get / HTTP/1.1\r\n\r\n"), 405);
    assert_int_equal(judge("GET / HTTP/1.1\r\nContent-Length: 3\r\n\r\n"), 413);
    assert_int_equal(judge("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"), 413);
    assert_int_equal(judge("GET / HTTP/2.0\r\n\r\n"), 505);
    const char *const broken[] = {"",
                                  "\r\n",
                                  "\n",
                                  "GARBAGE\r\n\r\n",
                                  "GET\r\n\r\n",
                                  "GET /\r\n\r\n",
                                  "GET  / HTTP/1.1\r\n\r\n",
                                  " GET / HTTP/1.1\r\n\r\n",
                                  "GET / HTTP/1.1\n\n",
                                  "GET / HTTP/1.1\r\n\n",
                                  "GET / HTTP/1.1\r\nOrigin : x\r\n\r\n",
                                  "GET / HTTP/1.1\r\n Origin: x\r\n\r\n",
                                  "GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
                                  "GET / HTTP/1.1\r\nA\r\n\r\n",
                                  "GET / HTTP/1.1\r\n: b\r\n\r\n",
                                  "GET / HTTP/1.1\r\nA: b\rOrigin: x\r\n\r\n",
                                  "GET / HTTP/1.1\r\nA: b\r\n",
                                  "GET / HTTP/1.1\r\nA: b",
                                  "GET / HTTP/1.1\r\nA: \x01\r\n\r\n",
                                  "GET / HTTP/1.1\r\n\r\nGET /"};
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) assert_int_not_equal(judge(broken[i]), 0);
    for (unsigned count = HTTP_HEADERS_MAX; count <= HTTP_HEADERS_MAX + 1; count++) {
        char many[1000] = "GET / HTTP/1.1\r\n";
        size_t size = strlen(many);
        for (unsigned i = 0; i < count; i++) size += (size_t)snprintf(many + size, sizeof(many) - size, "A: b\r\n");
        snprintf(many + size, sizeof(many) - size, "\r\n");
        assert_int_equal(judge(many), count > HTTP_HEADERS_MAX ? 431 : 0);
    }
}

static void a_head_ends_where_nng_takes_it_to_end(void **state) {
    (void)state;
    const struct {
        const char *text;
        size_t end;
    } cases[] = {{"GET / HTTP/1.1\r\n\r\nmore", 18},
                 {"GET / HTTP/1.1\n\nmore", 16},
                 {"a\r\n\n\n", 4},
                 {"\r\nGET", 2},
                 {"\nGET", 1},
                 {"a\r\nb\r\n", 0},
                 {"a\r\n\r", 0},
                 {"", 0}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t size = strlen(cases[i].text);
        assert_int_equal(http_head_end(cases[i].text, size, 0), cases[i].end);
        for (size_t from = 0; from < cases[i].end; from++) /* whatever came first */
            assert_int_equal(http_head_end(cases[i].text, size, from), cases[i].end);
    }
}

static void origins_of_the_configuration(void **state) {
    (void)state;
    const char *const good[] = {"https://example.org", "http://localhost:8080", "http://[::1]:80", "null", "app+x://a"};
    const char *const bad[] = {"",           "*",           "example.org", "https://", "://a",
                               "https://a/", "https://a b", "https://a?b", "ht tp://a"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) assert_true(http_is_origin(good[i]));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) assert_false(http_is_origin(bad[i]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_clients_send_is_taken),
        cmocka_unit_test(a_target_means_itself),
        cmocka_unit_test(what_has_an_escape_anywhere_in_the_target_is_refused),
        cmocka_unit_test(an_origin_is_allowed_by_name_only),
        cmocka_unit_test(other_requests_have_no_place_here),
        cmocka_unit_test(a_head_ends_where_nng_takes_it_to_end),
        cmocka_unit_test(origins_of_the_configuration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
