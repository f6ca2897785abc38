/* wire_field.h: packs and unpacks single fields of protobuf messages, for the code that wire_generate.c generates
 * (it explains the order of fields). As in proto3, a field with its default value is omitted. */
#ifndef TARRY_PROTO_WIRE_FIELD_H
#define TARRY_PROTO_WIRE_FIELD_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "arena.h"
#include "bytes.h"

/* Forces inlining. wire_codec.c calls these functions several hundred times; without this attribute, GCC does not
 * inline the calls, and the code executes 10 % more instructions. */
#define ALWAYS_INLINE static inline __attribute__((always_inline))

enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2 };

/* Upper bounds of the bytes that a packed field takes or overwrites, including its tag. They hold for field numbers
 * below 2,048. BYTES_ROOM does not include the field's content. */
#define TAG_ROOM 2u
#define NUMBER_ROOM (TAG_ROOM + 10u) /* space for a number, or an enumerator: a negative value takes 10 bytes */
#define NUMBER32_ROOM (TAG_ROOM + 8u)
#define BOOL_ROOM (TAG_ROOM + 1u)
#define FIXED64_ROOM (TAG_ROOM + 8u)
#define BYTES_ROOM (TAG_ROOM + 10u)

/* Convert a number below 2^56 to bytes of seven bits each, the lowest first, and back. Each conversion takes three
 * steps for all bytes together. Compared with a loop over the bytes, this saves 30 instructions for 6 bytes, the usual
 * size of positions and times. */
ALWAYS_INLINE uint64_t varint_spread(uint64_t value) {
    value = (value & 0x000000000fffffffu) | (value & 0x00fffffff0000000u) << 4;
    value = (value & 0x00003fff00003fffu) | (value & 0x0fffc0000fffc000u) << 2;
    return (value & 0x007f007f007f007fu) | (value & 0x3f803f803f803f80u) << 1;
}
ALWAYS_INLINE uint64_t varint_gather(uint64_t bytes) {
    bytes = (bytes & 0x007f007f007f007fu) | (bytes & 0x7f007f007f007f00u) >> 1;
    bytes = (bytes & 0x00003fff00003fffu) | (bytes & 0x3fff00003fff0000u) >> 2;
    return (bytes & 0x000000000fffffffu) | (bytes & 0x0fffffff00000000u) >> 4;
}

/* ---- packing: each function writes a field that ends at `at`, and returns its start */

/* May overwrite up to 8 bytes before the returned address, so earlier fields must be written later. */
ALWAYS_INLINE uint8_t *varint_before(uint8_t *at, uint64_t value) {
    if (value < 0x80) {
        *--at = (uint8_t)value;
        return at;
    }
    unsigned size = (unsigned)(70 - __builtin_clzll(value)) / 7;
    if (size <= 8) {
        uint64_t bytes = varint_spread(value) | (0x8080808080808080u & ((1ull << 8 * (size - 1)) - 1));
        put_u64(at - 8, bytes << 8 * (8 - size));
        return at - size;
    }
    uint8_t *from = at - size;
    for (at = from; value >= 0x80; value >>= 7) *at++ = (uint8_t)(value | 0x80);
    *at = (uint8_t)value;
    return from;
}

ALWAYS_INLINE uint8_t *tag_before(uint8_t *at, unsigned number, enum wire_type type) {
    unsigned tag = number << 3 | type;
    if (tag >= 0x80) *--at = (uint8_t)(tag >> 7);
    *--at = (uint8_t)(tag >= 0x80 ? tag | 0x80 : tag);
    return at;
}

ALWAYS_INLINE uint8_t *number_before(uint8_t *at, unsigned number, uint64_t value) {
    return value == 0 ? at : tag_before(varint_before(at, value), number, WIRE_VARINT);
}

static inline uint8_t *enum_before(uint8_t *at, unsigned number, int value) {
    return number_before(at, number, (uint64_t)(int64_t)value);
}

static inline uint8_t *bool_before(uint8_t *at, unsigned number, protobuf_c_boolean value) {
    return number_before(at, number, value != 0);
}

static inline uint8_t *fixed64_before(uint8_t *at, unsigned number, uint64_t value) {
    if (value == 0) return at;
    put_u64(at - 8, value);
    return tag_before(at - 8, number, WIRE_FIXED64);
}

/* Packs length and tag of a message whose bytes are between `at` and `end`. */
static inline uint8_t *message_before(uint8_t *at, unsigned number, const uint8_t *end) {
    return tag_before(varint_before(at, (uint64_t)(end - at)), number, WIRE_BYTES);
}

static inline uint8_t *data_before(uint8_t *at, unsigned number, const void *data, size_t size) {
    if (size == 0) return at;
    at -= size;
    memcpy(at, data, size);
    return message_before(at, number, at + size);
}

static inline uint8_t *bytes_before(uint8_t *at, unsigned number, ProtobufCBinaryData bytes) {
    return data_before(at, number, bytes.data, bytes.len);
}

static inline size_t text_size(const char *text) {
    return text != NULL ? strlen(text) : 0;
}

static inline uint8_t *text_before(uint8_t *at, unsigned number, const char *text) {
    return data_before(at, number, text, text_size(text));
}

/* ---- unpacking */

struct wire_reader {
    const uint8_t *at, *end;
    bool odd; /* true: the bytes are not in the form that our packers write, so every value read so far is invalid */
};

ALWAYS_INLINE bool take_tag(struct wire_reader *reader, unsigned number, enum wire_type type) {
    const unsigned tag = number << 3 | type, size = tag < 0x80 ? 1 : 2;
    if ((size_t)(reader->end - reader->at) < size) return false;
    if (reader->at[0] != (uint8_t)(tag < 0x80 ? tag : tag | 0x80)) return false;
    if (size == 2 && reader->at[1] != tag >> 7) return false;
    reader->at += size;
    return true;
}

/* Reads a varint. Sets reader->odd if the varint does not end within 10 bytes. */
ALWAYS_INLINE uint64_t take_varint(struct wire_reader *reader) {
    size_t left = (size_t)(reader->end - reader->at);
    if (left > 0 && *reader->at < 0x80) return *reader->at++;
    if (left >= 8) {
        uint64_t bytes = get_u64(reader->at), last = ~bytes & 0x8080808080808080u;
        if (last != 0) {
            reader->at += (unsigned)__builtin_ctzll(last) / 8 + 1;
            return varint_gather(bytes & (last ^ (last - 1)));
        }
    }
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70 && reader->at < reader->end; shift += 7) {
        uint8_t byte = *reader->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return value;
    }
    reader->odd = true;
    return 0;
}

ALWAYS_INLINE void take_number(struct wire_reader *reader, unsigned number, uint64_t *out) {
    if (take_tag(reader, number, WIRE_VARINT)) *out = take_varint(reader);
}

/* Keeps the low 32 bits of a larger number, as protobuf does, also for enumerations. */
ALWAYS_INLINE void take_number32(struct wire_reader *reader, unsigned number, uint32_t *out) {
    if (take_tag(reader, number, WIRE_VARINT)) *out = (uint32_t)take_varint(reader);
}

ALWAYS_INLINE int take_enum(struct wire_reader *reader, unsigned number) {
    uint32_t value = 0;
    take_number32(reader, number, &value);
    return (int)value;
}

ALWAYS_INLINE void take_bool(struct wire_reader *reader, unsigned number, protobuf_c_boolean *out) {
    if (take_tag(reader, number, WIRE_VARINT)) *out = take_varint(reader) != 0;
}

ALWAYS_INLINE void take_fixed64(struct wire_reader *reader, unsigned number, uint64_t *out) {
    if (!take_tag(reader, number, WIRE_FIXED64)) return;
    if (reader->end - reader->at < 8) {
        reader->odd = true;
        return;
    }
    *out = get_u64(reader->at);
    reader->at += 8;
}

/* Maximum size in bytes of a length that this reader decodes. Longer lengths are left to protobuf-c, because it allows
 * 5 bytes but refuses some values of that size. */
#define LENGTH_SIZE_MAX 4

/* Returns the bytes of the field whose tag was taken, without copying them. */
ALWAYS_INLINE ProtobufCBinaryData take_sized(struct wire_reader *reader) {
    ProtobufCBinaryData bytes = {0};
    const uint8_t *from = reader->at;
    uint64_t size = take_varint(reader);
    bool is_long = reader->at - from > LENGTH_SIZE_MAX;
    if (reader->odd || is_long || size > (uint64_t)(reader->end - reader->at)) {
        reader->odd = true;
        return bytes;
    }
    bytes = (ProtobufCBinaryData){.len = (size_t)size, .data = (uint8_t *)reader->at};
    reader->at += size;
    return bytes;
}

/* Returns the bytes of the field. `data` is NULL if the field is absent. */
ALWAYS_INLINE ProtobufCBinaryData take_bytes(struct wire_reader *reader, unsigned number) {
    return take_tag(reader, number, WIRE_BYTES) ? take_sized(reader) : (ProtobufCBinaryData){0};
}

static inline struct wire_reader reader_of(ProtobufCBinaryData bytes) {
    return (struct wire_reader){.at = bytes.data, .end = bytes.data + bytes.len};
}

/* True: all bytes were read, and they are as a packer writes them. */
static inline bool reader_done(const struct wire_reader *reader) {
    return !reader->odd && reader->at == reader->end;
}

/* ---- copying to an arena */

struct copies {
    struct arena *arena;
    bool refused; /* the bytes are malformed or the arena is full, so there is no message */
};

static inline void *keep_room(struct copies *copies, size_t size) {
    void *room = arena_alloc(copies->arena, size);
    if (room == NULL) copies->refused = true;
    return room;
}

ALWAYS_INLINE void keep_bytes(struct copies *copies, ProtobufCBinaryData *bytes) {
    uint8_t *copy = bytes->len > 0 ? keep_room(copies, bytes->len) : NULL;
    if (copy != NULL) memcpy(copy, bytes->data, bytes->len);
    bytes->data = copy;
}

/* Copies a text to the arena. Leaves `*out` unchanged if the field is absent. */
static inline void keep_text(struct copies *copies, ProtobufCBinaryData bytes, char **out) {
    char *copy = bytes.data != NULL ? keep_room(copies, bytes.len + 1) : NULL;
    if (copy == NULL) return;
    if (bytes.len > 0) memcpy(copy, bytes.data, bytes.len);
    copy[bytes.len] = '\0';
    *out = copy;
}

/* Returns room for `count` pointers to messages. */
static inline void *keep_list(struct copies *copies, size_t count) {
    return keep_room(copies, count * sizeof(ProtobufCMessage *));
}

/* ---- packing and unpacking with protobuf-c */

static inline uint8_t *any_before(uint8_t *at, const ProtobufCMessage *message) {
    at -= protobuf_c_message_get_packed_size(message);
    protobuf_c_message_pack(message, at);
    return at;
}

static inline void *any_copy(struct copies *copies, const ProtobufCMessageDescriptor *type, ProtobufCBinaryData bytes) {
    void *message = protobuf_c_message_unpack(type, &copies->arena->pb, bytes.len, bytes.data);
    if (message == NULL) copies->refused = true;
    return message;
}

#endif
