/* json_write.c: messages as JSON; see json_map.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "json_map.h"
#include "json_valid.h"
#include "rfc3339.h"

static const void *at_of(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *of) {
    return (const char *)message + of->offset;
}

static bool is_wide(const ProtobufCFieldDescriptor *of) {
    return of->type == PROTOBUF_C_TYPE_UINT64 || of->type == PROTOBUF_C_TYPE_FIXED64;
}

static uint64_t number_at(const ProtobufCFieldDescriptor *of, const void *at) {
    return is_wide(of) ? *(const uint64_t *)at : *(const uint32_t *)at;
}

static void write_message(struct text *out, const ProtobufCMessage *message, const struct json_map *map);
static void write_members(struct text *out, const ProtobufCMessage *message, const struct json_map *map);

/* ---- contents */

static bool says_json(const Tarry__Content *content) {
    for (size_t i = 0; i < content->n_attributes; i++) {
        const char *name = content->attributes[i]->name, *value = content->attributes[i]->value;
        if (strcmp(name, "content-type") == 0) return strncmp(value, "application/json", 16) == 0;
    }
    return false;
}

/* Validates a payload that is marked as JSON: an invalid one would make the whole text invalid. */
static bool is_json(const Tarry__Content *content) {
    const ProtobufCBinaryData *payload = &content->payload;
    if (!says_json(content) || payload->len == 0) return false;
    return memchr(payload->data, '\n', payload->len) == NULL &&
           json_is_valid((const char *)payload->data, payload->len);
}

void json_content(struct text *out, const Tarry__Content *content) {
    if (content->n_attributes > 0) {
        out_key(out, "attributes");
        out_begin(out, '{');
        for (size_t i = 0; i < content->n_attributes; i++) {
            out_comma(out);
            out_string(out, content->attributes[i]->name, strlen(content->attributes[i]->name));
            text_add_char(out, ':');
            out_string(out, content->attributes[i]->value, strlen(content->attributes[i]->value));
        }
        out_end(out, '}');
    }
    const ProtobufCBinaryData *payload = &content->payload;
    if (is_json(content)) {
        out_key(out, "json");
        text_add(out, payload->data, payload->len);
    } else if (is_utf8(payload->data, payload->len)) {
        out_key(out, "body");
        out_string(out, payload->data, payload->len);
    } else {
        out_key(out, "body_base64");
        out_base64(out, payload->data, payload->len);
    }
    if (content->properties.len == 0) return;
    out_key(out, "properties");
    out_base64(out, content->properties.data, content->properties.len);
}

static void write_content(struct text *out, const ProtobufCBinaryData *packed) {
    Tarry__Content *content = tarry__content__unpack(NULL, packed->len, packed->data);
    if (content == NULL) {
        out->failed = true; /* unpacking fails only for lack of memory, because stored contents are valid */
        return;
    }
    json_content(out, content);
    tarry__content__free_unpacked(content, NULL);
}

/* ---- values */

static void write_text(struct text *out, const char *text) {
    out_string(out, text, strlen(text));
}

static void write_quoted(struct text *out, uint64_t number) {
    text_add_char(out, '"');
    text_add_u64(out, number);
    text_add_char(out, '"');
}

static void write_number(struct text *out, const struct json_field *field, uint64_t number) {
    if (number > JSON_EXACT_MAX && field->form == JSON_PLAIN)
        write_quoted(out, number);
    else
        text_add_u64(out, number);
}

static void write_token(struct text *out, const Tarry__Token *token) {
    out_token_value(out, token->epoch, token->position);
}

static void write_hex(struct text *out, const struct json_field *field, const void *at) {
    if (field->of->type == PROTOBUF_C_TYPE_FIXED64) {
        char digits[20];
        int size = snprintf(digits, sizeof(digits), "\"%016" PRIx64 "\"", *(const uint64_t *)at);
        text_add(out, digits, (size_t)size);
        return;
    }
    const ProtobufCBinaryData *bytes = at;
    out_hex(out, bytes->data, bytes->len);
}

/* Writes one value. `at`: the address of the value; for a text or a message, the address of the pointer to it. */
static void write_value(struct text *out, const struct json_field *field, const void *at) {
    switch (field->form) {
    case JSON_ID:
        write_quoted(out, number_at(field->of, at));
        return;
    case JSON_TEXT:
        out_string(out, ((const ProtobufCBinaryData *)at)->data, ((const ProtobufCBinaryData *)at)->len);
        return;
    case JSON_HEX:
        write_hex(out, field, at);
        return;
    case JSON_TOKEN:
        write_token(out, *(const Tarry__Token *const *)at);
        return;
    default:
        break;
    }
    switch (field->of->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
        write_message(out, *(const ProtobufCMessage *const *)at, field->map);
        break;
    case PROTOBUF_C_TYPE_STRING:
        write_text(out, *(const char *const *)at);
        break;
    case PROTOBUF_C_TYPE_ENUM:
        write_text(out, json_word_of(field, *(const int *)at));
        break;
    case PROTOBUF_C_TYPE_BOOL:
        text_add_str(out, *(const protobuf_c_boolean *)at ? "true" : "false");
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        out_double(out, *(const double *)at);
        break;
    default:
        write_number(out, field, number_at(field->of, at));
    }
}

static bool is_set(const ProtobufCFieldDescriptor *of, const void *at) {
    switch (of->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
        return *(const void *const *)at != NULL;
    case PROTOBUF_C_TYPE_STRING:
        return *(const char *const *)at != NULL && **(const char *const *)at != '\0';
    case PROTOBUF_C_TYPE_BYTES:
        return ((const ProtobufCBinaryData *)at)->len > 0;
    case PROTOBUF_C_TYPE_DOUBLE:
        return *(const double *)at != 0;
    default:
        return number_at(of, at) != 0;
    }
}

/* ---- fields */

static void write_key(struct text *out, const char *name, size_t size) {
    out_comma(out);
    char *at = text_reserve(out, size + 3);
    if (at == NULL) return;
    *at = '"';
    memcpy(at + 1, name, size);
    memcpy(at + 1 + size, "\":", 2);
    out->size += size + 3;
}

static void write_time(struct text *out, const struct json_field *field, uint64_t ms) {
    char text[RFC3339_TEXT_SIZE];
    write_key(out, field->name, field->name_size);
    text_add_u64(out, ms);
    write_key(out, field->name, field->name_size - 3u);
    write_text(out, rfc3339_format(ms, text));
}

static void write_when(struct text *out, const Tarry__When *when) {
    out_number(out, when->kind == TARRY__WHEN__KIND__DELAY ? "delay_ms" : "due_ms", when->ms);
}

static void write_states(struct text *out, uint64_t states) {
    out_begin(out, '[');
    for (unsigned i = 0; i < JSON_STATE_COUNT; i++) {
        if ((states & (1u << i)) == 0) continue;
        out_comma(out);
        write_text(out, json_state_names[i]);
    }
    out_end(out, ']');
}

static void write_array(struct text *out, const struct json_field *field, const void *items, size_t count) {
    write_key(out, field->name, field->name_size);
    out_begin(out, '[');
    for (size_t i = 0; i < count; i++) {
        out_comma(out);
        write_value(out, field, (const char *)items + i * json_value_size(field->of));
    }
    out_end(out, ']');
}

static void write_whole_field(struct text *out, const ProtobufCMessage *message, const struct json_field *field);

/* Writes the members of a queue's policy that the operation names, although they may be 0 or empty. */
static void write_policy(struct text *out, const Tarry__QueueSet *set) {
    const struct json_map *map = json_map_of(set->policy->base.descriptor);
    for (size_t i = 0; i < set->n_fields; i++) {
        const struct json_field *field = json_field_of(map, set->fields[i]);
        if (field != NULL) write_whole_field(out, &set->policy->base, field);
    }
}

static void write_whole_field(struct text *out, const ProtobufCMessage *message, const struct json_field *field) {
    const void *at = at_of(message, field->of);
    switch (field->form) {
    case JSON_MEMBERS:
        if (message->descriptor == &tarry__queue_set__descriptor)
            write_policy(out, (const Tarry__QueueSet *)message);
        else
            write_members(out, *(const ProtobufCMessage *const *)at, field->map);
        return;
    case JSON_WHEN:
        write_when(out, *(const Tarry__When *const *)at);
        return;
    case JSON_CONTENT:
        write_content(out, at);
        return;
    case JSON_TIME:
        write_time(out, field, number_at(field->of, at));
        return;
    default:
        write_key(out, field->name, field->name_size);
    }
    if (field->form == JSON_STATES)
        write_states(out, number_at(field->of, at));
    else
        write_value(out, field, at);
}

static bool is_written(const ProtobufCMessage *message, const struct json_field *field) {
    const ProtobufCFieldDescriptor *of = field->of;
    const bool is_oneof = (of->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
    if (is_oneof) return *(const uint32_t *)((const char *)message + of->quantifier_offset) == of->id;
    if (field->has != NULL) return *(const protobuf_c_boolean *)at_of(message, field->has);
    if (field->unless != NULL && is_set(field->unless, at_of(message, field->unless))) return false;
    return field->is_always || is_set(of, at_of(message, of));
}

static void write_field(struct text *out, const ProtobufCMessage *message, const struct json_field *field) {
    if (field->form == JSON_HIDDEN) return;
    if (field->of->label == PROTOBUF_C_LABEL_REPEATED) {
        size_t count = *(const size_t *)((const char *)message + field->of->quantifier_offset);
        if (count > 0 || field->is_always)
            write_array(out, field, *(const void *const *)at_of(message, field->of), count);
        return;
    }
    if (is_written(message, field)) {
        write_whole_field(out, message, field);
    } else if (field->is_nullable) {
        write_key(out, field->name, field->name_size);
        text_add_str(out, "null");
    }
}

static void write_members(struct text *out, const ProtobufCMessage *message, const struct json_map *map) {
    for (size_t i = 0; i < map->count; i++) write_field(out, message, &map->fields[i]);
}

static void write_message(struct text *out, const ProtobufCMessage *message, const struct json_map *map) {
    out_begin(out, '{');
    write_members(out, message, map);
    out_end(out, '}');
}

void json_members(struct text *out, const ProtobufCMessage *message) {
    write_members(out, message, json_map_of(message->descriptor));
}

void json_message(struct text *out, const ProtobufCMessage *message) {
    write_message(out, message, json_map_of(message->descriptor));
}

void json_write_field(struct text *out, const ProtobufCMessage *message, const char *name) {
    const struct json_field *field = json_field_of(json_map_of(message->descriptor), name);
    if (field != NULL) write_field(out, message, field);
}
