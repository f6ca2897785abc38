/* picks.h: which rows a read of the index requests, and in which order. */
#ifndef TARRY_TESTS_FUZZ_PICKS_H
#define TARRY_TESTS_FUZZ_PICKS_H

#include "core.h"

/* Return whether a read returns the row. `argument` describes the read: a core_window, a core_page, a core_list_plan
 * or a core_facts. */
bool pick_window(const struct row *row, const void *argument);
bool pick_page(const struct row *row, const void *argument);
bool pick_list(const struct row *row, const void *argument);
bool pick_wanted(const struct row *row, const void *argument);
/* Compares two rows by (due, id), for qsort. */
int pick_compare(const void *a, const void *b);

#endif
