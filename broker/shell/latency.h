/* latency.h: how long something took, in microseconds: log-linear buckets, at most 1/16 wrong.
 *
 * One writer, any number of readers at the same time; a reader may see a count that is one behind. */
#ifndef TARRY_SHELL_LATENCY_H
#define TARRY_SHELL_LATENCY_H

#include <stdatomic.h>
#include <stdint.h>

#include "tarry.pb-c.h"

#define LATENCY_BUCKETS (60 * 16 + 16)

struct latency {
    _Atomic uint64_t buckets[LATENCY_BUCKETS];
    _Atomic uint64_t count;
    _Atomic uint64_t max;
};

void latency_add(struct latency *latency, uint64_t value);
/* Fills in everything but the message's base. */
void latency_quantiles(const struct latency *latency, Tarry__Quantiles *out);

#endif
