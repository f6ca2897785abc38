/* index_schedule_test.c: how the index's writer chooses its next step (engine/index_schedule.h). */
#include "index_schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tarry_limits.h"

#define MS 1000000ull

static const struct index_times times = {
    .delay_ns = 200 * MS, .gather_ns = 20 * MS, .gather_bytes = 1000, .batch_records = 50, .maintains = true};

static struct index_schedule schedule;
static struct index_orders orders;

static int begin(void **state) {
    index_schedule_begin(&schedule, &times, 5000);
    schedule.maintain = false;
    orders = (struct index_orders){.durable = 5000,
                                   .sign_wait_ns = UINT64_MAX,
                                   .erase_wait_ns = UINT64_MAX,
                                   .retire_wait_ns = UINT64_MAX,
                                   .maintain_wait_ns = UINT64_MAX,
                                   .now_ns = 10 * MS};
    return 0;
}

#define NEXT(effect) assert_int_equal(index_schedule_next(&schedule, &orders), effect)

/* With little memory, batches are as large as with the default; with more memory they are larger, up to a limit. */
static void more_memory_makes_larger_batches(void **state) {
    (void)state;
    struct index_times least = index_times_of(MEMORY_MIN), usual = index_times_of(MEMORY_DEFAULT);
    struct index_times thrice = index_times_of(3 * MEMORY_DEFAULT), most = index_times_of(64 * MEMORY_DEFAULT);
    assert_int_equal(usual.batch_records, INDEX_BATCH_RECORDS);
    assert_int_equal(usual.delay_ns, INDEX_DELAY_MS * MS);
    assert_int_equal(least.batch_records, usual.batch_records);
    assert_int_equal(thrice.batch_records, 3 * usual.batch_records);
    assert_int_equal(thrice.delay_ns, 3 * usual.delay_ns);
    assert_int_equal(most.batch_records, INDEX_BATCH_SCALE_MAX * usual.batch_records);
    assert_int_equal(most.gather_ns, usual.gather_ns);
    assert_true(most.maintains);
}

static void a_frame_wakes_the_writer_and_waits_for_company(void **state) { /* LOG-3 */
    NEXT(INDEX_WAIT);
    assert_int_equal(schedule.wanted, 5001);
    orders.durable = 5100;
    NEXT(INDEX_WAIT);
    assert_int_equal(schedule.wanted, 6000);
    assert_int_equal(schedule.wait_ns, 20 * MS);
    orders.now_ns += 20 * MS;
    NEXT(INDEX_ABSORB);
    assert_int_equal(schedule.limit, 5100); /* the writer never absorbs frames beyond the durable position */
}

static void much_is_absorbed_at_once(void **state) {
    orders.durable = 6000;
    NEXT(INDEX_ABSORB);
    index_schedule_absorbed(&schedule, 5600, 3, orders.now_ns);
    NEXT(INDEX_WAIT); /* INDEX_WAIT: the remaining frames are not absorbed until more frames arrive */
    assert_int_equal(schedule.wanted, 6600);
}

/* A query that needs the index at the current end of the log does not wait for a larger batch. */
static void who_waits_for_the_index_waits_for_no_company(void **state) {
    orders.durable = 5100;
    orders.hurry_to = 5200;
    NEXT(INDEX_ABSORB);
    index_schedule_absorbed(&schedule, 5100, 1, orders.now_ns);
    NEXT(INDEX_WAIT); /* the remaining frames are not durable yet */
    assert_int_equal(schedule.wanted, 5101);
    orders.durable = 5200;
    NEXT(INDEX_ABSORB);
    index_schedule_absorbed(&schedule, 5200, 2, orders.now_ns);
    NEXT(INDEX_COMMIT);
    index_schedule_committed(&schedule, true, orders.now_ns);
    NEXT(INDEX_TELL);
    schedule.maintain = false;
    orders.durable = 5300; /* later frames wait for a larger batch, as usual */
    NEXT(INDEX_WAIT);
    index_schedule_absorbed(&schedule, 5300, 1, orders.now_ns);
    NEXT(INDEX_WAIT);
}

static void what_waited_is_committed_and_then_told(void **state) { /* LOG-3 */
    orders.durable = 6000;
    index_schedule_absorbed(&schedule, 6000, 3, orders.now_ns);
    NEXT(INDEX_WAIT);
    assert_int_equal(schedule.wait_ns, 200 * MS);
    orders.now_ns += 200 * MS;
    NEXT(INDEX_COMMIT);
    index_schedule_committed(&schedule, true, orders.now_ns);
    NEXT(INDEX_TELL);
    assert_int_equal(schedule.told, 6000);
    NEXT(INDEX_MAINTAIN);
    index_schedule_sliced(&schedule, INDEX_MAINTAIN, true, true, orders.now_ns);
    NEXT(INDEX_MAINTAIN);
    index_schedule_sliced(&schedule, INDEX_MAINTAIN, true, false, orders.now_ns);
    NEXT(INDEX_WAIT);
}

static void a_seal_is_committed_too(void **state) { /* LOG-5 */
    orders.durable = 5112;
    index_schedule_absorbed(&schedule, 5112, 0, orders.now_ns);
    orders.now_ns += 200 * MS;
    NEXT(INDEX_COMMIT);
}

static void a_full_batch_is_committed_before_more_is_absorbed(void **state) { /* CALM-1 */
    orders.durable = 9000;
    NEXT(INDEX_ABSORB);
    index_schedule_absorbed(&schedule, 7000, 50, orders.now_ns);
    NEXT(INDEX_COMMIT);
    index_schedule_committed(&schedule, true, orders.now_ns);
    NEXT(INDEX_TELL);
    assert_int_equal(schedule.told, 7000);
    NEXT(INDEX_ABSORB);
}

static void the_core_does_not_wait_for_its_window(void **state) { /* KEEP-1 */
    orders.durable = 9000;
    orders.has_window = true;
    orders.erase_wait_ns = orders.retire_wait_ns = 0;
    NEXT(INDEX_LOAD_WINDOW);
}

static void slices_come_in_the_order_of_their_urgency(void **state) {
    schedule.maintain = true;
    orders.sign_wait_ns = orders.erase_wait_ns = orders.retire_wait_ns = 0;
    NEXT(INDEX_SIGN);
    orders.sign_wait_ns = UINT64_MAX;
    NEXT(INDEX_ERASE);
    orders.erase_wait_ns = 70 * MS;
    NEXT(INDEX_RETIRE);
    orders.retire_wait_ns = 80 * MS;
    NEXT(INDEX_MAINTAIN);
    schedule.maintain = false;
    NEXT(INDEX_WAIT);
    assert_int_equal(schedule.wait_ns, 70 * MS);
    orders.durable = 5001; /* a writer that has other work anyway absorbs all durable frames */
    orders.retire_wait_ns = 0;
    NEXT(INDEX_ABSORB);
}

/* Postponed work is done in time although no further commit comes. */
static void what_was_put_off_is_done_in_time(void **state) { /* CAP-1 */
    orders.maintain_wait_ns = 90 * MS;
    NEXT(INDEX_WAIT);
    assert_int_equal(schedule.wait_ns, 90 * MS);
    orders.maintain_wait_ns = 0;
    NEXT(INDEX_MAINTAIN);
    index_schedule_sliced(&schedule, INDEX_MAINTAIN, true, false, orders.now_ns);
    orders.maintain_wait_ns = UINT64_MAX;
    NEXT(INDEX_WAIT);
}

static void a_full_disk_stops_all_but_the_commit(void **state) { /* F-4 */
    orders.durable = 9000;
    index_schedule_absorbed(&schedule, 7000, 50, orders.now_ns);
    NEXT(INDEX_COMMIT);
    index_schedule_committed(&schedule, false, orders.now_ns);
    orders.has_window = true;
    orders.retire_wait_ns = 0;
    NEXT(INDEX_WAIT);
    assert_int_equal(schedule.wait_ns, 250 * MS);
    orders.now_ns += 250 * MS;
    NEXT(INDEX_COMMIT);
    index_schedule_committed(&schedule, true, orders.now_ns);
    NEXT(INDEX_TELL);
    NEXT(INDEX_LOAD_WINDOW);
    index_schedule_sliced(&schedule, INDEX_LOAD_WINDOW, false, false, orders.now_ns);
    NEXT(INDEX_WAIT); /* now the window fails too, because it also needs disk space */
}

static void a_stop_takes_in_what_is_durable(void **state) { /* LOG-3 */
    orders.durable = 5100;
    orders.stop = true;
    NEXT(INDEX_ABSORB);
    index_schedule_absorbed(&schedule, 5100, 1, orders.now_ns);
    NEXT(INDEX_COMMIT);
    index_schedule_committed(&schedule, true, orders.now_ns);
    NEXT(INDEX_TELL);
    NEXT(INDEX_STOP);
}

static void a_stop_does_not_wait_for_room(void **state) { /* F-4 */
    index_schedule_absorbed(&schedule, 5100, 1, orders.now_ns);
    index_schedule_committed(&schedule, false, orders.now_ns);
    orders.stop = true;
    NEXT(INDEX_COMMIT); /* the indexer tries the commit again before it stops */
    index_schedule_committed(&schedule, false, orders.now_ns);
    NEXT(INDEX_STOP);
}

static void an_inspection_loads_windows_and_nothing_else(void **state) {
    schedule.maintain = true;
    orders.inspects = true;
    orders.durable = 9000;
    NEXT(INDEX_WAIT);
    orders.has_window = true;
    NEXT(INDEX_LOAD_WINDOW);
    orders.has_window = false;
    orders.stop = true;
    NEXT(INDEX_STOP);
}

static void the_filter_is_renewed_before_the_core_hears_of_a_position(void **state) { /* LOG-3 */
    struct index_news news = {.told = 5000};
    assert_int_equal(index_news_next(&news, 5000), INDEX_NEWS_NONE);
    for (uint64_t position = 6000; position < 8000; position += 1000) {
        assert_int_equal(index_news_next(&news, position), INDEX_NEWS_RENEW_FILTER);
        assert_int_equal(index_news_next(&news, position), INDEX_NEWS_STEP);
        assert_int_equal(index_news_next(&news, position), INDEX_NEWS_NONE);
    }
}

/* LOG-3: the index of a leader that has just begun may be ahead of the position that the leader may announce (found by
 * pair history 3015675). */
static void a_copy_never_ends_before_its_index(void **state) {
    assert_int_equal(index_schedule_copy_end(5000, 4000), 5000);
    assert_int_equal(index_schedule_copy_end(4000, 5000), 5000);
}

#define TEST(name) cmocka_unit_test_setup(name, begin)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(more_memory_makes_larger_batches),
        TEST(a_frame_wakes_the_writer_and_waits_for_company),
        TEST(much_is_absorbed_at_once),
        TEST(who_waits_for_the_index_waits_for_no_company),
        TEST(what_waited_is_committed_and_then_told),
        TEST(a_seal_is_committed_too),
        TEST(a_full_batch_is_committed_before_more_is_absorbed),
        TEST(the_core_does_not_wait_for_its_window),
        TEST(slices_come_in_the_order_of_their_urgency),
        TEST(what_was_put_off_is_done_in_time),
        TEST(a_full_disk_stops_all_but_the_commit),
        TEST(a_stop_takes_in_what_is_durable),
        TEST(a_stop_does_not_wait_for_room),
        TEST(an_inspection_loads_windows_and_nothing_else),
        TEST(the_filter_is_renewed_before_the_core_hears_of_a_position),
        TEST(a_copy_never_ends_before_its_index),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
