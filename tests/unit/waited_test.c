/* waited_test.c: the duration of a wait, counting only the time in which the process was running (F-13). */
#include "waited.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SINCE 1000u
#define MOST 20u

static void what_is_looked_at_in_time_has_waited_for_all_of_it(void **state) {
    struct waited waited = {0};
    for (uint64_t now = SINCE; now <= SINCE + 600; now += MOST / 2) {
        waited_look(&waited, SINCE, now, MOST);
        assert_int_equal(waited.ns, now - SINCE);
    }
    /* This time is earlier than the last one, because two threads read the clock. */
    waited_look(&waited, SINCE, SINCE + 1, MOST);
    assert_int_equal(waited.ns, 600);
}

static void what_the_process_stood_still_for_does_not_count(void **state) { /* F-13 */
    struct waited waited = {0};
    waited_look(&waited, SINCE, SINCE + 5, MOST);
    waited_look(&waited, SINCE, SINCE + 90000, MOST);
    assert_int_equal(waited.ns, 5 + MOST);
    waited_look(&waited, SINCE, SINCE + 90010, MOST);
    assert_int_equal(waited.ns, 15 + MOST);
}

static void each_waits_for_itself(void **state) {
    struct waited waited = {0};
    waited_look(&waited, SINCE, SINCE + MOST, MOST);
    waited_look(&waited, SINCE + MOST + 1, SINCE + MOST + 3, MOST);
    assert_int_equal(waited.ns, 2);
    waited_look(&waited, 0, SINCE + MOST + 9, MOST);
    assert_int_equal(waited.ns, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_looked_at_in_time_has_waited_for_all_of_it),
        cmocka_unit_test(what_the_process_stood_still_for_does_not_count),
        cmocka_unit_test(each_waits_for_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
