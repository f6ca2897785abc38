/* latency.h: a histogram of durations in microseconds, with log-linear buckets: the error of a quantile is at most
 * 1/16. Any number of threads may write and read at the same time. A reader may miss the newest counts. */
#ifndef TARRY_SHELL_LATENCY_H
#define TARRY_SHELL_LATENCY_H

#include <stdatomic.h>
#include <stdint.h>

#include "durations.h"
#include "tarry.pb-c.h"

#define LATENCY_BUCKETS (60 * 16 + 16)

struct latency {
    _Atomic uint64_t buckets[LATENCY_BUCKETS];
    _Atomic uint64_t count;
    _Atomic uint64_t max;
    _Atomic uint64_t fixed[DURATION_BUCKETS]; /* counts in the fixed buckets of durations.h */
    _Atomic uint64_t sum;
};

void latency_add(struct latency *latency, uint64_t value);
/* Sets all members of `out`; the caller has initialised its protobuf base. */
void latency_quantiles(const struct latency *latency, Tarry__Quantiles *out);

/* Sets the durations in fixed buckets. `counts` has DURATION_BUCKETS elements and must live as long as `out`. */
void latency_durations(const struct latency *latency, uint64_t *counts, Tarry__Durations *out);

#endif
