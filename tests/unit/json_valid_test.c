/* json_valid_test.c: compares json_is_valid with jansson, and checks that json_out writes valid JSON. */
#include "json_valid.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../random.h"
#include "json_in.h"
#include "json_out.h"
#include "message.h"

#define CHANGED_TEXTS 20000

static const char *const good[] = {
    "0",
    "-0",
    "12.5e+3",
    "1E9",
    "[]",
    "{}",
    " [ 1 , 2 ] ",
    "\"\"",
    "\"\\u00e9\\ud83d\\ude00\\n\\/\"",
    "{\"a\":{\"b\":[true,false,null]},\"c\":\"d\"}",
    "\"\x7f\"",
    "{\"\":0}",
    "[[[[]]]]",
    "1e400",
};

static const char *const bad[] = {
    "",
    " ",
    "01",
    "-",
    "1.",
    ".5",
    "1e",
    "+1",
    "[1,]",
    "[,1]",
    "{\"a\"}",
    "{\"a\":}",
    "{a:1}",
    "{\"a\":1,}",
    "[1 2]",
    "\"",
    "\"\\\"",
    "\"\\x\"",
    "\"\\u12\"",
    "\"\\ud800\"",
    "\"\\udc00\\ud800\"",
    "\"\\ud800\\u0041\"",
    "\"a\nb\"",
    "tru",
    "nulll",
    "[1]]",
    "[",
    "{",
    "1 2",
    "\"\x80\"",
    "\"\xed\xa0\x80\"",
    "'a'",
    "[1}",
};

static void texts_are_judged_as_rfc_8259_says(void **state) {
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        if (!json_is_valid(good[i], strlen(good[i]))) fail_msg("refused: %s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (json_is_valid(bad[i], strlen(bad[i]))) fail_msg("taken: %s", bad[i]);
}

static void levels_are_bounded(void **state) {
    char text[2 * JSON_DEPTH_MAX + 2];
    memset(text, '[', sizeof text / 2);
    memset(text + sizeof text / 2, ']', sizeof text / 2);
    assert_true(json_is_valid(text + 1, sizeof text - 2));
    assert_false(json_is_valid(text, sizeof text));
}

/* jansson refuses some valid texts, and stops there. */
static bool is_jansson_stricter(const json_error_t *error) {
    enum json_error_code code = json_error_code(error);
    return code == json_error_numeric_overflow || code == json_error_duplicate_key ||
           code == json_error_null_byte_in_key;
}

static void jansson_agrees_about_changed_texts(void **state) {
    static const char seed[] = "{\"a\":[1,-2.5e3,\"x\\u00e9\\n\"],\"b\":{\"c\":true,\"d\":null},\"e\":\"\xc3\xa9\"}";
    static const char bytes[] = "{}[],:\"\\/0123456789.eE+-truefalsn \n\t\x80\xc3\xa9"
                                "ud8";
    struct random random = {7};
    for (int i = 0; i < CHANGED_TEXTS; i++) {
        char text[sizeof seed];
        memcpy(text, seed, sizeof seed);
        size_t size = sizeof seed - 1;
        for (uint64_t change = 0; change <= random_u64(&random) % 3; change++) {
            size_t at = random_u64(&random) % size;
            text[at] = bytes[random_u64(&random) % (sizeof bytes - 1)];
            if (random_u64(&random) % 4 == 0) size = at + 1;
        }
        json_error_t error;
        json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
        bool is_read = root != NULL, is_open = !is_read && is_jansson_stricter(&error);
        json_decref(root);
        if (!is_open && json_is_valid(text, size) != is_read)
            fail_msg("jansson says %d: %.*s (%s)", is_read, (int)size, text, error.text);
    }
}

/* However a text is split, its weight is the same. */
static void a_text_in_parts_weighs_the_same(void **state) {
    static const char text[] = "[{\"a\\\"b,{\":[1,2,\"\\\\\"]},\"\\u0022\",[[[]]],{}]";
    for (size_t part = 1; part < sizeof text; part++) {
        struct json_scan scan;
        json_scan_begin(&scan);
        for (size_t at = 0; at < sizeof text - 1; at += part)
            json_scan(&scan, text + at, part < sizeof text - 1 - at ? part : sizeof text - 1 - at);
        assert_int_equal(scan.weight, json_weigh(text, sizeof text - 1));
        assert_int_equal(scan.depth_max, 4);
        assert_int_equal(scan.depth, 0);
        assert_false(scan.in_string);
    }
}

static void any_bytes_are_written_as_a_string(void **state) {
    struct random random = {11};
    for (int i = 0; i < 3000; i++) {
        unsigned char bytes[24];
        size_t size = random_u64(&random) % sizeof bytes;
        for (size_t k = 0; k < size; k++) bytes[k] = (unsigned char)(random_u64(&random) % (i % 2 ? 256 : 128));
        struct json_out out = {0};
        out_string(&out, bytes, size);
        struct message *message = out_take(&out);
        assert_non_null(message);
        assert_true(json_is_valid((const char *)message->bytes, message->size));
        if (i % 2 == 0) { /* ASCII is returned unchanged */
            json_t *root =
                json_loadb((const char *)message->bytes, message->size, JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);
            assert_non_null(root);
            assert_int_equal(json_string_length(root), size);
            assert_memory_equal(json_string_value(root), bytes, size);
            json_decref(root);
        }
        message_free(message);
        out_base64(&out, bytes, size);
        message = out_take(&out);
        assert_int_equal(message->size, 2 + (size + 2) / 3 * 4);
        message_free(message);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_judged_as_rfc_8259_says),  cmocka_unit_test(levels_are_bounded),
        cmocka_unit_test(jansson_agrees_about_changed_texts), cmocka_unit_test(a_text_in_parts_weighs_the_same),
        cmocka_unit_test(any_bytes_are_written_as_a_string),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
