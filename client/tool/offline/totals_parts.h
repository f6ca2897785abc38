/* totals_parts.h: sums that totals.c collects and totals_print.c prints. Private to these two files. */
#ifndef TARRY_TOOL_TOTALS_PARTS_H
#define TARRY_TOOL_TOTALS_PARTS_H

#include "histogram.h"
#include "queue_map.h"
#include "row.h"
#include "tarry_limits.h"
#include "totals.h"

#define BUSIEST_MAX 5
#define BANDS 12

/* Upper limits of the lateness bands: a band counts lateness above the limit before, up to its own limit. */
extern const uint64_t band_limits_ms[BANDS]; /* upper limits in ms; the last one is UINT64_MAX */

struct second {
    uint64_t at_s; /* Unix seconds of the broker's clock */
    uint64_t records;
};

struct sum {                            /* numbers of one queue, or of all queues */
    char name[QUEUE_NAME_SIZE_MAX + 1]; /* "#7" until the name is known */
    bool is_named;
    uint64_t counts[ENTRY_KINDS];
    uint64_t records;
    uint64_t bands[BANDS];
    struct histogram late_ms;
    struct second now;                  /* second that is being counted; records 0: no second yet */
    struct second busiest[BUSIEST_MAX]; /* seconds with the most records, the busiest first; records 0: unused */
};

struct totals {
    struct sum all;
    uint64_t first_ms; /* time of the first record; valid if all.records > 0 */
    uint64_t last_ms;
    struct queue_map queues; /* sums by queue; queues that had the same name, one after another, share one sum */
    struct sum **sums;       /* array of all sums, each once */
    size_t sum_count;
};

/* Adds the second that is still being counted to the busiest ones, if it is one of them. */
void sum_settle(struct sum *sum);

#endif
