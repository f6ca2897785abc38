/* journal_test.c: conversion of a log line to an entry of systemd's journal: each pair becomes a field, and no line can
 * forge further fields. */
#include "logfmt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static char out[JOURNAL_ENTRY_SIZE];

static void expect(const char *line, const char *fields) {
    static char wanted[JOURNAL_ENTRY_SIZE];
    size_t size = journal_entry(line, strlen(line), 6, out);
    int wanted_size =
        snprintf(wanted, sizeof(wanted), "MESSAGE=%s\nPRIORITY=6\nSYSLOG_IDENTIFIER=tarryd\n%s", line, fields);
    assert_int_equal(size, wanted_size);
    assert_memory_equal(out, wanted, size);
}

static void each_pair_is_a_field(void **state) {
    (void)state;
    expect("event=ready url=ws://127.0.0.1:7272 epoch=4",
           "TARRY_EVENT=ready\nTARRY_URL=ws://127.0.0.1:7272\nTARRY_EPOCH=4\n");
    expect("event=x reason=\"two words, a \\\"quote\\\" and \\\\\" n=1",
           "TARRY_EVENT=x\nTARRY_REASON=two words, a \"quote\" and \\\nTARRY_N=1\n");
    expect("event=x empty= last=\"never closed", "TARRY_EVENT=x\nTARRY_EMPTY=\nTARRY_LAST=never closed\n");
}

static void what_is_no_pair_is_in_the_message_alone(void **state) {
    (void)state;
    expect("event=x loose words =nameless bad-name=1 ok=1", "TARRY_EVENT=x\nTARRY_OK=1\n");
    expect("", "");
}

static void no_line_makes_a_field_of_its_own(void **state) {
    (void)state;
    const char line[] = "event=x reason=\"a\nPRIORITY=0\" y=b\nMESSAGE=c";
    size_t size = journal_entry(line, sizeof(line) - 1, 6, out);
    assert_true(size > 0);
    unsigned lines = 0;
    for (size_t i = 0; i < size; i++) lines += out[i] == '\n';
    /* There are six fields: message, priority, identifier, event, reason and y. The text MESSAGE=c belongs to the value
     * of y. */
    assert_int_equal(lines, 6);
}

static void too_much_is_refused_and_not_cut(void **state) {
    (void)state;
    static char line[JOURNAL_ENTRY_SIZE];
    memset(line, 'a', sizeof(line));
    memcpy(line, "event=", 6);
    assert_int_equal(journal_entry(line, sizeof(line), 6, out), 0);
    assert_true(journal_entry(line, 2000, 6, out) >
                0); /* accepted: the entry has the whole line twice, as the message and in the fields */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_pair_is_a_field),
        cmocka_unit_test(what_is_no_pair_is_in_the_message_alone),
        cmocka_unit_test(no_line_makes_a_field_of_its_own),
        cmocka_unit_test(too_much_is_refused_and_not_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
