/* histogram.h: counts of 64-bit values in log-linear buckets, for quantiles.
 *
 * After Gil Tene's HdrHistogram: every power of two is cut into 32 equal parts, and a part answers with its middle, so
 * a quantile is off by at most 1/64 of itself; below 64 it is exact. Fixed memory (about 7.7 KB), O(1) record, no
 * allocation. A bucket holds up to 2^32 - 1; before one would overflow, all are halved, and from then on what came
 * before weighs half as much. Not thread-safe. */
#ifndef TARRY_PROTO_HISTOGRAM_H
#define TARRY_PROTO_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_PART_BITS 5
#define HISTOGRAM_BUCKETS (((64 - HISTOGRAM_PART_BITS) << HISTOGRAM_PART_BITS) + (1 << HISTOGRAM_PART_BITS))

struct histogram {  /* zeroed: empty */
    uint64_t count; /* of all values recorded */
    uint64_t min;   /* valid while count > 0 */
    uint64_t max;   /* exact */
    uint64_t total; /* sum of the buckets */
    uint32_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_record(struct histogram *histogram, uint64_t value);
/* The smallest value that at least quantile × count values do not exceed; 0 ≤ quantile ≤ 1. 0 when empty; 1 gives the
 * exact maximum. */
uint64_t histogram_quantile(const struct histogram *histogram, double quantile);

#endif
