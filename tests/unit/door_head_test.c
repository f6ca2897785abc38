/* door_head_test.c: which part of a head the library is given (door_head.h); tests/hostile tests the effects at the
 * port. */
#include "door_head.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define GET "GET / HTTP/1.1\r\n"
#define CLOSE "Connection: close\r\n\r\n"

static struct door_head head;
static struct head_refusal refusal;

static enum head_result give(const char *text) {
    size_t size = strlen(text);
    char *bytes = malloc(size + 1);
    assert_non_null(bytes);
    memcpy(bytes, text, size + 1);
    enum head_result result = door_head_read(bytes, size, &head, &refusal);
    free(bytes);
    return result;
}

static void only_what_something_rests_on_is_written(void **state) {
    (void)state;
    static const struct {
        const char *text, *written;
    } cases[] = {
        {GET "Host: x\r\n\r\n", GET "Host: x\r\n" CLOSE},
        {"GET /healthz?a=b HTTP/1.0\r\n\r\n", "GET /healthz HTTP/1.0\r\n" CLOSE},
        {"HEAD /%68ealthz HTTP/1.1\r\nhost:x\r\n\r\n", "HEAD /healthz HTTP/1.1\r\nHost: x\r\n" CLOSE},
        {"GET /lane/1/ HTTP/1.1\r\nHost: x\r\n\r\n", "GET /lane/1/ HTTP/1.1\r\nHost: x\r\n" CLOSE},
        {"POST /rpc HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nabcde",
         "POST /rpc HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n" CLOSE},
        /* field names that the library takes for beginnings of longer ones */
        {GET "Host: x\r\nX-Auth: a\r\nIf: b\r\nA:\r\nOrigin:\r\n\r\n", GET "Host: x\r\nOrigin: \r\n" CLOSE},
        {GET "Host: x\r\nauthorization:\t Bearer t \r\nCookie: c\r\n\r\n",
         GET "Host: x\r\nAuthorization: Bearer t\r\n" CLOSE},
        /* RFC 9110, 7.8: an upgrade may be ignored */
        {GET "Host: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: A\r\n\r\n",
         GET "Host: x\r\n" CLOSE},
        {GET "Host: x\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n", GET "Host: x\r\n" CLOSE},
        {"HEAD / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
         "HEAD / HTTP/1.1\r\nHost: x\r\n" CLOSE},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(give(cases[i].text), HEAD_DONE);
        assert_int_equal(head.size, strlen(cases[i].written));
        assert_memory_equal(head.text, cases[i].written, head.size);
        assert_int_equal(head.used, strstr(cases[i].text, "\r\n\r\n") + 4 - cases[i].text);
        assert_false(head.is_upgrade);
    }
}

static void an_upgrade_keeps_what_it_needs(void **state) {
    (void)state;
    static const char written[] = "GET /lane/7 HTTP/1.1\r\nHost: x\r\nSec-WebSocket-Key: k\r\n"
                                  "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: p\r\n"
                                  "Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
    assert_int_equal(give(
                         "GET /lane/7 HTTP/1.1\r\nSec-WebSocket-Protocol: p\r\nUpgrade: h2c, WebSocket\r\n"
                         "Connection: keep-alive\r\nConnection: a,UPGRADE\r\nSec-WebSocket-Version: 13\r\n"
                         "Sec-WebSocket-Extensions: permessage-deflate\r\nSec-WebSocket-Key: k\r\nHost: x\r\n\r\n\x82"),
                     HEAD_DONE);
    assert_true(head.is_upgrade);
    assert_int_equal(head.size, strlen(written));
    assert_memory_equal(head.text, written, head.size);
}

/* F-20: heads that /v1's parser refuses (http_head_test), and those that the library would decode or does not know. */
static void what_is_doubtful_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *text;
        unsigned status;
    } cases[] = {
        {GET "Host: x\r\nHost: y\r\n\r\n", 400},
        {GET "Host : x\r\n\r\n", 400},
        {GET "Host: x\r\nX: a\rb\r\n\r\n", 400},
        {GET "Host: x\n\n", 400},
        {GET "\r\n", 400},
        {GET "Host: x\r\nX: a\r\n b\r\n\r\n", 400},
        {GET "Host: x\r\nSec-WebSocket-Key: a\r\nSec-WebSocket-Key: a\r\n\r\n", 400},
        {"GET http://x/healthz HTTP/1.1\r\nHost: x\r\n\r\n", 400},
        {"GET /x/../healthz HTTP/1.1\r\nHost: x\r\n\r\n", 400},
        {"GET //healthz HTTP/1.1\r\nHost: x\r\n\r\n", 404},
        {"GET /a//b HTTP/1.1\r\nHost: x\r\n\r\n", 404},
        {"GET /a%2fb HTTP/1.1\r\nHost: x\r\n\r\n", 404},
        {"GET /a%25 HTTP/1.1\r\nHost: x\r\n\r\n", 404},
        {"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505},
        {"get / HTTP/1.1\r\nHost: x\r\n\r\n", 405},
        {"TRACE / HTTP/1.1\r\nHost: x\r\n\r\n", 405},
        {"stats\r\n", 400},
        {" / HTTP", 400},
        {"GET / HTTP/1.1 x", 400},
        {"\x16\x03\x01", 400},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        refusal = (struct head_refusal){0};
        assert_int_equal(give(cases[i].text), HEAD_BAD);
        assert_int_equal(refusal.status, cases[i].status);
        assert_non_null(refusal.sentence);
    }
    assert_int_equal(give("GET / HTTP/1.1\r\nHost: x\r\n"), HEAD_MORE);
    assert_int_equal(give(""), HEAD_MORE);
}

static void a_head_is_bounded_as_it_comes_and_as_it_is_written(void **state) {
    (void)state;
    char text[DOOR_HEAD_SIZE_MAX + 200];
    for (unsigned more = 0; more < 2; more++) {
        size_t size = (size_t)sprintf(text, GET "Host: x\r\nX: ");
        memset(text + size, 'y', DOOR_HEAD_SIZE_MAX - 4 + more - size);
        strcpy(text + DOOR_HEAD_SIZE_MAX - 4 + more, "\r\n\r\n");
        assert_int_equal(give(text), more ? HEAD_BAD : HEAD_DONE);
    }
    assert_int_equal(refusal.status, 431);
    text[DOOR_HEAD_SIZE_MAX - 1] = '\0';
    text[DOOR_HEAD_SIZE_MAX - 3] = text[DOOR_HEAD_SIZE_MAX - 2] = 'y';
    assert_int_equal(give(text), HEAD_MORE);
    text[DOOR_HEAD_SIZE_MAX - 1] = 'y';
    text[DOOR_HEAD_SIZE_MAX] = '\0';
    assert_int_equal(give(text), HEAD_BAD);
    assert_int_equal(refusal.status, 431);
    for (unsigned more = 0; more < 2; more++) {
        size_t fixed = strlen(GET "Host: \r\n" CLOSE);
        size_t size = (size_t)sprintf(text, GET "Host: ");
        memset(text + size, 'h', DOOR_HEAD_WRITTEN_MAX - 1 - fixed + more);
        strcpy(text + size + DOOR_HEAD_WRITTEN_MAX - 1 - fixed + more, "\r\n\r\n");
        assert_int_equal(give(text), more ? HEAD_BAD : HEAD_DONE);
    }
    assert_int_equal(refusal.status, 431);
    assert_non_null(strstr(refusal.sentence, "4,000"));
}

/* For any input, the output is one head of plain lines, within the size limit. */
static void random_heads_are_written_whole_or_not_at_all(void **state) {
    (void)state;
    static const char *const parts[] = {"GET ",
                                        "HEAD ",
                                        "/",
                                        "rpc",
                                        "lane/1",
                                        " HTTP/1.1",
                                        "\r\n",
                                        "\r\n\r\n",
                                        "Host: x\r\n",
                                        "Upgrade: websocket\r\n",
                                        "Connection: upgrade\r\n",
                                        "Origin:",
                                        "a",
                                        ":",
                                        " ",
                                        "\t",
                                        "%",
                                        "%41",
                                        "?",
                                        "\n",
                                        "\r",
                                        "Sec-WebSocket-Key: k\r\n",
                                        "\x01",
                                        "\xff"};
    unsigned done = 0;
    srand(28);
    for (unsigned round = 0; round < 200000; round++) {
        char text[512] = "";
        if (rand() % 2 == 0) strcpy(text, "GET /rpc HTTP/1.1\r\nHost: x\r\n");
        for (unsigned i = 0; i < 12; i++) strcat(text, parts[(size_t)rand() % (sizeof(parts) / sizeof(parts[0]))]);
        if (give(text) != HEAD_DONE) continue;
        done++;
        assert_true(head.used <= strlen(text) && head.size < DOOR_HEAD_WRITTEN_MAX);
        assert_memory_equal(head.text + head.size - 4, "\r\n\r\n", 4);
        for (size_t i = 0; i + 4 < head.size; i++) {
            assert_memory_not_equal(head.text + i, "\r\n\r\n", 4);
            assert_true(head.text[i] != '\r' || head.text[i + 1] == '\n');
            assert_true((unsigned char)head.text[i] >= ' ' || strchr("\r\n\t", head.text[i]) != NULL);
        }
    }
    assert_true(done > 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_something_rests_on_is_written),
        cmocka_unit_test(an_upgrade_keeps_what_it_needs),
        cmocka_unit_test(what_is_doubtful_is_refused),
        cmocka_unit_test(a_head_is_bounded_as_it_comes_and_as_it_is_written),
        cmocka_unit_test(random_heads_are_written_whole_or_not_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
