/* fields.c: see fields.h. */
#include "fields.h"

#include <stdio.h>
#include <string.h>

#include "json_map.h"

/* Memory limit for a line's JSON of at most 16 MiB and for its parsed parts, in bytes. */
#define ARENA_MAX (2ull * REQUEST_SIZE_MAX)

static const char *const names[] = {"schedule", "cancel", "move"};

static int refuse(struct fields *fields, int code, const char *sentence) {
    snprintf(fields->message, sizeof(fields->message), "%s", sentence);
    return code;
}

/* Notes which task the line names, even if the line is refused for another reason. */
static void find_ref(struct fields *fields) {
    json_t *queue = json_object_get(fields->root, "queue"), *key = json_object_get(fields->root, "key");
    json_t *id = json_object_get(fields->root, "id");
    if (id != NULL) (void)json_id_parse(id, &fields->ref.id);
    if (json_is_string(queue) && strlen(json_string_value(queue)) == json_string_length(queue))
        fields->ref.queue = json_string_value(queue);
    if (!json_is_string(key) || json_string_length(key) == 0) return;
    fields->ref.key = json_string_value(key);
    fields->ref.key_size = json_string_length(key);
}

static int fill_schedule(struct fields *fields, const Tarry__Schedule *schedule) {
    struct tarry_schedule_options *options = &fields->schedule;
    Tarry__Content *content = tarry__content__unpack(&fields->arena.pb, schedule->content.len, schedule->content.data);
    if (content == NULL) return refuse(fields, TARRY_TOO_LARGE, "there is not enough memory for this line");
    *options = (struct tarry_schedule_options){
        .queue = schedule->queue,
        .key = fields->ref.key,
        .key_size = fields->ref.key_size,
        .when = (enum tarry_when)schedule->when->kind,
        .when_ms = schedule->when->ms,
        .priority = schedule->priority,
        .expires_ms = schedule->expires_ms,
        .on_conflict = (enum tarry_on_conflict)schedule->on_conflict,
        .attributes = fields->attributes,
        .attribute_count = content->n_attributes,
        .payload = content->payload.len > 0 ? content->payload.data : NULL,
        .payload_size = content->payload.len,
        .properties = content->properties.len > 0 ? content->properties.data : NULL,
        .properties_size = content->properties.len,
    };
    if (content->n_attributes > ATTRIBUTES_MAX)
        return refuse(fields, TARRY_TOO_LARGE, "attributes: more than 64 of them, with content-type");
    for (size_t i = 0; i < content->n_attributes; i++)
        fields->attributes[i] = (struct tarry_attribute){content->attributes[i]->name, content->attributes[i]->value};
    return TARRY_OK;
}

_Static_assert((int)TARRY_DELAY == (int)TARRY__WHEN__KIND__DELAY && (int)TARRY_AT == (int)TARRY__WHEN__KIND__AT,
               "the numbers of when");
_Static_assert((int)TARRY_KEEP_LATER == (int)TARRY__SCHEDULE__ON_CONFLICT__LATER, "the numbers of on_conflict");

static int fill(struct fields *fields, const Tarry__Op *op) {
    switch (op->op_case) {
    case TARRY__OP__OP_SCHEDULE:
        return fill_schedule(fields, op->schedule);
    case TARRY__OP__OP_CANCEL:
        fields->withdraw = op->cancel->withdraw;
        return TARRY_OK;
    default:
        fields->when = (enum tarry_when)op->move->when->kind;
        fields->when_ms = op->move->when->ms;
        return TARRY_OK;
    }
}

int fields_parse(struct fields *fields, enum verb verb, const char *line, size_t size) {
    struct json_in in = {.arena = &fields->arena, .takes_printed = verb != VERB_SCHEDULE};
    fields->root = NULL;
    fields->message[0] = 0;
    fields->schedule = (struct tarry_schedule_options){0};
    fields->ref = (struct tarry_ref){0};
    fields->withdraw = false;
    arena_init(&fields->arena, ARENA_MAX);
    if (size > 0 && line[size - 1] == '\r') size--;
    if (size == 0) return refuse(fields, TARRY_INVALID, "the line is empty");
    fields->root = json_read(&in, line, size);
    Tarry__Op *op = NULL;
    if (fields->root != NULL) {
        find_ref(fields);
        op = json_op_named(&in, names[verb], fields->root);
    }
    if (op == NULL) return refuse(fields, in.too_large ? TARRY_TOO_LARGE : TARRY_INVALID, in.problem);
    return fill(fields, op);
}

void fields_deinit(struct fields *fields) {
    json_decref(fields->root);
    arena_deinit(&fields->arena);
    fields->root = NULL;
}
