/* client_group_test.c: how many blocking calls go into one commit (client/lib/group.h), step by step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "group.h"

enum { NOW_MS = 1000 };

static void a_call_that_is_alone_never_waits(void **state) {
    struct group group = {0};
    for (uint64_t now = NOW_MS; now < NOW_MS + 10; now++) {
        group_came(&group);
        assert_false(group_waits(&group, 1, 0, now));
        group_woke(&group, 1, 0, now);
        /* The group has no deadline, because a call that is alone does not wait. */
        assert_int_equal(group_deadline(&group, now), UINT64_MAX);
    }
}

static void whoever_was_woken_is_awaited(void **state) {
    struct group group = {0};
    group_woke(&group, 8, 0, NOW_MS);
    for (size_t gathered = 1; gathered < 8; gathered++) {
        group_came(&group);
        assert_true(group_waits(&group, gathered, 0, NOW_MS));
    }
    group_came(&group);
    assert_false(
        group_waits(&group, 8, 0, NOW_MS)); /* the group does not wait any more, because all expected calls have come */
    assert_int_equal(group_deadline(&group, NOW_MS), UINT64_MAX);
}

static void many_callers_go_in_halves(void **state) {
    struct group group = {0};
    size_t sent = 0;
    group_woke(&group, 64, 0, NOW_MS);
    for (size_t gathered = 1, under_way = 0; sent == 0; gathered++) {
        group_came(&group);
        if (!group_waits(&group, gathered, under_way, NOW_MS)) sent = gathered;
    }
    assert_int_equal(sent, 32);
    for (size_t gathered = 1; gathered < 32; gathered++) {
        group_came(&group);
        assert_true(group_waits(&group, gathered, 32, NOW_MS));
    }
    group_came(&group);
    assert_false(group_waits(&group, 32, 32, NOW_MS));
}

/* The gathered calls are sent earlier than planned, because an asynchronous operation joins them. */
static void nobody_wakes_up_for_what_gathers_no_more(void **state) {
    struct group group = {0};
    assert_true(group_waits(&group, 1, 1, NOW_MS));
    assert_true(group_deadline(&group, NOW_MS) != UINT64_MAX);
    assert_false(group_waits(&group, 0, 1, NOW_MS));
    assert_int_equal(group_deadline(&group, NOW_MS), UINT64_MAX);
}

static void a_second_commit_wants_company(void **state) {
    struct group group = {0};
    assert_true(group_waits(&group, 1, 1, NOW_MS));
    assert_true(group_waits(&group, GROUP_MIN - 1, 1, NOW_MS));
    assert_false(group_waits(&group, GROUP_MIN, 1, NOW_MS));
    assert_true(group_waits(&group, 1, 1, NOW_MS));
    assert_false(group_waits(&group, 1, 0, NOW_MS)); /* the reply has come, so the next commit is sent at once */
}

static void nothing_waits_longer_than_it_may(void **state) {
    struct group group = {0};
    group_woke(&group, 8, 0, NOW_MS);
    group_came(&group);
    assert_true(group_waits(&group, 1, 0, NOW_MS));
    assert_int_equal(group_deadline(&group, NOW_MS), NOW_MS + GROUP_WAIT_MS);
    assert_true(group_waits(&group, 1, 8, NOW_MS + GROUP_WAIT_MS - 1));
    assert_false(group_waits(&group, 1, 8, NOW_MS + GROUP_WAIT_MS));
}

static void what_waited_in_vain_is_not_tried_for_a_while(void **state) {
    struct group group = {0};
    assert_true(group_waits(&group, 1, 1, NOW_MS));
    assert_false(group_waits(&group, 1, 1, NOW_MS + GROUP_WAIT_MS));
    uint64_t now = NOW_MS + GROUP_WAIT_MS;
    for (unsigned commits = 0; commits < GROUP_REST; commits++) {
        assert_false(group_waits(&group, 1, 8, now));
        group_woke(&group, 8, 8, now);
    }
    assert_true(group_waits(&group, 1, 8, now));
}

static void who_does_not_come_back_is_forgotten(void **state) {
    struct group group = {0};
    group_woke(&group, 8, 0, NOW_MS);
    assert_int_equal(group_deadline(&group, NOW_MS), NOW_MS + GROUP_WAIT_MS);
    assert_int_equal(group_deadline(&group, NOW_MS + GROUP_WAIT_MS), UINT64_MAX);
    assert_false(group_waits(&group, 1, 0, NOW_MS + GROUP_WAIT_MS));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_that_is_alone_never_waits),
        cmocka_unit_test(whoever_was_woken_is_awaited),
        cmocka_unit_test(many_callers_go_in_halves),
        cmocka_unit_test(a_second_commit_wants_company),
        cmocka_unit_test(nobody_wakes_up_for_what_gathers_no_more),
        cmocka_unit_test(nothing_waits_longer_than_it_may),
        cmocka_unit_test(what_waited_in_vain_is_not_tried_for_a_while),
        cmocka_unit_test(who_does_not_come_back_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
