/* totals.h: a log in numbers: per queue how often what happened, how late tasks were delivered, and which seconds were
 * the busiest.
 *
 * Memory is bounded by the number of queues (about 8 KB for each name), however long the log is. Records must come
 * in the order of the log. */
#ifndef TARRY_TOOL_TOTALS_H
#define TARRY_TOOL_TOTALS_H

#include "entry.h"
#include "text.h"

struct totals;
struct totals *totals_new(void);
void totals_free(struct totals *totals); /* NULL is fine */
void totals_take(struct totals *totals, const struct entry *entry);

/* A line per queue, by name, and a last one over everything, whose `queue` is null. */
void totals_json(struct totals *totals, struct text *out);
/* A table of counts; lateness and busiest seconds with bars. */
void totals_words(struct totals *totals, struct text *out);

#endif
