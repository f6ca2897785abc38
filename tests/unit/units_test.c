/* units_test.c: durations and sizes as people write them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../random.h"
#include "units.h"

static void durations_are_read(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t ms;
    } good[] = {
        {"0", 0},
        {"0s", 0},
        {"250ms", 250},
        {"30s", 30000},
        {"30m", 1800000},
        {"30min", 1800000},
        {"1h30min15s", 5415000},
        {"1h30m", 5400000},
        {"2d", 172800000},
        {"1d2h3m4s5ms", 93784005},
        {"90m", 5400000},
        {"0007s", 7000},
        {"18446744073709551615ms", UINT64_MAX},
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        uint64_t ms = 42;
        assert_true(duration_parse(good[i].text, &ms));
        assert_int_equal(ms, good[i].ms);
    }
}

static void what_is_no_duration_is_refused_and_changes_nothing(void **state) {
    (void)state;
    static const char *const bad[] = {
        "",
        "30",
        "-1s",
        "+1s",
        " 1s",
        "1s ",
        "1.5h",
        "1 h",
        "s",
        "ms",
        "30m1h",
        "1s1s",
        "1hour",
        "1min1m",
        "1mins",
        "1H",
        "1h 30m",
        "1e3s",
        "0x1s",
        "00",
        "1d2",
        "18446744073709551616ms",
        "213503982335d",
        "18446744073709551615ms1s",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        uint64_t ms = 42;
        assert_false(duration_parse(bad[i], &ms));
        assert_int_equal(ms, 42);
    }
}

static void rates_are_read_and_written(void **state) {
    static const char *const wrong[] = {"",     "5",   "5/", "/s", "5/0s", "5/fortnight", "-5/s", "4294967296/s",
                                        "5 /s", "5/s "};
    uint32_t count = 7;
    uint64_t period_ms = 7;
    char text[UNITS_TEXT_SIZE];
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_false(rate_parse(wrong[i], &count, &period_ms));
    assert_int_equal(count, 7);
    assert_int_equal(period_ms, 7);
    assert_true(rate_parse("600/min", &count, &period_ms));
    assert_int_equal(count, 600);
    assert_int_equal(period_ms, 60000);
    assert_string_equal(rate_format(count, period_ms, text), "600/min");
    assert_true(rate_parse("5/10s", &count, &period_ms));
    assert_string_equal(rate_format(count, period_ms, text), "5/10s");
    assert_string_equal(rate_format(1000, 0, text), "1000/s");
    assert_string_equal(rate_format(UINT32_MAX, UINT64_MAX, text) + 11,
                        duration_format(UINT64_MAX, (char[UNITS_TEXT_SIZE]){0}));
}

static void sizes_are_read_and_the_rest_is_refused(void **state) {
    (void)state;
    uint64_t bytes = 0;
    assert_true(size_parse("0", &bytes) && bytes == 0);
    assert_true(size_parse("4096", &bytes) && bytes == 4096);
    assert_true(size_parse("17B", &bytes) && bytes == 17);
    assert_true(size_parse("64KiB", &bytes) && bytes == 65536);
    assert_true(size_parse("64MiB", &bytes) && bytes == 64u << 20);
    assert_true(size_parse("3GiB", &bytes) && bytes == 3ull << 30);
    assert_true(size_parse("1TiB", &bytes) && bytes == 1ull << 40);
    bytes = 42;
    static const char *const bad[] = {"",   "MiB",    "64MB",   "64M",   "64 MiB",
                                      "-1", "1.5GiB", "64MiBx", "64mib", "16777216TiB"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) assert_false(size_parse(bad[i], &bytes));
    assert_int_equal(bytes, 42);
}

static void what_is_written_is_read_back(void **state) {
    (void)state;
    struct random random = {random_seed(2)};
    for (int i = 0; i < 100000; i++) {
        uint64_t value = random_magnitude(&random, 63), back = 0;
        char text[UNITS_TEXT_SIZE];
        assert_true(duration_parse(duration_format(value, text), &back));
        assert_int_equal(back, value);
        assert_true(size_parse(size_format(value, text), &back));
        assert_int_equal(back, value);
    }
    char text[UNITS_TEXT_SIZE];
    assert_string_equal(duration_format(0, text), "0ms");
    assert_string_equal(duration_format(5400000, text), "1h30m");
    assert_string_equal(duration_format(UINT64_MAX, text), "213503982334d14h25m51s615ms");
    assert_string_equal(size_format(0, text), "0B");
    assert_string_equal(size_format(64u << 20, text), "64MiB");
    assert_string_equal(size_format(1500, text), "1500B");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations_are_read),
        cmocka_unit_test(what_is_no_duration_is_refused_and_changes_nothing),
        cmocka_unit_test(rates_are_read_and_written),
        cmocka_unit_test(sizes_are_read_and_the_rest_is_refused),
        cmocka_unit_test(what_is_written_is_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
