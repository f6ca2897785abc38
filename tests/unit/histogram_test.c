/* histogram_test.c: quantiles against a sorted array. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../random.h"
#include "histogram.h"

#define VALUES 5000

static int compare_u64(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Returns true if |got - exact| ≤ exact / 64. */
static bool is_near(uint64_t got, uint64_t exact) {
    return (got > exact ? got - exact : exact - got) <= exact / 64;
}

static void compare_quantiles(const struct histogram *histogram, uint64_t *values, size_t count) {
    static const double quantiles[] = {0.001, 0.01, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999};
    qsort(values, count, sizeof(values[0]), compare_u64);
    for (size_t q = 0; q < sizeof(quantiles) / sizeof(quantiles[0]); q++) {
        double exact_rank = quantiles[q] * (double)count;
        size_t rank = (size_t)exact_rank;
        if ((double)rank < exact_rank) rank++;
        assert_true(is_near(histogram_quantile(histogram, quantiles[q]), values[rank - 1]));
    }
    assert_int_equal(histogram_quantile(histogram, 0), values[0]);
    assert_int_equal(histogram_quantile(histogram, 1), values[count - 1]);
    assert_int_equal(histogram->max, values[count - 1]);
    assert_int_equal(histogram->count, count);
}

static void quantiles_are_within_a_64th(void **state) {
    (void)state;
    static struct histogram histogram;
    static uint64_t values[VALUES];
    struct random random = {3};
    for (unsigned bits = 1; bits <= 64; bits++) {
        histogram = (struct histogram){0};
        for (size_t i = 0; i < VALUES; i++) {
            values[i] = i % 2 ? random_magnitude(&random, bits) : random_u64(&random) >> (64 - bits);
            histogram_record(&histogram, values[i]);
        }
        compare_quantiles(&histogram, values, VALUES);
    }
}

static void single_values_come_back(void **state) {
    (void)state;
    static struct histogram histogram;
    assert_int_equal(histogram_quantile(&histogram, 0.5), 0);
    for (unsigned bit = 0; bit < 64; bit++) {
        for (int delta = -1; delta <= 1; delta++) {
            uint64_t value = (1ull << bit) + (uint64_t)delta;
            histogram = (struct histogram){0};
            histogram_record(&histogram, value);
            /* The result is never outside the minimum and the maximum. */
            assert_int_equal(histogram_quantile(&histogram, 0.5), value);
            /* If the value lies between two others, the result is as exact as the value's bucket. */
            histogram_record(&histogram, 0);
            histogram_record(&histogram, UINT64_MAX);
            assert_true(is_near(histogram_quantile(&histogram, 0.5), value));
        }
    }
}

static void a_full_bucket_halves_all(void **state) {
    (void)state;
    static struct histogram histogram;
    for (int i = 0; i < 100; i++) histogram_record(&histogram, 10);
    histogram_record(&histogram, 1000);
    histogram.total += UINT32_MAX - histogram.buckets[10];
    histogram.count += UINT32_MAX - histogram.buckets[10];
    histogram.buckets[10] = UINT32_MAX;
    histogram_record(&histogram, 10);
    assert_int_equal(histogram.count, (uint64_t)UINT32_MAX + 2);
    assert_int_equal(histogram.buckets[10], (1ull << 31) + 1);
    assert_int_equal(histogram.total, (1ull << 31) + 2); /* the rare value is still counted */
    assert_int_equal(histogram_quantile(&histogram, 0.999), 10);
    assert_int_equal(histogram_quantile(&histogram, 1), 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_are_within_a_64th),
        cmocka_unit_test(single_values_come_back),
        cmocka_unit_test(a_full_bucket_halves_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
