/* json_valid.h: whether a text is JSON. It is not taken apart: a stored payload goes into an answer as it is, and a
 * payload of a megabyte takes two milliseconds instead of the hundred of a parser. Pure; any thread. */
#ifndef TARRY_HTTP_JSON_VALID_H
#define TARRY_HTTP_JSON_VALID_H

#include <stdbool.h>
#include <stddef.h>

/* The text is one value of RFC 8259, in UTF-8, with JSON_DEPTH_MAX levels at most and without half a surrogate pair.
 * Names that occur twice in an object and numbers of any size are JSON, too. */
bool json_is_valid(const char *text, size_t size);

#endif
