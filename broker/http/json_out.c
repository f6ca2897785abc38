/* json_out.c: see json_out.h. */
#include "json_out.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "message.h"
#include "rfc3339.h"

#define FIRST_CAPACITY 512u
#define NUMBER_SIZE 32u
#define DOUBLE_EXACT_MAX (1ull << 53)

void out_deinit(struct json_out *out) {
    message_free(out->message);
    *out = (struct json_out){0};
}

struct message *out_take(struct json_out *out) {
    struct message *message = out->failed ? NULL : out->message;
    if (out->failed) message_free(out->message);
    if (message != NULL) message->size = out->size;
    *out = (struct json_out){0};
    return message;
}

static char *reserve(struct json_out *out, size_t size) {
    size_t capacity = out->message != NULL ? out->message->capacity : 0;
    if (out->failed || out->size + size > JSON_OUT_MAX) {
        out->failed = true;
        return NULL;
    }
    if (out->message == NULL || out->size + size > capacity) {
        size_t grown = capacity > 0 ? 2 * capacity : FIRST_CAPACITY;
        if (grown < out->size + size) grown = out->size + size;
        if (out->message == NULL) {
            out->message = message_new(grown);
            if (out->message != NULL) out->message->size = 0;
            out->failed = out->message == NULL;
        } else {
            out->failed = !message_grow(&out->message, grown);
        }
        if (out->failed) return NULL;
    }
    char *at = (char *)out->message->bytes + out->size;
    out->size += size;
    out->message->size = out->size;
    return at;
}

void out_cut(struct json_out *out, size_t size) {
    if (out->failed || size >= out->size) return;
    out->size = size;
    out->message->size = size;
}

void out_raw(struct json_out *out, const char *text, size_t size) {
    char *at = reserve(out, size);
    if (at != NULL && size > 0) memcpy(at, text, size);
}

void out_literal(struct json_out *out, const char *text) {
    out_raw(out, text, strlen(text));
}

static char last(const struct json_out *out) {
    return out->size > 0 && out->message != NULL ? (char)out->message->bytes[out->size - 1] : '{';
}

void out_comma(struct json_out *out) {
    char before = last(out);
    if (before != '{' && before != '[' && before != ',' && before != ':' && before != '\n') out_raw(out, ",", 1);
}

void out_begin(struct json_out *out, char bracket) {
    out_raw(out, &bracket, 1);
}

void out_end(struct json_out *out, char bracket) {
    out_raw(out, &bracket, 1);
}

void out_key(struct json_out *out, const char *name) {
    out_comma(out);
    out_raw(out, "\"", 1);
    out_literal(out, name);
    out_raw(out, "\":", 2);
}

/* Returns the size of the well-formed UTF-8 sequence that starts at `at`; 0: none starts there. */
static size_t sequence_size(const unsigned char *at, size_t size) {
    size_t length = at[0] < 0x80 ? 1 : at[0] < 0xC0 ? 0 : at[0] < 0xE0 ? 2 : at[0] < 0xF0 ? 3 : at[0] < 0xF8 ? 4 : 0;
    return length > 0 && length <= size && is_utf8(at, length) ? length : 0;
}

/* How a byte is written in a string. 0: unchanged; a letter: a backslash and that letter; 'u': \u00XX; 'l': the
 * first byte of a possible line end. */
static const char escapes[256] = {
    [0x00 ... 0x08] = 'u', ['\t'] = 't',  ['\n'] = 'n', [0x0b ... 0x0c] = 'u', ['\r'] = 'r', [0x0e ... 0x1f] = 'u',
    ['"'] = '"',           ['\\'] = '\\', [0x7f] = 'u', [0xC2] = 'l',          [0xE2] = 'l'};

static void escape(struct json_out *out, unsigned char c) {
    static const char digits[] = "0123456789abcdef";
    const char code[] = {'\\', escapes[c], '0', '0', digits[c >> 4], digits[c & 15]};
    out_raw(out, code, escapes[c] == 'u' ? sizeof(code) : 2);
}

/* Returns the escape of U+0085, U+2028 or U+2029, which some readers treat as a line end. NULL: another character. */
static const char *line_end(const unsigned char *at, size_t size, size_t *out_size) {
    static const struct {
        const char *character, *escape;
    } ends[] = {{"\xC2\x85", "\\u0085"}, {"\xE2\x80\xA8", "\\u2028"}, {"\xE2\x80\xA9", "\\u2029"}};
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]) && at[0] >= 0xC2; i++) {
        *out_size = strlen(ends[i].character);
        if (size >= *out_size && memcmp(at, ends[i].character, *out_size) == 0) return ends[i].escape;
    }
    return NULL;
}

/* Writes bytes, and replaces those that are not UTF-8 by U+FFFD. */
static void write_broken(struct json_out *out, const unsigned char *bytes, size_t size) {
    for (size_t i = 0; i < size;) {
        size_t step = sequence_size(bytes + i, size - i), end_size;
        const char *end = step > 0 ? line_end(bytes + i, step, &end_size) : NULL;
        if (step == 0)
            out_literal(out, "\xEF\xBF\xBD");
        else if (end != NULL)
            out_literal(out, end);
        else if (bytes[i] < 0x80 && escapes[bytes[i]] != 0)
            escape(out, bytes[i]);
        else
            out_raw(out, (const char *)bytes + i, step);
        i += step > 0 ? step : 1;
    }
}

void out_string(struct json_out *out, const void *text, size_t size) {
    const unsigned char *bytes = text;
    size_t plain = 0;
    out_raw(out, "\"", 1);
    if (!is_utf8(text, size)) {
        write_broken(out, bytes, size);
        plain = size;
    }
    for (size_t i = plain; i < size; i++) {
        size_t step = 1;
        const char *end = escapes[bytes[i]] == 'l' ? line_end(bytes + i, size - i, &step) : NULL;
        if (escapes[bytes[i]] == 0 || (escapes[bytes[i]] == 'l' && end == NULL)) continue;
        out_raw(out, (const char *)bytes + plain, i - plain);
        if (end != NULL)
            out_literal(out, end);
        else
            escape(out, bytes[i]);
        if (end != NULL) i += step - 1;
        plain = i + 1;
    }
    out_raw(out, (const char *)bytes + plain, size - plain);
    out_raw(out, "\"", 1);
}

void out_base64(struct json_out *out, const uint8_t *bytes, size_t size) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *at = reserve(out, 2 + (size + 2) / 3 * 4);
    if (at == NULL) return;
    *at++ = '"';
    for (size_t i = 0; i < size; i += 3) {
        size_t rest = size - i;
        uint32_t three =
            (uint32_t)bytes[i] << 16 | (rest > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) | (rest > 2 ? bytes[i + 2] : 0);
        *at++ = digits[three >> 18];
        *at++ = digits[three >> 12 & 63];
        *at++ = rest > 1 ? digits[three >> 6 & 63] : '=';
        *at++ = rest > 2 ? digits[three & 63] : '=';
    }
    *at = '"';
}

void out_u64(struct json_out *out, uint64_t number) {
    char digits[NUMBER_SIZE], *at = digits + sizeof(digits);
    do *--at = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    out_raw(out, at, (size_t)(digits + sizeof(digits) - at));
}

void out_text(struct json_out *out, const char *name, const char *text) {
    out_key(out, name);
    if (text == NULL)
        out_literal(out, "null");
    else
        out_string(out, text, strlen(text));
}

void out_number(struct json_out *out, const char *name, uint64_t number) {
    out_key(out, name);
    out_u64(out, number);
}

void out_bool(struct json_out *out, const char *name, bool value) {
    out_key(out, name);
    out_literal(out, value ? "true" : "false");
}

void out_id(struct json_out *out, const char *name, uint64_t id) {
    out_key(out, name);
    if (id == 0) {
        out_literal(out, "null");
        return;
    }
    out_raw(out, "\"", 1);
    out_u64(out, id);
    out_raw(out, "\"", 1);
}

void out_token(struct json_out *out, const char *name, const Tarry__Token *token) {
    if (token == NULL) return;
    out_key(out, name);
    out_raw(out, "\"", 1);
    out_u64(out, token->epoch);
    out_raw(out, "-", 1);
    out_u64(out, token->position);
    out_raw(out, "\"", 1);
}

void out_time(struct json_out *out, const char *name, uint64_t ms) {
    char text[RFC3339_TEXT_SIZE], key[64];
    if (ms == 0) return;
    snprintf(key, sizeof(key), "%s_ms", name);
    out_number(out, key, ms);
    out_text(out, name, rfc3339_format(ms, text));
}

/* ---- any message */

static void write_bytes(struct json_out *out, const ProtobufCBinaryData *bytes) {
    static const char digits[] = "0123456789abcdef";
    if (is_utf8(bytes->data, bytes->len)) {
        out_string(out, bytes->data, bytes->len);
        return;
    }
    char *at = reserve(out, 2 + 2 * bytes->len);
    if (at == NULL) return;
    *at++ = '"';
    for (size_t i = 0; i < bytes->len; i++) {
        *at++ = digits[bytes->data[i] >> 4];
        *at++ = digits[bytes->data[i] & 15];
    }
    *at = '"';
}

static void write_enum(struct json_out *out, const ProtobufCEnumDescriptor *type, int value) {
    char name[64];
    const ProtobufCEnumValue *found = protobuf_c_enum_descriptor_get_value(type, value);
    snprintf(name, sizeof(name), "%s", found != NULL ? found->name : "unknown");
    for (char *at = name; *at != '\0'; at++)
        if (*at >= 'A' && *at <= 'Z') *at = (char)(*at + ('a' - 'A'));
    out_string(out, name, strlen(name));
}

static void write_double(struct json_out *out, double number) {
    char text[NUMBER_SIZE];
    int size = isfinite(number) ? snprintf(text, sizeof(text), "%.10g", number) : 0;
    out_raw(out, size > 0 ? text : "null", size > 0 ? (size_t)size : 4);
}

static bool is_double_exact(const char *name) {
    size_t size = strlen(name);
    return size > 3 && (strcmp(name + size - 3, "_ms") == 0 || strcmp(name + size - 3, "_us") == 0);
}

static void write_u64(struct json_out *out, const char *name, uint64_t number) {
    static const char *const names[] = {"id", "session", "producer", "sequence", "digest", "job"};
    bool is_name = number > DOUBLE_EXACT_MAX && !is_double_exact(name);
    for (size_t i = 0; !is_name && i < sizeof(names) / sizeof(names[0]); i++) is_name = strcmp(name, names[i]) == 0;
    if (is_name) out_raw(out, "\"", 1);
    out_u64(out, number);
    if (is_name) out_raw(out, "\"", 1);
}

static void write_value(struct json_out *out, const ProtobufCFieldDescriptor *field, const void *at) {
    switch (field->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
        out_message(out, *(const ProtobufCMessage *const *)at);
        break;
    case PROTOBUF_C_TYPE_STRING:
        out_string(out, *(const char *const *)at, strlen(*(const char *const *)at));
        break;
    case PROTOBUF_C_TYPE_BYTES:
        write_bytes(out, at);
        break;
    case PROTOBUF_C_TYPE_ENUM:
        write_enum(out, field->descriptor, *(const int *)at);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        out_literal(out, *(const protobuf_c_boolean *)at ? "true" : "false");
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        write_double(out, *(const double *)at);
        break;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        write_u64(out, field->name, *(const uint64_t *)at);
        break;
    default: /* tarry.proto has no other number types */
        out_u64(out, *(const uint32_t *)at);
    }
}

static size_t value_size(const ProtobufCFieldDescriptor *field) {
    switch (field->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
    case PROTOBUF_C_TYPE_STRING:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_DOUBLE:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return sizeof(uint64_t);
    default:
        return sizeof(uint32_t);
    }
}

static bool is_said(const ProtobufCFieldDescriptor *field, const void *at) {
    switch (field->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
        return *(const void *const *)at != NULL;
    case PROTOBUF_C_TYPE_STRING:
        return *(const char *const *)at != NULL && **(const char *const *)at != '\0';
    case PROTOBUF_C_TYPE_BYTES:
        return ((const ProtobufCBinaryData *)at)->len > 0;
    case PROTOBUF_C_TYPE_DOUBLE:
        return *(const double *)at != 0;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return *(const uint64_t *)at != 0;
    default:
        return *(const uint32_t *)at != 0;
    }
}

static void write_field(struct json_out *out, const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field) {
    const char *base = (const char *)message, *at = base + field->offset;
    bool is_oneof = (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
    if (is_oneof && *(const uint32_t *)(base + field->quantifier_offset) != field->id) return;
    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        size_t count = *(const size_t *)(base + field->quantifier_offset);
        if (count == 0) return;
        out_key(out, field->name);
        out_begin(out, '[');
        for (size_t i = 0; i < count; i++) {
            out_comma(out);
            write_value(out, field, *(const char *const *)at + i * value_size(field));
        }
        out_end(out, ']');
        return;
    }
    if (!is_said(field, at)) return;
    out_key(out, field->name);
    write_value(out, field, at);
}

void out_message(struct json_out *out, const ProtobufCMessage *message) {
    out_begin(out, '{');
    for (unsigned i = 0; i < message->descriptor->n_fields; i++)
        write_field(out, message, &message->descriptor->fields[i]);
    out_end(out, '}');
}
