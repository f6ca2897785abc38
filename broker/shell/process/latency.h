/* latency.h: how long something took, in microseconds: log-linear buckets, at most 1/16 wrong.
 *
 * Any number of writers and readers at the same time; a reader may see a count that is some behind. */
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
    _Atomic uint64_t fixed[DURATION_BUCKETS]; /* durations.h */
    _Atomic uint64_t sum;
};

void latency_add(struct latency *latency, uint64_t value);
/* Fills in everything but the message's base. */
void latency_quantiles(const struct latency *latency, Tarry__Quantiles *out);

/* The same, in fixed buckets. `counts` has room for DURATION_BUCKETS, and must live as long as `out`. */
void latency_durations(const struct latency *latency, uint64_t *counts, Tarry__Durations *out);

#endif
