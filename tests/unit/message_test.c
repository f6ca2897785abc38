/* message_test.c: the bytes of SP messages, and the check of a web page's origin (broker/net). */
#include "message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "origin.h"

static struct message *received(const void *bytes, size_t size) {
    struct message *message = message_new(size);
    assert_non_null(message);
    memcpy(message->bytes, bytes, size);
    return message;
}

static void a_backtrace_ends_with_the_requests_id(void **state) { /* F-20 */
    (void)state;
    const uint8_t bytes[] = {0, 0, 0, 7, 0x80, 0, 0, 1, 'b', 'o', 'd', 'y'};
    struct message *request = received(bytes, sizeof(bytes)), *reply = message_new(3);
    assert_true(message_take_head(request));
    assert_int_equal(request->head_size, 8);
    assert_memory_equal(message_head(request), bytes, 8);
    assert_int_equal(message_size(request), 4);
    assert_memory_equal(message_data(request), "body", 4);
    memcpy(reply->bytes, "yes", 3);
    message_put_head(reply, message_head(request), request->head_size);
    /* Compares the bytes that would be sent. */
    assert_memory_equal(reply->bytes - reply->head_size, "\0\0\0\7\x80\0\0\1yes", 11);
    message_free(request);
    message_free(reply);
    request = received(bytes + 4, 4); /* a request may be empty */
    assert_true(message_take_head(request));
    assert_int_equal(message_size(request), 0);
    message_free(request);
}

static void what_has_no_id_is_no_request(void **state) {
    (void)state;
    uint8_t long_way[MESSAGE_HEAD_MAX + 8] = {0};
    for (size_t size = 0; size < 12; size++) {
        struct message *request = received("\x7f\0\0\1\0\0\0\2\x80\0\0", size);
        assert_false(message_take_head(request));
        message_free(request);
    }
    for (size_t devices = 0; devices < sizeof(long_way) / 4; devices++) {
        memset(long_way, 0, sizeof(long_way));
        long_way[devices * 4] = 0x80;
        struct message *request = received(long_way, sizeof(long_way));
        assert_int_equal(message_take_head(request), (devices + 1) * 4 <= MESSAGE_HEAD_MAX);
        message_free(request);
    }
}

static void a_message_grows_and_keeps_what_it_has(void **state) {
    (void)state;
    struct message *message = received("\x80\0\0\1word", 8);
    assert_true(message_take_head(message));
    assert_true(message_grow(&message, 100000));
    assert_int_equal(message->capacity, 100000);
    assert_int_equal(message->size, 8);
    assert_memory_equal(message_data(message), "word", 4);
    assert_memory_equal(message_head(message), "\x80\0\0\1", 4);
    message_free(message);
}

static void an_origin_is_allowed_by_name_only(void **state) { /* F-23 */
    (void)state;
    const char *const allowed = "http://localhost:3000 null";
    assert_true(origin_is_allowed("http://localhost:3000", allowed));
    assert_true(origin_is_allowed("HTTP://LOCALHOST:3000", allowed));
    assert_true(origin_is_allowed("null", allowed));
    const char *const strange[] = {"",
                                   "http://localhost:300",
                                   "http://localhost:30000",
                                   "localhost:3000",
                                   "nul",
                                   "http://localhost:3000 null",
                                   " null",
                                   "http://localhost:3000.evil.example"};
    for (size_t i = 0; i < sizeof(strange) / sizeof(strange[0]); i++)
        assert_false(origin_is_allowed(strange[i], allowed));
    assert_false(origin_is_allowed("null", ""));
    assert_false(origin_is_allowed("", ""));
}

static void the_brokers_own_page_is_where_host_leads(void **state) { /* F-23 */
    (void)state;
    assert_true(origin_is_own("http://127.0.0.1:7272", false, "127.0.0.1:7272", false, ""));
    assert_true(origin_is_own("HTTPS://Broker.example", true, "broker.example", false, ""));
    assert_false(origin_is_own("http://127.0.0.1:7272", true, "127.0.0.1:7272", true, ""));
    assert_false(origin_is_own("https://127.0.0.1:7272", false, "127.0.0.1:7272", true, ""));
    assert_false(origin_is_own("http://127.0.0.1:7273", false, "127.0.0.1:7272", true, ""));
    assert_false(origin_is_own("http://127.0.0.1:7272.evil.example", false, "127.0.0.1:7272", true, ""));
    assert_false(origin_is_own("http://127.0.0.1", false, "127.0.0.1:7272", true, ""));
    assert_false(origin_is_own("null", false, "null", true, ""));
    assert_false(origin_is_own("http://", false, "", true, ""));
    /* An attacker's host name can resolve to this machine's address. A web page from that host is refused, even in a
     * network where clients need no token. */
    assert_false(origin_is_own("http://evil.example:7272", false, "evil.example:7272", false, ""));
    assert_true(origin_is_own("http://evil.example:7272", false, "evil.example:7272", true, ""));
    assert_true(origin_is_own("http://b.example", false, "b.example", false, "https://b.example:1"));
}

static void origins_of_the_configuration(void **state) {
    (void)state;
    const char *const good[] = {"https://example.org", "http://localhost:8080", "http://[::1]:80", "null", "app+x://a"};
    const char *const bad[] = {"",           "*",           "example.org", "https://", "://a",
                               "https://a/", "https://a b", "https://a?b", "ht tp://a"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) assert_true(origin_is_valid(good[i]));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) assert_false(origin_is_valid(bad[i]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_backtrace_ends_with_the_requests_id),    cmocka_unit_test(what_has_no_id_is_no_request),
        cmocka_unit_test(a_message_grows_and_keeps_what_it_has),    cmocka_unit_test(an_origin_is_allowed_by_name_only),
        cmocka_unit_test(the_brokers_own_page_is_where_host_leads), cmocka_unit_test(origins_of_the_configuration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
