/* freshness_test.c: which queries a follower may answer, and the age of its data that it can prove (TRUE-1). */
#include "freshness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tarry_limits.h"

#define MS UINT64_C(1000000)
#define NOW (5000 * MS)

static struct freshness_wish at_least(uint64_t position) {
    return (struct freshness_wish){.at_least = position, .until_ns = NOW + 100 * MS};
}

static struct freshness_wish no_older(uint64_t ms) {
    return (struct freshness_wish){.staleness_ns = ms * MS, .until_ns = NOW + 2000 * MS};
}

static void a_position_is_answered_once_it_is_applied_and_never_before(void **state) {
    struct freshness none = {0};
    struct freshness_wish wish = at_least(1000);
    assert_int_equal(freshness_judge(&none, &wish, true, 999, NOW), FRESH_WAIT);
    assert_int_equal(freshness_awaits(&none, &wish, 999), 1000);
    assert_int_equal(freshness_timer(&wish), NOW + 100 * MS);
    assert_int_equal(freshness_judge(&none, &wish, true, 999, NOW + 100 * MS - 1), FRESH_WAIT);
    assert_int_equal(freshness_judge(&none, &wish, true, 999, NOW + 100 * MS), FRESH_BEHIND);
    assert_int_equal(freshness_judge(&none, &wish, true, 1000, NOW + 100 * MS), FRESH_ENOUGH);
    assert_int_equal(freshness_judge(&none, &wish, false, 1000, NOW),
                     FRESH_ENOUGH); /* a leader always has current data */
}

static void an_age_counts_from_when_the_leader_was_asked(void **state) { /* TRUE-1 */
    struct freshness known = {.epoch = 3};
    freshness_heard(&known, 3, NOW - 600 * MS, 1000, 1000); /* the leader's reply was in a socket for 600 ms */
    assert_int_equal(freshness_age_ns(&known, NOW), 600 * MS);
    struct freshness_wish wish = no_older(600);
    assert_int_equal(freshness_judge(&known, &wish, true, 1000, NOW), FRESH_ENOUGH);
    wish = no_older(599);
    assert_int_equal(freshness_judge(&known, &wish, true, 1000, NOW), FRESH_ASK);
    wish = no_older(600);
    /* At this time the proof is too old. */
    assert_int_equal(freshness_judge(&known, &wish, true, 1000, NOW + MS), FRESH_ASK);
}

static void a_word_proves_nothing_before_it_is_applied(void **state) {
    struct freshness known = {.epoch = 3};
    freshness_heard(&known, 3, NOW, 1000, 999);
    assert_int_equal(freshness_age_ns(&known, NOW), UINT64_MAX);
    struct freshness_wish wish = no_older(500);
    assert_int_equal(freshness_judge(&known, &wish, true, 999, NOW + MS),
                     FRESH_WAIT); /* the last reply is recent enough, so the follower need not ask the leader again */
    assert_int_equal(freshness_awaits(&known, &wish, 999), 1000);
    freshness_applied(&known, 1000);
    assert_int_equal(freshness_judge(&known, &wish, true, 1000, NOW + MS), FRESH_ENOUGH);
}

/* The follower is always one reply behind. A position that it has reached still proves the age of its data. */
static void words_that_come_faster_than_they_are_applied_do_not_put_the_proof_off(void **state) {
    struct freshness known = {.epoch = 3};
    for (uint64_t i = 1; i <= 100; i++) freshness_heard(&known, 3, NOW + i * MS, 1000 * i, 1);
    freshness_applied(&known, 1000);
    assert_int_equal(freshness_age_ns(&known, NOW + 100 * MS), 99 * MS);
    freshness_applied(&known, 100 * 1000);
    assert_int_equal(freshness_age_ns(&known, NOW + 100 * MS), 0);
    /* The reply is late, and proves less than the follower already knows. */
    freshness_heard(&known, 3, NOW + 50 * MS, 50 * 1000, 100 * 1000);
    assert_int_equal(freshness_age_ns(&known, NOW + 100 * MS), 0);
}

/* The follower was stopped, and the leader's reply is still in a socket. */
static void what_a_follower_stood_still_for_does_not_make_its_answer_too_old(void **state) { /* F-13 */
    struct freshness known = {.epoch = 3};
    struct freshness_wish wish = no_older(500), behind = at_least(2000);
    const uint64_t word = FRESH_WORD_MS * MS, late = NOW + 9000 * MS;
    freshness_heard(&known, 3, NOW - 900 * MS, 1000, 1000);
    assert_int_equal(freshness_judge(&known, &wish, true, 1000, NOW), FRESH_ASK);
    assert_int_equal(freshness_judge(&known, &behind, true, 1000, NOW), FRESH_WAIT);
    freshness_overslept(&wish, late);
    freshness_overslept(&behind, late);
    assert_int_equal(freshness_judge(&known, &wish, true, 1000, late), FRESH_ASK);
    assert_int_equal(freshness_judge(&known, &wish, true, 1000, late + word), FRESH_TOO_OLD);
    assert_int_equal(freshness_judge(&known, &behind, true, 1000, late + word - 1), FRESH_WAIT);
    assert_int_equal(freshness_judge(&known, &behind, true, 1000, late + word), FRESH_BEHIND);
    wish = no_older(500);
    freshness_overslept(&wish, NOW);
    assert_int_equal(wish.until_ns,
                     NOW + 2000 * MS); /* the follower is waiting for no reply, and has time enough to ask */
    assert_int_equal(wish.word_ns, 0);
}

static void a_leader_that_says_nothing_is_not_waited_for_long(void **state) {
    struct freshness known = {.epoch = 3};
    freshness_heard(&known, 3, NOW - 900 * MS, 1000, 1000);
    struct freshness_wish wish = no_older(500);
    const uint64_t word = FRESH_WORD_MS * MS;
    assert_int_equal(freshness_judge(&known, &wish, true, 1000, NOW), FRESH_ASK);
    assert_int_equal(freshness_timer(&wish), NOW + word);
    assert_int_equal(freshness_judge(&known, &wish, true, 1000, NOW + word - 1), FRESH_ASK);
    assert_int_equal(freshness_judge(&known, &wish, true, 1000, NOW + word), FRESH_TOO_OLD);
    wish = no_older(500);
    wish.until_ns = NOW; /* the query leaves no time to wait */
    assert_int_equal(freshness_judge(&known, &wish, true, 1000, NOW), FRESH_TOO_OLD);
}

static void nobody_to_follow_proves_nothing(void **state) {
    struct freshness known = {.epoch = 3};
    freshness_heard(&known, 3, NOW, 1000, 1000);
    struct freshness_wish wish = no_older(500);
    assert_int_equal(freshness_judge(&known, &wish, false, 1000, NOW), FRESH_WAIT);
    assert_int_equal(freshness_judge(&known, &wish, false, 1000, NOW + FRESH_WORD_MS * MS), FRESH_TOO_OLD);
}

static void what_another_epochs_leader_said_counts_no_more(void **state) {
    struct freshness known = {.epoch = 3};
    freshness_heard(&known, 3, NOW, 1000, 1000);
    freshness_heard(&known, 4, NOW + MS, 2000, 1000);
    assert_int_equal(freshness_age_ns(&known, NOW + MS), UINT64_MAX);
    freshness_heard(&known, 4, NOW + 2 * MS, 0,
                    1000); /* a reply without a position says nothing about the age of the data */
    assert_int_equal(freshness_age_ns(&known, NOW + 2 * MS), UINT64_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_position_is_answered_once_it_is_applied_and_never_before),
        cmocka_unit_test(an_age_counts_from_when_the_leader_was_asked),
        cmocka_unit_test(a_word_proves_nothing_before_it_is_applied),
        cmocka_unit_test(words_that_come_faster_than_they_are_applied_do_not_put_the_proof_off),
        cmocka_unit_test(what_a_follower_stood_still_for_does_not_make_its_answer_too_old),
        cmocka_unit_test(a_leader_that_says_nothing_is_not_waited_for_long),
        cmocka_unit_test(nobody_to_follow_proves_nothing),
        cmocka_unit_test(what_another_epochs_leader_said_counts_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
