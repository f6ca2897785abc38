/* client_place_test.c: parsing of a broker's address, and whether others can read data on the way to it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "place.h"

static void an_address_is_what_it_says(void **state) {
    static const char *const bad[] = {"unix://",   "unix:///",    "unix://relative", "unix:///a b",  "unix:/a",
                                      "ws://[]:1", "ws://[::1]x", "ws://a:",         "ws://a:99999", "ws://u@h",
                                      "ws:///a",   "http://a",    "ws://r\303\266m"};
    struct place place = {.kind = PLACE_WS, .url = "as it was"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(place_parse(bad[i], strlen(bad[i]), &place), -1);
    assert_string_equal(place.url, "as it was");
    char path[200] = "unix:///";
    memset(path + 8, 'p', 120);
    assert_int_equal(place_parse(path, strlen("unix://") + PLACE_SOCKET_MAX + 1, &place), -1);
    assert_int_equal(place_parse(path, strlen("unix://") + PLACE_SOCKET_MAX, &place), 0);
    assert_int_equal(place.kind, PLACE_UNIX);
    assert_int_equal(strlen(place.host), PLACE_SOCKET_MAX);
    /* The client must accept this path, because tarryd does. */
    assert_int_equal(place_parse("unix:///r\303\266m", 12, &place), 0);
    assert_string_equal(place.host, "/r\303\266m");
    assert_int_equal(place_parse("ws://[::1]", 10, &place), 0);
    assert_string_equal(place.host, "::1");
    assert_string_equal(place.url, "ws://[::1]:7272");
    assert_string_equal(place_authority(&place), "[::1]:7272");
}

/* A token is not sent to addresses for which is_in_the_clear is true. */
static void only_what_leaves_the_host_unencrypted_is_in_the_clear(void **state) {
    struct place place;
    static const struct {
        const char *url;
        bool is_in_the_clear; /* true: data goes over a network unencrypted */
    } ways[] = {{"ws://10.0.0.1", true}, {"ws://127.0.0.1", false},    {"ws://127.1.2.3", false},
                {"ws://[::1]", false},   {"ws://[2001:db8::1]", true}, {"ws://localhost", false},
                {"ws://broker", true},   {"wss://10.0.0.1", false},    {"wss://broker", false},
                {"unix:///run/a", false}};
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        assert_int_equal(place_parse(ways[i].url, strlen(ways[i].url), &place), 0);
        assert_int_equal(place_is_in_the_clear(&place), ways[i].is_in_the_clear);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_is_what_it_says),
        cmocka_unit_test(only_what_leaves_the_host_unencrypted_is_in_the_clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
