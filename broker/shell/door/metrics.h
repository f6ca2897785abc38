/* metrics.h: formats the reply to a Stats request as text for Prometheus. It follows the Prometheus conventions: base
 * units, `_total` for counters, histograms with fixed buckets, HELP and TYPE.
 *
 * The number of series is limited. The first METRICS_QUEUES_MAX queues of the broker's table have series of their own.
 * The other queues are counted only in the sums over all queues; tarry_queues_left_out is their number. The order of
 * the table is fixed. So a queue's series appear or disappear only when an earlier queue of the table is deleted or
 * created. Each queue has METRICS_QUEUE_SERIES series. Each queue with a webhook (at most PUSH_QUEUES_MAX) has
 * METRICS_PUSH_SERIES more. */
#ifndef TARRY_SHELL_METRICS_H
#define TARRY_SHELL_METRICS_H

#include <stddef.h>

#include "durations.h"
#include "tarry.pb-c.h"

#define METRICS_QUEUES_MAX 512u
/* Tasks by state, gauges, counters, and one histogram: its buckets (with +Inf), sum and count. */
#define METRICS_QUEUE_SERIES (4u + 4u + 7u + DURATION_BUCKETS + 2u)
#define METRICS_PUSH_SERIES 9u
#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* Returns text from malloc and its size without the terminating NUL; NULL if memory is exhausted. Any thread. */
char *metrics_text(const Tarry__StatsReply *stats, size_t *out_size);

#endif
