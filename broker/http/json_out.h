/* json_out.h: JSON that is being written, into memory that grows. Any thread; nothing is shared.
 *
 * Members are written in the order of the calls; out_key puts the comma. Once memory has failed, or there would be
 * more than JSON_OUT_MAX bytes, what is written is lost and `failed` says so: look at it at the end. */
#ifndef TARRY_HTTP_JSON_OUT_H
#define TARRY_HTTP_JSON_OUT_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tarry.pb-c.h"

#define JSON_OUT_MAX (64u << 20)

struct json_out {
    struct message *message; /* what is written, and room; NULL: nothing yet */
    size_t size;
    bool failed;
};

void out_deinit(struct json_out *out);
/* What was written, to be sent; the writer is empty then. NULL: it failed, or there is nothing. */
struct message *out_take(struct json_out *out);

/* Takes back what was written behind the first `size` bytes. */
void out_cut(struct json_out *out, size_t size);

void out_raw(struct json_out *out, const char *text, size_t size);
void out_literal(struct json_out *out, const char *text);
void out_begin(struct json_out *out, char bracket); /* '{' or '[' */
void out_end(struct json_out *out, char bracket);   /* '}' or ']' */
void out_comma(struct json_out *out);               /* before a further element of an array */
void out_key(struct json_out *out, const char *name);
void out_string(struct json_out *out, const void *text, size_t size);     /* bytes that are no UTF-8 become U+FFFD */
void out_base64(struct json_out *out, const uint8_t *bytes, size_t size); /* a string */
void out_u64(struct json_out *out, uint64_t number);

void out_text(struct json_out *out, const char *name, const char *text); /* NULL: null */
void out_number(struct json_out *out, const char *name, uint64_t number);
void out_bool(struct json_out *out, const char *name, bool value);
void out_id(struct json_out *out, const char *name, uint64_t id); /* a string, for its digits; 0: null */
void out_token(struct json_out *out, const char *name, const Tarry__Token *token);
/* Milliseconds as a number, `NAME_ms`, and as people read them, `NAME`; nothing if 0. */
void out_time(struct json_out *out, const char *name, uint64_t ms);

/* Any message of tarry.proto: its fields by their names. Numbers of a kind that a double does not hold (ids, positions,
 * digests) are strings; bytes are text if they are UTF-8, else hexadecimal digits; enumerations are their names in
 * lower case; what is empty or 0 is left out. */
void out_message(struct json_out *out, const ProtobufCMessage *message);

#endif
