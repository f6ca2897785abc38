/* filter.h: filters of groups (docs/GROUPS.md). A filter is an expression over a task's attributes. It is parsed
 * again for each task, because its text is short (FILTER_SIZE_MAX), and a compiled form would only take memory.
 * Thread-safe, no allocation.
 *
 *     filter  = "*" | or
 *     or      = and { "or" and }
 *     and     = not { "and" not }
 *     not     = "not" not | "(" or ")" | test
 *     test    = NAME "=" TEXT | NAME "!=" TEXT | NAME "prefix" TEXT | NAME "in" "(" TEXT { "," TEXT } ")" | exists
 *     exists  = "exists" NAME
 *     NAME    = letters, digits, "_", "-", ".", "/", or any bytes between double quotes
 *     TEXT    = any bytes between single quotes; a single quote is written twice
 *
 * The words of the grammar are in lower case. An attribute name that equals such a word must be in double quotes. A
 * test of an attribute that the task lacks is false, except `!=`, which is true. */
#ifndef TARRY_PROTO_FILTER_H
#define TARRY_PROTO_FILTER_H

#include <stdbool.h>
#include <stddef.h>

#include "tarry.pb-c.h"

/* Returns NULL if the filter is valid. Otherwise returns an error message, and outputs the place of the error: a byte's
 * number, counted from 1. */
const char *filter_check(const char *filter, size_t *out_column);

/* Returns true if the filter matches the attributes. An invalid filter matches nothing. */
bool filter_matches(const char *filter, Tarry__Attribute *const *attributes, size_t count);

#endif
