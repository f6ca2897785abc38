/* ledger.h: which tasks a bench has scheduled, which have arrived, and how late: none lost, none early, none twice.
 *
 * A payload is text, so that any system can carry it: the task's number and its due time (Unix milliseconds), 16
 * hexadecimal digits each, then filler. Any number of threads may report arrivals. */
#ifndef TARRY_BENCH_LEDGER_H
#define TARRY_BENCH_LEDGER_H

#include <stdatomic.h>

#include "bench.h"

#define LEDGER_PAYLOAD_SIZE_MIN 32u

/* A histogram of microseconds: 128 buckets for each power of two, so a quantile is at most 1 % too large. */
#define HISTOGRAM_STEPS 128u
#define HISTOGRAM_BUCKETS (HISTOGRAM_STEPS * 40u)
struct histogram {
    atomic_ullong counts[HISTOGRAM_BUCKETS];
};
void histogram_add(struct histogram *histogram, uint64_t value);
/* Returns the value below which a share of `q` (0 … 1) of the values lies; 0 if there are no values. If `before` is
 * not NULL, only values added since `before` count. */
uint64_t histogram_quantile(const struct histogram *histogram, const struct histogram *before, double q);
void histogram_copy(struct histogram *to, const struct histogram *from);

struct ledger {
    uint64_t tasks; /* number of tasks; all task numbers are below it */
    atomic_uchar *seen;
    atomic_ullong arrived;
    atomic_ullong twice;
    atomic_ullong early;
    atomic_ullong foreign; /* number of arrived tasks that belong to another run */
    atomic_ullong first_ns;
    struct histogram late_us;
};

/* Exits if there is no memory. */
void ledger_init(struct ledger *ledger, uint64_t tasks);
void ledger_deinit(struct ledger *ledger);

/* Writes a payload of `size` bytes, at least LEDGER_PAYLOAD_SIZE_MIN. */
void ledger_write(char *payload, size_t size, uint64_t number, uint64_t due_ms);

/* Records an arrival. Returns the task's number, or UINT64_MAX if this ledger does not have the task. `due_ms` 0:
 * the due time in the payload is used. */
uint64_t ledger_arrived(struct ledger *ledger, const void *payload, size_t size, uint64_t due_ms);
/* Prefetches the memory that ledger_arrived will read for this payload. */
void ledger_prefetch(const struct ledger *ledger, const void *payload, size_t size);

/* Prints ` late_p50_us=… late_p99_us=… late_p999_us=… late_max_us=… early=… twice=… foreign=…`, without a line end. */
void ledger_print(const struct ledger *ledger);

/* Returns whether no task was early, twice or foreign, and `expected` tasks came. */
bool ledger_is_good(const struct ledger *ledger, uint64_t expected);

#endif
