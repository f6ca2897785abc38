/* metrics.h: the answer to a Stats request as text for Prometheus, by its conventions: base units, `_total` for what
 * only grows, histograms with fixed buckets, HELP and TYPE.
 *
 * How many series there are is bounded: queues have series of their own up to METRICS_QUEUES_MAX of them, in the order
 * in which they came into being, so that none of them comes and goes; those of later ones are in the sums over all
 * queues alone, and tarry_queues_left_out says how many these are. A queue has METRICS_QUEUE_SERIES series. */
#ifndef TARRY_SHELL_METRICS_H
#define TARRY_SHELL_METRICS_H

#include <stddef.h>

#include "durations.h"
#include "tarry.pb-c.h"

#define METRICS_QUEUES_MAX 512u
/* Tasks by state, gauges, counters, and a histogram: its buckets, that of all, sum and count. */
#define METRICS_QUEUE_SERIES (4u + 2u + 7u + DURATION_BUCKETS + 2u)
#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* Allocated with malloc, and `*out_size` bytes without the end. NULL: out of memory. Any thread. */
char *metrics_text(const Tarry__StatsReply *stats, size_t *out_size);

#endif
