/* index_fetch_test.c: what a sweep will delete is read ahead of it, by other threads (storage/index/index_fetch.c). */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "index_alone.h"
#include "index_parts.h"

#define NOW_MS 1700000000000ull
#define RANGES_A_STEP (SWEEP_STEP_ROWS / RANGE_IDS) /* with memory for one */

struct fx {
    char directory[64];
    struct index_options options;
    struct index *index;
    uint64_t position;
    uint64_t next_id;
};

static int setup(void **state) {
    struct fx *f = calloc(1, sizeof *f);
    *f = (struct fx){.directory = "/tmp/tarry-index-fetch-XXXXXX", .position = LOG_POSITION_FIRST, .next_id = 1};
    assert_non_null(mkdtemp(f->directory));
    f->options = (struct index_options){.directory = f->directory,
                                        .memory = 16u << 20,
                                        .outcomes_max = 1000,
                                        .outcome_retention_ms = 3600000,
                                        .sweeps_fetched = true,
                                        .no_sync = true};
    char message[256];
    assert_int_equal(index_open(&f->index, &f->options, message, sizeof message), 0);
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fx *f = *state;
    char command[128];
    index_close(f->index);
    snprintf(command, sizeof command, "rm -r %s", f->directory);
    assert_int_equal(system(command), 0);
    free(f);
    return 0;
}

static struct row row_of(uint64_t id) {
    return (struct row){.id = id, .due_ms = NOW_MS + 86400000, .scheduled_ms = NOW_MS, .queue = 1, .key = ""};
}

static void schedule_to(struct fx *f, uint64_t end) {
    for (; f->next_id < end; f->next_id++) {
        struct row row = row_of(f->next_id);
        assert_int_equal(absorb_scheduled(f->index, &f->position, &row), 0);
    }
    assert_int_equal(index_commit(f->index), 0);
}

/* All of the ranges' tasks that are there, but for every `spared`-th. */
static void end_ranges(struct fx *f, uint64_t first, uint64_t count, uint64_t spared) {
    for (uint64_t id = first << RANGE_SHIFT; id < (first + count) << RANGE_SHIFT; id++) {
        if (id == 0 || (spared > 0 && id % spared == 0)) continue;
        struct row row = row_of(id);
        assert_int_equal(absorb_ended(f->index, &f->position, &row, NOW_MS), 0);
    }
    assert_int_equal(index_commit(f->index), 0);
}

static uint64_t rows_of(struct fx *f) {
    struct index_stats stats;
    index_stats(f->index, &stats);
    return stats.rows;
}

static void maintain(struct fx *f) {
    for (bool more = true; more;) assert_int_equal(index_maintain(f->index, &more), 0);
}

/* As many as may be read. */
static size_t fetch(struct fx *f) {
    size_t count = 0;
    for (bool did = true; did; count += did) assert_int_equal(index_fetch(f->index, &did), 0);
    return count;
}

static void what_was_not_read_is_not_swept(void **state) { /* CALM-1 */
    struct fx *f = *state;
    schedule_to(f, 3 * RANGE_IDS);
    assert_false(index_may_fetch(f->index));
    end_ranges(f, 1, 1, 8);
    uint64_t before = rows_of(f);
    maintain(f);
    assert_int_equal(rows_of(f), before);
    assert_true(index_may_fetch(f->index));
    assert_false(index_may_sweep(f->index));
    assert_int_equal(fetch(f), 1);
    assert_true(index_may_sweep(f->index));
    maintain(f);
    assert_int_equal(rows_of(f), before - RANGE_IDS * 7 / 8);
    assert_false(index_may_sweep(f->index));
    assert_false(index_may_fetch(f->index));
}

static void as_much_is_read_as_one_sweep_takes(void **state) { /* CAP-1 */
    struct fx *f = *state;
    schedule_to(f, (3 * RANGES_A_STEP + 2) * RANGE_IDS);
    end_ranges(f, 1, 3 * RANGES_A_STEP, 0);
    for (unsigned i = 1; i <= 3; i++) {
        assert_int_equal(fetch(f), RANGES_A_STEP);
        maintain(f);
        assert_int_equal(rows_of(f), (3 * RANGES_A_STEP + 2 - RANGES_A_STEP * i) * RANGE_IDS - 1);
    }
    assert_int_equal(fetch(f), 0);
}

/* Each transaction is two waits for the disk. */
static void a_sweep_waits_until_half_of_it_is_read_or_nothing_else_comes(void **state) { /* CALM-1 */
    struct fx *f = *state;
    bool did;
    schedule_to(f, 2 * RANGES_A_STEP * RANGE_IDS);
    end_ranges(f, 1, RANGES_A_STEP, 0);
    for (unsigned i = 1; i <= RANGES_A_STEP; i++) {
        assert_int_equal(index_fetch(f->index, &did), 0);
        assert_int_equal(index_may_sweep(f->index), i >= RANGES_A_STEP / 2);
    }
    maintain(f);
    end_ranges(f, RANGES_A_STEP + 1, 1, 0);
    assert_int_equal(index_fetch(f->index, &did), 0);
    assert_true(index_may_sweep(f->index)); /* less than half, and the last one */
}

/* ---- several threads */

struct reader {
    struct index *index;
    atomic_bool stop;
};

static void *read_on(void *argument) {
    struct reader *reader = argument;
    bool did = false;
    while (did || !atomic_load(&reader->stop))
        if (index_fetch(reader->index, &did) != 0) return reader;
    return NULL;
}

static void several_read_while_one_sweeps(void **state) { /* CAP-1 */
    struct fx *f = *state;
    struct reader reader = {.index = f->index};
    pthread_t threads[2];
    for (unsigned i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, read_on, &reader), 0);
    for (uint64_t range = 1; range <= 12; range++) {
        schedule_to(f, (range + 2) * RANGE_IDS);
        end_ranges(f, range, 1, 0);
        maintain(f);
    }
    while (index_may_fetch(f->index) || index_may_sweep(f->index)) maintain(f);
    atomic_store(&reader.stop, true);
    void *failed;
    for (unsigned i = 0; i < 2; i++) assert_int_equal(pthread_join(threads[i], &failed) != 0 || failed != NULL, 0);
    maintain(f);
    assert_int_equal(rows_of(f), 2 * RANGE_IDS - 1); /* the first and the last range's */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(what_was_not_read_is_not_swept),
        TEST(as_much_is_read_as_one_sweep_takes),
        TEST(a_sweep_waits_until_half_of_it_is_read_or_nothing_else_comes),
        TEST(several_read_while_one_sweeps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
