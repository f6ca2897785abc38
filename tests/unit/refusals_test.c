/* refusals_test.c: the audit's events about refused clients: address, number of refusals, time of the first one, and a
 * limit of the number of events. */
#include "access.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define UNKNOWN TARRY__ACCESS_REFUSED__WHY__UNKNOWN_TOKEN
#define LACKS TARRY__ACCESS_REFUSED__WHY__ROLE_LACKS
#define BEGIN_MS 1000000u
#define DAY_MS 86400000u

static struct refusals refusals;
static struct refusal told[REFUSALS_TOLD_MAX];

static int setup(void **state) {
    (void)state;
    refusals = (struct refusals){0};
    return 0;
}

static bool knock(const char *peer, uint64_t now_ms) {
    return refusals_add(&refusals, UNKNOWN, peer, "", "", 1, now_ms);
}

static void the_first_is_told_at_once_and_the_rest_a_minute_later(void **state) {
    (void)state;
    assert_true(knock("192.0.2.7:40312", BEGIN_MS));
    assert_int_equal(refusals_take(&refusals, BEGIN_MS, false, told), 1);
    assert_string_equal(told[0].address, "192.0.2.7");
    assert_int_equal(told[0].count, 1);
    for (unsigned i = 1; i <= 500; i++)
        assert_false(knock("192.0.2.7:40313", BEGIN_MS + i)); /* a refusal from the same address with another port */
    assert_int_equal(refusals_take(&refusals, BEGIN_MS + REFUSALS_AGAIN_MS - 1, false, told), 0);
    assert_int_equal(refusals_take(&refusals, BEGIN_MS + REFUSALS_AGAIN_MS, false, told), 1);
    assert_int_equal(told[0].count, 500);
    assert_int_equal(told[0].first_ms, BEGIN_MS + 1);
    assert_int_equal(told[0].last_ms, BEGIN_MS + 500);
    assert_int_equal(refusals_take(&refusals, BEGIN_MS + DAY_MS, false, told), 0); /* no refusal is reported twice */
}

static void who_and_why_are_kept_apart(void **state) {
    (void)state;
    knock("192.0.2.7:1", BEGIN_MS);
    assert_true(refusals_add(&refusals, LACKS, "192.0.2.7:1", "shop", "backup", 3, BEGIN_MS));
    assert_true(refusals_add(&refusals, LACKS, "192.0.2.7:1", "shop", "commit: redact", 1, BEGIN_MS));
    assert_true(refusals_add(&refusals, LACKS, "unix:uid=1000,pid=7", "", "backup", 1, BEGIN_MS));
    assert_false(refusals_add(&refusals, LACKS, "unix:uid=1000,pid=8", "", "backup", 1, BEGIN_MS));
    assert_int_equal(refusals_take(&refusals, BEGIN_MS, false, told), 4);
    assert_string_equal(told[1].principal, "shop");
    assert_string_equal(told[1].what, "backup");
    assert_int_equal(told[1].count, 3);
    assert_string_equal(told[3].address, "unix:uid=1000");
    assert_int_equal(told[3].count, 2);
}

static void a_flood_from_everywhere_is_bounded_and_nothing_is_uncounted(void **state) {
    (void)state;
    uint64_t counted = 0, records = 0;
    unsigned knocks = 0;
    char peer[32];
    for (unsigned ms = 0; ms < 600000; ms += 10, knocks++) {
        snprintf(peer, sizeof(peer), "10.%u.%u.%u:9", knocks >> 16 & 255u, knocks >> 8 & 255u, knocks & 255u);
        knock(peer, BEGIN_MS + ms);
        size_t count = refusals_take(&refusals, BEGIN_MS + ms, false, told);
        assert_true(count <= REFUSALS_TOLD_MAX);
        for (size_t i = 0; i < count; i++) counted += told[i].count;
        records += count;
    }
    assert_true(records <= (uint64_t)REFUSALS_TOLD_MAX * 600000 / REFUSALS_AGAIN_MS);
    for (unsigned minute = 0; minute < 10; minute++) {
        size_t count = refusals_take(&refusals, BEGIN_MS + 700000 + minute * REFUSALS_AGAIN_MS, false, told);
        for (size_t i = 0; i < count; i++) counted += told[i].count;
    }
    assert_int_equal(counted, knocks); /* addresses without their own row are counted in a common row */
}

static void nobody_waits_for_ever_beside_others_that_are_never_quiet(void **state) {
    (void)state;
    char peer[32];
    unsigned seen[REFUSALS_ROWS] = {0};
    for (unsigned minute = 0; minute < 10; minute++) {
        for (unsigned i = 0; i < REFUSALS_ROWS; i++) {
            snprintf(peer, sizeof(peer), "10.0.0.%u:9", i);
            knock(peer, BEGIN_MS + minute * REFUSALS_AGAIN_MS);
        }
        size_t count = refusals_take(&refusals, BEGIN_MS + minute * REFUSALS_AGAIN_MS, false, told);
        for (size_t i = 0; i < count; i++) seen[atoi(told[i].address + strlen("10.0.0."))]++;
    }
    for (unsigned i = 0; i < REFUSALS_ROWS; i++) assert_true(seen[i] >= 2);
}

static void a_new_one_has_the_row_of_who_was_told_longest_ago(void **state) {
    (void)state;
    char peer[32];
    for (unsigned i = 0; i < REFUSALS_ROWS;
         i++) { /* the refusals of each address are to be reported a little later than those of the address before */
        snprintf(peer, sizeof(peer), "10.0.0.%u:9", i);
        knock(peer, BEGIN_MS + i);
        while (refusals_take(&refusals, BEGIN_MS + i, false, told) == 0) refusals.window_ms = 0;
    }
    knock("192.0.2.7:1", BEGIN_MS + REFUSALS_ROWS);
    snprintf(peer, sizeof(peer), "10.0.0.%u:9", REFUSALS_ROWS - 1);
    /* An address that was reported just now is refused once more. */
    assert_false(knock(peer, BEGIN_MS + REFUSALS_ROWS));
    assert_true(knock("10.0.0.0:9", BEGIN_MS + REFUSALS_ROWS));
}

static void before_a_stop_all_is_told(void **state) {
    (void)state;
    knock("192.0.2.7:1", BEGIN_MS);
    refusals_take(&refusals, BEGIN_MS, false, told);
    knock("192.0.2.7:1", BEGIN_MS + 5);
    assert_int_equal(refusals_take(&refusals, BEGIN_MS + 6, false, told), 0);
    assert_int_equal(refusals_take(&refusals, BEGIN_MS + 6, true, told), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_first_is_told_at_once_and_the_rest_a_minute_later, setup),
        cmocka_unit_test_setup(who_and_why_are_kept_apart, setup),
        cmocka_unit_test_setup(a_flood_from_everywhere_is_bounded_and_nothing_is_uncounted, setup),
        cmocka_unit_test_setup(nobody_waits_for_ever_beside_others_that_are_never_quiet, setup),
        cmocka_unit_test_setup(a_new_one_has_the_row_of_who_was_told_longest_ago, setup),
        cmocka_unit_test_setup(before_a_stop_all_is_told, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
