/* index_advice_test.c: the core advises the index of every line that it has, again and again; that must cost no more
 * the more lines there are (CALM-1). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "index_parts.h"

#define ROUNDS 3
/* 246,000 pieces of advice take some 20 ms; 82,000 looks for each would take 15 s. */
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

static void advice_costs_the_same_however_many_lines_there_are(void **state) {
    char directory[] = "/tmp/tarry-index-advice-XXXXXX", message[256], command[128];
    assert_non_null(mkdtemp(directory));
    struct index_options options = {.directory = directory,
                                    .memory = 16u << 20,
                                    .outcomes_max = 1000,
                                    .outcome_retention_ms = 3600000,
                                    .no_sync = true};
    struct index *index;
    assert_int_equal(index_open(&index, &options, message, sizeof message), 0);
    double from_s = cpu_s();
    for (uint64_t round = 1; round <= ROUNDS; round++) advise_all(index, round * 1000);
    assert_true(cpu_s() - from_s < CPU_S_MAX);
    assert_int_equal(index->lows.count, QUEUES_MAX * ROW_BASES * PRIORITY_COUNT);
    /* Each of them gets its pass. */
    size_t passes = 0;
    for (bool did = true; did; passes += did) assert_int_equal(slots_sweep(index, &did), 0);
    assert_int_equal(passes, index->lows.count);
    assert_false(slots_sweep_wanted(index));
    index_close(index);
    snprintf(command, sizeof command, "rm -r %s", directory);
    assert_int_equal(system(command), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(advice_costs_the_same_however_many_lines_there_are)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
