/* amqp_codec.c: see amqp_codec.h. */
#include "amqp_codec.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct method_row {
    const char *name;
    const char *fields;
    uint16_t class_id, method_id;
};

static const struct method_row rows[AMQP_METHODS] = {
    [AMQP_UNKNOWN_METHOD] = {"unknown", "", 0, 0},
#define METHOD(NAME, class_id, method_id, fields) [AMQP_##NAME] = {#NAME, fields, class_id, method_id},
#include "methods.def"
};

bool amqp_same(struct amqp_bytes a, struct amqp_bytes b) {
    return a.size == b.size && (a.size == 0 || memcmp(a.at, b.at, a.size) == 0);
}

bool amqp_is(struct amqp_bytes bytes, const char *text) {
    return amqp_same(bytes, amqp_text(text));
}

bool amqp_begins(struct amqp_bytes bytes, const char *text) {
    size_t size = strlen(text);
    return bytes.size >= size && memcmp(bytes.at, text, size) == 0;
}

const char *amqp_method_name(enum amqp_method_kind kind) {
    return rows[kind].name;
}

/* ---- reading */

/* Takes `size` bytes from the front. Returns false if fewer bytes are left. */
static bool take(struct amqp_bytes *rest, size_t size, struct amqp_bytes *out) {
    if (rest->size < size) return false;
    *out = (struct amqp_bytes){rest->at, size};
    rest->at += size;
    rest->size -= size;
    return true;
}

static uint64_t number_of(struct amqp_bytes bytes) {
    uint64_t number = 0;
    for (size_t i = 0; i < bytes.size; i++) number = number << 8 | bytes.at[i];
    return number;
}

bool amqp_take_number(struct amqp_bytes *rest, size_t size, uint64_t *out) {
    struct amqp_bytes bytes;
    if (!take(rest, size, &bytes)) return false;
    *out = number_of(bytes);
    return true;
}

bool amqp_take_sized(struct amqp_bytes *rest, size_t length_size, struct amqp_bytes *out) {
    uint64_t size;
    return amqp_take_number(rest, length_size, &size) && take(rest, size, out);
}

enum amqp_framing amqp_frame_read(struct amqp_bytes bytes, uint32_t frame_max, struct amqp_frame *out,
                                  size_t *out_size) {
    uint64_t type, channel, size;
    if (!amqp_take_number(&bytes, 1, &type)) return AMQP_FRAME_PART;
    bool is_type = (type >= AMQP_FRAME_METHOD && type <= AMQP_FRAME_BODY) || type == AMQP_FRAME_HEARTBEAT;
    if (!is_type) return AMQP_FRAME_BAD;
    if (!amqp_take_number(&bytes, 2, &channel) || !amqp_take_number(&bytes, 4, &size)) return AMQP_FRAME_PART;
    if (size > frame_max - AMQP_FRAME_OVERHEAD) return AMQP_FRAME_BAD;
    *out = (struct amqp_frame){.type = (uint8_t)type, .channel = (uint16_t)channel};
    if (!take(&bytes, size, &out->payload) || bytes.size == 0) return AMQP_FRAME_PART;
    *out_size = size + AMQP_FRAME_OVERHEAD;
    return bytes.at[0] == AMQP_FRAME_END ? AMQP_FRAME_WHOLE : AMQP_FRAME_BAD;
}

static enum amqp_method_kind kind_of(uint64_t class_id, uint64_t method_id) {
    for (unsigned kind = AMQP_UNKNOWN_METHOD + 1; kind < AMQP_METHODS; kind++)
        if (rows[kind].class_id == class_id && rows[kind].method_id == method_id) return (enum amqp_method_kind)kind;
    return AMQP_UNKNOWN_METHOD;
}

static bool take_field(struct amqp_bytes *rest, char letter, uint64_t *out_number, struct amqp_bytes *out_bytes) {
    switch (letter) {
    case 'o':
        return amqp_take_number(rest, 1, out_number);
    case 'w':
        return amqp_take_number(rest, 2, out_number);
    case 'd':
        return amqp_take_number(rest, 4, out_number);
    case 'q':
        return amqp_take_number(rest, 8, out_number);
    case 's':
        return amqp_take_sized(rest, 1, out_bytes);
    case 'L':
        return amqp_take_sized(rest, 4, out_bytes);
    default:
        assert(letter == 'T');
        return amqp_take_sized(rest, 4, out_bytes) && amqp_table_valid(*out_bytes);
    }
}

bool amqp_method_read(struct amqp_bytes payload, struct amqp_method *out) {
    uint64_t class_id, method_id, bits = 0;
    unsigned bit = 0;
    *out = (struct amqp_method){0};
    if (!amqp_take_number(&payload, 2, &class_id) || !amqp_take_number(&payload, 2, &method_id)) return false;
    out->kind = kind_of(class_id, method_id);
    out->class_id = (uint16_t)class_id;
    out->method_id = (uint16_t)method_id;
    if (out->kind == AMQP_UNKNOWN_METHOD) return true;
    const char *letters = rows[out->kind].fields;
    for (unsigned i = 0; letters[i] != '\0'; i++) {
        if (letters[i] != 'b') {
            bit = 0;
            if (!take_field(&payload, letters[i], &out->fields[i].number, &out->fields[i].bytes)) return false;
            continue;
        }
        if (bit == 0 && !amqp_take_number(&payload, 1, &bits)) return false;
        out->fields[i].number = bits >> bit & 1;
        bit = (bit + 1) % 8;
    }
    return payload.size == 0;
}

bool amqp_content_read(struct amqp_bytes payload, struct amqp_content_head *out) {
    uint64_t class_id, weight;
    struct amqp_properties properties;
    *out = (struct amqp_content_head){0};
    if (!amqp_take_number(&payload, 2, &class_id) || !amqp_take_number(&payload, 2, &weight)) return false;
    if (class_id != AMQP_CLASS_BASIC || !amqp_take_number(&payload, 8, &out->body_size)) return false;
    out->properties = payload;
    return amqp_properties_read(payload, &properties);
}

static const char property_letters[AMQP_PROPERTIES + 1] = "ssToossssqssss";

static char property_letter(unsigned which) {
    return property_letters[which];
}

bool amqp_properties_read(struct amqp_bytes properties, struct amqp_properties *out) {
    uint64_t flags;
    *out = (struct amqp_properties){0};
    if (!amqp_take_number(&properties, 2, &flags)) return false;
    /* Bit 0 means that further flags follow, which AMQP 0-9-1 never needs; bit 1 is not used. */
    if ((flags & 3) != 0) return false;
    for (unsigned i = 0; i < AMQP_PROPERTIES; i++) {
        if ((flags & 0x8000u >> i) == 0) continue;
        out->present |= (uint16_t)(1u << i);
        if (!take_field(&properties, property_letter(i), &out->numbers[i], &out->bytes[i])) return false;
    }
    return properties.size == 0;
}

/* ---- field tables */

/* Returns the size of a value whose type has a fixed size; 0: its size varies, or the type is unknown. */
static size_t fixed_size(uint8_t type) {
    switch (type) {
    case 't':
    case 'b':
    case 'B':
        return 1;
    case 's':
    case 'u':
        return 2;
    case 'I':
    case 'i':
    case 'f':
        return 4;
    case 'D':
        return 5;
    case 'l':
    case 'L':
    case 'd':
    case 'T':
        return 8;
    default:
        return 0;
    }
}

static int64_t integer_of(uint8_t type, struct amqp_bytes raw, bool *out_is_integer) {
    uint64_t number = raw.size <= 8 ? number_of(raw) : 0;
    *out_is_integer = true;
    switch (type) {
    case 'b':
        return (int8_t)number;
    case 's':
        return (int16_t)number;
    case 'I':
        return (int32_t)number;
    case 'B':
    case 'u':
    case 'i':
    case 'l':
    case 'L':
        return (int64_t)number;
    default:
        *out_is_integer = false;
        return type == 't' ? number != 0 : 0;
    }
}

bool amqp_field_next(struct amqp_bytes *rest, bool is_array, struct amqp_field *out) {
    uint64_t type;
    struct amqp_bytes at = *rest;
    *out = (struct amqp_field){0};
    if (!is_array && !amqp_take_sized(&at, 1, &out->name)) return false;
    if (!amqp_take_number(&at, 1, &type)) return false;
    out->type = (uint8_t)type;
    size_t size = fixed_size(out->type);
    bool is_sized = out->type == 'S' || out->type == 'x' || out->type == 'F' || out->type == 'A';
    const uint8_t *begin = at.at;
    if (size > 0) {
        if (!take(&at, size, &out->raw)) return false;
    } else if (is_sized) {
        if (!amqp_take_sized(&at, 4, &out->value)) return false;
        out->raw = (struct amqp_bytes){begin, out->value.size + 4};
    } else if (out->type != 'V') {
        return false;
    }
    if (size > 0) out->number = integer_of(out->type, out->raw, &out->is_integer);
    *rest = at;
    return true;
}

static bool is_valid(struct amqp_bytes table, bool is_array, unsigned depth, unsigned *count) {
    struct amqp_field field;
    if (depth > AMQP_DEPTH_MAX) return false;
    while (table.size > 0) {
        if (!amqp_field_next(&table, is_array, &field) || ++*count > AMQP_TABLE_FIELDS_MAX) return false;
        bool is_nested = field.type == 'F' || field.type == 'A';
        if (is_nested && !is_valid(field.value, field.type == 'A', depth + 1, count)) return false;
    }
    return true;
}

bool amqp_table_valid(struct amqp_bytes table) {
    unsigned count = 0;
    return is_valid(table, false, 1, &count);
}

bool amqp_table_find_named(struct amqp_bytes table, struct amqp_bytes name, struct amqp_field *out) {
    while (amqp_field_next(&table, false, out))
        if (amqp_same(out->name, name)) return true;
    return false;
}

bool amqp_table_find(struct amqp_bytes table, const char *name, struct amqp_field *out) {
    return amqp_table_find_named(table, amqp_text(name), out);
}

bool amqp_field_same(const struct amqp_field *a, const struct amqp_field *b) {
    if (a->is_integer && b->is_integer) return a->number == b->number;
    bool is_text = (a->type == 'S' || a->type == 'x') && (b->type == 'S' || b->type == 'x');
    if (is_text) return amqp_same(a->value, b->value);
    return a->type == b->type && amqp_same(a->raw, b->raw);
}

/* ---- writing */

void amqp_out_free(struct amqp_out *out) {
    free(out->bytes);
    *out = (struct amqp_out){0};
}

void amqp_put(struct amqp_out *out, const void *bytes, size_t size) {
    if (out->failed || size == 0) return;
    if (out->size + size > out->capacity) {
        size_t capacity = out->capacity == 0 ? 256 : out->capacity;
        while (capacity < out->size + size) capacity *= 2;
        uint8_t *grown = realloc(out->bytes, capacity);
        if (grown == NULL) {
            out->failed = true;
            return;
        }
        out->bytes = grown;
        out->capacity = capacity;
    }
    memcpy(out->bytes + out->size, bytes, size);
    out->size += size;
}

static void write_number(uint8_t *at, uint64_t number, unsigned size) {
    for (unsigned i = size; i > 0; i--, number >>= 8) at[i - 1] = (uint8_t)number;
}

void amqp_put_number(struct amqp_out *out, uint64_t number, unsigned size) {
    uint8_t bytes[8];
    write_number(bytes, number, size);
    amqp_put(out, bytes, size);
}

void amqp_put_shortstr(struct amqp_out *out, struct amqp_bytes text) {
    size_t size = text.size < AMQP_SHORTSTR_MAX ? text.size : AMQP_SHORTSTR_MAX;
    amqp_put_number(out, size, 1);
    amqp_put(out, text.at, size);
}

void amqp_put_longstr(struct amqp_out *out, struct amqp_bytes text) {
    amqp_put_number(out, text.size, 4);
    amqp_put(out, text.at, text.size);
}

size_t amqp_put_begin(struct amqp_out *out) {
    amqp_put_number(out, 0, 4);
    return out->size;
}

void amqp_put_end(struct amqp_out *out, size_t begin) {
    if (!out->failed) write_number(out->bytes + begin - 4, out->size - begin, 4);
}

void amqp_put_field(struct amqp_out *out, const char *name, uint8_t type) {
    amqp_put_shortstr(out, amqp_text(name));
    amqp_put(out, &type, 1);
}

void amqp_put_text_field(struct amqp_out *out, const char *name, struct amqp_bytes text) {
    amqp_put_field(out, name, 'S');
    amqp_put_longstr(out, text);
}

/* Begins a frame. Returns the offset of the frame's payload, for frame_end, which writes the length in front of it. */
static size_t frame_begin(struct amqp_out *out, uint8_t type, uint16_t channel) {
    amqp_put_number(out, type, 1);
    amqp_put_number(out, channel, 2);
    return amqp_put_begin(out);
}

static void frame_end(struct amqp_out *out, size_t begin) {
    amqp_put_end(out, begin);
    amqp_put_number(out, AMQP_FRAME_END, 1);
}

void amqp_put_method(struct amqp_out *out, uint16_t channel, enum amqp_method_kind kind, ...) {
    const struct method_row *row = &rows[kind];
    uint8_t bits = 0;
    unsigned bit = 0;
    va_list arguments;
    size_t begin = frame_begin(out, AMQP_FRAME_METHOD, channel);
    amqp_put_number(out, row->class_id, 2);
    amqp_put_number(out, row->method_id, 2);
    va_start(arguments, kind);
    for (const char *letter = row->fields; *letter != '\0'; letter++) {
        if (*letter == 'b') {
            if (va_arg(arguments, unsigned) != 0) bits |= (uint8_t)(1u << bit);
            bit++;
            if (letter[1] == 'b' && bit < 8) continue;
            amqp_put(out, &bits, 1);
            bits = 0;
            bit = 0;
        } else if (*letter == 'q') {
            amqp_put_number(out, va_arg(arguments, uint64_t), 8);
        } else if (*letter == 's') {
            amqp_put_shortstr(out, va_arg(arguments, struct amqp_bytes));
        } else if (*letter == 'L' || *letter == 'T') {
            amqp_put_longstr(out, va_arg(arguments, struct amqp_bytes));
        } else {
            amqp_put_number(out, va_arg(arguments, unsigned), *letter == 'o' ? 1 : *letter == 'w' ? 2 : 4);
        }
    }
    va_end(arguments);
    frame_end(out, begin);
}

void amqp_put_content(struct amqp_out *out, uint16_t channel, uint32_t frame_max, struct amqp_bytes properties,
                      struct amqp_bytes body) {
    size_t begin = frame_begin(out, AMQP_FRAME_CONTENT, channel);
    amqp_put_number(out, AMQP_CLASS_BASIC, 2);
    amqp_put_number(out, 0, 2);
    amqp_put_number(out, body.size, 8);
    amqp_put(out, properties.at, properties.size);
    frame_end(out, begin);
    for (size_t at = 0; at < body.size;) {
        size_t rest = body.size - at;
        size_t size = rest < frame_max - AMQP_FRAME_OVERHEAD ? rest : frame_max - AMQP_FRAME_OVERHEAD;
        begin = frame_begin(out, AMQP_FRAME_BODY, channel);
        amqp_put(out, body.at + at, size);
        frame_end(out, begin);
        at += size;
    }
}

void amqp_put_heartbeat(struct amqp_out *out) {
    size_t begin = frame_begin(out, AMQP_FRAME_HEARTBEAT, 0);
    frame_end(out, begin);
}

void amqp_put_properties(struct amqp_out *out, const struct amqp_properties *properties) {
    uint16_t flags = 0;
    for (unsigned i = 0; i < AMQP_PROPERTIES; i++)
        if (amqp_has(properties, (enum amqp_property)i)) flags |= (uint16_t)(0x8000u >> i);
    amqp_put_number(out, flags, 2);
    for (unsigned i = 0; i < AMQP_PROPERTIES; i++) {
        if (!amqp_has(properties, (enum amqp_property)i)) continue;
        char letter = property_letter(i);
        if (letter == 's')
            amqp_put_shortstr(out, properties->bytes[i]);
        else if (letter == 'T')
            amqp_put_longstr(out, properties->bytes[i]);
        else
            amqp_put_number(out, properties->numbers[i], letter == 'o' ? 1 : 8);
    }
}

void amqp_method_ids(enum amqp_method_kind kind, uint16_t *out_class, uint16_t *out_method) {
    *out_class = rows[kind].class_id;
    *out_method = rows[kind].method_id;
}
