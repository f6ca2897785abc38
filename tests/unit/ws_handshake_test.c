/* ws_handshake_test.c: the opening handshake of a WebSocket (proto/ws_handshake.h): both sides agree, and each refuses
 * what the RFC forbids. Every byte of a response may be hostile. */
#include "ws_handshake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define OK_HEAD "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
/* Accept value of the example in RFC 6455, section 1.3. */
#define OK_ACCEPT "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
#define OK_PROTOCOL "Sec-WebSocket-Protocol: rep.sp.nanomsg.org\r\n"

static void only_a_brokers_answer_is_accepted(void **state) {
    static const struct {
        const char *answer;
        const char *said; /* NULL: accepted */
        bool is_denied;
    } cases[] = {
        {OK_HEAD OK_ACCEPT OK_PROTOCOL "\r\n", NULL},
        {"HTTP/1.1 101 x\r\nupgrade:  WebSocket \r\nCONNECTION: keep-alive, upgrade\r\n" OK_ACCEPT OK_PROTOCOL "\r\n",
         NULL},
        {OK_HEAD OK_PROTOCOL "\r\n", "Sec-WebSocket-Accept"},
        {OK_HEAD OK_ACCEPT OK_ACCEPT OK_PROTOCOL "\r\n", "Sec-WebSocket-Accept"},
        {OK_HEAD "Sec-WebSocket-Accept: s3pplmbitxaq9kygzzhzrbk+xoo=\r\n" OK_PROTOCOL "\r\n", "Sec-WebSocket-Accept"},
        {OK_HEAD OK_ACCEPT "\r\n", "not a broker"},
        {OK_HEAD OK_ACCEPT "Sec-WebSocket-Protocol: push.sp.nanomsg.org\r\n\r\n", "not a broker"},
        {OK_HEAD OK_ACCEPT OK_PROTOCOL OK_PROTOCOL "\r\n", "not a broker"},
        {OK_HEAD OK_ACCEPT OK_PROTOCOL "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n", "extension"},
        {"HTTP/1.1 101 x\r\nConnection: Upgrade\r\n" OK_ACCEPT OK_PROTOCOL "\r\n", "not a broker"},
        {"HTTP/1.1 101 x\r\nUpgrade: websocket\r\n" OK_ACCEPT OK_PROTOCOL "\r\n", "not a broker"},
        {OK_HEAD OK_ACCEPT " folded\r\n" OK_PROTOCOL "\r\n", "malformed"},
        {OK_HEAD OK_ACCEPT "X: a\nY: b\r\n" OK_PROTOCOL "\r\n", "malformed"},
        {OK_HEAD OK_ACCEPT "X : a\r\n" OK_PROTOCOL "\r\n", "malformed"},
        {OK_HEAD OK_ACCEPT "nothing\r\n" OK_PROTOCOL "\r\n", "malformed"},
        {"HTTP/1.1 200 OK\r\n\r\n", "HTTP 200"},
        {"HTTP/1.1 404 Not Found\r\n\r\n", "not a broker"},
        {"HTTP/1.1 401 Unauthorized\r\n\r\nthe token has expired\r\nmore", "the token has expired", .is_denied = true},
        {"HTTP/1.1 401 Unauthorized\r\n\r\n<html>secret</html>",
         "refuses this client (HTTP 401): it may require a token", .is_denied = true},
        {"HTTP/1.1 429 x\r\nWWW-Authenticate: Bearer\r\n\r\ntoo many wrong tokens",
         "refuses this client (HTTP 429): too many wrong tokens", .is_denied = true},
        {"HTTP/1.1 429 x\r\n\r\nas many connections as it may", "HTTP 429: as many connections"},
        {"HTTP/1.1 503 x\r\n\r\ntoo many connections\x1b[2J", "HTTP 503: too many connections"},
        {"HTTP/2.0 101 x\r\n\r\n", "not a broker"},
        {"HTTP/1.1 1011 x\r\n\r\n", "not a broker"},
        {"HTTP/1.1  101 x\r\n\r\n", "not a broker"},
        {"SSH-2.0-OpenSSH", "not a broker"},
        {"HTTX", "not a broker"},
    };
    char accept[WS_ACCEPT_SIZE + 1];
    ws_accept("dGhlIHNhbXBsZSBub25jZQ==", accept);
    assert_string_equal(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char said[WS_SAID_MAX] = "";
        size_t used = 0;
        const size_t size = strlen(cases[i].answer);
        const enum ws_verdict verdict =
            ws_response_judge(cases[i].answer, size, accept, "rep.sp.nanomsg.org", &used, said);
        const enum ws_verdict refused = cases[i].is_denied ? WS_RESPONSE_DENIED : WS_RESPONSE_REFUSED;
        assert_int_equal(verdict, cases[i].said == NULL ? WS_RESPONSE_ACCEPTED : refused);
        if (cases[i].said == NULL) assert_int_equal(used, size);
        if (cases[i].said != NULL && strstr(said, cases[i].said) == NULL) fail_msg("case %zu: %s", i, said);
        for (const char *at = said; *at != 0; at++) assert_in_range(*at, ' ', 126);
        /* There is no result before the last byte. */
        for (size_t part = 1; part < size && cases[i].said == NULL; part++)
            assert_int_equal(ws_response_judge(cases[i].answer, part, accept, "rep.sp.nanomsg.org", &used, said),
                             WS_RESPONSE_NEEDS_MORE);
    }
}

/* Error messages contain only bytes that were received, whatever comes after them in memory. */
static void a_reason_ends_where_the_answer_does(void **state) {
    static const char answer[] = "HTTP/1.1 401 Unauthorized\r\n\r\nthe token has expired: a former answer's end";
    char said[WS_SAID_MAX] = "";
    size_t used;
    const size_t size = (size_t)(strstr(answer, ": a former") - answer);
    assert_int_equal(ws_response_judge(answer, size, "", "", &used, said), WS_RESPONSE_DENIED);
    assert_string_equal(strchr(said, ':'), ": the token has expired");
    assert_int_equal(ws_response_judge(answer, size - strlen("the token has expired"), "", "", &used, said),
                     WS_RESPONSE_DENIED);
    assert_non_null(strstr(said, "it may require a token"));
}

static void heads_without_end_are_bounded(void **state) {
    static char answer[4 * WS_RESPONSE_MAX];
    char said[WS_SAID_MAX];
    size_t used, size = (size_t)snprintf(answer, sizeof(answer), "%s", "HTTP/1.1 101 x\r\nX: ");
    memset(answer + size, 'x', sizeof(answer) - size);
    assert_int_equal(ws_response_judge(answer, WS_RESPONSE_MAX - 1, "", "", &used, said), WS_RESPONSE_NEEDS_MORE);
    assert_int_equal(ws_response_judge(answer, WS_RESPONSE_MAX, "", "", &used, said), WS_RESPONSE_REFUSED);
    assert_non_null(strstr(said, "longer than a broker's"));
    for (unsigned i = 0; i <= WS_HEADERS_MAX; i++) size += (size_t)snprintf(answer + size, 8, "A: b\r\n");
    size += (size_t)snprintf(answer + size, 8, "\r\n");
    assert_int_equal(ws_response_judge(answer, size, "", "", &used, said), WS_RESPONSE_REFUSED);
    assert_non_null(strstr(said, "more headers"));
}

static void a_key_is_16_bytes_in_base64(void **state) {
    assert_true(ws_key_is_valid("dGhlIHNhbXBsZSBub25jZQ==", 24));
    assert_true(ws_key_is_valid("++++++++++++++++++++/w==", 24));
    static const char *const invalid[] = {"",
                                          "dGhlIHNhbXBsZSBub25jZQ=",
                                          "dGhlIHNhbXBsZSBub25jZQ===",
                                          "dGhlIHNhbXBsZSBub25jZQA=",
                                          "dGhlIHNhbXBsZSBub25jZQAA",
                                          "dGhlIHNhbXBsZSBub25j Q==",
                                          "dGhlIHNhbXBsZSBub25j=Q==",
                                          "dGhlIHNhbXBsZSBub25j-_==",
                                          "dGhlIHNhbXBsZSBub25jZQ=A"};
    for (size_t i = 0; i < sizeof(invalid) / sizeof(invalid[0]); i++)
        assert_false(ws_key_is_valid(invalid[i], strlen(invalid[i])));
    assert_false(ws_key_is_valid("dGhlIHNhbXBsZSBub25\0ZQ==", 24));
}

static void a_protocol_is_an_element_of_the_list(void **state) {
    static const struct {
        const char *list;
        bool is_included;
    } cases[] = {{"rep.sp.nanomsg.org", true},     {" x,\trep.sp.nanomsg.org ,y", true}, {"", false},
                 {"rep.sp.nanomsg.org.", false},   {"x rep.sp.nanomsg.org", false},      {"REP.sp.nanomsg.org", false},
                 {"push.sp.nanomsg.org,,", false}, {",rep.sp.nanomsg.org", true}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(ws_protocols_include(cases[i].list, strlen(cases[i].list), "rep.sp.nanomsg.org"),
                         cases[i].is_included);
}

static void the_two_sides_agree(void **state) {
    static const char expected[] =
        "GET /rpc HTTP/1.1\r\nHost: localhost:7272\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Protocol: rep.sp.nanomsg.org\r\n";
    struct ws_request request = {.host = "localhost:7272",
                                 .path = "/rpc",
                                 .protocol = "rep.sp.nanomsg.org",
                                 .bearer = ""};
    char key[WS_KEY_SIZE + 1], accept[WS_ACCEPT_SIZE + 1], out[1024], said[WS_SAID_MAX] = "";
    size_t size = ws_request_write(&request, (const uint8_t *)"the sample nonce", key, out, sizeof(out)), used = 0;
    assert_string_equal(key, "dGhlIHNhbXBsZSBub25jZQ==");
    assert_true(ws_key_is_valid(key, strlen(key)));
    assert_int_equal(size, strlen(out));
    assert_int_equal(strncmp(out, expected, strlen(expected)), 0);
    assert_string_equal(out + strlen(expected), "\r\n");
    for (size_t room = 0; room <= size; room++)
        assert_int_equal(ws_request_write(&request, (const uint8_t *)"the sample nonce", key, out, room), 0);
    request.bearer = "tarry_secret";
    assert_int_not_equal(ws_request_write(&request, (const uint8_t *)"the sample nonce", key, out, sizeof(out)), 0);
    assert_string_equal(out + strlen(expected), "Authorization: Bearer tarry_secret\r\n\r\n");
    size = ws_response(key, request.protocol, out, sizeof(out));
    assert_string_equal(out, OK_HEAD OK_ACCEPT OK_PROTOCOL "\r\n");
    ws_accept(key, accept);
    assert_int_equal(ws_response_judge(out, size, accept, request.protocol, &used, said), WS_RESPONSE_ACCEPTED);
    assert_int_equal(used, size);
    for (size_t room = 0; room <= size; room++) assert_int_equal(ws_response(key, request.protocol, out, room), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_a_brokers_answer_is_accepted),    cmocka_unit_test(a_reason_ends_where_the_answer_does),
        cmocka_unit_test(heads_without_end_are_bounded),        cmocka_unit_test(a_key_is_16_bytes_in_base64),
        cmocka_unit_test(a_protocol_is_an_element_of_the_list), cmocka_unit_test(the_two_sides_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
