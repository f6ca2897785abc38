/* alone_test.c: when a leader began to serve alone, and why (F-27). */
#include "alone.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SINCE 1000u

/* Returns a leader that releases replies only after its follower has confirmed them. */
static struct pair leader(void) {
    struct pair pair = {.self = 0, .other = 1, .role = PAIR_LEADING, .counted = true, .committed = 4096};
    pair.record.in_sync = 3;
    return pair;
}

static void why_it_is_alone(Tarry__AlonePut__Why because, Tarry__AlonePut__Why expected) {
    struct pair pair = leader();
    struct alone alone = {0};
    assert_false(alone_look(&alone, &pair, 1));
    if (because != TARRY__ALONE_PUT__WHY__NOT_SAID) alone_because(&alone, because);
    pair.change = PAIR_REMOVE; /* the follower still counts, because its removal becomes certain only later (R4) */
    assert_false(alone_look(&alone, &pair, 2));
    pair.change = PAIR_NO_CHANGE;
    pair.counted = false;
    pair.record.in_sync = 1;
    assert_true(alone_look(&alone, &pair, SINCE));
    assert_true(alone.is);
    assert_int_equal(alone.since_ns, SINCE);
    assert_int_equal(alone.position, 4096);
    assert_int_equal(alone.why, expected);
    assert_false(alone_look(&alone, &pair, SINCE + 1));
}

static void a_leader_without_its_follower_is_alone(void **state) {
    why_it_is_alone(TARRY__ALONE_PUT__WHY__NOT_SAID, TARRY__ALONE_PUT__WHY__SILENT);
    why_it_is_alone(TARRY__ALONE_PUT__WHY__LEFT, TARRY__ALONE_PUT__WHY__LEFT);
    why_it_is_alone(TARRY__ALONE_PUT__WHY__STUCK, TARRY__ALONE_PUT__WHY__STUCK);
    why_it_is_alone(TARRY__ALONE_PUT__WHY__TOLD, TARRY__ALONE_PUT__WHY__TOLD);
}

static void it_is_over_once_the_follower_has_everything(void **state) {
    struct pair pair = leader();
    struct alone alone = {0};
    pair.counted = false;
    pair.record.in_sync = 1;
    assert_true(alone_look(&alone, &pair, SINCE));
    pair.counted = true; /* the leader waits for the follower, which still lacks frames */
    assert_false(alone_look(&alone, &pair, SINCE + 1));
    assert_true(alone.is);
    pair.record.in_sync = 3;
    assert_true(alone_look(&alone, &pair, SINCE + 2));
    assert_false(alone.is);
    assert_int_equal(alone.since_ns, SINCE); /* start of the first period, which has ended */
    pair.counted = false;
    pair.record.in_sync = 1;
    assert_true(alone_look(&alone, &pair, SINCE + 3));
    assert_int_equal(alone.why,
                     TARRY__ALONE_PUT__WHY__SILENT); /* the second period has its own reason, not that of the first */
}

static void a_reign_that_begins_alone_was_promoted(void **state) {
    struct pair pair = {.self = 0, .other = 1, .role = PAIR_CANDIDATE};
    struct alone alone = {0};
    assert_false(alone_look(&alone, &pair, 1));
    pair.role = PAIR_LEADING;
    pair.record.in_sync = 1;
    assert_true(alone_look(&alone, &pair, SINCE));
    assert_int_equal(alone.why, TARRY__ALONE_PUT__WHY__PROMOTED);
    pair.role = PAIR_ENDED;
    assert_true(alone_look(&alone, &pair, SINCE + 1));
    assert_false(alone.is);
}

static void a_cause_that_came_to_nothing_is_forgotten(void **state) {
    struct pair pair = leader();
    struct alone alone = {0};
    alone_because(&alone, TARRY__ALONE_PUT__WHY__LEFT); /* the follower has sent a request again, so it did not leave */
    assert_false(alone_look(&alone, &pair, 1));
    pair.counted = false;
    pair.record.in_sync = 1;
    assert_true(alone_look(&alone, &pair, SINCE));
    assert_int_equal(alone.why, TARRY__ALONE_PUT__WHY__SILENT);
}

static void an_operator_s_word_makes_a_follower_lead_alone(void **state) {
    struct pair pair = {.self = 0, .other = 1, .role = PAIR_FOLLOWING};
    struct alone alone = {0};
    alone_because(&alone, TARRY__ALONE_PUT__WHY__TOLD);
    pair.role = PAIR_FENCING;
    assert_false(alone_look(&alone, &pair, 1));
    pair.role = PAIR_LEADING;
    assert_true(alone_look(&alone, &pair, SINCE));
    assert_int_equal(alone.why, TARRY__ALONE_PUT__WHY__TOLD);
    struct alone refused = {0};
    pair.role = PAIR_FOLLOWING;
    alone_because(&refused, TARRY__ALONE_PUT__WHY__TOLD);
    assert_false(alone_look(&refused, &pair, 1)); /* the node has refused the follower */
    pair.role = PAIR_LEADING;
    assert_true(alone_look(&refused, &pair, SINCE));
    assert_int_equal(refused.why, TARRY__ALONE_PUT__WHY__PROMOTED);
}

static void who_promises_one_disk_only_is_never_alone(void **state) {
    struct pair pair = leader();
    struct alone alone = {0};
    pair.is_async = true;
    pair.counted = false;
    assert_false(alone_look(&alone, &pair, SINCE));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_leader_without_its_follower_is_alone),
        cmocka_unit_test(it_is_over_once_the_follower_has_everything),
        cmocka_unit_test(a_reign_that_begins_alone_was_promoted),
        cmocka_unit_test(a_cause_that_came_to_nothing_is_forgotten),
        cmocka_unit_test(an_operator_s_word_makes_a_follower_lead_alone),
        cmocka_unit_test(who_promises_one_disk_only_is_never_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
