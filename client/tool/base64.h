/* base64.h: RFC 4648 base64, for payloads that are not text. Pure functions. */
#ifndef TARRY_TOOL_BASE64_H
#define TARRY_TOOL_BASE64_H

#include <stdbool.h>
#include <stddef.h>

#include "text.h"

/* Appends `size` bytes as base64 with padding. */
void base64_encode(struct text *out, const void *data, size_t size);

/* Maximum number of bytes that base64_decode writes for `size` characters. */
static inline size_t base64_decoded_size_max(size_t size) {
    return size / 4 * 3 + 3;
}

/* Decodes strictly: the standard alphabet, no spaces, no bits left over; the padding is complete or absent. Returns
 * false and leaves *out_size untouched if `text` is not base64. `out` has base64_decoded_size_max(size) bytes. */
bool base64_decode(const char *text, size_t size, unsigned char *out, size_t *out_size);

#endif
