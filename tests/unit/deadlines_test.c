/* deadlines_test.c: timers fire once, in the order of their deadlines, whatever was moved, cancelled and dropped before
 * (broker/net/deadlines.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "deadlines.h"

#define COUNT 200

static struct deadlines timers;
static struct deadline all[COUNT];
static uint64_t now_us, fired[COUNT], last_due_us[COUNT];

static void fire(struct deadline *timer) {
    size_t i = (size_t)(timer - all);
    assert_true(last_due_us[i] != 0 && last_due_us[i] <= now_us);
    last_due_us[i] = 0;
    fired[i]++;
}

static int begin(void **state) {
    for (size_t i = 0; i < COUNT; i++) all[i] = (struct deadline){.fire = fire};
    for (size_t i = 0; i < COUNT; i++) last_due_us[i] = fired[i] = 0;
    now_us = 1;
    return deadlines_init(&timers, COUNT) ? 0 : 1;
}

static int end(void **state) {
    deadlines_deinit(&timers);
    return 0;
}

static void arm(size_t i, uint64_t due_us) {
    last_due_us[i] = due_us;
    deadline_arm(&timers, &all[i], due_us);
}

static void a_timer_fires_once_when_it_is_due(void **state) {
    arm(0, 100);
    assert_int_equal(deadlines_next_us(&timers), 100);
    deadlines_run(&timers, now_us = 99);
    assert_int_equal(fired[0], 0);
    deadlines_run(&timers, now_us = 100);
    deadlines_run(&timers, now_us = 1000);
    assert_int_equal(fired[0], 1);
    assert_true(deadlines_next_us(&timers) == UINT64_MAX);
}

static void a_moved_timer_fires_at_its_last_deadline(void **state) {
    arm(0, 100);
    arm(0, 300); /* moves the timer from 100 to 300; the loop may still wake at 100, but no timer fires */
    deadlines_run(&timers, now_us = 200);
    assert_int_equal(fired[0], 0);
    assert_int_equal(deadlines_next_us(&timers), 300);
    arm(0, 250); /* earlier */
    assert_int_equal(deadlines_next_us(&timers), 250);
    deadlines_run(&timers, now_us = 250);
    assert_int_equal(fired[0], 1);
}

static void a_cancelled_timer_does_not_fire_and_can_be_armed_again(void **state) {
    arm(0, 100);
    deadline_cancel(&all[0]);
    last_due_us[0] = 0;
    deadlines_run(&timers, now_us = 150);
    assert_int_equal(fired[0], 0);
    arm(0, 200);
    deadline_cancel(&all[0]);
    arm(0, 300);
    deadlines_run(&timers, now_us = 250);
    assert_int_equal(fired[0], 0);
    deadlines_run(&timers, now_us = 300);
    assert_int_equal(fired[0], 1);
}

/* Compares with a model that has the last deadline of each timer. */
static void each_fires_at_its_deadline_whatever_happens_to_the_others(void **state) {
    uint64_t random = 7, before[COUNT];
    for (int step = 0; step < 100000; step++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        size_t i = (random >> 33) % COUNT;
        switch ((random >> 20) % 8) {
        case 0:
            deadline_cancel(&all[i]);
            last_due_us[i] = 0;
            break;
        case 1:
            deadline_drop(&timers, &all[i]);
            last_due_us[i] = 0;
            break;
        case 2:
            for (size_t j = 0; j < COUNT; j++) before[j] = fired[j];
            now_us += (random >> 40) % 50;
            for (size_t j = 0; j < COUNT; j++) before[j] += last_due_us[j] != 0 && last_due_us[j] <= now_us;
            deadlines_run(&timers, now_us);
            assert_memory_equal(before, fired, sizeof(before));
            break;
        default:
            arm(i, now_us + 1 + (random >> 40) % 200);
        }
        uint64_t next_us = deadlines_next_us(&timers);
        for (size_t j = 0; j < COUNT; j++) assert_true(last_due_us[j] == 0 || last_due_us[j] >= next_us);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_timer_fires_once_when_it_is_due, begin, end),
        cmocka_unit_test_setup_teardown(a_moved_timer_fires_at_its_last_deadline, begin, end),
        cmocka_unit_test_setup_teardown(a_cancelled_timer_does_not_fire_and_can_be_armed_again, begin, end),
        cmocka_unit_test_setup_teardown(each_fires_at_its_deadline_whatever_happens_to_the_others, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
