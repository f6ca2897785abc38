/* latency.c: see latency.h. */
#include "latency.h"

#include <assert.h>

/* Each value below 16 has a bucket of its own. Above 16, each power of two is divided into 16 buckets. */
static unsigned bucket_of(uint64_t value) {
    if (value < 16) return (unsigned)value;
    unsigned power = 63u - (unsigned)__builtin_clzll(value);
    return (power - 3) * 16 + (unsigned)((value >> (power - 4)) & 15);
}

/* Returns the largest value of the bucket, so that a quantile is never too small. */
static uint64_t bucket_top(unsigned bucket) {
    if (bucket < 16) return bucket;
    unsigned power = bucket / 16 + 3;
    return (((16ull + bucket % 16) + 1) << (power - 4)) - 1;
}

void latency_add(struct latency *latency, uint64_t value) {
    unsigned bucket = bucket_of(value);
    assert(bucket < LATENCY_BUCKETS);
    atomic_fetch_add_explicit(&latency->buckets[bucket], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&latency->count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&latency->fixed[duration_bucket(value)], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&latency->sum, value, memory_order_relaxed);
    uint64_t max = atomic_load_explicit(&latency->max, memory_order_relaxed);
    while (value > max && !atomic_compare_exchange_weak_explicit(&latency->max, &max, value, memory_order_relaxed,
                                                                 memory_order_relaxed)) {
    }
}

static double quantile(const struct latency *latency, uint64_t count, double share) {
    uint64_t rank = (uint64_t)((double)count * share);
    uint64_t max = atomic_load_explicit(&latency->max, memory_order_relaxed);
    uint64_t seen = 0;
    for (unsigned i = 0; i < LATENCY_BUCKETS; i++) {
        seen += atomic_load_explicit(&latency->buckets[i], memory_order_relaxed);
        if (seen <= rank) continue;
        uint64_t top = bucket_top(i);
        return (double)(top < max ? top : max);
    }
    return (double)max;
}

void latency_quantiles(const struct latency *latency, Tarry__Quantiles *out) {
    out->count = atomic_load_explicit(&latency->count, memory_order_relaxed);
    out->max = (double)atomic_load_explicit(&latency->max, memory_order_relaxed);
    out->p50 = quantile(latency, out->count, 0.50);
    out->p99 = quantile(latency, out->count, 0.99);
    out->p999 = quantile(latency, out->count, 0.999);
}

void latency_durations(const struct latency *latency, uint64_t *counts, Tarry__Durations *out) {
    for (size_t i = 0; i < DURATION_BUCKETS; i++)
        counts[i] = atomic_load_explicit(&latency->fixed[i], memory_order_relaxed);
    out->n_counts = DURATION_BUCKETS;
    out->counts = counts;
    out->sum_us = atomic_load_explicit(&latency->sum, memory_order_relaxed);
}
