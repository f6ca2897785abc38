/* clock_test.c: TIME-2 for the pure part of the clock (F-32 … F-35): jumps, restarts and suspends never make its time
 * decrease. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "../random.h"
#include "clock.h"

#define SECOND UINT64_C(1000000000)
#define HOUR (3600 * SECOND)
#define DAY (24 * HOUR)
#define REAL0 (20000 * DAY)
#define BOOT0 (5 * HOUR)

static struct clock_state fresh(void) {
    struct clock_state state;
    clock_begin(&state, (struct clock_origin){0}, (struct sample){REAL0, BOOT0});
    return state;
}

/* Returns the clock's time when BOOTTIME is `passed_ns` after the start and the wall clock is wrong by `off_ns`. */
static struct instant at(struct clock_state *state, uint64_t passed_ns, int64_t off_ns) {
    return clock_advance(state, (struct sample){REAL0 + passed_ns + (uint64_t)off_ns, BOOT0 + passed_ns});
}

static void both_follow_the_wall_when_all_is_well(void **unused) {
    (void)unused;
    struct clock_state state = fresh();
    for (uint64_t passed = 0; passed < 3 * DAY; passed += 17 * SECOND) {
        struct instant now = at(&state, passed, 0);
        assert_int_equal(now.steady_ns, REAL0 + passed);
        assert_int_equal(now.wall_ns, REAL0 + passed);
        assert_false(state.held);
    }
}

static void a_small_step_forward_moves_the_wall_alone(void **unused) { /* F-32, TIME-2 */
    (void)unused;
    struct clock_state state = fresh();
    struct instant now = at(&state, SECOND, INT64_C(1800) * (int64_t)SECOND);
    assert_int_equal(now.steady_ns, REAL0 + SECOND); /* steady time is not ahead, so no delay fires early */
    assert_int_equal(now.wall_ns, REAL0 + SECOND + 1800 * SECOND);
    assert_false(state.held);
}

static void a_step_back_lets_the_wall_stand_still_until_the_clock_is_there_again(void **unused) { /* F-32, TIME-2 */
    (void)unused;
    static const int64_t steps[] = {(int64_t)SECOND, (int64_t)HOUR, INT64_C(3650) * (int64_t)DAY};
    for (size_t i = 0; i < 3; i++) {
        struct clock_state state = fresh();
        struct instant before = at(&state, 10 * SECOND, 0);
        struct instant now = at(&state, 11 * SECOND, -steps[i]);
        assert_true(now.wall_ns == before.wall_ns || now.wall_ns == REAL0 + 11 * SECOND - (uint64_t)steps[i]);
        assert_true(now.wall_ns >= before.wall_ns);
        assert_int_equal(now.steady_ns, REAL0 + 11 * SECOND);
        /* When a wrong clock is corrected, that is no jump, however wrong it was. */
        now = at(&state, 60 * SECOND, 0);
        assert_int_equal(now.wall_ns, REAL0 + 60 * SECOND);
        assert_false(state.held);
    }
}

static void a_jump_of_more_than_an_hour_is_held_until_it_ends(void **unused) { /* F-32, TIME-2 */
    (void)unused;
    struct clock_state state = fresh();
    struct instant before = at(&state, 10 * SECOND, 0);
    for (uint64_t passed = 11 * SECOND; passed < 3 * HOUR; passed += 60 * SECOND) {
        struct instant now = at(&state, passed, INT64_C(3650) * (int64_t)DAY);
        assert_true(state.held);
        assert_int_equal(now.wall_ns, before.wall_ns);
        assert_int_equal(now.steady_ns, REAL0 + passed); /* delays continue */
    }
    struct instant now = at(&state, 3 * HOUR, 0);
    assert_false(state.held);
    assert_int_equal(now.wall_ns, REAL0 + 3 * HOUR);
    /* A jump of exactly the limit is accepted as true, and one that is 1 ns longer is not. */
    at(&state, 3 * HOUR, (int64_t)(CLOCK_JUMP_RUN_MS * NS_PER_MS) + 1);
    assert_true(state.held);
    at(&state, 3 * HOUR, (int64_t)(CLOCK_JUMP_RUN_MS * NS_PER_MS));
    assert_false(state.held);
}

static void a_suspend_is_no_jump(void **unused) { /* F-34 */
    (void)unused;
    struct clock_state state = fresh();
    struct instant now = at(&state, 60 * DAY, 0); /* BOOTTIME includes the suspended time */
    assert_false(state.held);
    assert_int_equal(now.steady_ns, REAL0 + 60 * DAY);
    assert_int_equal(now.wall_ns, REAL0 + 60 * DAY);
}

static struct clock_state restarted(struct instant last, uint64_t real_ns, bool accept) {
    struct clock_state state;
    clock_begin(&state, (struct clock_origin){.last = last, .accept_jump = accept}, (struct sample){real_ns, BOOT0});
    return state;
}

static void across_a_start_both_go_on_by_the_difference_of_the_walls(void **unused) {
    (void)unused;
    /* Before the start, the wall clock was set forward by a minute, so the broker's wall time was a minute ahead of its
     * steady time. After the start, wall time must be ahead by the same minute. */
    struct instant last = {REAL0, REAL0 + 60 * SECOND};
    struct clock_state state = restarted(last, REAL0 + 60 * SECOND + 5 * DAY, false);
    assert_false(state.held);
    assert_int_equal(state.now.wall_ns, REAL0 + 60 * SECOND + 5 * DAY);
    assert_int_equal(state.now.steady_ns, REAL0 + 5 * DAY);
}

/* F-32: however the wall clock was set between two runs of one boot, BOOTTIME gives the passed time. */
static void in_the_same_boot_a_start_goes_by_boottime(void **unused) {
    (void)unused;
    const int64_t jumps[] = {1,
                             -1,
                             (int64_t)SECOND,
                             -(int64_t)SECOND,
                             (int64_t)HOUR,
                             -(int64_t)HOUR,
                             29 * (int64_t)DAY,
                             -29 * (int64_t)DAY,
                             3650 * (int64_t)DAY,
                             -3650 * (int64_t)DAY};
    for (size_t i = 0; i < sizeof(jumps) / sizeof(jumps[0]); i++) {
        struct clock_origin origin = {.last = {REAL0, REAL0}, .boot_steady_ns = REAL0 - BOOT0};
        for (int accept = 0; accept < 2; accept++) {
            struct clock_state state;
            origin.accept_jump = accept == 1;
            struct sample first = {REAL0 + 3 * SECOND + (uint64_t)jumps[i], BOOT0 + 3 * SECOND};
            clock_begin(&state, origin, first);
            assert_int_equal(state.now.steady_ns, REAL0 + 3 * SECOND);
            first.boot_ns += SECOND;
            assert_int_equal(clock_advance(&state, first).steady_ns, REAL0 + 4 * SECOND);
        }
    }
}

static void a_start_with_the_clock_behind_adds_nothing(void **unused) { /* F-32 */
    (void)unused;
    struct instant last = {REAL0, REAL0};
    struct clock_state state = restarted(last, REAL0 - 10 * DAY, false);
    assert_int_equal(state.now.steady_ns, REAL0);
    assert_int_equal(state.now.wall_ns, REAL0);
    struct instant now = clock_advance(&state, (struct sample){REAL0 - 10 * DAY + HOUR, BOOT0 + HOUR});
    assert_int_equal(now.steady_ns, REAL0 + HOUR);
    assert_int_equal(now.wall_ns, REAL0); /* the wall time stands still until the clock has caught up */
    assert_false(state.held);
}

/* Steady time continued for hours while the wall time was held. The next start must not add these hours to steady time
 * again. (The simulator found this bug.) */
static void what_passed_while_the_wall_was_held_is_not_added_again_by_a_start(void **unused) { /* F-32, TIME-1 */
    (void)unused;
    struct clock_state state = fresh();
    struct instant last = {0};
    for (uint64_t passed = SECOND; passed <= 3 * HOUR; passed += 60 * SECOND)
        last = at(&state, passed, 2 * (int64_t)HOUR);
    assert_true(state.held);
    uint64_t real_ns = last.steady_ns + SECOND; /* the clock was corrected, and 1 s has passed */
    struct clock_state next;
    clock_begin(&next, (struct clock_origin){.last = last}, (struct sample){real_ns, SECOND});
    assert_int_equal(next.now.steady_ns, real_ns); /* steady time is not ahead, so no delay fires early */
    assert_int_equal(next.now.wall_ns, real_ns);
}

static void a_start_thirty_days_later_is_not_believed_unless_accepted(void **unused) { /* F-32, TIME-2 */
    (void)unused;
    struct instant last = {REAL0, REAL0};
    struct clock_state state = restarted(last, REAL0 + 30 * DAY, false);
    assert_false(state.held);
    assert_int_equal(state.now.steady_ns, REAL0 + 30 * DAY);

    state = restarted(last, REAL0 + 30 * DAY + 1, false);
    assert_true(state.held);
    assert_int_equal(state.now.steady_ns, REAL0); /* steady time is not ahead, so no delay fires early */
    assert_int_equal(state.now.wall_ns, REAL0);   /* if wall_ns were higher, all overdue tasks would fire at once */
    struct instant now = clock_advance(&state, (struct sample){REAL0 + 31 * DAY, BOOT0 + HOUR});
    assert_true(state.held);
    assert_int_equal(now.steady_ns, REAL0 + HOUR);
    assert_int_equal(now.wall_ns, REAL0);

    state = restarted(last, REAL0 + 400 * DAY, true);
    assert_false(state.held);
    assert_true(state.accepted);
    assert_int_equal(state.now.wall_ns, REAL0 + 400 * DAY);
    /* accept_jump permits only the jump at the start; a later jump is not accepted. */
    clock_advance(&state, (struct sample){REAL0 + 500 * DAY, BOOT0 + SECOND});
    assert_true(state.held);
}

static void nothing_ever_goes_back_whatever_the_clocks_say(void **unused) { /* F-32, TIME-2 */
    (void)unused;
    struct random random = {random_seed(3)};
    for (int round = 0; round < 1000; round++) {
        struct clock_state state = fresh();
        struct instant last = state.now;
        uint64_t boot = BOOT0;
        for (int i = 0; i < 100; i++) {
            boot += random_magnitude(&random, 45);
            uint64_t real = random_below(&random, 2) ? random_magnitude(&random, 62) : REAL0 + (boot - BOOT0);
            /* Sometimes the samples of two threads arrive in the wrong order, or the broker restarts. */
            if (random_below(&random, 10) == 0) boot -= random_below(&random, 1000);
            if (random_below(&random, 20) == 0) {
                struct clock_origin origin = {last, 0, random_below(&random, 2) == 0};
                if (random_below(&random, 2) == 0) origin.boot_steady_ns = random_magnitude(&random, 62);
                clock_begin(&state, origin, (struct sample){real, boot});
            }
            struct instant now = clock_advance(&state, (struct sample){real, boot});
            assert_true(now.steady_ns >= last.steady_ns);
            assert_true(now.wall_ns >= last.wall_ns);
            last = now;
        }
    }
}

/* F-33: instead of a leap of 1 s, the clock runs slower or faster for a day. */
static void a_smear_moves_no_delay_and_is_no_jump(void **unused) {
    (void)unused;
    for (int sign = -1; sign <= 1; sign += 2) {
        struct clock_state state = fresh();
        for (uint64_t passed = 0; passed <= DAY; passed += SECOND / 4) {
            /* The error grows to 1 s at the end of the day. */
            int64_t off_ns = sign * (int64_t)(passed / (DAY / SECOND));
            struct instant now = at(&state, passed, off_ns);
            assert_false(state.held);
            assert_int_equal(now.steady_ns, REAL0 + passed); /* BOOTTIME is not affected */
            assert_int_equal(now.wall_ns, REAL0 + passed + (uint64_t)off_ns);
        }
    }
}

/* F-35: at a leap second REALTIME counts the last second of the day twice. */
static void a_leap_second_lets_the_wall_stand_still_for_a_second(void **unused) {
    (void)unused;
    struct clock_state state = fresh();
    for (uint64_t passed = 0; passed < 5 * SECOND; passed += SECOND / 1000) {
        bool was_repeated = passed >= 2 * SECOND;
        struct instant now = at(&state, passed, was_repeated ? -(int64_t)SECOND : 0);
        uint64_t last_before_ns = REAL0 + 2 * SECOND - SECOND / 1000;
        uint64_t said_ns = REAL0 + passed - (was_repeated ? SECOND : 0);
        assert_int_equal(now.wall_ns, was_repeated && said_ns < last_before_ns ? last_before_ns : said_ns);
        assert_int_equal(now.steady_ns, REAL0 + passed);
        assert_false(state.held);
    }
}

/* F-35: times after 2038 and 2106 work, because no code counts seconds in 32 bits, signed or unsigned. */
static void the_years_2038_and_2106_are_years_like_others(void **unused) {
    (void)unused;
    static const uint64_t borders_s[] = {UINT64_C(1) << 31, UINT64_C(1) << 32};
    for (size_t i = 0; i < 2; i++) {
        uint64_t real_ns = (borders_s[i] - 10) * SECOND;
        struct clock_state state = restarted((struct instant){real_ns, real_ns}, real_ns, false);
        for (uint64_t passed = 0; passed < 20 * SECOND; passed += SECOND / 10) {
            struct instant now = clock_advance(&state, (struct sample){real_ns + passed, BOOT0 + passed});
            assert_int_equal(now.wall_ns, real_ns + passed);
            assert_int_equal(now.steady_ns, real_ns + passed);
            assert_false(state.held);
        }
    }
}

static void the_machines_clock_agrees(void **unused) {
    (void)unused;
    struct clock clock;
    struct timespec real;
    clock_init(&clock, (struct clock_origin){0});
    bool held = true;
    struct instant now = clock_now(&clock, &held);
    clock_gettime(CLOCK_REALTIME, &real);
    uint64_t real_ns = (uint64_t)real.tv_sec * SECOND + (uint64_t)real.tv_nsec;
    assert_false(held);
    assert_true(now.steady_ns <= real_ns); /* steady time is never ahead of the wall clock */
    assert_true(now.wall_ns <= real_ns && real_ns - now.steady_ns < SECOND);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_follow_the_wall_when_all_is_well),
        cmocka_unit_test(a_small_step_forward_moves_the_wall_alone),
        cmocka_unit_test(a_step_back_lets_the_wall_stand_still_until_the_clock_is_there_again),
        cmocka_unit_test(a_jump_of_more_than_an_hour_is_held_until_it_ends),
        cmocka_unit_test(a_suspend_is_no_jump),
        cmocka_unit_test(across_a_start_both_go_on_by_the_difference_of_the_walls),
        cmocka_unit_test(in_the_same_boot_a_start_goes_by_boottime),
        cmocka_unit_test(a_start_with_the_clock_behind_adds_nothing),
        cmocka_unit_test(what_passed_while_the_wall_was_held_is_not_added_again_by_a_start),
        cmocka_unit_test(a_start_thirty_days_later_is_not_believed_unless_accepted),
        cmocka_unit_test(nothing_ever_goes_back_whatever_the_clocks_say),
        cmocka_unit_test(a_smear_moves_no_delay_and_is_no_jump),
        cmocka_unit_test(a_leap_second_lets_the_wall_stand_still_for_a_second),
        cmocka_unit_test(the_years_2038_and_2106_are_years_like_others),
        cmocka_unit_test(the_machines_clock_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
