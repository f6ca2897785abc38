/* columns.c: see columns.h. */
#include "columns.h"

#include <assert.h>
#include <string.h>

#include "rfc3339.h"
#include "units.h"

/* Returns the message that contains the last field of the path "inner.field", and moves `*path` to that field. NULL:
 * the inner message is absent. */
static const ProtobufCMessage *enter(const ProtobufCMessage *message, const char **path) {
    for (const char *dot; message != NULL && (dot = strchr(*path, '.')) != NULL; *path = dot + 1) {
        char name[64];
        size_t size = (size_t)(dot - *path);
        assert(size < sizeof name);
        memcpy(name, *path, size);
        name[size] = '\0';
        const struct json_field *field = json_field_of(json_map_of(message->descriptor), name);
        assert(field != NULL && field->of->type == PROTOBUF_C_TYPE_MESSAGE);
        message = *(const ProtobufCMessage *const *)((const char *)message + field->of->offset);
    }
    return message;
}

static void say_number(struct text *out, const struct json_field *field, uint64_t number) {
    char time[RFC3339_TEXT_SIZE], duration[UNITS_TEXT_SIZE];
    if (field->form == JSON_TIME)
        text_add_str(out, number != 0 ? rfc3339_format(number, time) : "");
    else if (field->form == JSON_DURATION)
        text_add_str(out, duration_format(number, duration));
    else if (field->form != JSON_ID || number != 0)
        text_add_u64(out, number);
}

static void say_bytes(struct text *out, const struct json_field *field, const ProtobufCBinaryData *bytes) {
    if (field->form == JSON_TEXT)
        plain_add(out, (const char *)bytes->data, bytes->len);
    else
        for (size_t i = 0; i < bytes->len; i++) text_printf(out, "%02x", bytes->data[i]);
}

void field_say(struct text *out, const ProtobufCMessage *message, const char *path) {
    message = enter(message, &path);
    if (message == NULL) return;
    const struct json_field *field = json_field_of(json_map_of(message->descriptor), path);
    assert(field != NULL && field->of->label != PROTOBUF_C_LABEL_REPEATED);
    const void *at = (const char *)message + field->of->offset;
    switch (field->of->type) {
    case PROTOBUF_C_TYPE_STRING:
        plain_add(out, *(const char *const *)at, strlen(*(const char *const *)at));
        break;
    case PROTOBUF_C_TYPE_BYTES:
        say_bytes(out, field, at);
        break;
    case PROTOBUF_C_TYPE_ENUM:
        for (const char *word = json_word_of(field, *(const int *)at); *word != '\0'; word++)
            text_add_char(out, *word == '_' ? ' ' : *word);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        if (*(const protobuf_c_boolean *)at) text_add_str(out, "yes");
        break;
    case PROTOBUF_C_TYPE_UINT64:
        say_number(out, field, *(const uint64_t *)at);
        break;
    case PROTOBUF_C_TYPE_MESSAGE: {
        assert(field->form == JSON_TOKEN);
        const Tarry__Token *token = *(const Tarry__Token *const *)at;
        if (token != NULL) text_printf(out, "%u-%llu", token->epoch, (unsigned long long)token->position);
        break;
    }
    default:
        assert(field->of->type == PROTOBUF_C_TYPE_UINT32);
        say_number(out, field, *(const uint32_t *)at);
    }
}

static void say(struct text *out, const struct column *column, const ProtobufCMessage *message) {
    if (column->say != NULL)
        column->say(out, message);
    else
        field_say(out, message, column->field);
}

void columns_table(struct table *table, const struct column *columns, size_t count) {
    const char *heads[TABLE_COLUMNS_MAX];
    assert(count <= TABLE_COLUMNS_MAX);
    for (size_t i = 0; i < count; i++) heads[i] = columns[i].head;
    table_init(table, heads, count);
}

void columns_row(struct table *table, const struct column *columns, size_t count, const ProtobufCMessage *message) {
    struct text text = {0};
    for (size_t i = 0; i < count; i++) {
        text_cut(&text, 0);
        say(&text, &columns[i], message);
        table_cell(table, text.size > 0 ? text_str(&text) : "-");
    }
    text_deinit(&text);
}

void columns_lines(struct text *out, const struct column *columns, size_t count, size_t width,
                   const ProtobufCMessage *message) {
    struct text text = {0};
    for (size_t i = 0; i < count; i++) {
        text_cut(&text, 0);
        say(&text, &columns[i], message);
        if (text.size == 0) continue;
        text_printf(out, "%-*s ", (int)width, columns[i].head);
        text_add(out, text.data, text.size);
        text_add_char(out, '\n');
    }
    text_deinit(&text);
}
