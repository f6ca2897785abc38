/* table.h: aligned columns for people.
 *
 * A table collects cells, and prints them when their widths are known. It may be printed in parts: the widths only
 * grow, and the header is printed once. Widths count characters, not bytes. */
#ifndef TARRY_TOOL_TABLE_H
#define TARRY_TOOL_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text.h"

#define TABLE_COLUMNS_MAX 16

struct table {
    const char *heads[TABLE_COLUMNS_MAX]; /* a header that starts with '>' aligns its column to the right */
    size_t column_count;
    size_t widths[TABLE_COLUMNS_MAX];
    bool head_done;
    char **cells; /* cells, row by row; owned */
    size_t cell_count;
    size_t cell_capacity;
};

void table_init(struct table *table, const char *const *heads, size_t column_count);
void table_deinit(struct table *table);
/* Adds the next cell, from left to right; copies `text`. Control characters become '?', because they can break a
 * terminal. */
void table_cell(struct table *table, const char *text);
void table_cell_number(struct table *table, uint64_t number);
/* "2026-11-21T04:00:00.123+01:00", or "-" for 0. */
void table_cell_time(struct table *table, uint64_t ms);
void table_cell_duration(struct table *table, uint64_t ms);
/* Appends the collected cells to `out` and drops them; the widths stay. */
void table_print(struct table *table, struct text *out);

/* Cuts the cells of a column, with … at the end, so that lines have at most `width` characters. Does nothing if fewer
 * than CUT_MIN characters would remain. Must be called before table_print. */
#define CUT_MIN 8u
void table_fit(struct table *table, size_t column, size_t width);
/* Returns the number of columns of the terminal at `fd`; 80 if it is no terminal or the number is unknown. */
#define COLUMNS_DEFAULT 80u
size_t columns_of(int fd);

/* Appends the string itself, or a JSON string if it has control characters, which must not reach the terminal. */
void plain_add(struct text *out, const char *string, size_t size);
/* Appends `value` / `max` as a bar of `width` characters. */
void bar_add(struct text *out, double value, double max, size_t width);

#endif
