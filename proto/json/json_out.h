/* json_out.h: writes JSON to a text (text.h), member by member. The only JSON writer of Tarry. Any thread.
 *
 * Members appear in the order of the calls; out_key writes the comma. */
#ifndef TARRY_JSON_OUT_H
#define TARRY_JSON_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tarry.pb-c.h"
#include "text.h"

void out_begin(struct text *out, char bracket); /* `bracket`: '{' or '[' */
void out_end(struct text *out, char bracket);   /* `bracket`: '}' or ']' */
void out_line_end(struct text *out);            /* '}' and a line feed: the end of a JSON line */
void out_comma(struct text *out);               /* writes a comma; needed before each further element of an array */
void out_key(struct text *out, const char *name);
/* Values. Bytes that are not UTF-8 become U+FFFD. Control characters, and characters that some readers treat as a line
 * end, are escaped, so that a value never reaches a terminal as a command. */
void out_string(struct text *out, const void *text, size_t size);
void out_base64(struct text *out, const uint8_t *bytes, size_t size);
void out_hex(struct text *out, const uint8_t *bytes, size_t size);
/* Writes a number with 10 digits, because further digits of a quantile mean nothing. Writes null for a number that is
 * not finite. */
void out_double(struct text *out, double number);
void out_token_value(struct text *out, uint32_t epoch, uint64_t position); /* "epoch-position" */

/* Members. */
void out_text(struct text *out, const char *name, const char *text);                /* NULL: null */
void out_bytes(struct text *out, const char *name, const void *bytes, size_t size); /* NULL: null */
void out_number(struct text *out, const char *name, uint64_t number);
void out_bool(struct text *out, const char *name, bool value);
void out_null(struct text *out, const char *name);
/* Writes the id as a string, because a JSON number may lose digits; 0: null. */
void out_id(struct text *out, const char *name, uint64_t id);
void out_token(struct text *out, const char *name, const Tarry__Token *token); /* NULL: nothing */
/* Writes a time twice: `NAME_ms` as milliseconds, and `NAME` as text. Writes nothing if it is 0. */
void out_time(struct text *out, const char *name, uint64_t ms);

#endif
