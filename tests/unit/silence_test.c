/* silence_test.c: when a node of a pair counts as silent (F-10, F-13, F-27, F-31c). */
#include "silence.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MS PAIR_NS_PER_MS
#define START (1000 * MS)

static const struct pair_times times = {.failover_after_ms = 400, .solo_after_ms = 800};

static struct pair follower(void) {
    return (struct pair){.role = PAIR_FOLLOWING, .epoch = 3, .hard_state = {.floor = 3}};
}

static struct pair leader(void) {
    return (struct pair){.role = PAIR_LEADING, .epoch = 3, .counted = true, .handing = PAIR_KEEPING};
}

static struct silence_verdict look_at(struct silence *silence, const struct pair *pair, uint64_t after_ms) {
    return silence_look(silence, pair, false, UINT64_MAX, START + after_ms * MS);
}

static void a_leader_is_silent_once_two_probes_had_their_time(void **state) { /* F-31c */
    struct pair pair = follower();
    struct silence silence = {0};
    silence_heard(&silence, &pair, &times, START);
    assert_int_equal(silence_timer(&silence, &pair, false, UINT64_MAX), START + 200 * MS);
    assert_false(look_at(&silence, &pair, 199).probes);
    assert_true(look_at(&silence, &pair, 200).probes);
    assert_false(look_at(&silence, &pair, 201).probes);
    assert_int_equal(silence_timer(&silence, &pair, false, UINT64_MAX), START + 300 * MS);
    assert_true(look_at(&silence, &pair, 330)
                    .probes); /* the node sends a probe late, when a quarter of the time is left for the answer */
    assert_false(look_at(&silence, &pair, 429).tells);
    assert_true(look_at(&silence, &pair, 430).tells);
    assert_false(look_at(&silence, &pair, 729).tells); /* a reminder */
    assert_true(look_at(&silence, &pair, 730).tells);
    silence_remind_by(&silence, START + 2000 * MS);
    silence_remind_by(&silence, START + 735 * MS);
    assert_false(look_at(&silence, &pair, 734).tells);
    assert_true(look_at(&silence, &pair, 735).tells);
    silence_heard(&silence, &pair, &times, START + 740 * MS);
    assert_false(look_at(&silence, &pair, 1030).tells);
}

static void a_leader_that_was_never_asked_is_not_silent(void **state) { /* F-31c */
    struct pair pair = follower();
    struct silence silence = {0};
    silence_heard(&silence, &pair, &times, START);
    struct silence_verdict verdict = look_at(&silence, &pair, 5000);
    assert_true(verdict.probes);
    assert_false(verdict.tells);
    verdict = look_at(&silence, &pair, 5100);
    assert_true(verdict.probes);
    assert_false(verdict.tells);
    assert_true(look_at(&silence, &pair, 5200).tells);
}

static void a_probe_counts_in_the_leaders_epoch_only(void **state) {
    struct pair pair = follower();
    assert_true(silence_probe_counts(&pair, false, 3));
    assert_true(silence_probe_counts(&pair, false, 4));
    assert_false(silence_probe_counts(&pair, false, 2));
    assert_false(silence_probe_counts(&pair, false, 0)); /* a probe of a node that is not leading does not count */
    assert_false(silence_probe_counts(&pair, true, 3));
    pair.role = PAIR_FENCING; /* the node is already claiming leadership, so it needs no sign of silence */
    assert_false(silence_probe_counts(&pair, false, 3));
}

static void a_leader_whose_process_is_gone_is_not_waited_for(void **state) { /* F-10 */
    struct pair pair = follower();
    struct silence silence = {0};
    silence_heard(&silence, &pair, &times, START);
    assert_true(silence_is_gone(&silence, &pair, false, START + MS));
    /* The second call returns false, because the first one has reported that the node is gone. */
    assert_false(silence_is_gone(&silence, &pair, false, START + 2 * MS));
    assert_true(silence_is_gone(&silence, &pair, false, START + MS + SILENCE_REMIND_NS));
    for (int what = 0; what < 4; what++) {
        pair = follower();
        silence_heard(&silence, &pair, &times, START);
        silence.remind_ns = 0;
        if (what == 0) pair.epoch = 0; /* the node has followed no leader yet, and may be new */
        /* In case 1 the node is a leader, and its follower is not in sync. */
        if (what == 1) pair.role = PAIR_LEADING, pair.handing = PAIR_KEEPING;
        if (what == 2) pair.by_operator = true;
        assert_false(silence_is_gone(&silence, &pair, what == 3, START + MS));
    }
}

static void a_follower_whose_process_is_gone_is_not_waited_for(void **state) { /* F-27 */
    struct pair pair = leader();
    struct silence silence = {0};
    silence_heard(&silence, &pair, &times, START);
    assert_true(silence_is_gone(&silence, &pair, false, START + MS));
    assert_true(look_at(&silence, &pair, 1).tells);
    assert_false(look_at(&silence, &pair, 2).tells);
    assert_true(look_at(&silence, &pair, 301).tells); /* the other node gets a reminder until it answers */
    silence_heard(&silence, &pair, &times, START + 302 * MS);
    assert_false(look_at(&silence, &pair, 701).tells);
    pair.counted = false;
    pair.handing = PAIR_HANDING; /* an asynchronous leader waits for a follower only while it hands over */
    assert_true(silence_is_gone(&silence, &pair, false, START + 702 * MS));
}

static void a_follower_is_silent_after_solo_after_and_is_not_probed(void **state) { /* F-27 */
    struct pair pair = leader();
    struct silence silence = {0};
    silence_heard(&silence, &pair, &times, START);
    assert_int_equal(silence_timer(&silence, &pair, false, UINT64_MAX), START + 800 * MS);
    struct silence_verdict verdict = look_at(&silence, &pair, 799);
    assert_false(verdict.probes || verdict.tells);
    verdict = look_at(&silence, &pair, 800);
    assert_true(verdict.tells);
    assert_false(verdict.gives_up);
    silence_heard(&silence, &pair, &times, START + 2000 * MS);
    silence_is_left(&silence, START + 2001 * MS); /* the follower has announced its stop */
    assert_true(look_at(&silence, &pair, 2001).tells);
}

static void a_follower_that_is_stuck_is_given_up(void **state) { /* F-28 */
    struct pair pair = leader();
    struct silence silence = {0};
    silence_heard(&silence, &pair, &times, START);
    uint64_t stuck_ns = START + 100 * MS;
    assert_int_equal(silence_timer(&silence, &pair, false, stuck_ns), stuck_ns);
    assert_false(silence_look(&silence, &pair, false, stuck_ns, stuck_ns - 1).tells);
    struct silence_verdict verdict = silence_look(&silence, &pair, false, stuck_ns, stuck_ns);
    assert_true(verdict.tells && verdict.gives_up);
}

static void a_node_that_has_left_waits_for_nobody(void **state) {
    struct pair pair = follower();
    struct silence silence = {0};
    silence_heard(&silence, &pair, &times, START);
    struct silence_verdict verdict = silence_look(&silence, &pair, true, UINT64_MAX, START + 9000 * MS);
    assert_false(verdict.probes || verdict.tells);
    assert_int_equal(silence_timer(&silence, &pair, true, UINT64_MAX), UINT64_MAX);
}

static void a_node_that_stood_still_takes_nobody_for_silent(void **state) { /* F-13 */
    struct pair pair = follower();
    struct silence silence = {0};
    silence_heard(&silence, &pair, &times, START);
    assert_int_equal(silence_plan(&silence, START, UINT64_MAX), START + 50 * MS);
    assert_false(silence_stood_still(&silence, &pair, START + 150 * MS));
    assert_true(silence_stood_still(&silence, &pair, START + 2000 * MS));
    struct silence_verdict verdict = look_at(&silence, &pair, 2000);
    assert_false(verdict.probes || verdict.tells);
    assert_int_equal(silence_timer(&silence, &pair, false, UINT64_MAX), START + 2200 * MS);
    pair.by_operator = true; /* the node follows no leader, so it only repeats its request */
    pair.epoch = 0;
    assert_false(silence_stood_still(&silence, &pair, START + 9000 * MS));
    silence_heard(&silence, &pair, &times, START + 9000 * MS);
    assert_true(look_at(&silence, &pair, 9200).tells);
}

/* The node ran when the turn began, and was stopped before it checks the other node's silence. */
static void a_node_that_stood_still_within_a_turn_takes_nobody_for_silent(void **state) { /* F-13 */
    for (int leads = 0; leads < 2; leads++) {
        struct pair pair = leads ? leader() : follower();
        struct silence silence = {0};
        silence_heard(&silence, &pair, &times, START);
        silence_plan(&silence, START, UINT64_MAX);
        assert_false(silence_stood_still(&silence, &pair, START + 50 * MS));
        uint64_t stuck_ns = leads ? START + 900 * MS : UINT64_MAX, now_ns = START + 5000 * MS;
        struct silence_verdict verdict = silence_look(&silence, &pair, false, stuck_ns, now_ns);
        assert_true(verdict.stood_still);
        assert_false(verdict.probes || verdict.tells || verdict.gives_up);
        /* The check in this turn has already noticed the stop. */
        assert_false(silence_stood_still(&silence, &pair, now_ns));
        verdict = silence_look(&silence, &pair, false, UINT64_MAX, now_ns);
        assert_false(verdict.stood_still || verdict.probes || verdict.tells);
        assert_int_equal(silence_timer(&silence, &pair, false, UINT64_MAX), now_ns + (leads ? 800 : 200) * MS);
    }
}

static void a_strict_leader_is_told_after_the_followers_time(void **state) {
    struct pair pair = leader();
    struct silence silence = {0};
    const struct pair_times strict = {.failover_after_ms = 400, .solo_after_ms = PAIR_TIME_NEVER};
    silence_heard(&silence, &pair, &strict, START);
    assert_int_equal(silence_timer(&silence, &pair, false, UINT64_MAX), START + 400 * MS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_leader_is_silent_once_two_probes_had_their_time),
        cmocka_unit_test(a_leader_that_was_never_asked_is_not_silent),
        cmocka_unit_test(a_probe_counts_in_the_leaders_epoch_only),
        cmocka_unit_test(a_leader_whose_process_is_gone_is_not_waited_for),
        cmocka_unit_test(a_follower_whose_process_is_gone_is_not_waited_for),
        cmocka_unit_test(a_follower_is_silent_after_solo_after_and_is_not_probed),
        cmocka_unit_test(a_follower_that_is_stuck_is_given_up),
        cmocka_unit_test(a_node_that_has_left_waits_for_nobody),
        cmocka_unit_test(a_node_that_stood_still_takes_nobody_for_silent),
        cmocka_unit_test(a_node_that_stood_still_within_a_turn_takes_nobody_for_silent),
        cmocka_unit_test(a_strict_leader_is_told_after_the_followers_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
