/* digests_test.c: the two nodes of a pair compare their states at the same positions only (LOG-2, F-31). */
#include "digests.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static enum digest_verdict told(struct digests *digests, uint64_t position, uint64_t digest) {
    uint64_t own;
    return digests_told(digests, position, digest, 7, &own);
}

static enum digest_verdict applied(struct digests *digests, uint64_t position, uint64_t digest) {
    uint64_t expected;
    return digests_applied(digests, position, digest, 7, &expected);
}

static void a_leader_compares_what_it_still_knows(void **state) { /* F-31 */
    struct digests digests = {0};
    uint64_t own = 0;
    for (uint64_t i = 1; i <= DIGEST_POINTS + 1; i++) digests_add(&digests, 100 * i, i);
    assert_int_equal(told(&digests, 100, 1), DIGEST_UNKNOWN); /* forgotten */
    assert_int_equal(told(&digests, 250, 1), DIGEST_UNKNOWN);
    assert_int_equal(told(&digests, 0, 0), DIGEST_UNKNOWN);
    assert_int_equal(digests.count, 0);
    assert_int_equal(told(&digests, 300, 3), DIGEST_SAME);
    assert_int_equal(told(&digests, 300, 3), DIGEST_SAME);
    assert_int_equal(digests.count, 1); /* one position was compared */
    assert_int_equal(digests.compared.position, 300);
    assert_int_equal(digests.compared_ns, 7);
    assert_int_equal(digests_told(&digests, 400, 5, 8, &own), DIGEST_DIFFERS);
    assert_int_equal(own, 4);
    assert_int_equal(digests.compared.position, 300);
}

static void a_follower_is_told_the_newest_that_it_passes(void **state) {
    struct digests digests = {0};
    assert_int_equal(digests_below(&digests, 1000).position, 0);
    digests_add(&digests, 100, 1);
    digests_add(&digests, 300, 3);
    digests_add(&digests, 200, 2);
    assert_int_equal(digests_below(&digests, 299).position, 200);
    assert_int_equal(digests_below(&digests, 300).digest, 3);
    assert_int_equal(digests_below(&digests, 99).position, 0);
}

static void a_follower_compares_where_a_frame_ends(void **state) { /* F-31 */
    struct digests digests = {0};
    uint64_t expected = 0;
    digests_expect(&digests, (struct digest_point){300, 3}, 300);
    /* Nothing is expected, because the node has already passed that position. */
    assert_int_equal(digests.expected.position, 0);
    digests_expect(&digests, (struct digest_point){300, 3}, 100);
    /* Two positions are expected, one after the other. */
    digests_expect(&digests, (struct digest_point){500, 5}, 100);
    assert_int_equal(applied(&digests, 200, 2), DIGEST_UNKNOWN);
    assert_int_equal(applied(&digests, 300, 3), DIGEST_SAME);
    assert_int_equal(digests.count, 1);
    assert_int_equal(applied(&digests, 500, 6), DIGEST_UNKNOWN); /* no position is expected any more */
    digests_expect(&digests, (struct digest_point){600, 6}, 500);
    assert_int_equal(applied(&digests, 700, 7), DIGEST_UNKNOWN);
    assert_int_equal(digests.expected.position, 0);
    digests_expect(&digests, (struct digest_point){800, 8}, 700);
    assert_int_equal(digests_applied(&digests, 800, 9, 7, &expected), DIGEST_DIFFERS);
    assert_int_equal(expected, 8);
    assert_int_equal(digests.compared.position, 300);
}

/* After the log was cut, another frame may end at a position that the cut removed (F-31, R8). */
static void what_is_cut_off_is_not_expected_any_more(void **state) {
    struct digests digests = {0};
    digests_expect(&digests, (struct digest_point){300, 3}, 100);
    digests_cut(&digests, 300);
    assert_int_equal(digests.expected.position, 300);
    digests_cut(&digests, 200);
    assert_int_equal(applied(&digests, 300, 4), DIGEST_UNKNOWN);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_leader_compares_what_it_still_knows),
        cmocka_unit_test(a_follower_is_told_the_newest_that_it_passes),
        cmocka_unit_test(a_follower_compares_where_a_frame_ends),
        cmocka_unit_test(what_is_cut_off_is_not_expected_any_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
