/* table.h: aligned columns for people.
 *
 * A table collects cells, and prints them when their widths are known. It may be printed in parts: the widths only
 * grow, and the header is printed once. Widths count characters, not bytes. */
#ifndef TARRY_TOOL_TABLE_H
#define TARRY_TOOL_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "json_map.h"
#include "text.h"

/* ---- colours and bold text for people: only on a terminal, and only if NO_COLOR and TERM allow them */

enum style { STYLE_BOLD, STYLE_GOOD, STYLE_WARNING, STYLE_BAD };

/* Returns the escape sequence for text on this descriptor; "" if it gets no colours. */
const char *style_begin(int fd, enum style style);
const char *style_end(int fd);

/* ---- tables */

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
/* Adds a cell with a time, such as "2026-11-21T04:00:00.123+01:00"; "-" for 0. */
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

/* ---- columns of a message */

/* Messages of tarry.proto for people, by a specification: which fields, in which order, under which names.
 * How a value looks follows from its form in proto/json (a time, a duration, a text …). */

struct column {
    const char *head; /* heading; in a table, a leading '>' aligns the column to the right */
    /* Name in tarry.proto, for example "policy.lease_ms" for a field of an inner message; NULL: `say` finds the value.
     */
    const char *field;
    /* Appends the value; NULL: the field's form in proto/json decides how it is printed. */
    void (*say)(struct text *out, const ProtobufCMessage *message);
};

/* Appends a field's value in human-readable form. Appends nothing if the value is empty, or if the value is 0 and the
 * field's 0 means "not set". */
void field_say(struct text *out, const ProtobufCMessage *message, const char *path);
/* Adds one row: a cell for each column; "-" for no value. */
void columns_row(struct table *table, const struct column *columns, size_t count, const ProtobufCMessage *message);
/* Starts a table with these columns. */
void columns_table(struct table *table, const struct column *columns, size_t count);
/* Appends one line for each column that has a value: the name, padded to `width`, and the value. */
void columns_lines(struct text *out, const struct column *columns, size_t count, size_t width,
                   const ProtobufCMessage *message);

#endif
