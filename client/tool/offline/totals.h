/* totals.h: statistics of a log: records per queue and kind, lateness of deliveries, and the busiest seconds.
 *
 * Memory depends only on the number of queues (about 8 KB for each name), not on the length of the log. Records must
 * come in the order of the log. */
#ifndef TARRY_TOOL_TOTALS_H
#define TARRY_TOOL_TOTALS_H

#include "entry.h"
#include "text.h"

struct totals;
struct totals *totals_new(void);
void totals_free(struct totals *totals); /* `totals` may be NULL */
void totals_take(struct totals *totals, const struct entry *entry);

/* Appends one line for each queue, by name, and one for all queues, whose `queue` is null. */
void totals_json(struct totals *totals, struct text *out);
/* Appends a table of counts, and lateness and busiest seconds with bars. */
void totals_words(struct totals *totals, struct text *out);

#endif
