/* ledger.h: which tasks a bench has handed over, which have come, and how late: nothing lost, nothing early, nothing
 * twice.
 *
 * A payload is text, so that any system can carry it: the task's number and the moment it falls due (Unix
 * milliseconds), 16 hexadecimal digits each, then filler. Any number of threads may tell of arrivals. */
#ifndef TARRY_BENCH_LEDGER_H
#define TARRY_BENCH_LEDGER_H

#include <stdatomic.h>

#include "bench.h"

#define LEDGER_PAYLOAD_SIZE_MIN 32u

/* Of a value in microseconds: 128 buckets for each power of two, so a quantile is at most 1 % too large. */
#define HISTOGRAM_STEPS 128u
#define HISTOGRAM_BUCKETS (HISTOGRAM_STEPS * 40u)
struct histogram {
    atomic_ullong counts[HISTOGRAM_BUCKETS];
};
void histogram_add(struct histogram *histogram, uint64_t value);
/* The value below which a share of `q` (0 … 1) lies; 0 if there is none. With `before` not NULL, of what came since. */
uint64_t histogram_quantile(const struct histogram *histogram, const struct histogram *before, double q);
void histogram_copy(struct histogram *to, const struct histogram *from);

struct ledger {
    uint64_t tasks; /* numbers are below it */
    atomic_uchar *seen;
    atomic_ullong arrived;
    atomic_ullong twice;
    atomic_ullong early;
    atomic_ullong foreign; /* of another run */
    atomic_ullong first_ns;
    struct histogram late_us;
};

/* Dies if there is no memory. */
void ledger_init(struct ledger *ledger, uint64_t tasks);
void ledger_deinit(struct ledger *ledger);

/* `payload` has `size` bytes, at least LEDGER_PAYLOAD_SIZE_MIN. */
void ledger_write(char *payload, size_t size, uint64_t number, uint64_t due_ms);

/* The task's number; UINT64_MAX: it is none of ours. `due_ms` 0: what the payload says. */
uint64_t ledger_arrived(struct ledger *ledger, const void *payload, size_t size, uint64_t due_ms);
/* What ledger_arrived will look at for this payload lies anywhere: the processor fetches it meanwhile. */
void ledger_prefetch(const struct ledger *ledger, const void *payload, size_t size);

/* ` late_p50_us=… late_p99_us=… late_p999_us=… late_max_us=… early=… twice=… foreign=…`, without a line's end. */
void ledger_print(const struct ledger *ledger);

/* Whether nothing was early, twice or another's, and `expected` came. */
bool ledger_is_good(const struct ledger *ledger, uint64_t expected);

#endif
