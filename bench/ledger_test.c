/* ledger_test.c: the ledger finds a bench that loses tasks, doubles them or delivers them early, and its quantiles
 * are right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ledger.h"

#define TASKS 10u
#define PAYLOAD_SIZE 128u

static struct ledger ledger;

static int begin(void **state) {
    (void)state;
    ledger_init(&ledger, TASKS);
    return 0;
}

static int end(void **state) {
    (void)state;
    ledger_deinit(&ledger);
    return 0;
}

static void arrive(uint64_t number, uint64_t due_ms) {
    char payload[PAYLOAD_SIZE];
    ledger_write(payload, sizeof(payload), number, due_ms);
    assert_int_equal(ledger_arrived(&ledger, payload, sizeof(payload), 0), number);
}

static void each_once_is_good(void **state) {
    (void)state;
    for (uint64_t number = 0; number < TASKS; number++) {
        assert_false(ledger_is_good(&ledger, TASKS)); /* one task has not arrived */
        arrive(number, bench_wall_ms() - number);
    }
    assert_true(ledger_is_good(&ledger, TASKS));
}

static void twice_is_seen(void **state) {
    (void)state;
    for (uint64_t number = 0; number < TASKS; number++) arrive(number, bench_wall_ms());
    arrive(7, bench_wall_ms());
    assert_int_equal(ledger.twice, 1);
    assert_int_equal(ledger.arrived, TASKS);
    assert_false(ledger_is_good(&ledger, TASKS));
}

static void early_is_seen(void **state) {
    (void)state;
    for (uint64_t number = 0; number < TASKS; number++) arrive(number, bench_wall_ms() + (number == 3 ? 3600000 : 0));
    assert_int_equal(ledger.early, 1);
    assert_false(ledger_is_good(&ledger, TASKS));
}

static void what_the_broker_says_is_due_wins(void **state) {
    (void)state;
    char payload[PAYLOAD_SIZE];
    ledger_write(payload, sizeof(payload), 0, 1);
    ledger_arrived(&ledger, payload, sizeof(payload), bench_wall_ms() + 3600000);
    assert_int_equal(ledger.early, 1);
}

static void others_tasks_are_seen(void **state) {
    (void)state;
    char payload[PAYLOAD_SIZE];
    ledger_write(payload, sizeof(payload), TASKS, 1); /* a task number that only a larger run has */
    assert_true(ledger_arrived(&ledger, payload, sizeof(payload), 0) == UINT64_MAX);
    ledger_write(payload, sizeof(payload), 1, 1);
    payload[3] = 'g';
    assert_true(ledger_arrived(&ledger, payload, sizeof(payload), 0) == UINT64_MAX);
    assert_true(ledger_arrived(&ledger, "short", 5, 0) == UINT64_MAX);
    assert_int_equal(ledger.foreign, 3);
    assert_false(ledger_is_good(&ledger, 0));
}

static void quantiles_are_within_one_per_cent(void **state) {
    (void)state;
    static struct histogram histogram, before;
    assert_int_equal(histogram_quantile(&histogram, NULL, 0.5), 0);
    for (uint64_t value = 1; value <= 100000; value++) histogram_add(&histogram, value);
    static const double qs[] = {0.0, 0.001, 0.5, 0.99, 0.999, 1.0};
    for (size_t i = 0; i < sizeof(qs) / sizeof(qs[0]); i++) {
        const double found = (double)histogram_quantile(&histogram, NULL, qs[i]), is = 1 + qs[i] * 99999;
        assert_true(found <= is + 1 && found >= is * 0.99 - 1);
    }
    histogram_copy(&before, &histogram);
    histogram_add(&histogram, 5);
    assert_int_equal(histogram_quantile(&histogram, &before, 1.0), 5); /* only the values added since `before` count */
    histogram_add(&histogram, UINT64_MAX);
    assert_true(histogram_quantile(&histogram, &before, 1.0) > 1ull << 39);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_once_is_good, begin, end),
        cmocka_unit_test_setup_teardown(twice_is_seen, begin, end),
        cmocka_unit_test_setup_teardown(early_is_seen, begin, end),
        cmocka_unit_test_setup_teardown(what_the_broker_says_is_due_wins, begin, end),
        cmocka_unit_test_setup_teardown(others_tasks_are_seen, begin, end),
        cmocka_unit_test_setup_teardown(quantiles_are_within_one_per_cent, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
