/* fields.c: see fields.h. */
#include "fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base64.h"
#include "text.h"

static int refuse(struct fields *fields, const char *format, const char *name) {
    snprintf(fields->message, sizeof fields->message, format, name);
    return TARRY_INVALID;
}

/* Returns a member that exists and is not null. */
static json_t *member(const struct fields *fields, const char *name) {
    json_t *value = json_object_get(fields->root, name);
    return value == NULL || json_is_null(value) ? NULL : value;
}

/* Whole numbers from 0, also when they are written 1.5e3. *out untouched if absent. */
static int number(struct fields *fields, const char *name, uint64_t *out) {
    json_t *value = member(fields, name);
    if (value == NULL) return TARRY_OK;
    if (json_is_integer(value)) {
        if (json_integer_value(value) < 0) return refuse(fields, "%s is negative", name);
        *out = (uint64_t)json_integer_value(value);
        return TARRY_OK;
    }
    double real = json_is_real(value) ? json_real_value(value) : -1;
    if (!json_is_real(value)) return refuse(fields, "%s is not a number", name);
    if (real < 0) return refuse(fields, "%s is negative", name);
    if (real > 9007199254740992.0 || real != (double)(uint64_t)real)
        return refuse(fields, "%s is not a whole number below 2^53", name);
    *out = (uint64_t)real;
    return TARRY_OK;
}

/* A string; *out untouched if absent. `out_size` NULL: the string may not contain a 0 byte. */
static int string(struct fields *fields, const char *name, const char **out, size_t *out_size) {
    json_t *value = member(fields, name);
    if (value == NULL) return TARRY_OK;
    if (!json_is_string(value)) return refuse(fields, "%s is not a string", name);
    if (out_size == NULL && strlen(json_string_value(value)) != json_string_length(value))
        return refuse(fields, "%s contains control characters", name);
    if (out_size != NULL) *out_size = json_string_length(value);
    *out = json_string_value(value);
    return TARRY_OK;
}

static int task_id(struct fields *fields) {
    json_t *value = member(fields, "id");
    if (value == NULL) return TARRY_OK;
    if (json_is_string(value)) {
        const char *text = json_string_value(value);
        size_t size = json_string_length(value);
        char *end;
        if (size == 0 || size > 20 || strspn(text, "0123456789") != size) return refuse(fields, "%s is no id", "id");
        fields->ref.id = strtoull(text, &end, 10);
    } else if (json_is_integer(value) && json_integer_value(value) > 0) {
        fields->ref.id = (uint64_t)json_integer_value(value);
    }
    return fields->ref.id > 0 ? TARRY_OK : refuse(fields, "%s is no id", "id");
}

static int when(struct fields *fields) {
    bool delay = member(fields, "delay_ms") != NULL, due = member(fields, "due_ms") != NULL;
    if (delay && due) return refuse(fields, "%s: one time is enough", "both delay_ms and due_ms");
    if (!delay && !due) return refuse(fields, "%s: delay_ms or due_ms", "the time is missing");
    fields->when = delay ? TARRY_DELAY : TARRY_AT;
    return number(fields, delay ? "delay_ms" : "due_ms", &fields->when_ms);
}

static int body(struct fields *fields) {
    const char *text = NULL, *base64 = NULL;
    size_t text_size = 0, base64_size = 0;
    int code = string(fields, "body", &text, &text_size);
    if (code == TARRY_OK) code = string(fields, "body_base64", &base64, &base64_size);
    if (code != TARRY_OK) return code;
    if (text != NULL && base64 != NULL) return refuse(fields, "%s: one is enough", "both body and body_base64");
    fields->schedule.payload = text;
    fields->schedule.payload_size = text_size;
    if (base64 == NULL) return TARRY_OK;
    fields->decoded = tool_alloc(base64_decoded_size_max(base64_size));
    if (!base64_decode(base64, base64_size, fields->decoded, &fields->schedule.payload_size))
        return refuse(fields, "%s is not base64", "body_base64");
    fields->schedule.payload = fields->decoded;
    return TARRY_OK;
}

static int attributes(struct fields *fields) {
    json_t *object = member(fields, "attributes"), *value;
    const char *name;
    size_t count = 0;
    if (object == NULL) return TARRY_OK;
    if (!json_is_object(object)) return refuse(fields, "%s is not an object of strings", "attributes");
    if (json_object_size(object) > ATTRIBUTES_MAX) {
        snprintf(fields->message, sizeof fields->message, "more than %d attributes", ATTRIBUTES_MAX);
        return TARRY_TOO_LARGE;
    }
    json_object_foreach(object, name, value) {
        if (!json_is_string(value)) return refuse(fields, "%s is not an object of strings", "attributes");
        if (strlen(json_string_value(value)) != json_string_length(value))
            return refuse(fields, "%s: a value contains a 0 byte", "attributes");
        fields->attributes[count++] = (struct tarry_attribute){name, json_string_value(value)};
    }
    fields->schedule.attributes = fields->attributes;
    fields->schedule.attribute_count = count;
    return TARRY_OK;
}

static int on_conflict(struct fields *fields) {
    static const char *const names[] = {"reject", "replace", "earlier", "later"}; /* enum tarry_on_conflict */
    const char *text = NULL;
    int code = string(fields, "on_conflict", &text, NULL);
    if (code != TARRY_OK || text == NULL) return code;
    for (size_t i = 0; i < 4; i++)
        if (strcmp(text, names[i]) == 0) {
            fields->schedule.on_conflict = (enum tarry_on_conflict)i;
            return TARRY_OK;
        }
    return refuse(fields, "%s is none of reject, replace, earlier, later", "on_conflict");
}

static int schedule(struct fields *fields) {
    struct tarry_schedule_options *options = &fields->schedule;
    uint64_t priority = 0;
    if (fields->ref.queue == NULL) return refuse(fields, "%s is missing", "queue");
    int code = when(fields);
    if (code == TARRY_OK) code = body(fields);
    if (code == TARRY_OK) code = number(fields, "priority", &priority);
    if (code == TARRY_OK && priority >= PRIORITY_COUNT) code = refuse(fields, "%s lies outside 0 … 9", "priority");
    if (code == TARRY_OK) code = number(fields, "expires_ms", &options->expires_ms);
    if (code == TARRY_OK) code = attributes(fields);
    if (code == TARRY_OK) code = on_conflict(fields);
    options->queue = fields->ref.queue;
    options->key = fields->ref.key;
    options->key_size = fields->ref.key_size;
    options->when = fields->when;
    options->when_ms = fields->when_ms;
    options->priority = (uint32_t)priority;
    return code;
}

static int refer(struct fields *fields, enum verb verb) {
    int code = TARRY_OK;
    if (fields->ref.id == 0 && (fields->ref.queue == NULL || fields->ref.key == NULL || fields->ref.key_size == 0))
        return refuse(fields, "%s: queue and key, or id", "which task is missing");
    if (verb == VERB_MOVE) return when(fields);
    json_t *value = member(fields, "withdraw");
    if (value != NULL && !json_is_boolean(value)) code = refuse(fields, "%s is neither true nor false", "withdraw");
    fields->withdraw = value != NULL && json_is_true(value);
    return code;
}

/* A member with an unknown name is refused, because it is probably a typo and its value would be lost. Lines that
 * this tool prints can be used as input of cancel and move, so their other members are allowed there. */
static int unknown_member(struct fields *fields, enum verb verb) {
    static const char *const known[] = {"queue",       "key",      "delay_ms",   "due_ms",     "body",
                                        "body_base64", "priority", "attributes", "expires_ms", "on_conflict"};
    static const char *const printed[] = {"id",
                                          "line",
                                          "result",
                                          "withdraw",
                                          "state",
                                          "deliveries",
                                          "attempt",
                                          "token",
                                          "session",
                                          "since_ms",
                                          "ended_ms",
                                          "delivered_ms",
                                          "received_ms",
                                          "scheduled_ms",
                                          "lease_deadline_ms",
                                          "known_since_ms"};
    const char *name;
    json_t *value;
    json_object_foreach(fields->root, name, value) {
        bool found = false;
        for (size_t i = 0; i < sizeof known / sizeof known[0] && !found; i++) found = strcmp(name, known[i]) == 0;
        for (size_t i = 0; verb != VERB_SCHEDULE && i < sizeof printed / sizeof printed[0] && !found; i++)
            found = strcmp(name, printed[i]) == 0;
        if (!found) {
            char shown[64];
            snprintf(shown, sizeof shown, "'%.60s'", name);
            return refuse(fields, "there is no member %s", shown);
        }
    }
    return TARRY_OK;
}

int fields_parse(struct fields *fields, enum verb verb, const char *line, size_t size) {
    json_error_t error;
    fields->root = NULL;
    fields->decoded = NULL;
    fields->message[0] = 0;
    fields->schedule = (struct tarry_schedule_options){0};
    fields->ref = (struct tarry_ref){0};
    fields->withdraw = false;
    if (size >= 3 && memcmp(line, "\xEF\xBB\xBF", 3) == 0)
        return refuse(fields, "%s", "begins with a byte order mark (BOM): save the file as UTF-8 without one");
    if (size >= 2 && (memcmp(line, "\xFF\xFE", 2) == 0 || memcmp(line, "\xFE\xFF", 2) == 0))
        return refuse(fields, "%s", "is UTF-16: save the file as UTF-8");
    if (size > 0 && line[size - 1] == '\r') size--;
    if (size == 0) return refuse(fields, "%s", "the line is empty");
    fields->root = json_loadb(line, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (fields->root == NULL) {
        snprintf(fields->message, sizeof fields->message, "not JSON: %.120s", error.text);
        return TARRY_INVALID;
    }
    if (!json_is_object(fields->root)) return refuse(fields, "%s", "not a JSON object");
    int code = string(fields, "queue", &fields->ref.queue, NULL);
    if (code == TARRY_OK) code = string(fields, "key", &fields->ref.key, &fields->ref.key_size);
    if (code == TARRY_OK && fields->ref.key != NULL &&
        fields->ref.key_size == 0) /* an empty key is a typo, and does not mean "no key" */
        code = refuse(fields, "%s is empty; a task without a key has none, or null", "key");
    if (code == TARRY_OK && verb != VERB_SCHEDULE) code = task_id(fields);
    if (code == TARRY_OK) code = unknown_member(fields, verb);
    if (code != TARRY_OK) return code;
    return verb == VERB_SCHEDULE ? schedule(fields) : refer(fields, verb);
}

void fields_deinit(struct fields *fields) {
    json_decref(fields->root);
    free(fields->decoded);
    fields->root = NULL;
    fields->decoded = NULL;
}
