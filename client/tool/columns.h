/* columns.h: messages of tarry.proto for people, by a specification: which fields, in which order, under which names.
 * How a value looks follows from its form in proto/json (a time, a duration, a text …). */
#ifndef TARRY_TOOL_COLUMNS_H
#define TARRY_TOOL_COLUMNS_H

#include "json_map.h"
#include "table.h"

struct column {
    const char *head;  /* in a table: '>' aligns to the right */
    const char *field; /* name in tarry.proto, "policy.lease_ms" in an inner message; NULL: `say` knows */
    /* Appends the value; NULL: as its form says. */
    void (*say)(struct text *out, const ProtobufCMessage *message);
};

/* Appends the value of a field as people read it; nothing if it is 0 or empty and its form has no 0. */
void field_say(struct text *out, const ProtobufCMessage *message, const char *path);
/* Adds one row: a cell for each column; "-" for no value. */
void columns_row(struct table *table, const struct column *columns, size_t count, const ProtobufCMessage *message);
/* Starts a table with these columns. */
void columns_table(struct table *table, const struct column *columns, size_t count);
/* Appends one line for each column that has a value: the name, padded to `width`, and the value. */
void columns_lines(struct text *out, const struct column *columns, size_t count, size_t width,
                   const ProtobufCMessage *message);

#endif
