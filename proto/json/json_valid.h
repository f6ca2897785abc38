/* json_valid.h: checks whether a text is JSON, without parsing it into values. A stored payload can then be copied into
 * a reply: 2 ms per megabyte, against 100 ms with a parser. Pure; any thread. */
#ifndef TARRY_JSON_VALID_H
#define TARRY_JSON_VALID_H

#include <stdbool.h>
#include <stddef.h>

/* Returns whether the text is one value of RFC 8259 in UTF-8, with at most JSON_DEPTH_MAX levels and without a lone
 * surrogate. Repeated names in an object, and numbers of any size, are valid. */
bool json_is_valid(const char *text, size_t size);

#endif
