/* columns.h: messages of tarry.proto for people, by a specification: which fields, in which order, under which names.
 * How a value looks follows from its form in proto/json (a time, a duration, a text …). */
#ifndef TARRY_TOOL_COLUMNS_H
#define TARRY_TOOL_COLUMNS_H

#include "json_map.h"
#include "table.h"

struct column {
    const char *head; /* heading; in a table, a leading '>' aligns the column to the right */
    /* Name in tarry.proto, for example "policy.lease_ms" for a field of an inner message; NULL: `say` finds the value.
     */
    const char *field;
    /* Appends the value; NULL: the field's form in proto/json decides how it is printed. */
    void (*say)(struct text *out, const ProtobufCMessage *message);
};

/* Appends the value of a field for people. Appends nothing if the value is empty, or is 0 and 0 means absent. */
void field_say(struct text *out, const ProtobufCMessage *message, const char *path);
/* Adds one row: a cell for each column; "-" for no value. */
void columns_row(struct table *table, const struct column *columns, size_t count, const ProtobufCMessage *message);
/* Starts a table with these columns. */
void columns_table(struct table *table, const struct column *columns, size_t count);
/* Appends one line for each column that has a value: the name, padded to `width`, and the value. */
void columns_lines(struct text *out, const struct column *columns, size_t count, size_t width,
                   const ProtobufCMessage *message);

#endif
