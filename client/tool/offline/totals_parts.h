/* totals_parts.h: what totals.c gathers and totals_print.c prints. Private to these two. */
#ifndef TARRY_TOOL_TOTALS_PARTS_H
#define TARRY_TOOL_TOTALS_PARTS_H

#include "histogram.h"
#include "queue_map.h"
#include "row.h"
#include "tarry_limits.h"
#include "totals.h"

#define BUSIEST_MAX 5
#define BANDS 12

/* Lateness for people: a band holds what was late by its limit at most, and by more than the limit before. */
extern const uint64_t band_limits_ms[BANDS]; /* the last: UINT64_MAX */

struct second {
    uint64_t at_s; /* Unix seconds of the broker's clock */
    uint64_t records;
};

struct sum {                            /* of a queue, or of everything */
    char name[QUEUE_NAME_SIZE_MAX + 1]; /* "#7" until it is known */
    bool is_named;
    uint64_t counts[ENTRY_KINDS];
    uint64_t records;
    uint64_t bands[BANDS];
    struct histogram late_ms;
    struct second now;                  /* being counted; records 0: none is */
    struct second busiest[BUSIEST_MAX]; /* the busiest first; records 0: unused */
};

struct totals {
    struct sum all;
    uint64_t first_ms; /* valid if all.records > 0 */
    uint64_t last_ms;
    struct queue_map queues; /* sums; former queues of a name, and the queue that has it now, share one */
    struct sum **sums;       /* each once */
    size_t sum_count;
};

/* The second that is being counted counts too. */
void sum_settle(struct sum *sum);

#endif
