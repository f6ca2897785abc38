/* durations.h: a histogram of durations with fixed buckets, for monitoring. Counts only grow, so a caller can subtract
 * the counts of two moments and add the counts of two brokers. (histogram.h computes quantiles.) Not thread-safe. */
#ifndef TARRY_PROTO_DURATIONS_H
#define TARRY_PROTO_DURATIONS_H

#include <stddef.h>
#include <stdint.h>

/* Upper bounds of the buckets of a histogram of durations: X(bound in microseconds, bound in seconds as text).
 * Prometheus has the text as label `le`. One more bucket counts longer durations. A published bound never changes. */
#define DURATION_BOUNDS(X)                                                                                             \
    X(100, "0.0001")                                                                                                   \
    X(250, "0.00025")                                                                                                  \
    X(500, "0.0005")                                                                                                   \
    X(1000, "0.001")                                                                                                   \
    X(2500, "0.0025")                                                                                                  \
    X(5000, "0.005")                                                                                                   \
    X(10000, "0.01")                                                                                                   \
    X(25000, "0.025")                                                                                                  \
    X(50000, "0.05")                                                                                                   \
    X(100000, "0.1")                                                                                                   \
    X(250000, "0.25")                                                                                                  \
    X(500000, "0.5")                                                                                                   \
    X(1000000, "1")                                                                                                    \
    X(2500000, "2.5")                                                                                                  \
    X(5000000, "5")                                                                                                    \
    X(60000000, "60")
#define DURATION_BOUNDS_COUNT 16u
#define DURATION_BUCKETS (DURATION_BOUNDS_COUNT + 1u)

struct durations { /* zeroed: empty */
    uint64_t counts[DURATION_BUCKETS];
    uint64_t sum_us;
};

static inline size_t duration_bucket(uint64_t us) {
#define X(bound, text) bound,
    static const uint64_t bounds[DURATION_BOUNDS_COUNT] = {DURATION_BOUNDS(X)};
#undef X
    size_t bucket = 0;
    while (bucket < DURATION_BOUNDS_COUNT && us > bounds[bucket]) bucket++;
    return bucket;
}

static inline void durations_record(struct durations *durations, uint64_t us) {
    durations->counts[duration_bucket(us)]++;
    durations->sum_us += us;
}

#endif
