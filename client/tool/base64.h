/* base64.h: RFC 4648 base64, for payloads that are not text. Pure functions. */
#ifndef TARRY_TOOL_BASE64_H
#define TARRY_TOOL_BASE64_H

#include <stdbool.h>
#include <stddef.h>

#include "text.h"

/* Appends `size` bytes as base64 with padding. */
void base64_encode(struct text *out, const void *data, size_t size);

/* Bytes that base64_decode may write for `size` characters. */
static inline size_t base64_decoded_size_max(size_t size) {
    return size / 4 * 3 + 3;
}

/* Strict: the standard alphabet, no spaces, no bits left over; padding may be missing, but then all of it. False,
 * *out_size untouched, otherwise. `out` holds base64_decoded_size_max(size) bytes. */
bool base64_decode(const char *text, size_t size, unsigned char *out, size_t *out_size);

#endif
