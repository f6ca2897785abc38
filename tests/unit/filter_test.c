/* filter_test.c: filters of groups: which attributes they match, and where in the text an error is reported. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "filter.h"
#include "tarry_limits.h"

static Tarry__Attribute tag = TARRY__ATTRIBUTE__INIT, region = TARRY__ATTRIBUTE__INIT, odd = TARRY__ATTRIBUTE__INIT;
static Tarry__Attribute *attributes[] = {&tag, &region, &odd};

static int setup(void **state) {
    (void)state;
    tag.name = "tag", tag.value = "paid";
    region.name = "region", region.value = "cn-north-1";
    odd.name = "in", odd.value = "it's";
    return 0;
}

static bool matches(const char *filter) {
    size_t column = 0;
    assert_null(filter_check(filter, &column));
    return filter_matches(filter, attributes, 3);
}

static void tests_of_one_attribute(void **state) {
    (void)state;
    assert_true(matches("*"));
    assert_true(matches(" * "));
    assert_true(matches("tag = 'paid'"));
    assert_true(matches("tag='paid'"));
    assert_false(matches("tag = 'pai'"));
    assert_false(matches("tag = 'paid '"));
    assert_false(matches("tag != 'paid'"));
    assert_true(matches("tag != 'open'"));
    assert_true(matches("tag in ('open', 'paid')"));
    assert_false(matches("tag in ('open', 'pa')"));
    assert_true(matches("region prefix 'cn-'"));
    assert_true(matches("region prefix ''"));
    assert_false(matches("region prefix 'cn-north-1-b'"));
    assert_true(matches("exists tag"));
    assert_false(matches("exists tags"));
    assert_true(matches("\"in\" = 'it''s'"));
    assert_true(matches("\"in\" prefix 'it'''"));
    assert_false(matches("\"in\" = 'it'"));
}

/* A comparison with an attribute that the task does not have is false. Only `!=` is true. */
static void what_is_missing_matches_only_unequal(void **state) {
    (void)state;
    assert_false(matches("none = ''"));
    assert_false(matches("none prefix ''"));
    assert_false(matches("none in ('', 'x')"));
    assert_true(matches("none != 'x'"));
    assert_true(matches("not exists none"));
}

static void and_binds_before_or(void **state) {
    (void)state;
    assert_true(matches("tag = 'paid' or tag = 'x' and region = 'x'"));
    assert_false(matches("(tag = 'paid' or tag = 'x') and region = 'x'"));
    assert_true(matches("not tag = 'x' and not (region = 'x' or exists none)"));
    assert_true(matches("not not exists tag"));
    assert_true(matches("tag = 'x' or region = 'x' or exists tag"));
}

static void wrong_at(const char *filter, size_t column, const char *problem) {
    size_t at = 0;
    const char *found = filter_check(filter, &at);
    assert_non_null(found);
    assert_string_equal(found, problem);
    assert_int_equal(at, column);
    assert_false(filter_matches(filter, attributes, 3)); /* an invalid filter matches nothing */
}

static void an_error_names_its_place(void **state) {
    (void)state;
    wrong_at("", 1, "expected the name of an attribute");
    wrong_at("tag", 4, "expected =, !=, in or prefix after the name");
    wrong_at("tag =", 6, "expected a text in single quotes");
    wrong_at("tag = paid", 7, "expected a text in single quotes");
    wrong_at("tag = 'paid", 7, "the single quote is not closed");
    wrong_at("tag = 'paid' or", 16, "expected the name of an attribute");
    wrong_at("tag = 'paid' tag = 'x'", 14, "expected the end, and or or");
    wrong_at("tag in 'x'", 8, "expected ( after in");
    wrong_at("tag in ('x'", 12, "expected , or ) in the list");
    wrong_at("(tag = 'x'", 11, "expected ), and or or");
    wrong_at("\"tag = 'x'", 1, "the double quote is not closed");
    wrong_at("\"\" = 'x'", 1, "the name is empty");
    wrong_at("and = 'x'", 1, "expected the name of an attribute (write a name that is a word in double quotes)");
    wrong_at("* or exists tag", 3, "expected the end, and or or");
}

/* Nesting is limited, so that the stack of the reader is bounded (CALM-1). */
static void nesting_is_bounded(void **state) {
    (void)state;
    char filter[FILTER_SIZE_MAX + 1] = "";
    for (unsigned i = 0; i < FILTER_DEPTH_MAX - 1; i++) strcat(filter, "(");
    strcat(filter, "exists tag");
    for (unsigned i = 0; i < FILTER_DEPTH_MAX - 1; i++) strcat(filter, ")");
    assert_true(matches(filter));
    memset(filter, '(', FILTER_SIZE_MAX);
    wrong_at(filter, FILTER_DEPTH_MAX + 1, "more than 16 nested parentheses and nots (FILTER_DEPTH_MAX)");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(tests_of_one_attribute, setup),
        cmocka_unit_test_setup(what_is_missing_matches_only_unequal, setup),
        cmocka_unit_test_setup(and_binds_before_or, setup),
        cmocka_unit_test_setup(an_error_names_its_place, setup),
        cmocka_unit_test_setup(nesting_is_bounded, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
