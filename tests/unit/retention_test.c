/* retention_test.c: when the oldest segment may be deleted, and what must happen before that (engine/retention.h). */
#include "retention.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MS 1000000ull

static const struct log_segment oldest = {.base = 1000, .end = 2000, .wall_ns = 100 * MS};
static const struct retention_facts small_and_young = {.is_archived = true, .log_bytes = 500, .wall_ns = 150 * MS};

static struct retention fresh(void) {
    struct retention retention;
    retention_init(&retention, &(struct retention_policy){.log_size = 500, .log_age_ms = 50});
    return retention;
}

static void what_is_small_and_young_stays(void **state) { /* LOG-3 */
    struct retention retention = fresh();
    assert_int_equal(retention_look(&retention, &oldest, &small_and_young), RETENTION_REST);
    assert_int_equal(retention_look(&retention, NULL, &small_and_young), RETENTION_REST);
    assert_false(retention_is_active(&retention));
    assert_true(retention_wait_ns(&retention, &oldest, &small_and_young) > 0);
}

static void a_large_log_gives_up_its_oldest_segment(void **state) {
    struct retention retention = fresh();
    struct retention_facts facts = small_and_young;
    facts.log_bytes++;
    assert_int_equal(retention_wait_ns(&retention, &oldest, &facts), 0);
    assert_int_equal(retention_look(&retention, &oldest, &facts), RETENTION_OPEN);
    assert_true(retention_is_active(&retention));
    assert_int_equal(retention.segment.base, 1000);
}

static void an_old_segment_goes_however_small_the_log(void **state) {
    struct retention retention = fresh();
    struct retention_facts facts = small_and_young;
    facts.wall_ns = 151 * MS;
    assert_int_equal(retention_look(&retention, &oldest, &facts), RETENTION_OPEN);
    retention = fresh();
    facts.wall_ns = 99 * MS; /* the clock is behind the segment's times, so the segment is not old */
    assert_int_equal(retention_look(&retention, &oldest, &facts), RETENTION_REST);
}

static struct retention due(void) {
    struct retention retention = fresh();
    struct retention_facts facts = small_and_young;
    facts.log_bytes++;
    assert_int_equal(retention_look(&retention, &oldest, &facts), RETENTION_OPEN);
    return retention;
}

static void what_lives_moves_and_is_committed_before_the_segment_goes(void **state) { /* LOG-3 */
    struct retention retention = due();
    assert_int_equal(retention_step(&retention, RETENTION_DONE), RETENTION_MOVE);
    assert_int_equal(retention_step(&retention, RETENTION_MORE), RETENTION_MOVE);
    assert_int_equal(retention_step(&retention, RETENTION_DONE), RETENTION_COMMIT);
    assert_int_equal(retention_step(&retention, RETENTION_DONE), RETENTION_SIGN);
    assert_int_equal(retention_step(&retention, RETENTION_DONE), RETENTION_REMOVE);
    assert_int_equal(retention_step(&retention, RETENTION_DONE), RETENTION_REST);
}

static void without_room_in_the_index_the_segment_is_begun_anew(void **state) { /* F-4, LOG-3 */
    for (int commits = 0; commits < 2; commits++) {
        struct retention retention = due();
        retention_step(&retention, RETENTION_DONE);
        if (commits) retention_step(&retention, RETENTION_DONE);
        assert_int_equal(retention_step(&retention, RETENTION_NO_ROOM), RETENTION_REST);
        assert_false(retention_is_active(&retention));
    }
}

static void a_pinned_segment_stays(void **state) { /* a backup has begun meanwhile and holds the segment */
    struct retention retention = due();
    while (retention.effect != RETENTION_REMOVE) retention_step(&retention, RETENTION_DONE);
    assert_int_equal(retention_step(&retention, RETENTION_PINNED), RETENTION_REST);
}

static void the_archive_is_asked_once_and_waited_for(void **state) { /* LOG-3 */
    struct retention retention = fresh();
    struct retention_facts facts = {.log_bytes = 501};
    assert_int_equal(retention_wait_ns(&retention, &oldest, &facts), 0);
    assert_int_equal(retention_look(&retention, &oldest, &facts), RETENTION_ARCHIVE);
    assert_false(retention_is_active(&retention));
    assert_true(retention_wait_ns(&retention, &oldest, &facts) > 0);
    assert_int_equal(retention_look(&retention, &oldest, &facts), RETENTION_REST);
    struct log_segment next = {.base = 2000, .end = 3000};
    assert_int_equal(retention_look(&retention, &next, &facts), RETENTION_ARCHIVE);
    facts.is_archived = true;
    assert_int_equal(retention_look(&retention, &next, &facts), RETENTION_OPEN);
}

static void nothing_goes_while_something_is_erased(void **state) { /* LOG-5 */
    struct retention retention = fresh();
    struct retention_facts facts = {.is_erasing = true, .is_archived = true, .log_bytes = 501};
    assert_int_equal(retention_look(&retention, &oldest, &facts), RETENTION_REST);
}

static void only_what_index_and_follower_have_is_looked_at(void **state) { /* LOG-3 */
    assert_int_equal(retention_bound(500, UINT64_MAX), 500);
    assert_int_equal(retention_bound(500, 400), 400);
    assert_int_equal(retention_bound(500, 600), 500);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_small_and_young_stays),
        cmocka_unit_test(a_large_log_gives_up_its_oldest_segment),
        cmocka_unit_test(an_old_segment_goes_however_small_the_log),
        cmocka_unit_test(what_lives_moves_and_is_committed_before_the_segment_goes),
        cmocka_unit_test(without_room_in_the_index_the_segment_is_begun_anew),
        cmocka_unit_test(a_pinned_segment_stays),
        cmocka_unit_test(the_archive_is_asked_once_and_waited_for),
        cmocka_unit_test(nothing_goes_while_something_is_erased),
        cmocka_unit_test(only_what_index_and_follower_have_is_looked_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
