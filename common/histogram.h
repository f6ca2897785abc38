/* histogram.h: counts of 64-bit values in log-linear buckets, for quantiles.
 *
 * After Gil Tene's HdrHistogram: each power of two is divided into 32 equal buckets. A quantile is the middle of its
 * bucket, so its relative error is at most 1/64; values below 64 are exact. Memory is fixed (about 7.7 KB), recording
 * is O(1). A bucket counts up to 2^32 - 1. Before a bucket overflows, all buckets are halved, so older values then
 * weigh half as much. Not thread-safe. */
#ifndef TARRY_PROTO_HISTOGRAM_H
#define TARRY_PROTO_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_PART_BITS 5
#define HISTOGRAM_BUCKETS (((64 - HISTOGRAM_PART_BITS) << HISTOGRAM_PART_BITS) + (1 << HISTOGRAM_PART_BITS))

struct histogram {  /* zeroed: empty */
    uint64_t count; /* number of all recorded values */
    uint64_t min;   /* minimum; valid while count > 0 */
    uint64_t max;   /* exact */
    uint64_t total; /* sum of the buckets */
    uint32_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_record(struct histogram *histogram, uint64_t value);
/* Returns the smallest value such that at least quantile × count recorded values are not larger; 0 ≤ quantile ≤ 1.
 * Returns 0 for an empty histogram, and the exact maximum for quantile 1. */
uint64_t histogram_quantile(const struct histogram *histogram, double quantile);

#endif
