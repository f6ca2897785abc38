/* push_test.c: webhooks: the signature, the file of secrets, the HTTP heads, and the allowed addresses and URLs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>

#include "check.h"
#include "push_address.h"
#include "push_request.h"
#include "push_secrets.h"

/* ---- the signature */

/* Test vectors of https://github.com/standard-webhooks/standard-webhooks. */
static void the_published_vector_is_signed(void **state) {
    static const char body[] = "{\"test\": 2432232314}";
    struct push_secret secret = {.count = 1};
    char signature[PUSH_SIGNATURE_SIZE];
    (void)state;
    static const char text[] = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    assert_true(push_key_parse(text, strlen(text), &secret.keys[0]));
    push_sign(&secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body, strlen(body), signature);
    assert_string_equal(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    secret.keys[1] = secret.keys[0];
    secret.keys[1].bytes[0] ^= 1;
    secret.count = 2;
    push_sign(&secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body, strlen(body), signature);
    assert_int_equal(strlen(signature), PUSH_SIGNATURE_SIZE - 1);
    assert_memory_equal(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE= v1,", 51);
    assert_memory_not_equal(signature + 51, "g0hM9SsE", 8);
}

#define KEY_A "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
#define KEY_B "whsec_BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB"

/* The file has as many queues as allowed with a comment after them, and then one queue too many. */
static void there_are_so_many_secrets_and_no_more(void **state) {
    enum { LINE_SIZE = 64 };
    char message[PUSH_SECRETS_MESSAGE_SIZE], *text = malloc((QUEUES_MAX + 2) * (size_t)LINE_SIZE);
    struct push_secrets secrets;
    size_t size = 0;
    (void)state;
    assert_non_null(text);
    for (unsigned i = 1; i <= QUEUES_MAX + 1; i++) {
        size += (size_t)snprintf(text + size, LINE_SIZE, "q%u " KEY_A "\n", i);
        if (i < QUEUES_MAX) continue;
        if (i == QUEUES_MAX) size += (size_t)snprintf(text + size, LINE_SIZE, "# the last one\n");
        assert_int_equal(push_secrets_parse(text, size, &secrets, message), i > QUEUES_MAX);
        assert_int_equal(secrets.count, QUEUES_MAX);
        push_secrets_deinit(&secrets);
    }
    assert_string_equal(message, "line 4098 exceeds the maximum of 4096 queues");
    free(text);
}

static void before_any_are_read_no_queue_has_a_secret(void **state) {
    const struct push_secrets none = {0};
    (void)state;
    assert_null(push_secrets_find(&none, "orders"));
}

static void secrets_are_read(void **state) {
    static const char text[] = "# comment\n\norders " KEY_A "\n a%20b\t" KEY_B "  " KEY_A " \nlast " KEY_A;
    struct push_secrets secrets;
    char message[PUSH_SECRETS_MESSAGE_SIZE] = "";
    (void)state;
    assert_int_equal(push_secrets_parse(text, strlen(text), &secrets, message), 0);
    assert_int_equal(secrets.count, 3);
    assert_int_equal(push_secrets_find(&secrets, "orders")->count, 1);
    const struct push_secret *two = push_secrets_find(&secrets, "a b");
    assert_int_equal(two->count, 2);
    assert_int_equal(two->keys[0].bytes[0], 0x04); /* the first key is KEY_B */
    assert_int_equal(two->keys[0].size, 24);
    assert_null(push_secrets_find(&secrets, "a%20b"));
    assert_non_null(push_secrets_find(&secrets, "last"));
    push_secrets_deinit(&secrets);
    assert_int_equal(push_secrets_parse("", 0, &secrets, message), 0);
    assert_int_equal(secrets.count, 0);
    push_secrets_deinit(&secrets);
}

static void secrets_that_are_none_are_refused(void **state) {
    static const char *const wrong[] = {"q",
                                        "q whsec_",
                                        "q whsec_AAAA",
                                        "q AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
                                        "q " KEY_A "!",
                                        "q " KEY_A "\r\n",
                                        "q " KEY_A " " KEY_B " " KEY_A,
                                        "q " KEY_A "\nq " KEY_B,
                                        "%2 " KEY_A,
                                        "%00 " KEY_A,
                                        "%zz " KEY_A};
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct push_secrets secrets;
        char message[PUSH_SECRETS_MESSAGE_SIZE] = "";
        print_message("# %zu\n", i);
        assert_int_equal(push_secrets_parse(wrong[i], strlen(wrong[i]), &secrets, message), 1);
        assert_memory_equal(message, "line ", 5);
        assert_null(strstr(message, "AAAA"));
        push_secrets_deinit(&secrets);
    }
}

/* ---- addresses */

static const char *problem_of(const char *text, const struct push_allowed *allowed) {
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &in.sin_addr) == 1) return push_address_problem((struct sockaddr *)&in, allowed);
    assert_int_equal(inet_pton(AF_INET6, text, &in6.sin6_addr), 1);
    return push_address_problem((struct sockaddr *)&in6, allowed);
}

static const char *const refused_addresses[] = {"0.0.0.0",
                                                "0.1.2.3",
                                                "10.0.0.0",
                                                "10.255.255.255",
                                                "100.64.0.0",
                                                "100.100.100.200",
                                                "100.127.255.255",
                                                "127.0.0.1",
                                                "127.255.255.255",
                                                "168.63.129.16",
                                                "169.254.0.0",
                                                "169.254.169.254",
                                                "169.254.170.2",
                                                "172.16.0.0",
                                                "172.31.255.255",
                                                "192.0.0.0",
                                                "192.0.0.192",
                                                "192.0.2.1",
                                                "192.88.99.1",
                                                "192.168.0.0",
                                                "192.168.255.255",
                                                "198.18.0.0",
                                                "198.19.255.255",
                                                "198.51.100.7",
                                                "203.0.113.7",
                                                "224.0.0.1",
                                                "239.255.255.255",
                                                "240.0.0.0",
                                                "255.255.255.255",
                                                "::",
                                                "::1",
                                                "::2",
                                                "::7f00:1",
                                                "::ffff:127.0.0.1",
                                                "::ffff:10.0.0.1",
                                                "::ffff:169.254.169.254",
                                                "::ffff:0:127.0.0.1",
                                                "64:ff9b::127.0.0.1",
                                                "64:ff9b::10.0.0.1",
                                                "64:ff9b::169.254.169.254",
                                                "64:ff9b:1::1",
                                                "100::1",
                                                "fc00::",
                                                "fd00:ec2::254",
                                                "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                                                "fe80::1",
                                                "febf::1",
                                                "fec0::1",
                                                "ff02::1",
                                                "ff0e::1",
                                                "2001::1",
                                                "2001:10::1",
                                                "2001:1ff:ffff::1",
                                                "2001:db8::1",
                                                "2002:7f00:1::",
                                                "2002:a00:1::",
                                                "2002::1",
                                                "3fff::1",
                                                "4000::1",
                                                "8000::1",
                                                "e000::1"};
static const char *const fine_addresses[] = {
    "1.1.1.1",           "8.8.8.8",          "9.255.255.255",   "11.0.0.0",
    "100.63.255.255",    "100.128.0.0",      "126.255.255.255", "128.0.0.0",
    "168.63.129.15",     "168.63.129.17",    "169.253.255.255", "169.255.0.0",
    "172.15.255.255",    "172.32.0.0",       "192.0.1.0",       "192.0.3.0",
    "192.88.98.1",       "192.167.255.255",  "192.169.0.0",     "198.17.255.255",
    "198.20.0.0",        "198.51.99.255",    "203.0.112.255",   "223.255.255.255",
    "::ffff:8.8.8.8",    "64:ff9b::8.8.8.8", "2001:200::1",     "2001:4860:4860::8888",
    "2001:db7::1",       "2001:db9::1",      "2003::1",         "2606:4700:4700::1111",
    "2a00:1450:4001::1", "3ffe::1",          "3fff:1000::1"};

static void addresses_that_not_everybody_reaches_are_refused(void **state) {
    struct push_allowed none = {0};
    (void)state;
    for (size_t i = 0; i < sizeof(refused_addresses) / sizeof(refused_addresses[0]); i++) {
        print_message("# %s\n", refused_addresses[i]);
        assert_non_null(problem_of(refused_addresses[i], &none));
    }
    for (size_t i = 0; i < sizeof(fine_addresses) / sizeof(fine_addresses[0]); i++) {
        print_message("# %s\n", fine_addresses[i]);
        assert_null(problem_of(fine_addresses[i], &none));
    }
    const struct sockaddr local = {.sa_family = AF_UNIX};
    assert_non_null(push_address_problem(&local, &none));
}

static void what_is_allowed_is_let_through(void **state) {
    struct push_allowed allowed;
    (void)state;
    assert_true(push_allowed_parse(" 127.0.0.1  10.1.0.0/16 fd00::/8 ::1/128", &allowed));
    assert_int_equal(allowed.count, 4);
    assert_null(problem_of("127.0.0.1", &allowed));
    assert_non_null(problem_of("127.0.0.2", &allowed));
    assert_null(problem_of("10.1.255.255", &allowed));
    assert_non_null(problem_of("10.2.0.0", &allowed));
    assert_null(problem_of("::ffff:10.1.2.3",
                           &allowed)); /* allowed like 10.1.2.3, which this is as an IPv4-mapped IPv6 address */
    assert_null(problem_of("64:ff9b::10.1.2.3", &allowed));
    assert_null(problem_of("fd12::1", &allowed));
    assert_non_null(problem_of("fc12::1", &allowed));
    assert_null(problem_of("::1", &allowed));
    assert_true(push_allowed_parse("0.0.0.0/0", &allowed));
    assert_null(problem_of("169.254.169.254", &allowed));
    assert_non_null(problem_of("::1", &allowed)); /* refused, because only the IPv4 address was allowed */
    assert_true(push_allowed_parse("", &allowed));
    assert_int_equal(allowed.count, 0);
}

static void networks_that_are_none_are_refused(void **state) {
    static const char *const wrong[] = {"10.0.0.0/33", "10.0.0.1/8", "10.0.0/8",  "10.0.0.0/", "10.0.0.0/08",
                                        "/8",          "::/129",     "fd00::1/8", "localhost", "1.2.3.4/x",
                                        "1.2.3.4/-1",  "::g",        "127.1"};
    struct push_allowed allowed;
    char many[PUSH_ALLOWED_MAX * 10 + 20] = "";
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        print_message("# %s\n", wrong[i]);
        assert_false(push_allowed_parse(wrong[i], &allowed));
    }
    for (size_t i = 0; i < PUSH_ALLOWED_MAX; i++) memcpy(many + 9 * i, "10.0.0.1 ", 9);
    assert_true(push_allowed_parse(many, &allowed));
    memcpy(many + 9 * (size_t)PUSH_ALLOWED_MAX, "10.0.0.1", 9);
    assert_false(push_allowed_parse(many, &allowed));
}

/* ---- URLs */

static void urls_are_judged_by_their_form(void **state) {
    static const char *const fine[] = {"",
                                       "http://a",
                                       "https://a.example.org/x/y?z=%20&q=~",
                                       "http://127.0.0.1:8080",
                                       "https://[::1]:443/",
                                       "https://[::ffff:1.2.3.4]/a:b@c",
                                       "http://a?b",
                                       "http://a:65535/"};
    static const char *const wrong[] = {"ftp://a/",          "//a",           "a",
                                        "http:/a",           "HTTP://a",      "https://",
                                        "http:///x",         "http://?x",     "http://:80/",
                                        "http://u@a/",       "http://u:p@a/", "http://a:0/",
                                        "http://a:65536/",   "http://a:/",    "http://a:1x/",
                                        "http://a:000080/",  "http://a/#f",   "http://a#f",
                                        "http://a b",        "http://a/\x7f", "http://a/\xc3\xa4",
                                        "http://a/\r\nX: y", "http://a/\"",   "http://a\\b",
                                        "http://[::1",       "http://[]/",    "http://[g]/",
                                        "http://a;b/"};
    char longest[PUSH_URL_SIZE_MAX + 2] = "http://a/";
    (void)state;
    for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++) assert_null(check_push_url(fine[i]));
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        print_message("# %zu\n", i);
        assert_non_null(check_push_url(wrong[i]));
    }
    assert_non_null(strstr(check_push_url("http://u:p@a/"), "must not contain a user"));
    memset(longest + 9, 'x', PUSH_URL_SIZE_MAX - 9);
    assert_null(check_push_url(longest));
    longest[PUSH_URL_SIZE_MAX] = 'x';
    assert_non_null(check_push_url(longest));
    assert_int_equal(push_url_origin("https://a:1/b?c"), strlen("https://a:1"));
    assert_int_equal(push_url_origin("http://a?c"), strlen("http://a"));
    assert_int_equal(push_url_origin("http://a"), strlen("http://a"));
}

/* ---- heads */

#define HEADS_MAX 32
static char lines[HEADS_MAX][PUSH_HEAD_LINE_SIZE];
static size_t line_count;

static bool take(void *argument, const char *line) {
    (void)argument;
    assert_true(line_count < HEADS_MAX);
    for (const char *at = line; *at != '\0'; at++) assert_true(*at >= ' ' && *at <= '~');
    snprintf(lines[line_count++], PUSH_HEAD_LINE_SIZE, "%s", line);
    return true;
}

static bool said(const char *line) {
    for (size_t i = 0; i < line_count; i++)
        if (strcmp(lines[i], line) == 0) return true;
    return false;
}

static const char *value_of(const char *name) {
    size_t size = strlen(name);
    for (size_t i = 0; i < line_count; i++)
        if (strncmp(lines[i], name, size) == 0 && lines[i][size] == ':') return lines[i] + size + 2;
    return NULL;
}

static void make(const struct push_job *job, Tarry__Attribute **attributes, size_t count, const char *payload,
                 size_t size) {
    static const uint8_t cluster[8] = {1, 2, 3, 4, 5, 6, 7, 0xff};
    struct push_secret secret = {.keys = {{.size = 24}}, .count = 1};
    Tarry__Content content = TARRY__CONTENT__INIT;
    content.attributes = attributes;
    content.n_attributes = count;
    content.payload = (ProtobufCBinaryData){.data = (uint8_t *)payload, .len = size};
    const struct push_words words = {
        .job = job, .content = &content, .secret = &secret, .cluster = cluster, .timestamp_s = 1700000000};
    line_count = 0;
    assert_true(push_heads(&words, take, NULL));
}

static const struct push_job job = {.id = 7,
                                    .attempt = 2,
                                    .deliveries = 3,
                                    .due_ms = 1700000000123,
                                    .late_ms = 4,
                                    .queue = "a b/\xc3\xa4",
                                    .key = (const uint8_t *)"k\r\n\"%",
                                    .key_size = 5};

static void heads_say_what_a_task_is(void **state) {
    Tarry__Attribute type = TARRY__ATTRIBUTE__INIT, evil = TARRY__ATTRIBUTE__INIT, kind = TARRY__ATTRIBUTE__INIT;
    Tarry__Attribute empty = TARRY__ATTRIBUTE__INIT, *all[] = {&type, &evil, &kind, &empty};
    (void)state;
    type.name = "content-type", type.value = "image/png";
    evil.name = "x: y\r\nz", evil.value = "a\r\nSet-Cookie: b";
    kind.name = "ce-type", kind.value = "org.example.closed";
    empty.name = "note;", empty.value = "";
    make(&job, all, 4, "x", 1);
    assert_true(said("Content-Type: image/png"));
    assert_true(said("webhook-id: tarry-01020304050607ff-7"));
    assert_true(said("ce-id: tarry-01020304050607ff-7"));
    assert_true(said("webhook-timestamp: 1700000000"));
    assert_true(said("ce-source: /tarry/01020304050607ff/queues/a%20b%2F%C3%A4"));
    assert_true(said("ce-type: org.example.closed"));
    assert_true(said("ce-subject: k%0D%0A%22%25"));
    assert_true(said("ce-tarryqueue: a%20b/%C3%A4"));
    assert_true(said("ce-tarryattempt: 2"));
    assert_true(said("ce-tarrydeliveries: 3"));
    assert_true(said("ce-tarrylatenessms: 4"));
    assert_true(said("tarry-attribute-x%3A%20y%0D%0Az: a%0D%0ASet-Cookie:%20b"));
    assert_true(said("tarry-attribute-note%3B;")); /* libcurl's syntax for a header with an empty value */
    assert_memory_equal(value_of("webhook-signature"), "v1,", 3);
}

static void a_payload_says_its_type(void **state) {
    Tarry__Attribute type = TARRY__ATTRIBUTE__INIT, *all[] = {&type};
    (void)state;
    make(&job, NULL, 0, "{\"a\":[1]}", 9);
    assert_string_equal(value_of("Content-Type"), "application/json");
    make(&job, NULL, 0, "17", 2);
    assert_string_equal(value_of("Content-Type"), "text/plain; charset=utf-8");
    make(&job, NULL, 0, "", 0);
    assert_string_equal(value_of("Content-Type"), "text/plain; charset=utf-8");
    make(&job, NULL, 0, "\xff\x00", 2);
    assert_string_equal(value_of("Content-Type"), "application/octet-stream");
    type.name = "content-type", type.value = "a\r\nb";
    make(&job, all, 1, "x", 1);
    assert_string_equal(value_of("Content-Type"), "text/plain; charset=utf-8");
}

/* The longest name of a task's attribute fits. */
static void the_longest_attribute_fits(void **state) {
    char name[ATTRIBUTE_NAME_SIZE_MAX + 1] = "", value[ATTRIBUTE_VALUE_SIZE_MAX + 1] = "";
    Tarry__Attribute longest = TARRY__ATTRIBUTE__INIT, *all[] = {&longest};
    (void)state;
    memset(name, '\x01', sizeof(name) - 1);
    memset(value, '\x01', sizeof(value) - 1);
    longest.name = name, longest.value = value;
    make(&job, all, 1, "x", 1);
    assert_int_equal(strlen(lines[line_count - 1]),
                     strlen("tarry-attribute-: ") + 3 * (sizeof(name) + sizeof(value) - 2));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_vector_is_signed),
        cmocka_unit_test(before_any_are_read_no_queue_has_a_secret),
        cmocka_unit_test(secrets_are_read),
        cmocka_unit_test(there_are_so_many_secrets_and_no_more),
        cmocka_unit_test(secrets_that_are_none_are_refused),
        cmocka_unit_test(addresses_that_not_everybody_reaches_are_refused),
        cmocka_unit_test(what_is_allowed_is_let_through),
        cmocka_unit_test(networks_that_are_none_are_refused),
        cmocka_unit_test(urls_are_judged_by_their_form),
        cmocka_unit_test(heads_say_what_a_task_is),
        cmocka_unit_test(a_payload_says_its_type),
        cmocka_unit_test(the_longest_attribute_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
