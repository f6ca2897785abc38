/* ndjson.h: writing JSON objects, one a line. Faster than building values, since every result passes here.
 *
 * Members are written in the order of the calls; ndjson_key puts the comma. Strings that are not UTF-8 have their bad
 * bytes replaced by U+FFFD, so that the line stays JSON whatever the input was. */
#ifndef TARRY_TOOL_NDJSON_H
#define TARRY_TOOL_NDJSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tarry.h"
#include "text.h"

void ndjson_begin(struct text *out);                                   /* { */
void ndjson_end(struct text *out);                                     /* } and a line feed */
void ndjson_key(struct text *out, const char *name);                   /* "name": */
void ndjson_string(struct text *out, const char *string, size_t size); /* the value alone */
/* For people: as it is, or quoted as JSON does it if it holds control characters, which must not drive the terminal. */
void ndjson_words(struct text *out, const char *string, size_t size);
void ndjson_text(struct text *out, const char *name, const char *string);               /* NULL: null */
void ndjson_bytes(struct text *out, const char *name, const char *string, size_t size); /* NULL: null */
void ndjson_number(struct text *out, const char *name, uint64_t number);
void ndjson_real(struct text *out, const char *name, double number);
void ndjson_bool(struct text *out, const char *name, bool value);
void ndjson_null(struct text *out, const char *name);
void ndjson_id(struct text *out, const char *name, uint64_t id); /* a string; 0: null */
void ndjson_token(struct text *out, const char *name, struct tarry_token token);
void ndjson_attributes(struct text *out, const struct tarry_attribute *attributes, size_t count);
/* `body` if it is valid UTF-8, else `body_base64`. */
void ndjson_body(struct text *out, const void *payload, size_t size);

#endif
