/* json_read.c: messages from JSON; see json_map.h. Messages are made in the arena; texts point into the JSON. */
#include <assert.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_map.h"
#include "json_tree.h"
#include "tarry_limits.h"

#define SEEN_MAX 64u
#define KNOWN_MAX 64u
#define MS_SIZE 3u /* of "_ms" */
#define DUMPED_QUICKLY_MAX 1024u

/* State while one JSON object is read. Its members may be fields of several messages. */
struct reading {
    struct json_in *in;
    const struct json_field *seen[SEEN_MAX];
    size_t seen_count;
    unsigned when_count; /* number of members that give a due time */
    json_t *body, *body_base64, *json, *attributes, *properties;
};

enum taken { UNKNOWN, TAKEN, WRONG };

static ProtobufCMessage *read_object(struct json_in *in, const struct json_map *map, json_t *object);

static bool wrong(struct json_in *in, const char *sentence) {
    snprintf(in->problem, sizeof(in->problem), "%s", sentence);
    return false;
}

/* Allocates zeroed memory from the arena. NULL: the arena is full. */
static void *make(struct json_in *in, size_t size) {
    void *made = arena_alloc(in->arena, size > 0 ? size : 1);
    if (made != NULL) return memset(made, 0, size);
    in->too_large = true;
    wrong(in, "there is not enough memory for this request");
    return NULL;
}

static ProtobufCMessage *make_message(struct json_in *in, const ProtobufCMessageDescriptor *of) {
    ProtobufCMessage *message = make(in, of->sizeof_message);
    if (message != NULL) of->message_init(message);
    return message;
}

static void *at_of(ProtobufCMessage *message, const ProtobufCFieldDescriptor *of) {
    return (char *)message + of->offset;
}

static bool is_name(const char *name, size_t size, const char *of, size_t of_size) {
    return size == of_size && memcmp(name, of, size) == 0;
}

#define IS(name, size, literal) is_name((name), (size), (literal), sizeof(literal) - 1)

/* ---- contents */

static bool wrong_base64(struct json_in *in, const char *name, const char *sentence) {
    snprintf(in->problem, sizeof(in->problem), "%s: %s", name, sentence);
    return false;
}

static bool decode_base64(struct json_in *in, const char *name, json_t *value, ProtobufCBinaryData *out) {
    if (!json_is_string(value)) return wrong_base64(in, name, "must be a string");
    size_t size = json_string_length(value);
    const char *end;
    out->data = make(in, size / 4 * 3 + 3);
    if (out->data == NULL) return false;
    bool is_good = sodium_base642bin(out->data, size / 4 * 3 + 3, json_string_value(value), size, NULL, &out->len, &end,
                                     sodium_base64_VARIANT_ORIGINAL) == 0 &&
                   end == json_string_value(value) + size;
    return is_good || wrong_base64(in, name, "must be base64 (RFC 4648, with padding)");
}

static bool dump_json(struct json_in *in, json_t *value, ProtobufCBinaryData *out) {
    const size_t flags = JSON_COMPACT | JSON_ENCODE_ANY;
    char buffer[DUMPED_QUICKLY_MAX];
    size_t quick_size = json_tree_write(value, buffer, sizeof(buffer));
    size_t size = quick_size > 0 ? quick_size : json_dumpb(value, NULL, 0, flags);
    out->data = make(in, size);
    out->len = size;
    if (out->data == NULL) return false;
    if (quick_size == 0)
        return json_dumpb(value, (char *)out->data, size, flags) == size || wrong(in, "json: cannot be written");
    memcpy(out->data, buffer, size);
    return true;
}

static bool take_payload(struct reading *reading, Tarry__Content *content) {
    struct json_in *in = reading->in;
    json_t *text = reading->body, *base64 = reading->body_base64, *json = reading->json;
    if ((text != NULL) + (base64 != NULL) + (json != NULL) > 1)
        return wrong(in, "give one of body, body_base64 and json");
    if (text != NULL && !json_is_string(text)) return wrong(in, "body: must be a string; JSON is sent as `json`");
    if (text != NULL)
        content->payload =
            (ProtobufCBinaryData){.len = json_string_length(text), .data = (uint8_t *)json_string_value(text)};
    if (base64 != NULL) return decode_base64(in, "body_base64", base64, &content->payload);
    return json == NULL || dump_json(in, json, &content->payload);
}

static bool add_attribute(struct json_in *in, Tarry__Content *content, const char *name, const char *value) {
    Tarry__Attribute *made = (Tarry__Attribute *)make_message(in, &tarry__attribute__descriptor);
    if (made == NULL) return false;
    made->name = (char *)name;
    made->value = (char *)value;
    content->attributes[content->n_attributes++] = made;
    return true;
}

static bool take_attributes(struct reading *reading, Tarry__Content *content) {
    struct json_in *in = reading->in;
    json_t *object = reading->attributes, *value;
    const char *name, *text;
    bool says_type = false;
    if (object != NULL && !json_is_object(object)) return wrong(in, "attributes: must be an object of strings");
    if (json_object_size(object) > ATTRIBUTES_MAX) return wrong(in, "attributes: more than 64 of them");
    _Static_assert(ATTRIBUTES_MAX == 64, "the sentence names it");
    content->attributes = make(in, (json_object_size(object) + 1) * sizeof(Tarry__Attribute *));
    if (content->attributes == NULL) return false;
    json_object_foreach(object, name, value) {
        if (!json_take_text(in, value, "attributes", &text) || !add_attribute(in, content, name, text)) return false;
        says_type |= strcmp(name, "content-type") == 0;
    }
    return reading->json == NULL || says_type || add_attribute(in, content, "content-type", "application/json");
}

static bool take_content(struct reading *reading, ProtobufCBinaryData *out) {
    Tarry__Content content = TARRY__CONTENT__INIT;
    if (!take_payload(reading, &content) || !take_attributes(reading, &content)) return false;
    if (reading->properties != NULL &&
        !decode_base64(reading->in, "properties", reading->properties, &content.properties))
        return false;
    out->len = tarry__content__get_packed_size(&content);
    if (out->len == 0) return true;
    out->data = make(reading->in, out->len);
    if (out->data == NULL) return false;
    tarry__content__pack(&content, out->data);
    return true;
}

static enum taken take_content_member(struct reading *reading, const char *name, size_t size, json_t *value) {
    if (IS(name, size, "json")) {
        reading->json = value; /* null is a valid value of a JSON field */
        return TAKEN;
    }
    json_t **at = IS(name, size, "body")          ? &reading->body
                  : IS(name, size, "body_base64") ? &reading->body_base64
                  : IS(name, size, "attributes")  ? &reading->attributes
                  : IS(name, size, "properties")  ? &reading->properties
                                                  : NULL;
    if (at == NULL) return UNKNOWN;
    *at = json_is_null(value) ? NULL : value;
    return TAKEN;
}

/* ---- due times */

static enum taken take_when(struct reading *reading, Tarry__When *when, const char *name, size_t size, json_t *value) {
    struct json_in *in = reading->in;
    bool is_at = IS(name, size, "at"), is_due = IS(name, size, "due_ms"), is_in = IS(name, size, "in");
    if (!is_at && !is_due && !is_in && !IS(name, size, "delay_ms") && !IS(name, size, "in_ms")) return UNKNOWN;
    if (json_is_null(value)) return TAKEN;
    reading->when_count++;
    when->kind = is_at || is_due ? TARRY__WHEN__KIND__AT : TARRY__WHEN__KIND__DELAY;
    bool is_good = is_at   ? json_take_time(in, value, name, &when->ms)
                   : is_in ? json_take_duration(in, value, name, &when->ms)
                           : json_take_u64(in, value, name, INT64_MAX, &when->ms);
    return is_good ? TAKEN : WRONG;
}

/* ---- values */

static bool take_word(struct json_in *in, const struct json_field *field, json_t *value, int *out) {
    const ProtobufCEnumDescriptor *of = field->of->descriptor;
    const char *text = json_string_value(value);
    for (unsigned i = 0; i < of->n_values && text != NULL; i++) {
        if (strcmp(field->words[i], text) != 0) continue;
        *out = of->values[i].value;
        return true;
    }
    size_t size = (size_t)snprintf(in->problem, sizeof(in->problem), "%s: must be ", field->name);
    for (unsigned i = 0; i < of->n_values && size < sizeof(in->problem); i++)
        size += (size_t)snprintf(in->problem + size, sizeof(in->problem) - size, "%s%s",
                                 i == 0                  ? ""
                                 : i + 1 == of->n_values ? " or "
                                                         : ", ",
                                 field->words[i]);
    return false;
}

static bool take_states(struct json_in *in, json_t *value, const char *name, uint32_t *out) {
    json_t *item;
    size_t i;
    bool is_good = json_is_array(value);
    json_array_foreach(value, i, item) {
        const char *text = json_string_value(item);
        unsigned bit = 0;
        while (bit < JSON_STATE_COUNT && (text == NULL || strcmp(text, json_state_names[bit]) != 0)) bit++;
        is_good = is_good && bit < JSON_STATE_COUNT;
        if (is_good) *out |= 1u << bit;
    }
    return is_good || json_wrong(in, name, "must be an array of pending, ready, in_flight and dead");
}

static bool take_hash(json_t *value, uint64_t *out) {
    const char *text = json_string_value(value);
    if (text == NULL || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16) return false;
    *out = strtoull(text, NULL, 16);
    return true;
}

static bool take_hex(struct json_in *in, json_t *value, const char *name, ProtobufCBinaryData *out) {
    size_t size = json_string_length(value);
    out->data = make(in, size / 2 + 1);
    if (out->data == NULL) return false;
    bool is_good = json_is_string(value) &&
                   sodium_hex2bin(out->data, size / 2 + 1, json_string_value(value), size, NULL, &out->len, NULL) == 0;
    return (is_good && 2 * out->len == size) || json_wrong(in, name, "must be hexadecimal");
}

static bool take_bytes(struct json_in *in, json_t *value, const char *name, ProtobufCBinaryData *out) {
    if (!json_is_string(value)) return json_wrong(in, name, "must be a string");
    if (json_string_length(value) == 0) return json_wrong(in, name, "is empty; leave it out, or give null");
    *out = (ProtobufCBinaryData){.len = json_string_length(value), .data = (uint8_t *)json_string_value(value)};
    return true;
}

static bool take_token(struct json_in *in, json_t *value, const char *name, Tarry__Token **out) {
    const char *text;
    *out = (Tarry__Token *)make_message(in, &tarry__token__descriptor);
    if (*out == NULL || !json_take_text(in, value, name, &text)) return false;
    return json_token_parse(text, *out) || json_wrong(in, name, "must be the token of a lease, such as 3-81920");
}

/* Reads a number. A number that a double cannot hold may be given as text (json_write.c). */
static bool take_number(struct json_in *in, const struct json_field *field, const char *name, json_t *value,
                        uint64_t *out) {
    if (field->form == JSON_ID)
        return json_id_parse(value, out) || json_wrong(in, name, "must be a number from 1, as text or as a number");
    if (json_is_string(value) && field->most == INT64_MAX && json_id_parse(value, out) && *out > JSON_EXACT_MAX)
        return true;
    return json_take_u64(in, value, name, field->most, out);
}

/* Reads one value, and stores it at `at`. */
static bool take_value(struct json_in *in, const struct json_field *field, const char *name, json_t *value, void *at) {
    uint64_t number = 0;
    bool flag = false;
    switch (field->of->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
        if (field->form == JSON_TOKEN) return take_token(in, value, name, at);
        return (*(ProtobufCMessage **)at = read_object(in, field->map, value)) != NULL;
    case PROTOBUF_C_TYPE_STRING:
        return json_take_text(in, value, name, at);
    case PROTOBUF_C_TYPE_BYTES:
        return field->form == JSON_TEXT ? take_bytes(in, value, name, at) : take_hex(in, value, name, at);
    case PROTOBUF_C_TYPE_ENUM:
        return take_word(in, field, value, at);
    case PROTOBUF_C_TYPE_BOOL:
        if (!json_take_bool(in, value, name, &flag)) return false;
        *(protobuf_c_boolean *)at = flag;
        return true;
    case PROTOBUF_C_TYPE_DOUBLE:
        if (!json_is_number(value)) return json_wrong(in, name, "must be a number");
        *(double *)at = json_number_value(value);
        return true;
    case PROTOBUF_C_TYPE_FIXED64:
        return take_hash(value, at) || json_wrong(in, name, "must be 16 hexadecimal digits");
    case PROTOBUF_C_TYPE_UINT64:
        return take_number(in, field, name, value, at);
    default:
        assert(field->of->type == PROTOBUF_C_TYPE_UINT32);
        if (field->form == JSON_STATES) return take_states(in, value, name, at);
        if (!take_number(in, field, name, value, &number)) return false;
        *(uint32_t *)at = (uint32_t)number;
        return true;
    }
}

static bool take_array(struct json_in *in, ProtobufCMessage *message, const struct json_field *field, json_t *value) {
    size_t size = json_value_size(field->of), count = json_array_size(value), i;
    json_t *item;
    if (!json_is_array(value)) return json_wrong(in, field->name, "must be an array");
    char *items = make(in, count * size);
    if (items == NULL) return false;
    json_array_foreach(value, i, item) if (!take_value(in, field, field->name, item, items + i * size)) return false;
    *(void **)at_of(message, field->of) = items;
    *(size_t *)((char *)message + field->of->quantifier_offset) = count;
    return true;
}

/* ---- members */

static bool is_seen(const struct reading *reading, const struct json_field *field) {
    for (size_t i = 0; i < reading->seen_count; i++)
        if (reading->seen[i] == field) return true;
    return false;
}

/* Notes that the field is present. */
static bool see(struct reading *reading, ProtobufCMessage *message, const struct json_field *field) {
    const ProtobufCFieldDescriptor *of = field->of;
    assert(reading->seen_count < SEEN_MAX);
    reading->seen[reading->seen_count++] = field;
    if (field->has != NULL) *(protobuf_c_boolean *)at_of(message, field->has) = true;
    if ((of->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) == 0) return true;
    uint32_t *which = (uint32_t *)((char *)message + of->quantifier_offset);
    if (*which != 0) return json_wrong(reading->in, field->name, "another field excludes it");
    *which = of->id;
    return true;
}

/* Reads a time or a duration: NAME_ms is a number, NAME is text. */
static bool take_ms(struct reading *reading, ProtobufCMessage *message, const struct json_field *field,
                    const char *name, json_t *value, bool is_text) {
    const bool is_time = field->form == JSON_TIME;
    uint64_t ms = 0;
    bool was_seen = is_seen(reading, field);
    if (was_seen && !is_time) return json_wrong(reading->in, field->name, "is given twice, with and without _ms");
    if (was_seen && is_text) return true; /* if a time is given twice, the number counts */
    bool is_good = !is_text  ? json_take_u64(reading->in, value, name, field->most, &ms)
                   : is_time ? json_take_time(reading->in, value, name, &ms)
                             : json_take_duration(reading->in, value, name, &ms);
    if (!is_good) return false;
    if (field->of->type == PROTOBUF_C_TYPE_UINT64)
        *(uint64_t *)at_of(message, field->of) = ms;
    else
        *(uint32_t *)at_of(message, field->of) = (uint32_t)ms;
    return was_seen || see(reading, message, field);
}

static enum taken take_field(struct reading *reading, ProtobufCMessage *message, const struct json_field *field,
                             const char *name, size_t size, json_t *value) {
    const bool is_ms = field->form == JSON_TIME || field->form == JSON_DURATION;
    const bool is_text = is_ms && is_name(name, size, field->name, field->name_size - MS_SIZE);
    if (!is_text && !is_name(name, size, field->name, field->name_size)) return UNKNOWN;
    if (json_is_null(value)) return TAKEN;
    if (is_ms) return take_ms(reading, message, field, name, value, is_text) ? TAKEN : WRONG;
    bool is_good = field->of->label == PROTOBUF_C_LABEL_REPEATED
                       ? take_array(reading->in, message, field, value)
                       : take_value(reading->in, field, name, value, at_of(message, field->of));
    return is_good && see(reading, message, field) ? TAKEN : WRONG;
}

static enum taken take_member(struct reading *reading, const struct json_map *map, ProtobufCMessage *message,
                              const char *name, size_t size, json_t *value) {
    enum taken taken = UNKNOWN;
    for (size_t i = 0; i < map->count && taken == UNKNOWN; i++) {
        const struct json_field *field = &map->fields[i];
        void *at = at_of(message, field->of);
        switch (field->form) {
        case JSON_HIDDEN:
            break;
        case JSON_MEMBERS:
            taken = take_member(reading, field->map, *(ProtobufCMessage **)at, name, size, value);
            break;
        case JSON_WHEN:
            taken = take_when(reading, *(Tarry__When **)at, name, size, value);
            break;
        case JSON_CONTENT:
            taken = take_content_member(reading, name, size, value);
            break;
        default:
            taken = take_field(reading, message, field, name, size, value);
        }
    }
    return taken;
}

static const char *const when_names[] = {"in", "in_ms", "delay_ms", "at", "due_ms"};
static const char *const content_names[] = {"body", "body_base64", "json", "attributes", "properties"};
/* Names of members of a printed result that are fields of no message. */
static const char *const result_names[] = {"line",  "op",       "result",      "code",           "message",
                                           "since", "since_ms", "known_since", "known_since_ms", "count",
                                           "left",  "job",      "position",    "follower"};

#define IS_AMONG(name, names) is_among((name), (names), sizeof(names) / sizeof((names)[0]))
static bool is_among(const char *name, const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

/* Returns whether a scheduled or printed task may have this member. Users pass printed tasks to cancel and move, which
 * ignore such members. */
static bool is_printed(const char *name) {
    const ProtobufCMessageDescriptor *const known[] = {&tarry__task_view__descriptor,
                                                       &tarry__delivered_task__descriptor,
                                                       &tarry__schedule__descriptor};
    const size_t size = strlen(name);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        const struct json_map *map = json_map_of(known[i]);
        for (size_t j = 0; j < map->count; j++) {
            const struct json_field *field = &map->fields[j];
            const bool is_ms = field->form == JSON_TIME || field->form == JSON_DURATION;
            if (is_name(name, size, field->name, field->name_size)) return true;
            if (is_ms && is_name(name, size, field->name, field->name_size - MS_SIZE)) return true;
        }
    }
    return IS_AMONG(name, when_names) || IS_AMONG(name, content_names) || IS_AMONG(name, result_names);
}

/* Adds the names of the members that a message has, for a suggestion. */
static size_t add_known(const struct json_map *map, const char **known, size_t count) {
    for (size_t i = 0; i < map->count; i++) {
        const struct json_field *field = &map->fields[i];
        if (field->form == JSON_MEMBERS) count = add_known(field->map, known, count);
        for (size_t j = 0; field->form == JSON_WHEN && j < 5 && count < KNOWN_MAX; j++) known[count++] = when_names[j];
        for (size_t j = 0; field->form == JSON_CONTENT && j < 5 && count < KNOWN_MAX; j++)
            known[count++] = content_names[j];
        bool is_own = field->form != JSON_HIDDEN && field->form != JSON_MEMBERS && field->form != JSON_WHEN &&
                      field->form != JSON_CONTENT;
        if (is_own && count < KNOWN_MAX) known[count++] = field->name;
    }
    return count;
}

/* ---- end of an object: required members */

static bool finish_ref(struct reading *reading, const ProtobufCMessage *message, Tarry__Ref **at, bool is_required) {
    struct json_in *in = reading->in;
    Tarry__Ref *ref = *at;
    const bool is_all = message->descriptor == &tarry__dead_op__descriptor && ((const Tarry__DeadOp *)message)->all;
    if (is_all && (ref->id != 0 || ref->key.len > 0))
        return wrong(in, "all means every dead letter of the queue: leave out id and key");
    if (ref->id != 0) { /* a printed task has an id, and also its queue and key */
        ref->queue = (char *)protobuf_c_empty_string;
        ref->key = (ProtobufCBinaryData){0};
        return true;
    }
    if (!is_required && ref->queue[0] == '\0' && ref->key.len == 0) {
        *at = NULL;
        return true;
    }
    if (ref->queue[0] == '\0' && in->queue != NULL) ref->queue = (char *)in->queue;
    if (ref->queue[0] == '\0')
        return wrong(in, is_all ? "queue is missing" : "the task is missing: give id, or queue and key");
    return is_all || ref->key.len > 0 || wrong(in, "the task is missing: give id, or queue and key");
}

static bool finish_when(struct reading *reading, const struct json_field *field, Tarry__When **when) {
    if (reading->when_count == 1) return true;
    if (reading->when_count == 0 && !field->is_required) {
        *when = NULL;
        return true;
    }
    return wrong(reading->in, "when: give one of in (\"30m\"), delay_ms, at (RFC 3339) and due_ms");
}

/* Collects the names of the policy's members that are present in the JSON. */
static bool finish_policy(struct reading *reading, const struct json_map *policy, Tarry__QueueSet *set) {
    set->fields = make(reading->in, (policy->count + 1) * sizeof(char *));
    if (set->fields == NULL) return false;
    for (size_t i = 0; i < policy->count; i++)
        if (is_seen(reading, &policy->fields[i])) set->fields[set->n_fields++] = (char *)policy->fields[i].of->name;
    return set->n_fields > 0 || wrong(reading->in, "the policy has no field: give lease, max_attempts, …");
}

static bool finish_field(struct reading *reading, ProtobufCMessage *message, const struct json_field *field) {
    void *at = at_of(message, field->of);
    char **queue = at;
    switch (field->form) {
    case JSON_WHEN:
        return finish_when(reading, field, at);
    case JSON_CONTENT:
        return take_content(reading, at);
    case JSON_MEMBERS:
        if (message->descriptor == &tarry__queue_set__descriptor)
            return finish_policy(reading, field->map, (Tarry__QueueSet *)message);
        return finish_ref(reading, message, at, field->is_required);
    default:
        break;
    }
    if (!field->is_required || is_seen(reading, field)) return true;
    if (reading->in->queue != NULL && strcmp(field->name, "queue") == 0) {
        *queue = (char *)reading->in->queue;
        return true;
    }
    snprintf(reading->in->problem, sizeof(reading->in->problem), "%s is missing", field->name);
    return false;
}

/* Makes the messages whose fields are members of this object. */
static bool begin_fields(struct json_in *in, const struct json_map *map, ProtobufCMessage *message) {
    for (size_t i = 0; i < map->count; i++) {
        const struct json_field *field = &map->fields[i];
        if (field->form != JSON_MEMBERS && field->form != JSON_WHEN) continue;
        ProtobufCMessage **at = at_of(message, field->of);
        *at = make_message(in, field->of->descriptor);
        if (*at == NULL) return false;
    }
    return true;
}

static ProtobufCMessage *read_object(struct json_in *in, const struct json_map *map, json_t *object) {
    struct reading reading = {.in = in};
    const char *name, *known[KNOWN_MAX];
    json_t *value;
    if (!json_is_object(object)) {
        wrong(in, "the arguments must be an object");
        return NULL;
    }
    ProtobufCMessage *message = make_message(in, map->of);
    if (message == NULL || !begin_fields(in, map, message)) return NULL;
    json_object_foreach(object, name, value) {
        enum taken taken = take_member(&reading, map, message, name, strlen(name), value);
        if (taken == WRONG) return NULL;
        if (taken == TAKEN || (in->takes_printed && is_printed(name))) continue;
        json_unknown(in, name, known, add_known(map, known, 0));
        return NULL;
    }
    for (size_t i = 0; i < map->count; i++)
        if (!finish_field(&reading, message, &map->fields[i])) return NULL;
    return message;
}

ProtobufCMessage *json_read_message(struct json_in *in, const ProtobufCMessageDescriptor *of, json_t *object) {
    return read_object(in, json_map_of(of), object);
}
