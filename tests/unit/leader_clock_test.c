/* leader_clock_test.c: a follower's estimate of its leader's clock (TIME-1). The stored estimate must never be ahead of
 * the leader's clock. That holds for slow replies, after a change of the leader, and if the BOOTTIMEs of the hosts
 * drift apart. It is written rarely. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../random.h"
#include "leader_clock.h"

#define SECOND UINT64_C(1000000000)
#define STEADY0 (UINT64_C(20000) * 86400 * SECOND)
#define SLACK_NS (LEADER_CLOCK_SLACK_MS * NS_PER_MS)
#define BEHIND_MAX_NS (LEADER_CLOCK_BEHIND_MAX_MS * NS_PER_MS)

static struct instant at(uint64_t steady_ns) {
    return (struct instant){.steady_ns = steady_ns, .wall_ns = steady_ns + SECOND};
}

static void the_first_answer_is_noted_below_what_it_says(void **unused) {
    (void)unused;
    struct leader_clock clock = {0};
    assert_true(leader_clock_hear(&clock, at(STEADY0 + SECOND), SECOND));
    assert_int_equal(clock.noted_steady_ns, STEADY0 - SLACK_NS);
    assert_false(leader_clock_hear(&clock, at(STEADY0 + 2 * SECOND), 2 * SECOND));
}

/* Seed 2126066 of the pair simulation: the leader's machine was down, its wall clock was slow, and the stored estimate
 * came from its former run. */
static void a_leader_whose_clock_fell_behind_is_noted_at_once(void **unused) { /* TIME-1 */
    (void)unused;
    struct leader_clock clock = {0};
    leader_clock_hear(&clock, at(STEADY0 + SECOND), SECOND);
    assert_true(leader_clock_hear(&clock, at(STEADY0 + SECOND), 2 * SECOND));
    assert_int_equal(clock.noted_steady_ns, STEADY0 - SECOND - SLACK_NS);
}

static void one_late_answer_does_not_hold_the_note_back_for_ever(void **unused) {
    (void)unused;
    struct leader_clock clock = {0};
    leader_clock_hear(&clock, at(STEADY0 + SECOND), SECOND);
    /* This reply was in flight for 5 s. */
    assert_true(leader_clock_hear(&clock, at(STEADY0 + 2 * SECOND), 7 * SECOND));
    assert_true(leader_clock_hear(&clock, at(STEADY0 + 8 * SECOND), 8 * SECOND));
    assert_int_equal(clock.noted_steady_ns, STEADY0 - SLACK_NS);
}

static void what_cannot_be_told_is_noted_as_unknown(void **unused) {
    (void)unused;
    struct leader_clock clock = {0};
    assert_true(leader_clock_hear(&clock, at(SECOND), 2 * SECOND));
    assert_int_equal(clock.noted_steady_ns, 0);
    assert_int_equal(leader_clock_origin(&clock, at(0)).boot_steady_ns, 0);
}

/* Simulates a month of replies that are in flight for up to 3 ms. This host's BOOTTIME is up to 50 ppm too fast or too
 * slow. */
static void drift_and_jitter_never_put_the_note_ahead_and_write_it_seldom(void **unused) { /* TIME-1 */
    (void)unused;
    struct random random = {26};
    for (int64_t ppm = -50; ppm <= 50; ppm += 25) {
        struct leader_clock clock = {0};
        unsigned written = 0;
        uint64_t passed_ns = 0;
        for (unsigned i = 0; i < 100000; i++) {
            uint64_t under_way_ns = random_below(&random, 3 * NS_PER_MS);
            passed_ns += 26 * SECOND;
            uint64_t boot_ns = SECOND + passed_ns + (uint64_t)((int64_t)(passed_ns / 1000000) * ppm);
            written += leader_clock_hear(&clock, at(STEADY0 + passed_ns - under_way_ns), boot_ns);
            assert_true(clock.noted_steady_ns + boot_ns <= STEADY0 + passed_ns);
            assert_true(clock.noted_steady_ns + boot_ns + BEHIND_MAX_NS + 3 * NS_PER_MS >= STEADY0 + passed_ns);
        }
        uint64_t drift_ns = passed_ns / 1000000 * (uint64_t)(ppm < 0 ? -ppm : ppm);
        assert_in_range(written, 1, 3 + drift_ns / (SLACK_NS - 3 * NS_PER_MS));
    }
}

static void the_own_clock_begins_no_earlier_than_the_log_ends(void **unused) { /* TIME-2 */
    (void)unused;
    struct leader_clock clock = {0};
    leader_clock_hear(&clock, at(STEADY0 + SECOND), SECOND);
    struct clock_origin origin = leader_clock_origin(&clock, at(STEADY0));
    assert_int_equal(origin.last.steady_ns, STEADY0 + SECOND);
    assert_int_equal(origin.boot_steady_ns, STEADY0);
    origin = leader_clock_origin(&clock, at(STEADY0 + 3 * SECOND));
    assert_int_equal(origin.last.steady_ns, STEADY0 + 3 * SECOND);
    assert_int_equal(origin.last.wall_ns, STEADY0 + 4 * SECOND);
    assert_int_equal(origin.boot_steady_ns, STEADY0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_answer_is_noted_below_what_it_says),
        cmocka_unit_test(a_leader_whose_clock_fell_behind_is_noted_at_once),
        cmocka_unit_test(one_late_answer_does_not_hold_the_note_back_for_ever),
        cmocka_unit_test(what_cannot_be_told_is_noted_as_unknown),
        cmocka_unit_test(drift_and_jitter_never_put_the_note_ahead_and_write_it_seldom),
        cmocka_unit_test(the_own_clock_begins_no_earlier_than_the_log_ends),
    };
    return cmocka_run_group_tests_name("leader_clock", tests, NULL, NULL);
}
