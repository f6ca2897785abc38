/* web_noise.c: wrong HTTP (web.h). */
#include <string.h>

#include "web.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define ONE_OF(random, array) ((array)[random_below(random, COUNT(array))])

static const char hex_digits[] = "0123456789abcdefABCDEF";

static void put_many(struct random *random, const char *text, size_t most, struct out *out) {
    for (size_t i = random_below(random, most + 1); i > 0; i--) out_text(out, text);
}

static void put_percent(struct random *random, struct out *out) {
    out_byte(out, '%');
    for (int i = 0; i < 2; i++) out_byte(out, (uint8_t)hex_digits[random_below(random, COUNT(hex_digits) - 1)]);
}

static void put_path(struct random *random, struct out *out) {
    static const char *const paths[] = {"/",
                                        "/rpc",
                                        "/lane/0",
                                        "/metrics",
                                        "/healthz",
                                        "/nowhere",
                                        "*",
                                        "",
                                        "/lane/",
                                        "/lane/0/00112233445566778899aabbccddeeff",
                                        "/lane/0//",
                                        "/rpc/",
                                        "http://127.0.0.1/rpc",
                                        "//rpc",
                                        "/./rpc",
                                        "/lane/../rpc",
                                        "/lane/4294967296",
                                        "/lane/-1",
                                        "http://",
                                        "ws://x:99999/rpc",
                                        "/rpc?a=b",
                                        "/rpc#part",
                                        "/\xc3\xa4",
                                        "rpc"};
    static const char *const pieces[] = {"%", "%4", "%zz",  "%00",  "/..", "/.",  "//",
                                         "?", "#",  "\x01", "\xff", "a",   "%2f", "%2e%2e"};
    out_text(out, ONE_OF(random, paths));
    for (size_t i = random_below(random, 4); i > 0; i--) {
        if (random_below(random, 2) == 0)
            out_text(out, ONE_OF(random, pieces));
        else
            put_percent(random, out);
    }
    if (random_below(random, 20) == 0) put_many(random, "/aaaaaaa", 1200, out);
    if (random_below(random, 40) == 0) put_many(random, "%41", 3000, out);
}

static void put_uri(struct random *random, bool plain, struct out *out) {
    put_path(random, out);
    /* The suffix "plain" prevents a URI that ends in an escape. After such a URI, nng 1.5.2 writes past the end of its
     * buffer (nng#1594). */
    if (plain) out_text(out, "plain");
}

static void put_odd_value(struct random *random, struct out *out) {
    static const char *const values[] = {"",
                                         " ",
                                         "websocket",
                                         "Upgrade",
                                         "13",
                                         "12",
                                         "-1",
                                         "0",
                                         "18446744073709551616",
                                         "x",
                                         "chunked",
                                         "chunked, gzip",
                                         "keep-alive, Upgrade",
                                         "close",
                                         "http://evil.example",
                                         "null",
                                         "127.0.0.1",
                                         "rep.sp.nanomsg.org",
                                         "push.sp.nanomsg.org, rep.sp.nanomsg.org",
                                         "Bearer 00",
                                         "Basic QTpC",
                                         "permessage-deflate",
                                         "\xff\xfe",
                                         "\"\\\"",
                                         "4",
                                         "2",
                                         "99999999"};
    out_text(out, ONE_OF(random, values));
    if (random_below(random, 30) == 0) put_many(random, "value, ", 2000, out);
}

static void put_odd_header(struct random *random, struct out *out) {
    static const char *const names[] = {"Host",
                                        "Upgrade",
                                        "Connection",
                                        "Sec-WebSocket-Key",
                                        "Sec-WebSocket-Version",
                                        "Origin",
                                        "Sec-WebSocket-Protocol",
                                        "Sec-WebSocket-Extensions",
                                        "Authorization",
                                        "Content-Length",
                                        "Transfer-Encoding",
                                        "Expect",
                                        "Cookie",
                                        "X",
                                        "",
                                        " folded",
                                        "Content-Type",
                                        "TE",
                                        "Range"};
    static const char *const between[] = {": ", ":", " : ", "", ":\t", "=", ": \r\n "};
    static const char *const ends[] = {"\r\n", "\r\n", "\r\n", "\r\n", "\n", "\r", "\r\r\n"};
    out_text(out, ONE_OF(random, names));
    out_text(out, random_below(random, 4) == 0 ? ONE_OF(random, between) : ": ");
    put_odd_value(random, out);
    out_text(out, ONE_OF(random, ends));
}

/* Writes the headers of an upgrade. Sometimes one of them is missing, doubled or wrong. */
static void put_upgrade_headers(struct random *random, struct out *out) {
    static const char *const headers[] = {"Host: 127.0.0.1",           "Upgrade: websocket",
                                          "Connection: Upgrade",       "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
                                          "Sec-WebSocket-Version: 13", "Sec-WebSocket-Protocol: rep.sp.nanomsg.org"};
    for (size_t i = 0; i < COUNT(headers); i++) {
        uint64_t dice = random_below(random, 12);
        if (dice == 0) put_odd_header(random, out);
        if (dice == 1) continue;
        for (size_t times = dice == 2 ? 2 : 1; times > 0; times--) {
            out_text(out, headers[i]);
            out_text(out, "\r\n");
        }
    }
}

static void put_body(struct random *random, struct out *out) {
    static const char *const bodies[] = {"",
                                         "5\r\nhello\r\n0\r\n\r\n",
                                         "ffffffffffffffff\r\n",
                                         "-1\r\nx",
                                         "abc",
                                         "\x82\x85",
                                         "0\r\n\r\nGET /healthz HTTP/1.1\r\n\r\n",
                                         "zz\r\n"};
    out_text(out, ONE_OF(random, bodies));
    for (size_t i = random_below(random, 60); i > 0; i--) out_byte(out, (uint8_t)random_u64(random));
}

static void put_request(struct random *random, bool plain_uri, struct out *out) {
    static const char *const methods[] = {"GET",     "GET",     "GET", "POST", "HEAD",  "PUT",
                                          "OPTIONS", "CONNECT", "get", "",     "G\x01T"};
    static const char *const versions[] = {"HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0",
                                           "HTTP/9.9", "HTTP/",    "",         "http/1.1"};
    out_text(out, ONE_OF(random, methods));
    out_byte(out, ' ');
    put_uri(random, plain_uri, out);
    out_byte(out, ' ');
    out_text(out, ONE_OF(random, versions));
    out_text(out, "\r\n");
    if (random_below(random, 2) == 0) put_upgrade_headers(random, out);
    for (size_t i = random_below(random, 5); i > 0; i--) put_odd_header(random, out);
    if (random_below(random, 60) == 0) put_many(random, "x: y\r\n", 3000, out);
    if (random_below(random, 10) != 0) out_text(out, "\r\n");
    if (random_below(random, 3) == 0) put_body(random, out);
}

void web_noise(struct random *random, bool plain_uri, struct out *out) {
    size_t start = out->size;
    for (size_t i = random_below(random, 6) == 0 ? 1 + random_below(random, 6) : 1; i > 0; i--)
        put_request(random, plain_uri, out);
    if (random_below(random, 8) == 0) /* in one case of eight, the request is truncated or has a changed bit */
        out->size = start + random_below(random, out->size - start + 1);
    else if (random_below(random, 8) == 0)
        out->data[start + random_below(random, out->size - start)] ^= (uint8_t)(1u << random_below(random, 8));
}
