/* ndjson.h: writes JSON objects, one a line, directly and not from a tree of values, because each result passes here.
 *
 * Members are written in the order of the calls; ndjson_key writes the comma. Bytes that are not UTF-8 are replaced
 * by U+FFFD, so that the line is always valid JSON. */
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
void ndjson_string(struct text *out, const char *string, size_t size); /* the value only */
/* For people: the string itself, or a JSON string if it has control characters, which must not reach the terminal. */
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
