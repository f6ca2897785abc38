/* index_bounds_test.c: costs that must not grow with the number of keys, or of lines (queue, time base, priority)
 * (CALM-1). Also: when the rows of ended tasks are removed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "index_alone.h"
#include "index_parts.h"

struct fx {
    char directory[64];
    struct index *index;
    uint64_t position;
    uint64_t next_id;
};

static void set_up(struct fx *f, size_t memory) {
    char message[256];
    *f = (struct fx){.directory = "/tmp/tarry-index-bounds-XXXXXX", .position = LOG_POSITION_FIRST, .next_id = 1};
    assert_non_null(mkdtemp(f->directory));
    struct index_options options = {.directory = f->directory,
                                    .memory = memory,
                                    .outcomes_max = 1000,
                                    .outcome_retention_ms = 3600000,
                                    .no_sync = true};
    assert_int_equal(index_open(&f->index, &options, message, sizeof message), 0);
}

static void tear_down(struct fx *f) {
    char command[128];
    index_close(f->index);
    snprintf(command, sizeof command, "rm -r %s", f->directory);
    assert_int_equal(system(command), 0);
}

/* ---- advice */

#define ROUNDS 3
/* 246,000 calls of index_advise take some 20 ms. If each of them visited 82,000 lines, they would take 15 s. */
#define CPU_S_MAX 3

static double cpu_s(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void advise_all(struct index *index, uint64_t due_ms) {
    for (uint32_t queue = 1; queue <= QUEUES_MAX; queue++)
        for (uint8_t base = 0; base < ROW_BASES; base++)
            for (uint8_t priority = 0; priority < PRIORITY_COUNT; priority++) {
                struct line line = {.queue = queue, .base = base, .priority = priority};
                index_advise_low(index, &line, (struct due){due_ms, 0});
            }
}

/* The core repeatedly calls index_advise for every line, to say which part of the line it does not need any more. */
static void advice_costs_the_same_however_many_lines_there_are(void **state) {
    struct fx f;
    set_up(&f, 16u << 20);
    struct index *index = f.index;
    double from_s = cpu_s();
    for (uint64_t round = 1; round <= ROUNDS; round++) advise_all(index, round * 1000);
    assert_true(cpu_s() - from_s < CPU_S_MAX);
    assert_int_equal(index->lows.count, QUEUES_MAX * ROW_BASES * PRIORITY_COUNT);
    /* Each of these steps of the maintenance visits one line (queue, time base, priority). */
    size_t passes = 0;
    for (bool did = true; did; passes += did) assert_int_equal(slots_sweep(index, &did), 0);
    assert_int_equal(passes, index->lows.count);
    assert_false(slots_sweep_wanted(index));
    tear_down(&f);
}

/* ---- filters */

#define MERGED_MEMORY ((size_t)128 << 10)
#define KEYS_A_COMMIT 5000u
#define COMMITS 60u

static void key_of(uint64_t id, char key[32], uint8_t *out_size) {
    *out_size = (uint8_t)snprintf(key, 32, "order-%llu", (unsigned long long)id);
}

static void schedule(struct fx *f) {
    char key[32];
    uint64_t now_ms = 1700000000000;
    struct row row = {
        .id = f->next_id++, .due_ms = now_ms + 86400000, .scheduled_ms = now_ms, .queue = 1, .blob_at = 1, .key = key};
    key_of(row.id, key, &row.key_size);
    assert_int_equal(absorb_scheduled(f->index, &f->position, &row), 0);
}

static void find_all(struct fx *f) {
    struct index_filter *filter = index_filter_hold(f->index);
    for (uint64_t id = 1; id < f->next_id; id++) {
        char key[32];
        uint8_t size;
        key_of(id, key, &size);
        assert_true(index_filter_may_contain(filter, row_key_hash(1, key, size)));
    }
    index_filter_drop(filter);
}

static size_t filter_bytes(const struct runs *runs) {
    size_t bytes = 0;
    for (size_t i = 0; i < runs->list.count; i++) bytes += runs->list.items[i]->blocks * 64;
    return bytes;
}

/* During a merge, the index keeps the key filters of the merged runs in memory, while it builds the filter of the new
 * run. So the new filter may use only a part of the memory. */
static void a_merge_takes_a_part_of_the_memory(void **state) {
    struct fx f;
    set_up(&f, MERGED_MEMORY);
    const struct runs *runs = &f.index->runs;
    struct index_stats first = {0}, stats;
    size_t largest = 0, first_filters = 0;
    for (unsigned i = 0; i < COMMITS; i++) {
        for (unsigned k = 0; k < KEYS_A_COMMIT; k++) schedule(&f);
        assert_int_equal(index_commit(f.index), 0);
        for (bool more = true; more;) assert_int_equal(index_maintain(f.index, &more), 0);
        for (size_t k = 0; k < runs->list.count; k++)
            if (runs->list.items[k]->blocks * 64 > largest) largest = runs->list.items[k]->blocks * 64;
        if (i == 0) { /* the filters of the first batch are built now, and stay in memory */
            index_stats(f.index, &first);
            first_filters = filter_bytes(runs);
        }
    }
    assert_true(largest <= MERGED_MEMORY / MERGE_MEMORY_SHARE + 64);
    assert_true(runs->list.count < COMMITS); /* runs (sorted lists of keys) have been merged */
    index_stats(f.index, &stats);
    assert_true(filter_bytes(runs) >
                (size_t)COMMITS * KEYS_A_COMMIT * 3 / 2); /* the filters have at least 12 bits per key */
    assert_true(stats.bytes_memory - first.bytes_memory >= filter_bytes(runs) - first_filters);
    /* The pages get only their minimum, because the filters take the rest of the memory. */
    assert_int_equal(index_pages_max(f.index), MERGED_MEMORY / PAGES_MEMORY_SHARE);
    find_all(&f);
    tear_down(&f);
}

static size_t fences_of(const struct runs *runs) {
    size_t bytes = 0;
    for (size_t i = 0; i < runs->merge.inputs; i++) bytes += runs->merge.input[i]->chunks * 8;
    return bytes;
}

/* While a merge runs step by step, the filter of its output counts as used memory. */
static void a_merge_under_way_is_counted(void **state) {
    struct fx f;
    set_up(&f, 4u << 20);
    const struct runs *runs = &f.index->runs;
    struct index_stats before, after;
    while (!runs_merge_wanted(f.index)) {
        for (unsigned k = 0; k < 4 * KEYS_A_COMMIT; k++) schedule(&f);
        assert_int_equal(index_commit(f.index), 0);
    }
    bool more;
    index_stats(f.index, &before);
    assert_int_equal(index_maintain(f.index, &more), 0);
    assert_true(runs->merge.inputs > 0); /* the merge is still running, because it takes more than one step */
    index_stats(f.index, &after);
    assert_int_equal(after.bytes_memory - before.bytes_memory, runs->merge.output->blocks * 64 + fences_of(runs));
    tear_down(&f);
}

/* ---- rows of ended tasks */

#define NOW_MS 1700000000000ull

static struct row plain_row(uint64_t id) {
    return (struct row){.id = id, .due_ms = NOW_MS + 86400000, .scheduled_ms = NOW_MS, .queue = 1, .key = ""};
}

static void schedule_to(struct fx *f, uint64_t end, uint64_t now_ms) {
    for (; f->next_id < end; f->next_id++) {
        struct row row = plain_row(f->next_id);
        row.scheduled_ms = now_ms;
        assert_int_equal(absorb_scheduled(f->index, &f->position, &row), 0);
    }
    assert_int_equal(index_commit(f->index), 0);
}

static void maintain(struct fx *f) {
    for (bool more = true; more;) assert_int_equal(index_maintain(f->index, &more), 0);
}

/* Ends the tasks with ids from `*from` up to below `end`. */
static void end_below(struct fx *f, uint64_t *from, uint64_t end, uint64_t now_ms) {
    for (; *from < end; ++*from) {
        struct row row = plain_row(*from);
        assert_int_equal(absorb_ended(f->index, &f->position, &row, now_ms), 0);
    }
    assert_int_equal(index_commit(f->index), 0);
    maintain(f);
}

static uint64_t rows_of(struct index *index) {
    struct index_stats stats;
    index_stats(index, &stats);
    return stats.rows;
}

/* The index waits before it removes the rows of ended tasks from a range of ids (a sweep). If the tasks end at a
 * constant rate, one late sweep replaces three early ones. */
static void a_range_rests_for_a_third_of_its_age_before_its_sweep(void **state) { /* CAP-1 */
    struct fx f;
    uint64_t ended = 1;
    set_up(&f, 16u << 20);
    schedule_to(&f, 2 * RANGE_IDS, NOW_MS);
    uint64_t all = 2 * RANGE_IDS - 1;
    end_below(&f, &ended, RANGE_IDS / 2, NOW_MS + 60000);
    end_below(&f, &ended, RANGE_IDS * 3 / 4 + 1,
              NOW_MS + 90000); /* three quarters of the tasks have ended after 90 s, so the removal of their rows waits
                                  for a third of that, 30 s */
    end_below(&f, &ended, RANGE_IDS * 7 / 8, NOW_MS + 119999);
    assert_int_equal(rows_of(f.index), all);
    end_below(&f, &ended, RANGE_IDS * 15 / 16, NOW_MS + 120000);
    /* The sweep also removes rows of tasks that ended after it was planned. */
    assert_int_equal(rows_of(f.index), all - (RANGE_IDS * 15 / 16 - 1));
    /* The range of ids is a day old, but the removal of its rows waits for at most three minutes. Time alone ends the
     * wait, without further frames. */
    end_below(&f, &ended, RANGE_IDS - 1, NOW_MS + 86400000);
    assert_int_equal(rows_of(f.index), all - (RANGE_IDS * 15 / 16 - 1));
    assert_int_equal(index_maintain_at(f.index), (NOW_MS + 86400000) * 1000000 + SWEEP_REST_MAX_NS);
    index_tell_time(f.index, index_maintain_at(f.index) - 1);
    maintain(&f);
    assert_int_equal(rows_of(f.index), all - (RANGE_IDS * 15 / 16 - 1));
    index_tell_time(f.index, index_maintain_at(f.index));
    maintain(&f);
    assert_int_equal(rows_of(f.index), RANGE_IDS + 1);
    assert_int_equal(index_maintain_at(f.index), UINT64_MAX);
    tear_down(&f);
}

/* A range that waits for its sweep does not delay another range. A range whose tasks have all ended is swept at once.
 */
static void ranges_are_swept_when_they_are_due(void **state) { /* CAP-1 */
    struct fx f;
    uint64_t from[] = {RANGE_IDS, 2 * RANGE_IDS, 3 * RANGE_IDS};
    set_up(&f, 16u << 20);
    schedule_to(&f, 3 * RANGE_IDS, NOW_MS);
    schedule_to(&f, 5 * RANGE_IDS, NOW_MS + 90000);
    uint64_t all = rows_of(f.index), most = RANGE_IDS * 7 / 8;
    end_below(&f, &from[0], RANGE_IDS + most, NOW_MS + 90000);     /* until +120000 */
    end_below(&f, &from[2], 3 * RANGE_IDS + most, NOW_MS + 96000); /* until +98000 */
    assert_int_equal(rows_of(f.index), all);
    end_below(&f, &from[1], 2 * RANGE_IDS + most, NOW_MS + 98000); /* until +130666 */
    assert_int_equal(rows_of(f.index), all - most);                /* the rows of the third range are removed */
    end_below(&f, &from[1], 3 * RANGE_IDS, NOW_MS + 98001);
    assert_int_equal(rows_of(f.index), all - most - RANGE_IDS); /* all rows of the second range are removed too */
    index_tell_time(f.index, (NOW_MS + 120000) * 1000000);
    maintain(&f);
    assert_int_equal(rows_of(f.index), all - 2 * most - RANGE_IDS);
    tear_down(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(advice_costs_the_same_however_many_lines_there_are),
        cmocka_unit_test(a_merge_takes_a_part_of_the_memory),
        cmocka_unit_test(a_merge_under_way_is_counted),
        cmocka_unit_test(a_range_rests_for_a_third_of_its_age_before_its_sweep),
        cmocka_unit_test(ranges_are_swept_when_they_are_due),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
