/* coordinator_record_test.c: the pair's record as text: a written record can be read back, and any other text is
 * refused. */
#include "record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char whole[] = "tarry-pair 1\n"
                            "cluster 00112233445566778899aabbccddeeff\n"
                            "epoch 7\n"
                            "leader 1\n"
                            "in-sync 0 1\n"
                            "run 18446744073709551615\n"
                            "start 1048576\n"
                            "high-water 2097152\n"
                            "node 0 8899aabbccddeeff0011223344556677 ws://10.0.0.1:7272\n"
                            "node 1 0123456789abcdef0123456789abcdef ws://b.example:7272\n";

static int read_text(const char *text, struct coordinator_record *out, char *message) {
    return record_read(text, strlen(text), out, message);
}

static void test_reads_what_it_says(void **state) {
    (void)state;
    struct coordinator_record record;
    char message[COORDINATOR_MESSAGE_SIZE], again[COORDINATOR_VALUE_SIZE_MAX + 1];
    assert_int_equal(read_text(whole, &record, message), 0);
    assert_int_equal(record.cluster[15], 0xff);
    assert_int_equal(record.pair.epoch, 7);
    assert_int_equal(record.pair.leader, 1);
    assert_int_equal(record.pair.in_sync, 3);
    assert_true(record.pair.run == UINT64_MAX);
    assert_int_equal(record.pair.start, 1048576);
    assert_int_equal(record.pair.high_water, 2097152);
    assert_true(record.members[0].is_known && record.members[1].is_known);
    assert_int_equal(record.members[1].id[0], 0x01);
    assert_string_equal(record.members[1].url, "ws://b.example:7272");
    assert_int_equal(record_write(&record, again), strlen(whole));
    assert_string_equal(again, whole);
}

static void test_the_largest_fits(void **state) {
    (void)state;
    struct coordinator_record record, back;
    char message[COORDINATOR_MESSAGE_SIZE], text[COORDINATOR_VALUE_SIZE_MAX + 1];
    memset(&record, 0, sizeof record);
    record.pair = (struct pair_record){.epoch = UINT32_MAX,
                                       .leader = 1,
                                       .in_sync = 3,
                                       .run = UINT64_MAX,
                                       .start = UINT64_MAX,
                                       .high_water = UINT64_MAX};
    for (size_t i = 0; i < RECORD_NODES; i++) {
        record.members[i].is_known = true;
        memset(record.members[i].url, 'u', RECORD_URL_SIZE_MAX);
    }
    size_t size = record_write(&record, text);
    assert_in_range(size, 1, COORDINATOR_VALUE_SIZE_MAX);
    assert_int_equal(record_read(text, size, &back, message), 0);
    assert_memory_equal(&back, &record, sizeof back);
}

/* Reads the record after replacing one line by `other`; an empty `other` removes the line. */
static int read_changed(const char *line, const char *other, char *message) {
    char text[2 * COORDINATOR_VALUE_SIZE_MAX];
    struct coordinator_record record;
    const char *at = strstr(whole, line);
    assert_non_null(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - whole), whole, other, at + strlen(line));
    return read_text(text, &record, message);
}

static void test_nothing_else_passes(void **state) {
    (void)state;
    static const char *const wrong[][2] = {
        {"epoch 7\n", ""},
        {"epoch 7\n", "epoch 0\n"},
        {"epoch 7\n", "epoch 07\n"},
        {"epoch 7\n", "epoch +7\n"},
        {"epoch 7\n", "epoch 4294967296\n"},
        {"epoch 7\n", "epoch 7\nepoch 7\n"},
        {"epoch 7\n", "epoch  7\n"},
        {"epoch 7\n", "epoch 7 \n"},
        {"epoch 7\n", "epoch 7\r\n"},
        {"leader 1\n", "leader 2\n"},
        {"leader 1\nin-sync 0 1\n", "leader 1\nin-sync 0\n"},
        {"in-sync 0 1\n", "in-sync 1 0\n"},
        {"in-sync 0 1\n", "in-sync\n"},
        {"run 18446744073709551615\n", "run 18446744073709551616\n"},
        {"run 18446744073709551615\n", "run 99999999999999999999\n"},
        {"cluster 0011", "cluster 001"},
        {"cluster 0011", "cluster AA11"},
        {"cluster 0011", "cluster 00 11"},
        {"node 0 8899aabbccddeeff0011223344556677 ws://10.0.0.1:7272\n", ""},
        {"ws://10.0.0.1:7272\n", "\n"},
        {" ws://10.0.0.1:7272\n", "\n"},
        {"ws://10.0.0.1:7272\n", "ws://10.0.0.1:7272 and more\n"},
        {"ws://10.0.0.1:7272\n", "ws://\x01\n"},
        {"node 1 0123456789abcdef0123456789abcdef ws://b.example:7272\n", "node 1 0123 ws://b.example:7272\n"},
        {"b.example:7272\n", "b.example:7272"},
        {"b.example:7272\n", "b.example:7272\nnode 2\n"},
        {"tarry-pair 1\n", "tarry-pear 1\n"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char message[COORDINATOR_MESSAGE_SIZE] = "";
        if (read_changed(wrong[i][0], wrong[i][1], message) == 0) fail_msg("'%s' passed", wrong[i][1]);
        assert_non_null(strstr(message, "is not a valid record of a pair"));
    }
}

static void test_every_prefix_and_every_flipped_bit_is_refused(void **state) {
    (void)state;
    struct coordinator_record record;
    char message[COORDINATOR_MESSAGE_SIZE], text[sizeof whole], again[COORDINATOR_VALUE_SIZE_MAX + 1];
    const char *last = strstr(whole, "node 1");
    for (size_t size = 0; size < strlen(whole); size++)
        if (size != (size_t)(last - whole)) assert_int_equal(record_read(whole, size, &record, message), 1);
    for (size_t bit = 0; bit < 8 * strlen(whole); bit++) {
        memcpy(text, whole, sizeof whole);
        text[bit / 8] ^= (char)(1 << bit % 8);
        if (record_read(text, strlen(whole), &record, message) != 0) continue;
        /* Another number or URL is valid text: only the coordinator protects the content of the record. */
        record_write(&record, again);
        assert_memory_equal(again, text, strlen(whole));
    }
}

static void test_one_that_is_not_joined_is_not_in_sync(void **state) {
    (void)state;
    struct coordinator_record record;
    char message[COORDINATOR_MESSAGE_SIZE];
    const char alone[] = "tarry-pair 1\ncluster 00112233445566778899aabbccddeeff\nepoch 1\nleader 0\nin-sync 0\nrun 5\n"
                         "start 0\nhigh-water 0\nnode 0 8899aabbccddeeff0011223344556677 ws://10.0.0.1:7272\n";
    assert_int_equal(read_text(alone, &record, message), 0);
    assert_false(record.members[1].is_known);
    record.pair.in_sync = 3;
    assert_string_equal(record_check(&record), "a node is in sync, but its line is missing");
}

static void test_a_later_version_is_refused_in_words(void **state) {
    (void)state;
    struct coordinator_record record;
    char message[COORDINATOR_MESSAGE_SIZE];
    assert_int_equal(read_text("tarry-pair 2\nsomething new\n", &record, message), 1);
    assert_non_null(strstr(message, "format version 2"));
    assert_non_null(strstr(message, "upgrade both nodes"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_what_it_says),
        cmocka_unit_test(test_the_largest_fits),
        cmocka_unit_test(test_nothing_else_passes),
        cmocka_unit_test(test_every_prefix_and_every_flipped_bit_is_refused),
        cmocka_unit_test(test_one_that_is_not_joined_is_not_in_sync),
        cmocka_unit_test(test_a_later_version_is_refused_in_words),
    };
    return cmocka_run_group_tests_name("coordinator_record", tests, NULL, NULL);
}
