/* amqp_codec.h: the bytes of AMQP 0-9-1: frames, methods, field tables and properties of messages. Pure: no I/O, and
 * only `amqp_out` allocates memory. All input may be hostile: no function reads beyond the given bytes, and tables are
 * limited in depth and in number of fields. */
#ifndef TARRY_AMQP_CODEC_H
#define TARRY_AMQP_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMQP_HEADER "AMQP\0\0\x9\x1"
#define AMQP_HEADER_SIZE 8u
#define AMQP_FRAME_HEAD 7u
#define AMQP_FRAME_END 0xce
#define AMQP_FRAME_OVERHEAD (AMQP_FRAME_HEAD + 1u)
/* Smallest value of frame-max that a client may choose. */
#define AMQP_FRAME_MIN 4096u
#define AMQP_SHORTSTR_MAX 255u
/* Maximum nesting of tables and arrays, and maximum number of fields in a table, including all tables within it. */
#define AMQP_DEPTH_MAX 16u
#define AMQP_TABLE_FIELDS_MAX 1024u
#define AMQP_FIELDS_MAX 10u /* maximum number of fields of a method */

enum amqp_frame_type { AMQP_FRAME_METHOD = 1, AMQP_FRAME_CONTENT = 2, AMQP_FRAME_BODY = 3, AMQP_FRAME_HEARTBEAT = 8 };

enum amqp_class { AMQP_CLASS_CONNECTION = 10, AMQP_CLASS_BASIC = 60 };

enum amqp_method_kind {
    AMQP_UNKNOWN_METHOD,
#define METHOD(NAME, ...) AMQP_##NAME,
#include "methods.def"
    AMQP_METHODS
};

enum { /* indexes of a method's fields: AMQP_QUEUE_DECLARE_queue … */
#define FIELD(NAME, field, at) AMQP_##NAME##_##field = at,
#include "methods.def"
};

/* Some received bytes, or a text; without a terminating NUL. */
struct amqp_bytes {
    const uint8_t *at;
    size_t size;
};
static inline struct amqp_bytes amqp_text(const char *text) {
    return (struct amqp_bytes){(const uint8_t *)text, __builtin_strlen(text)};
}
bool amqp_same(struct amqp_bytes a, struct amqp_bytes b);
bool amqp_is(struct amqp_bytes bytes, const char *text);
bool amqp_begins(struct amqp_bytes bytes, const char *text);

/* ---- reading */
/* Takes a number of `size` bytes, at most 8, from the front of `rest`. False: there are fewer bytes. */
bool amqp_take_number(struct amqp_bytes *rest, size_t size, uint64_t *out);
/* Takes bytes that follow their length, which has `length_size` bytes. False: there are fewer bytes. */
bool amqp_take_sized(struct amqp_bytes *rest, size_t length_size, struct amqp_bytes *out);

struct amqp_frame {
    uint8_t type;
    uint16_t channel;
    struct amqp_bytes payload;
};
enum amqp_framing { AMQP_FRAME_PART, AMQP_FRAME_WHOLE, AMQP_FRAME_BAD };
/* Reads the frame at the start of `bytes`. If it is complete, sets `*out_size` to its size. It is bad if it is longer
 * than `frame_max`, or its end mark is missing. */
enum amqp_framing amqp_frame_read(struct amqp_bytes bytes, uint32_t frame_max, struct amqp_frame *out,
                                  size_t *out_size);

struct amqp_method {
    enum amqp_method_kind kind;
    uint16_t class_id, method_id;
    struct {
        uint64_t number;         /* value of an octet, short, long, longlong or bit */
        struct amqp_bytes bytes; /* value of a shortstr or longstr, or the fields of a table */
    } fields[AMQP_FIELDS_MAX];
};
/* Reads a method. Returns false if the bytes are too few or too many, or a table is malformed. An unknown method
 * becomes AMQP_UNKNOWN_METHOD. */
bool amqp_method_read(struct amqp_bytes payload, struct amqp_method *out);
const char *amqp_method_name(enum amqp_method_kind kind); /* "queue.declare" */
void amqp_method_ids(enum amqp_method_kind kind, uint16_t *out_class, uint16_t *out_method);

/* The head of a content: its size and its properties. */
struct amqp_content_head {
    uint64_t body_size;
    struct amqp_bytes properties; /* flags and values of the properties, as received */
};
bool amqp_content_read(struct amqp_bytes payload, struct amqp_content_head *out);

enum amqp_property {
    AMQP_CONTENT_TYPE,
    AMQP_CONTENT_ENCODING,
    AMQP_HEADERS,
    AMQP_DELIVERY_MODE,
    AMQP_PRIORITY,
    AMQP_CORRELATION_ID,
    AMQP_REPLY_TO,
    AMQP_EXPIRATION,
    AMQP_MESSAGE_ID,
    AMQP_TIMESTAMP,
    AMQP_TYPE,
    AMQP_USER_ID,
    AMQP_APP_ID,
    AMQP_CLUSTER_ID,
    AMQP_PROPERTIES
};
struct amqp_properties {
    uint16_t present; /* bit 1 << enum amqp_property is set for each property that is present */
    uint64_t numbers[AMQP_PROPERTIES];
    struct amqp_bytes bytes[AMQP_PROPERTIES];
};
bool amqp_properties_read(struct amqp_bytes properties, struct amqp_properties *out);
static inline bool amqp_has(const struct amqp_properties *properties, enum amqp_property which) {
    return (properties->present & 1u << which) != 0;
}

/* ---- field tables: a table is its fields, without the length before them */
struct amqp_field {
    struct amqp_bytes name; /* name of the field; empty in an array */
    uint8_t type;
    struct amqp_bytes raw; /* bytes of the value, as received */
    /* the text's bytes of a string (type S) or byte array (type x); the encoded fields of a table (type F) or array
     * (type A) */
    struct amqp_bytes value;
    bool is_integer;
    int64_t number; /* value of an integer (`is_integer` is true) or of a boolean (type t) */
};
bool amqp_table_valid(struct amqp_bytes table);
/* Reads the next field, and removes it from `rest`. Returns false if no further field exists. In an array (`is_array`),
 * fields have no names. */
bool amqp_field_next(struct amqp_bytes *rest, bool is_array, struct amqp_field *out);
bool amqp_table_find(struct amqp_bytes table, const char *name, struct amqp_field *out);
bool amqp_table_find_named(struct amqp_bytes table, struct amqp_bytes name, struct amqp_field *out);
/* Returns whether the two fields have the same value. Integers are compared by their value, whatever their types. */
bool amqp_field_same(const struct amqp_field *a, const struct amqp_field *b);

/* ---- writing */
struct amqp_out { /* zeroed: empty */
    uint8_t *bytes;
    size_t size, capacity;
    bool failed; /* out of memory; nothing more is written */
};
void amqp_out_free(struct amqp_out *out);
void amqp_put(struct amqp_out *out, const void *bytes, size_t size);
void amqp_put_number(struct amqp_out *out, uint64_t number, unsigned size);
void amqp_put_shortstr(struct amqp_out *out, struct amqp_bytes text); /* cuts the text at 255 bytes */
void amqp_put_longstr(struct amqp_out *out, struct amqp_bytes text);
/* Begins a part that starts with its own length in 4 bytes; amqp_put_end writes the length. */
size_t amqp_put_begin(struct amqp_out *out);
void amqp_put_end(struct amqp_out *out, size_t begin);
/* Writes name and type; the caller writes the value. */
void amqp_put_field(struct amqp_out *out, const char *name, uint8_t type);
void amqp_put_text_field(struct amqp_out *out, const char *name, struct amqp_bytes text);

/* Writes a method frame. methods.def gives one letter for each field of the method, and the caller passes one argument
 * for each letter: `unsigned` for o, w, d and b, `uint64_t` for q, `struct amqp_bytes` for s, L and T. */
void amqp_put_method(struct amqp_out *out, uint16_t channel, enum amqp_method_kind kind, ...);
/* Writes the frames of a content: its head, and its body in frames of at most `frame_max` bytes. */
void amqp_put_content(struct amqp_out *out, uint16_t channel, uint32_t frame_max, struct amqp_bytes properties,
                      struct amqp_bytes body);
void amqp_put_heartbeat(struct amqp_out *out);
/* Writes properties: flags and values. */
void amqp_put_properties(struct amqp_out *out, const struct amqp_properties *properties);

#endif
