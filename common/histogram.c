/* histogram.c: see histogram.h. Halving rounds up, so a bucket with one value never becomes empty. */
#include "histogram.h"

#include <assert.h>

#define PARTS (1ull << HISTOGRAM_PART_BITS)

/* Buckets 0 … 2 × PARTS - 1 hold one value each; every larger power of two has PARTS buckets. */
static unsigned bucket_of(uint64_t value) {
    if (value < 2 * PARTS) return (unsigned)value;
    unsigned exponent = 63u - (unsigned)__builtin_clzll(value);
    unsigned shift = exponent - HISTOGRAM_PART_BITS;
    return (shift << HISTOGRAM_PART_BITS) + (unsigned)(value >> shift);
}

/* Returns the middle value of a bucket. */
static uint64_t bucket_value(unsigned bucket) {
    if (bucket < 2 * PARTS) return bucket;
    unsigned shift = (bucket >> HISTOGRAM_PART_BITS) - 1;
    uint64_t low = (PARTS + bucket % PARTS) << shift;
    return low + (1ull << shift) / 2;
}

static void histogram_halve(struct histogram *histogram) {
    histogram->total = 0;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        histogram->buckets[i] = histogram->buckets[i] / 2 + histogram->buckets[i] % 2;
        histogram->total += histogram->buckets[i];
    }
}

void histogram_record(struct histogram *histogram, uint64_t value) {
    if (histogram->count == 0 || value < histogram->min) histogram->min = value;
    if (value > histogram->max) histogram->max = value;
    histogram->count++;
    unsigned bucket = bucket_of(value);
    if (histogram->buckets[bucket] == UINT32_MAX) histogram_halve(histogram);
    histogram->buckets[bucket]++;
    histogram->total++;
}

uint64_t histogram_quantile(const struct histogram *histogram, double quantile) {
    assert(quantile >= 0 && quantile <= 1);
    if (histogram->count == 0) return 0;
    double exact = quantile * (double)histogram->total;
    uint64_t rank = exact < (double)histogram->total ? (uint64_t)exact : histogram->total;
    if ((double)rank < exact) rank++;
    if (rank == 0) return histogram->min;
    if (rank >= histogram->total) return histogram->max;
    uint64_t seen = 0;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += histogram->buckets[i];
        if (seen < rank) continue;
        uint64_t value = bucket_value(i);
        if (value < histogram->min) return histogram->min;
        return value < histogram->max ? value : histogram->max;
    }
    assert(seen == histogram->total); /* the buckets add up to `total`, so the loop always returns */
    return histogram->max;
}
