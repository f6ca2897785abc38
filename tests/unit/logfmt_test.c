/* logfmt_test.c: quoting of values in the broker's log, and the limit of log lines that unknown clients can cause
 * (broker/shell/process/logfmt.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "logfmt.h"

/* Returns the value as it is written to the log. The buffer has old contents before the call. */
static const char *quote(const char *text) {
    static char out[LOGFMT_VALUE_SIZE];
    memset(out, 'x', sizeof out);
    assert_ptr_equal(logfmt_quote(text, out), out);
    assert_non_null(memchr(out, '\0', sizeof out));
    return out;
}

static void what_needs_no_quotes_has_none(void **state) {
    assert_string_equal(quote("plain"), "plain");
    assert_string_equal(quote("ws://127.0.0.1:7272/a~"), "ws://127.0.0.1:7272/a~");
}

static void what_would_end_a_value_is_quoted(void **state) {
    assert_string_equal(quote(""), "\"\"");
    assert_string_equal(quote("two words"), "\"two words\"");
    assert_string_equal(quote("a=b"), "\"a=b\"");
    assert_string_equal(quote("a\"b\\c"), "\"a\\\"b\\\\c\"");
    assert_string_equal(quote("line\nnext\x7f\x1b"), "\"line\\x0anext\\x7f\\x1b\"");
}

static void what_is_too_long_is_cut_whole(void **state) {
    char text[2 * LOGFMT_VALUE_SIZE];
    memset(text, 'y', sizeof text);
    for (size_t size = LOGFMT_VALUE_SIZE - 1; size <= LOGFMT_VALUE_SIZE + 1; size++) {
        text[size] = '\0';
        const char *quoted = quote(text);
        if (size < LOGFMT_VALUE_SIZE)
            assert_string_equal(quoted, text);
        else
            assert_int_equal(quoted[strlen(quoted) - 1], '"');
        text[size] = 'y';
    }
    memset(text, '\n', sizeof text);
    text[sizeof text - 1] = '\0';
    const char *quoted = quote(text);
    assert_string_equal(quoted + strlen(quoted) - 5, "\\x0a\"");
}

/* The limit counts lines per second of the clock. A try is repeated if a new second began meanwhile. */
static void so_many_lines_a_second_and_no_more(void **state) {
    struct logfmt_limit limit;
    unsigned allowed;
    uint64_t second;
    do {
        limit = (struct logfmt_limit){0};
        allowed = logfmt_allowed(&limit);
        second = limit.second;
        for (int i = 1; i < 3 * LOGFMT_BURST; i++) allowed += logfmt_allowed(&limit);
    } while (limit.second != second);
    assert_int_equal(allowed, LOGFMT_BURST);
    limit.second--; /* another second */
    assert_true(logfmt_allowed(&limit));
}

/* The same sentence is logged again after 1 s, and then after longer and longer times, up to 60 s. A sentence that is
 * new, or that was absent for a minute, begins at 1 s again. */
static void what_goes_on_is_said_more_and_more_rarely(void **state) {
    struct logfmt_repeat repeat = {0};
    const uint64_t expected_s[] = {100, 101, 103, 107, 115, 131, 163, 223, 283};
    uint64_t count, lines = 0;
    for (uint64_t now_s = 100; now_s < 300; now_s++) {
        bool is_due = logfmt_repeat_due(&repeat, "refused", now_s, &count);
        assert_int_equal(count, now_s - 99);
        if (!is_due) continue;
        assert_int_equal(now_s, expected_s[lines]);
        lines++;
    }
    assert_int_equal(lines, sizeof expected_s / sizeof *expected_s);
    assert_true(logfmt_repeat_due(&repeat, "refused for another reason", 300, &count));
    assert_int_equal(count, 1);
    assert_false(logfmt_repeat_due(&repeat, "refused for another reason", 300, &count));
    assert_true(logfmt_repeat_due(&repeat, "refused for another reason", 500, &count));
    assert_int_equal(count, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_needs_no_quotes_has_none),
        cmocka_unit_test(what_would_end_a_value_is_quoted),
        cmocka_unit_test(what_is_too_long_is_cut_whole),
        cmocka_unit_test(so_many_lines_a_second_and_no_more),
        cmocka_unit_test(what_goes_on_is_said_more_and_more_rarely),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
