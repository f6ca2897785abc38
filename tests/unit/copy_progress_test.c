/* copy_progress_test.c: the estimated time until a follower has everything that it lacks. */
#include "copy_progress.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MS UINT64_C(1000000)
#define MIB (UINT64_C(1) << 20)
#define START (5000 * MS)

static void a_steady_copy_is_foretold(void **state) {
    struct copy_progress progress = {0};
    copy_progress_see(&progress, 100 * MIB, START);
    assert_int_equal(progress.left_ms, 0); /* there is no estimate yet */
    for (uint64_t i = 1; i < 100; i++) {   /* 1 MiB arrives in each 100 ms */
        copy_progress_see(&progress, (100 - i) * MIB, START + i * 100 * MS);
        assert_in_range(progress.left_ms, (100 - i) * 100, (100 - i) * 100 + 1);
    }
    copy_progress_see(&progress, 0, START + 10000 * MS);
    assert_int_equal(progress.left_ms, 0);
}

static void a_copy_that_becomes_slow_is_foretold_anew(void **state) {
    struct copy_progress progress = {0};
    uint64_t now = START;
    for (uint64_t i = 0; i <= 50; i++, now += 100 * MS) copy_progress_see(&progress, (200 - i) * MIB, now);
    for (uint64_t i = 1; i <= 50; i++, now += 100 * MS) copy_progress_see(&progress, 150 * MIB - i * MIB / 10, now);
    assert_in_range(progress.left_ms, 140000, 150000); /* 145 MiB are left, at 1 MiB/s */
}

static void nothing_is_foretold_of_what_does_not_come_nearer(void **state) {
    struct copy_progress progress = {0};
    copy_progress_see(&progress, MIB, START);
    copy_progress_see(&progress, MIB, START + 1000 * MS);
    assert_int_equal(progress.left_ms, 0);
    copy_progress_see(&progress, 2 * MIB, START + 1500 * MS);
    assert_int_equal(progress.left_ms, 0);
}

static void it_is_said_now_and_then(void **state) {
    struct copy_progress progress = {0};
    unsigned said = 0;
    for (uint64_t i = 0; i <= 600; i++) { /* one minute */
        copy_progress_see(&progress, (1000 - i) * MIB, START + i * 100 * MS);
        said += copy_progress_says(&progress, START + i * 100 * MS);
    }
    assert_int_equal(said, 60000 / COPY_PROGRESS_SAY_MS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_steady_copy_is_foretold),
        cmocka_unit_test(a_copy_that_becomes_slow_is_foretold_anew),
        cmocka_unit_test(nothing_is_foretold_of_what_does_not_come_nearer),
        cmocka_unit_test(it_is_said_now_and_then),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
