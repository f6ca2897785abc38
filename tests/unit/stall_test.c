/* stall_test.c: which messages count as received before a stop of the process, and which after it (TIME-2, F-13). */
#include "stall.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MS 1000000ull
#define START (1000 * MS)

static void who_wakes_up_in_time_was_not_stopped(void **state) {
    struct stall stall = {0};
    stall_sleep(&stall, START, 300 * MS);
    assert_int_equal(stall_received(&stall, START + 300 * MS + STOPPED_NS), START + 300 * MS + STOPPED_NS);
    assert_int_equal(stall_settle_ns(&stall, START + 300 * MS + STOPPED_NS), 0);
    stall_wake(&stall);
    /* The thread was awake and may have been busy, so the message counts as received now. */
    assert_int_equal(stall_received(&stall, START + 9000 * MS), START + 9000 * MS);
    stall_look(&stall, START + 9000 * MS);
    assert_int_equal(stall_received(&stall, START + 9000 * MS + STOPPED_NS), START + 9000 * MS + STOPPED_NS);
}

static void what_came_while_it_slept_counts_from_when_it_fell_asleep(void **state) { /* TIME-2, F-13 */
    struct stall stall = {0};
    stall_sleep(&stall, START, 300 * MS);
    stall_is_awake(&stall, START + 100 * MS);
    uint64_t now_ns = START + 5000 * MS;
    assert_int_equal(stall_received(&stall, now_ns), START + 100 * MS);
    assert_int_equal(stall_settle_ns(&stall, now_ns), SETTLE_NS);
    assert_int_equal(stall_received(&stall, now_ns + SETTLE_NS - 1), START + 100 * MS);
    assert_int_equal(stall_received(&stall, now_ns + SETTLE_NS), now_ns + SETTLE_NS);
}

/* The process was stopped after its last look at the clock: in the middle of a turn, or while it waited for its disk.
 */
static void what_came_while_it_was_at_something_counts_from_its_last_look(void **state) { /* TIME-2, F-13 */
    struct stall stall = {0};
    stall_sleep(&stall, START, 300 * MS);
    stall_wake(&stall);
    for (int i = 0; i < 100; i++) {
        stall_look(&stall, START + i * STALL_LOOK_NS);
        assert_int_equal(stall_settle_ns(&stall, START + i * STALL_LOOK_NS), 0);
    }
    uint64_t looked_ns = START + 99 * STALL_LOOK_NS, now_ns = looked_ns + 5000 * MS;
    assert_int_equal(stall_received(&stall, now_ns), looked_ns); /* an item of another thread arrives */
    stall_look(&stall, now_ns + 1);
    assert_int_equal(stall_received(&stall, now_ns + 2), looked_ns);
    assert_int_equal(stall_received(&stall, now_ns + SETTLE_NS), now_ns + SETTLE_NS);
    stall_look(&stall, now_ns + SETTLE_NS);
    now_ns += SETTLE_NS + 5000 * MS; /* the process was stopped again, and the core thread notices it */
    stall_look(&stall, now_ns);
    assert_int_equal(stall_received(&stall, now_ns), now_ns - 5000 * MS);
    assert_int_equal(stall_settle_ns(&stall, now_ns), SETTLE_NS);
}

static void a_stop_before_the_sockets_were_read_is_one_with_that_before_it(void **state) { /* F-13 */
    struct stall stall = {0};
    stall_look(&stall, START);
    stall_look(&stall, START + 5000 * MS);
    stall_sleep(&stall, START + 5000 * MS + SETTLE_NS - 1, 100 * MS);
    assert_int_equal(stall_received(&stall, START + 9000 * MS), START);
    stall_wake(&stall);
    stall_look(&stall, START + 9000 * MS + SETTLE_NS);
    assert_int_equal(stall_received(&stall, START + 15000 * MS), START + 9000 * MS + SETTLE_NS);
}

static void time_so_long_ago_is_none_before_the_first(void **state) {
    struct instant now = {.steady_ns = 700, .wall_ns = 50};
    struct instant then = stall_judge(now, 600);
    assert_int_equal(then.steady_ns, 100);
    assert_int_equal(then.wall_ns, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_wakes_up_in_time_was_not_stopped),
        cmocka_unit_test(what_came_while_it_slept_counts_from_when_it_fell_asleep),
        cmocka_unit_test(what_came_while_it_was_at_something_counts_from_its_last_look),
        cmocka_unit_test(a_stop_before_the_sockets_were_read_is_one_with_that_before_it),
        cmocka_unit_test(time_so_long_ago_is_none_before_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
