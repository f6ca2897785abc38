/* table.h: aligned columns for people.
 *
 * Cells are collected and printed when the widths are known. A table may be printed in pages: the widths only grow,
 * and the head comes once. Width is counted in characters, not in bytes. */
#ifndef TARRY_TOOL_TABLE_H
#define TARRY_TOOL_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text.h"

#define TABLE_COLUMNS_MAX 16

struct table {
    const char *const *heads; /* borrowed; a head that starts with '>' asks for its column to be set right */
    size_t column_count;
    size_t widths[TABLE_COLUMNS_MAX];
    bool head_done;
    char **cells; /* owned, row by row */
    size_t cell_count;
    size_t cell_capacity;
};

void table_init(struct table *table, const char *const *heads, size_t column_count);
void table_deinit(struct table *table);
/* The next cell, from left to right; copied. Control characters are shown as '?': they would break a terminal. */
void table_cell(struct table *table, const char *text);
void table_cell_number(struct table *table, uint64_t number);
/* "2026-11-21T04:00:00.123+01:00", or "-" for 0. */
void table_cell_time(struct table *table, uint64_t ms);
void table_cell_duration(struct table *table, uint64_t ms);
/* Appends what was collected to `out` and forgets it; the widths stay. */
void table_print(struct table *table, struct text *out);

/* Cuts the cells of a column, with … at the end, so that lines are at most `width` columns wide, if that leaves
 * CUT_MIN to it. Before table_print. */
#define CUT_MIN 8u
void table_fit(struct table *table, size_t column, size_t width);
/* Of the terminal at `fd`; 80: it is none, or does not say. */
#define COLUMNS_DEFAULT 80u
size_t columns_of(int fd);

/* `value` of `max` as a bar of `width` characters. */
void bar_add(struct text *out, double value, double max, size_t width);

#endif
