/* json_map.h: maps every message of tarry.proto to JSON and back, by protobuf-c's descriptors and formats.def.
 *
 * Writing: json_message. Reading: json_read_message, and json_op for the operations of a commit. Any thread. */
#ifndef TARRY_JSON_MAP_H
#define TARRY_JSON_MAP_H

#include <protobuf-c/protobuf-c.h>

#include "entry.h"
#include "json_in.h"
#include "json_out.h"

/* The form in which a field's values are written. */
enum json_form {
    JSON_PLAIN, /* written by the field's type: number, bool, text, enumerator's name, object */
    JSON_HIDDEN,
    JSON_ID,
    JSON_TIME,
    JSON_DURATION,
    JSON_TEXT, /* bytes that are UTF-8 */
    JSON_HEX,
    JSON_TOKEN,
    JSON_STATES,  /* bits as an array of words */
    JSON_MEMBERS, /* the message's fields are members of the object around it */
    JSON_WHEN,    /* a When, written as one of the members in, in_ms, delay_ms, at or due_ms */
    JSON_CONTENT, /* a packed Content: attributes, properties, and json, body or body_base64 */
};

#define JSON_WORD_SIZE 24u
/* A larger number is written as text, because a reader that uses doubles would change it. */
#define JSON_EXACT_MAX (1ull << 53)

struct json_map;

struct json_field {
    const ProtobufCFieldDescriptor *of;
    const char *name; /* name of the field; a time or duration keeps its ending "_ms" */
    uint16_t name_size;
    enum json_form form;
    bool is_always;   /* true: the field is written although it is 0 or empty */
    bool is_nullable; /* true: an empty field is written as null */
    bool is_required;
    uint64_t most; /* largest number that is accepted */
    const ProtobufCFieldDescriptor
        *unless; /* a field of the same message: if it is not 0, this field is not written; NULL: none */
    const ProtobufCFieldDescriptor *has; /* the field `has_NAME` that belongs to this field; NULL: none */
    const struct json_map *map;          /* map of the message's own fields; NULL: not a message */
    const char (*words)[JSON_WORD_SIZE]; /* names of the enumerators, in the descriptor's order; NULL: no enum */
};

struct json_map {
    const ProtobufCMessageDescriptor *of;
    size_t count;
    struct json_field *fields; /* the message's fields, in the order of its descriptor */
};

/* Returns the map of a message of tarry.proto. */
const struct json_map *json_map_of(const ProtobufCMessageDescriptor *of);
/* Iterates over all maps, for programs that print them. Returns the map after `map`, or the first map if it is NULL.
 * NULL: no more. */
const struct json_map *json_map_next(const struct json_map *map);
const struct json_field *json_field_of(const struct json_map *map, const char *name);
/* Returns the name of an enumerator; "unknown" for a number that this program does not know. */
const char *json_word_of(const struct json_field *field, int value);
/* Returns the size in bytes of one value of the field in its message, or in its array. */
size_t json_value_size(const ProtobufCFieldDescriptor *of);
/* Names of the task states, in the order of the bits. */
#define JSON_STATE_COUNT 4u
extern const char *const json_state_names[JSON_STATE_COUNT];

/* ---- json_write.c */
void json_message(struct text *out, const ProtobufCMessage *message);
/* Writes the members of a message, without the brackets around them. */
void json_members(struct text *out, const ProtobufCMessage *message);
/* Writes the field `name` of a message as a member with its key. Omits the field where formats.def says so. For callers
 * that write members in an order of their own. */
void json_write_field(struct text *out, const ProtobufCMessage *message, const char *name);

/* Writes the members of a content: attributes, properties, and json, body or body_base64. */
void json_content(struct text *out, const Tarry__Content *content);

/* ---- json_entry.c */
/* Writes a record of the log as an object, with a line feed. */
void json_entry(struct text *out, const struct entry *entry);

/* ---- json_read.c */
/* Reads a message into the arena of `in`. NULL: `problem` names the field. */
ProtobufCMessage *json_read_message(struct json_in *in, const ProtobufCMessageDescriptor *of, json_t *object);

/* ---- json_ops.c: operations, by the names of /v1/commit */
/* Converts one operation of a commit, such as {"schedule": {…}}. NULL: `problem` gives the reason. */
Tarry__Op *json_op(struct json_in *in, json_t *object);
/* Converts the operation `name` with these arguments. */
Tarry__Op *json_op_named(struct json_in *in, const char *name, json_t *members);
/* Writes the operation in the form that json_op reads. */
void json_write_op(struct text *out, const Tarry__Op *op);
/* Returns the name of the operation at `index`; NULL: no more. */
const char *json_op_name_at(size_t index);
/* json_op_message returns the descriptor of the message that has the operation's arguments; NULL: unknown operation.
 * json_op_hides returns the name of the member of that message that the operation does not take; NULL: it takes all
 * members. */
const ProtobufCMessageDescriptor *json_op_message(const char *name);
const char *json_op_hides(const char *name);

/* Result of one operation, to be written as JSON. */
struct json_result {
    uint64_t line;     /* number of the input line; 0: the input was not lines */
    const char *name;  /* the operation's name; NULL: not written */
    const char *queue; /* queue and key that the operation names; NULL: none */
    ProtobufCBinaryData key;
    bool has_key; /* true: the operation may name a key, and an empty key is written as null */
    bool is_new;  /* true: the operation scheduled a task */
    const Tarry__OpResult *result;
    const char *code; /* name and sentence of a code that tarry.proto does not have; NULL: use result->code */
    const char *sentence;
    uint64_t position; /* log position after the commit; 0: not written */
};
/* Sets queue, key and is_new. */
void json_result_of(struct json_result *out, const Tarry__Op *op, const Tarry__OpResult *result);
void json_write_result(struct text *out, const struct json_result *result);

#endif
