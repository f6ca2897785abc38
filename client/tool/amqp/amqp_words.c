/* amqp_words.c: see amqp_words.h. */
#include "amqp_words.h"

#include <inttypes.h>
#include <string.h>

#include "json_out.h"

_Static_assert(AMQP_DEPTH_MAX == 16, "the message of put_value states this limit");

static void value_as_json(struct text *out, const struct amqp_field *field);

static void items_as_json(struct text *out, struct amqp_bytes items, bool is_array) {
    struct amqp_field field;
    char name[AMQP_SHORTSTR_MAX + 1];
    out_begin(out, is_array ? '[' : '{');
    while (amqp_field_next(&items, is_array, &field)) {
        if (is_array) {
            out_comma(out);
        } else {
            memcpy(name, field.name.at, field.name.size);
            name[field.name.size] = '\0';
            out_key(out, name);
        }
        value_as_json(out, &field);
    }
    out_end(out, is_array ? ']' : '}');
}

/* Writes a value as JSON. The depth of the recursion is limited, because the AMQP codec refuses values that are nested
 * too deeply. */
static void value_as_json(struct text *out, const struct amqp_field *field) {
    if (field->type == 'F' || field->type == 'A')
        items_as_json(out, field->value, field->type == 'A');
    else if (field->type == 'S')
        out_string(out, field->value.at, field->value.size);
    else if (field->type == 't')
        text_add_str(out, field->number != 0 ? "true" : "false");
    else if (field->is_integer)
        text_printf(out, "%" PRId64, field->number);
    else if (field->type == 'V')
        text_add_str(out, "null");
    else
        out_hex(out, field->raw.at, field->raw.size);
}

void table_as_json(struct text *out, struct amqp_bytes table) {
    items_as_json(out, table, false);
}

static const char *put_value(struct amqp_out *out, json_t *value, unsigned level);

static const char *put_fields(struct amqp_out *out, json_t *object, unsigned level) {
    const char *name, *problem = NULL;
    json_t *value;
    json_object_foreach(object, name, value) {
        if (strlen(name) > AMQP_SHORTSTR_MAX) return "the name of an argument has more than 255 bytes";
        amqp_put_shortstr(out, amqp_text(name));
        problem = put_value(out, value, level);
        if (problem != NULL) return problem;
    }
    return NULL;
}

static const char *put_value(struct amqp_out *out, json_t *value, unsigned level) {
    static const char types[] = {[JSON_OBJECT] = 'F', [JSON_ARRAY] = 'A', [JSON_STRING] = 'S', [JSON_INTEGER] = 'l',
                                 [JSON_REAL] = 'd',   [JSON_TRUE] = 't',  [JSON_FALSE] = 't',  [JSON_NULL] = 'V'};
    const char *problem = NULL;
    if (level == AMQP_DEPTH_MAX) return "the arguments have more than 16 levels";
    amqp_put(out, &types[json_typeof(value)], 1);
    if (json_is_string(value)) {
        amqp_put_longstr(out,
                         (struct amqp_bytes){(const uint8_t *)json_string_value(value), json_string_length(value)});
    } else if (json_is_integer(value)) {
        amqp_put_number(out, (uint64_t)json_integer_value(value), 8);
    } else if (json_is_real(value)) {
        const double number = json_real_value(value);
        uint64_t bits;
        memcpy(&bits, &number, sizeof(bits));
        amqp_put_number(out, bits, 8);
    } else if (json_is_boolean(value)) {
        amqp_put_number(out, json_is_true(value), 1);
    } else if (!json_is_null(value)) {
        const size_t begin = amqp_put_begin(out);
        if (json_is_object(value)) problem = put_fields(out, value, level + 1);
        for (size_t i = 0; problem == NULL && i < json_array_size(value); i++)
            problem = put_value(out, json_array_get(value, i), level + 1);
        amqp_put_end(out, begin);
    }
    return problem;
}

const char *json_as_table(struct amqp_out *out, json_t *object) {
    return put_fields(out, object, 0);
}
