/* page_numbers.h: the numbers that the page at `/` shows, as JSON: `{"now_ms", "broker": {…}, "queues": [{…}], "pair":
 * {…}}`. Names are as in tarry.proto; durations are counts by the bounds of durations.h. It is the page's own, and may
 * change with it. */
#ifndef TARRY_SHELL_PAGE_NUMBERS_H
#define TARRY_SHELL_PAGE_NUMBERS_H

#include <stddef.h>

#include "tarry.pb-c.h"

/* Allocated with malloc, `*out_size` bytes, UTF-8 if the names are. `pair` NULL: not known. NULL: out of memory. Any
 * thread. */
char *page_numbers(const Tarry__StatsReply *stats, const Tarry__PairReply *pair, size_t *out_size);

#endif
