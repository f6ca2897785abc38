/* json_out.h: writes JSON into growing memory. Any thread; nothing is shared.
 *
 * Members appear in the order of the calls; out_key writes the comma. After an allocation failure, or beyond
 * JSON_OUT_MAX bytes, the output is lost and `failed` is set, which the caller checks at the end. */
#ifndef TARRY_HTTP_JSON_OUT_H
#define TARRY_HTTP_JSON_OUT_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tarry.pb-c.h"

#define JSON_OUT_MAX (64u << 20)

struct json_out {
    struct message *message; /* the output, and unused capacity; NULL: nothing written yet */
    size_t size;
    bool failed;
};

void out_deinit(struct json_out *out);
/* Returns the output as a message, and empties the writer. NULL: it failed, or nothing was written. */
struct message *out_take(struct json_out *out);

/* Truncates the output to `size` bytes. */
void out_cut(struct json_out *out, size_t size);

void out_raw(struct json_out *out, const char *text, size_t size);
void out_literal(struct json_out *out, const char *text);
void out_begin(struct json_out *out, char bracket); /* '{' or '[' */
void out_end(struct json_out *out, char bracket);   /* '}' or ']' */
void out_comma(struct json_out *out);               /* before each further element of an array */
void out_key(struct json_out *out, const char *name);
void out_string(struct json_out *out, const void *text, size_t size);     /* bytes that are not UTF-8 become U+FFFD */
void out_base64(struct json_out *out, const uint8_t *bytes, size_t size); /* as a string */
void out_u64(struct json_out *out, uint64_t number);

void out_text(struct json_out *out, const char *name, const char *text); /* NULL: JSON null */
void out_number(struct json_out *out, const char *name, uint64_t number);
void out_bool(struct json_out *out, const char *name, bool value);
void out_id(struct json_out *out, const char *name,
            uint64_t id); /* as a string, because a JSON number may lose digits; 0: JSON null */
void out_token(struct json_out *out, const char *name, const Tarry__Token *token);
/* Writes milliseconds twice: `NAME_ms` is the number, `NAME` is readable text. Writes nothing if 0. */
void out_time(struct json_out *out, const char *name, uint64_t ms);

/* Writes any message of tarry.proto with its field names. Ids, positions and digests are strings, because a double
 * cannot hold them. Bytes are text if they are UTF-8, else hexadecimal. Enumerations are lower-case names. Empty and 0
 * values are omitted. */
void out_message(struct json_out *out, const ProtobufCMessage *message);

#endif
