/* json_schema.c: prints, at build time, how each message and operation is written in JSON: the input of
 * broker/http/openapi.py. One object: {"messages": {NAME: [field …]}, "operations": {NAME: …}, "policy": {FIELD: …}}.
 */
#include <stdio.h>
#include <string.h>

#include "json_map.h"
#include "tarry_limits.h"

static const char *const forms[] = {"plain", "hidden", "id",     "time",    "duration", "text",
                                    "hex",   "token",  "states", "members", "when",     "content"};

static const char *type_of(const ProtobufCFieldDescriptor *of) {
    switch (of->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
        return "message";
    case PROTOBUF_C_TYPE_ENUM:
        return "enum";
    case PROTOBUF_C_TYPE_BOOL:
        return "boolean";
    case PROTOBUF_C_TYPE_DOUBLE:
        return "number";
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
        return "string";
    default:
        return "integer";
    }
}

static void print_words(struct text *out, const struct json_field *field) {
    const ProtobufCEnumDescriptor *of = field->of->descriptor;
    out_key(out, "words");
    out_begin(out, '[');
    for (unsigned i = 0; i < of->n_values; i++) {
        out_comma(out);
        out_string(out, field->words[i], strlen(field->words[i]));
    }
    out_end(out, ']');
}

static void print_field(struct text *out, const struct json_field *field) {
    const ProtobufCFieldDescriptor *of = field->of;
    out_begin(out, '{');
    out_text(out, "name", field->name);
    out_text(out, "type", type_of(of));
    out_text(out, "form", forms[field->form]);
    out_bool(out, "repeated", of->label == PROTOBUF_C_LABEL_REPEATED);
    out_bool(out, "always", field->is_always && field->unless == NULL);
    out_bool(out, "nullable", field->is_nullable);
    out_bool(out, "required", field->is_required);
    if (of->type == PROTOBUF_C_TYPE_UINT32 || field->most != INT64_MAX) out_number(out, "most", field->most);
    if (field->map != NULL) out_text(out, "message", field->map->of->short_name);
    if (field->words != NULL) print_words(out, field);
    out_end(out, '}');
}

static void print_message(struct text *out, const struct json_map *map) {
    out_key(out, map->of->short_name);
    out_begin(out, '[');
    for (size_t i = 0; i < map->count; i++) {
        if (map->fields[i].form == JSON_HIDDEN) continue;
        out_comma(out);
        print_field(out, &map->fields[i]);
    }
    out_end(out, ']');
}

static void print_operations(struct text *out) {
    const char *name;
    out_key(out, "operations");
    out_begin(out, '{');
    for (size_t i = 0; (name = json_op_name_at(i)) != NULL; i++) {
        const char *hides = json_op_hides(name);
        out_key(out, name);
        out_begin(out, '{');
        out_text(out, "message", json_op_message(name)->short_name);
        if (hides != NULL) out_text(out, "hides", hides);
        out_end(out, '}');
    }
    out_end(out, '}');
}

static void print_policy(struct text *out) {
    static const struct {
        const char *field;
        uint64_t least, most;
    } rows[] = {
#define POLICY_NUMBER(field, word, option, kind, least, most, ...) {#field, least, most},
#define POLICY_TEXT(field, ...)
#include "policy.def"
    };
    out_key(out, "policy");
    out_begin(out, '{');
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        out_key(out, rows[i].field);
        out_begin(out, '[');
        text_add_u64(out, rows[i].least);
        text_add_char(out, ',');
        text_add_u64(out, rows[i].most);
        out_end(out, ']');
    }
    out_end(out, '}');
}

int main(void) {
    struct text out = {0};
    out_begin(&out, '{');
    out_key(&out, "messages");
    out_begin(&out, '{');
    for (const struct json_map *map = json_map_next(NULL); map != NULL; map = json_map_next(map))
        print_message(&out, map);
    out_end(&out, '}');
    print_operations(&out);
    print_policy(&out);
    out_line_end(&out);
    if (out.failed || fwrite(out.data, 1, out.size, stdout) != out.size) return 1;
    text_deinit(&out);
    return 0;
}
