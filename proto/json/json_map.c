/* json_map.c: the maps of all messages, made from the descriptors and formats.def at the first use. */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "errors.h"
#include "json_map.h"
#include "tarry_limits.h"

#define MAPS_MAX 128u
#define FIELDS_MAX 1024u
#define WORDS_MAX 512u

const char *const json_state_names[JSON_STATE_COUNT] = {"pending", "ready", "in_flight", "dead"};

static struct json_map maps[MAPS_MAX];
static struct json_field fields[FIELDS_MAX];
static char words[WORDS_MAX][JSON_WORD_SIZE];
static size_t map_count, field_count, word_count;

/* ---- formats.def */

static const struct {
    const char *name;
    enum json_form form;
} names[] = {
#define DURATION(name) {#name, JSON_DURATION},
#define ID(name) {#name, JSON_ID},
#define TEXT(name) {#name, JSON_TEXT},
#define WHOLE(message)
#define FIELD(message, field, way, value)
#include "formats.def"
#undef DURATION
#undef ID
#undef TEXT
#undef WHOLE
#undef FIELD
};

static const char *const wholes[] = {
#define DURATION(name)
#define ID(name)
#define TEXT(name)
#define WHOLE(message) #message,
#define FIELD(message, field, way, value)
#include "formats.def"
#undef WHOLE
#undef FIELD
};

enum way { HIDDEN, SPARSE, NULLABLE, REQUIRED, MEMBERS, STATES, MOST, UNLESS };

/* Numbers for the `value` of FIELD lines with the way UNLESS: each is named like a field. A line `UNLESS, F` means that
 * the line's field is not written if the field F is set. */
enum { ended_ms = 1 };

static const struct {
    const char *message, *field;
    enum way way;
    uint64_t value;
} rows[] = {
#define WHOLE(message)
#define FIELD(message, field, way, value) {#message, #field, way, value},
#include "formats.def"
#undef DURATION
#undef ID
#undef TEXT
#undef WHOLE
#undef FIELD
};

static bool is_whole(const char *message) {
    for (size_t i = 0; i < sizeof(wholes) / sizeof(wholes[0]); i++)
        if (strcmp(wholes[i], message) == 0) return true;
    return false;
}

static bool is_ms(const char *name) {
    size_t size = strlen(name);
    return size > 3 && strcmp(name + size - 3, "_ms") == 0;
}

/* Returns the form that follows from the field's name by formats.def, or JSON_TIME for an integer NAME_ms. JSON_PLAIN:
 * neither applies. */
static enum json_form form_of_name(const ProtobufCFieldDescriptor *of) {
    const bool is_bytes = of->type == PROTOBUF_C_TYPE_BYTES;
    const bool is_integer = of->type == PROTOBUF_C_TYPE_UINT64 || of->type == PROTOBUF_C_TYPE_UINT32;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(names[i].name, of->name) != 0) continue;
        if (names[i].form == JSON_TEXT ? is_bytes : is_integer) return names[i].form;
    }
    return is_integer && of->label != PROTOBUF_C_LABEL_REPEATED && is_ms(of->name) ? JSON_TIME : JSON_PLAIN;
}

static enum json_form form_of_message(const ProtobufCMessageDescriptor *of) {
    if (of == &tarry__token__descriptor) return JSON_TOKEN;
    if (of == &tarry__ref__descriptor) return JSON_MEMBERS;
    return of == &tarry__when__descriptor ? JSON_WHEN : JSON_PLAIN;
}

static enum json_form form_of(const ProtobufCFieldDescriptor *of) {
    switch (of->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
        return form_of_message(of->descriptor);
    case PROTOBUF_C_TYPE_BYTES: {
        enum json_form form = form_of_name(of);
        return form != JSON_PLAIN ? form : strcmp(of->name, "content") == 0 ? JSON_CONTENT : JSON_HEX;
    }
    case PROTOBUF_C_TYPE_FIXED64:
        return JSON_HEX;
    default:
        return form_of_name(of);
    }
}

/* ---- names of enumerators */

static const char *special_name(const ProtobufCEnumDescriptor *of, int value) {
    if (of == &tarry__code__descriptor) return code_name((Tarry__Code)value);
    return of == &tarry__outcome__descriptor ? outcome_name((Tarry__Outcome)value) : NULL;
}

static const char (*make_words(const ProtobufCEnumDescriptor *of))[JSON_WORD_SIZE] {
    char(*first)[JSON_WORD_SIZE] = &words[word_count];
    assert(word_count + of->n_values <= WORDS_MAX);
    word_count += of->n_values;
    for (unsigned i = 0; i < of->n_values; i++) {
        const char *special = special_name(of, of->values[i].value);
        int size = snprintf(first[i], JSON_WORD_SIZE, "%s", special != NULL ? special : of->values[i].name);
        assert(size > 0 && (size_t)size < JSON_WORD_SIZE);
        for (char *at = first[i]; *at != '\0'; at++)
            if (*at >= 'A' && *at <= 'Z') *at = (char)(*at + ('a' - 'A'));
    }
    return (const char(*)[JSON_WORD_SIZE])first;
}

const char *json_word_of(const struct json_field *field, int value) {
    const ProtobufCEnumDescriptor *of = field->of->descriptor;
    const ProtobufCEnumValue *found = protobuf_c_enum_descriptor_get_value(of, value);
    return found != NULL ? field->words[found - of->values] : "unknown";
}

/* ---- the maps */

static uint64_t most_of(const ProtobufCFieldDescriptor *of) {
    /* Jansson reads integers of at most 63 bits. */
    return of->type == PROTOBUF_C_TYPE_UINT32 ? UINT32_MAX : INT64_MAX;
}

static void apply(struct json_field *field, const ProtobufCMessageDescriptor *message, enum way way, uint64_t value) {
    switch (way) {
    case HIDDEN:
        field->form = JSON_HIDDEN;
        break;
    case SPARSE:
        field->is_always = false;
        break;
    case NULLABLE:
        field->is_nullable = true;
        break;
    case REQUIRED:
        field->is_required = true;
        break;
    case MEMBERS:
        field->form = JSON_MEMBERS;
        break;
    case STATES:
        field->form = JSON_STATES;
        break;
    case MOST:
        field->most = value;
        break;
    case UNLESS:
        assert(value == ended_ms);
        field->unless = protobuf_c_message_descriptor_get_field_by_name(message, "ended_ms");
        assert(field->unless != NULL);
        break;
    }
}

static const struct json_map *make_map(const ProtobufCMessageDescriptor *of);

/* Returns whether the message has the field NAME beside NAME_ms. */
static bool has_without_ms(const ProtobufCMessageDescriptor *message, const char *name) {
    char bare[64];
    snprintf(bare, sizeof(bare), "%.*s", (int)strlen(name) - 3, name);
    return protobuf_c_message_descriptor_get_field_by_name(message, bare) != NULL;
}

/* Returns the field `has_NAME`, also of a duration: has_delay belongs to delay_ms. NULL: there is none. */
static const ProtobufCFieldDescriptor *presence_of(const ProtobufCMessageDescriptor *message, const char *name) {
    char has[64];
    size_t size = strlen(name);
    snprintf(has, sizeof(has), "has_%s", name);
    const ProtobufCFieldDescriptor *found = protobuf_c_message_descriptor_get_field_by_name(message, has);
    if (found != NULL || size <= 3 || strcmp(name + size - 3, "_ms") != 0) return found;
    snprintf(has, sizeof(has), "has_%.*s", (int)size - 3, name);
    return protobuf_c_message_descriptor_get_field_by_name(message, has);
}

static void make_field(struct json_field *field, const ProtobufCMessageDescriptor *message,
                       const ProtobufCFieldDescriptor *of, bool whole) {
    const bool is_scalar =
        of->type != PROTOBUF_C_TYPE_MESSAGE && of->type != PROTOBUF_C_TYPE_STRING && of->type != PROTOBUF_C_TYPE_BYTES;
    const bool is_oneof = (of->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
    *field = (struct json_field){.of = of, .name = of->name, .form = form_of(of), .most = most_of(of)};
    field->name_size = (uint16_t)strlen(of->name);
    field->is_always =
        whole && !is_oneof &&
        ((is_scalar && field->form != JSON_ID && field->form != JSON_TIME) || of->label == PROTOBUF_C_LABEL_REPEATED);
    if (field->form == JSON_TIME && has_without_ms(message, of->name)) field->form = JSON_PLAIN;
    if (strncmp(of->name, "has_", 4) == 0) field->form = JSON_HIDDEN;
    field->has = presence_of(message, of->name);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strcmp(rows[i].message, message->short_name) == 0 && strcmp(rows[i].field, of->name) == 0)
            apply(field, message, rows[i].way, rows[i].value);
    if (of->type == PROTOBUF_C_TYPE_MESSAGE) field->map = make_map(of->descriptor);
    if (of->type == PROTOBUF_C_TYPE_ENUM) field->words = make_words(of->descriptor);
}

static const struct json_map *make_map(const ProtobufCMessageDescriptor *of) {
    for (size_t i = 0; i < map_count; i++)
        if (maps[i].of == of) return &maps[i];
    assert(map_count < MAPS_MAX && field_count + of->n_fields <= FIELDS_MAX);
    struct json_map *map = &maps[map_count++];
    *map = (struct json_map){.of = of, .count = of->n_fields, .fields = &fields[field_count]};
    field_count += of->n_fields;
    const bool whole = is_whole(of->short_name);
    for (size_t i = 0; i < map->count; i++) make_field(&map->fields[i], of, &of->fields[i], whole);
    return map;
}

/* Asserts that each line of formats.def names an existing field. */
static void check_rows(void) {
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        bool is_known = false;
        for (size_t j = 0; j < map_count && !is_known; j++)
            is_known = strcmp(maps[j].of->short_name, rows[i].message) == 0 &&
                       protobuf_c_message_descriptor_get_field_by_name(maps[j].of, rows[i].field) != NULL;
        assert(is_known);
    }
}

static void make_all(void) {
    (void)make_map(&tarry__request__descriptor);
    (void)make_map(&tarry__reply__descriptor);
    (void)make_map(&tarry__delivered_task__descriptor);
    (void)make_map(&tarry__content__descriptor);
    (void)make_map(&tarry__frame_body__descriptor);
    check_rows();
}

static void make_once(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_all);
}

const struct json_map *json_map_of(const ProtobufCMessageDescriptor *of) {
    make_once();
    for (size_t i = 0; i < map_count; i++)
        if (maps[i].of == of) return &maps[i];
    assert(false); /* not reached, because make_all covers every message of tarry.proto */
    return NULL;
}

const struct json_map *json_map_next(const struct json_map *map) {
    make_once();
    if (map == NULL) return maps;
    return map + 1 < maps + map_count ? map + 1 : NULL;
}

const struct json_field *json_field_of(const struct json_map *map, const char *name) {
    for (size_t i = 0; i < map->count; i++)
        if (strcmp(map->fields[i].name, name) == 0) return &map->fields[i];
    return NULL;
}

size_t json_value_size(const ProtobufCFieldDescriptor *of) {
    switch (of->type) {
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
