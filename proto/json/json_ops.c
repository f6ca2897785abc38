/* json_ops.c: operations by the names of /v1/commit, and their results; see json_map.h. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "errors.h"
#include "json_map.h"

/* An operation may have two names. A field of its message then says which name is meant. */
static const struct operation {
    const char *name;
    Tarry__Op__OpCase op_case;
    uint32_t value;    /* value of the message's field `field` for the operation called `name` */
    const char *field; /* NULL: none */
    const char *hides; /* member that the operation with this name does not take; NULL: none */
} operations[] = {
    {"schedule", TARRY__OP__OP_SCHEDULE, 0, NULL, NULL},
    {"cancel", TARRY__OP__OP_CANCEL, 0, NULL, NULL},
    {"move", TARRY__OP__OP_MOVE, 0, NULL, NULL},
    {"ack", TARRY__OP__OP_ACK, 0, NULL, NULL},
    {"nack", TARRY__OP__OP_NACK, 0, NULL, NULL},
    {"extend", TARRY__OP__OP_EXTEND, 0, NULL, NULL},
    {"release", TARRY__OP__OP_RELEASE, 0, NULL, NULL},
    {"requeue", TARRY__OP__OP_DEAD, TARRY__DEAD_OP__WHAT__REQUEUE, "what", NULL},
    {"drop", TARRY__OP__OP_DEAD, TARRY__DEAD_OP__WHAT__DROP, "what", NULL},
    {"redact", TARRY__OP__OP_REDACT, 0, NULL, NULL},
    {"policy", TARRY__OP__OP_QUEUE_SET, 0, NULL, NULL},
    {"pause", TARRY__OP__OP_QUEUE_PAUSE, true, "paused", NULL},
    {"resume", TARRY__OP__OP_QUEUE_PAUSE, false, "paused", "for"},
    {"purge", TARRY__OP__OP_QUEUE_PURGE, 0, NULL, NULL},
    {"delete", TARRY__OP__OP_QUEUE_DELETE, 0, NULL, NULL},
    {"recur", TARRY__OP__OP_RECUR_SET, 0, NULL, NULL},
    {"recur_pause", TARRY__OP__OP_RECUR_DO, TARRY__RECUR_DO__WHAT__PAUSE, "what", NULL},
    {"recur_resume", TARRY__OP__OP_RECUR_DO, TARRY__RECUR_DO__WHAT__RESUME, "what", NULL},
    {"recur_trigger", TARRY__OP__OP_RECUR_DO, TARRY__RECUR_DO__WHAT__TRIGGER, "what", NULL},
    {"recur_delete", TARRY__OP__OP_RECUR_DO, TARRY__RECUR_DO__WHAT__DELETE, "what", NULL},
};
#define OPERATION_COUNT (sizeof(operations) / sizeof(operations[0]))

static const ProtobufCFieldDescriptor *field_of_case(Tarry__Op__OpCase op_case) {
    return protobuf_c_message_descriptor_get_field(&tarry__op__descriptor, (unsigned)op_case);
}

static const ProtobufCMessage *arguments_of(const Tarry__Op *op) {
    const ProtobufCFieldDescriptor *field = field_of_case(op->op_case);
    return field != NULL ? *(const ProtobufCMessage *const *)((const char *)op + field->offset) : NULL;
}

static uint32_t *number_of(const ProtobufCMessage *message, const char *name) {
    const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);
    assert(field != NULL);
    return (uint32_t *)((char *)message + field->offset);
}

static const char *name_of(const Tarry__Op *op) {
    const ProtobufCMessage *arguments = arguments_of(op);
    for (size_t i = 0; i < OPERATION_COUNT && arguments != NULL; i++) {
        const struct operation *operation = &operations[i];
        if (operation->op_case != op->op_case) continue;
        if (operation->field == NULL || *number_of(arguments, operation->field) == operation->value)
            return operation->name;
    }
    return "unknown";
}

const char *json_op_name_at(size_t index) {
    return index < OPERATION_COUNT ? operations[index].name : NULL;
}

static const struct operation *find(const char *name) {
    for (size_t i = 0; i < OPERATION_COUNT; i++)
        if (strcmp(name, operations[i].name) == 0) return &operations[i];
    return NULL;
}

const ProtobufCMessageDescriptor *json_op_message(const char *name) {
    const struct operation *operation = find(name);
    return operation != NULL ? field_of_case(operation->op_case)->descriptor : NULL;
}

const char *json_op_hides(const char *name) {
    const struct operation *operation = find(name);
    return operation != NULL ? operation->hides : NULL;
}

/* ---- reading */

static const struct operation *operation_named(struct json_in *in, const char *name) {
    const struct operation *operation = find(name);
    if (operation != NULL) return operation;
    snprintf(in->problem, sizeof(in->problem), "there is no operation %.40s", name);
    return NULL;
}

static bool is_hidden(struct json_in *in, const struct operation *operation, json_t *members) {
    const char *name;
    json_t *value;
    if (operation->hides == NULL) return false;
    json_object_foreach(members, name, value) {
        if (strncmp(name, operation->hides, strlen(operation->hides)) != 0) continue;
        (void)json_unknown(in, name, NULL, 0);
        return true;
    }
    return false;
}

Tarry__Op *json_op_named(struct json_in *in, const char *name, json_t *members) {
    const struct operation *operation = operation_named(in, name);
    if (operation == NULL || is_hidden(in, operation, members)) return NULL;
    const ProtobufCFieldDescriptor *field = field_of_case(operation->op_case);
    ProtobufCMessage *arguments = json_read_message(in, field->descriptor, members);
    Tarry__Op *op = arguments != NULL ? arena_alloc(in->arena, sizeof(*op)) : NULL;
    if (op == NULL) {
        if (arguments != NULL) {
            in->too_large = true;
            snprintf(in->problem, sizeof(in->problem), "there is not enough memory for this request");
        }
        return NULL;
    }
    tarry__op__init(op);
    op->op_case = operation->op_case;
    *(ProtobufCMessage **)((char *)op + field->offset) = arguments;
    if (operation->field != NULL) *number_of(arguments, operation->field) = operation->value;
    return op;
}

Tarry__Op *json_op(struct json_in *in, json_t *object) {
    void *first = json_object_iter(object);
    if (json_object_size(object) != 1) {
        snprintf(in->problem, sizeof(in->problem),
                 "an operation is an object with one member: its name, with its arguments as the value");
        return NULL;
    }
    return json_op_named(in, json_object_iter_key(first), json_object_iter_value(first));
}

/* ---- writing */

void json_write_op(struct text *out, const Tarry__Op *op) {
    out_begin(out, '{');
    out_key(out, name_of(op));
    json_message(out, arguments_of(op));
    out_end(out, '}');
}

/* Returns whether the result has an outcome; otherwise it is an error. */
static bool json_has_outcome(const Tarry__OpResult *result) {
    return result->outcome != TARRY__OUTCOME__NONE &&
           (result->code == TARRY__CODE__OK || result->code == TARRY__CODE__EXISTS ||
            result->code == TARRY__CODE__NOT_DONE || result->code == TARRY__CODE__STALE_TOKEN);
}

/* Returns "scheduled", "exists", "in_flight", …, or "error". */
static const char *json_result_word(const Tarry__OpResult *result) {
    if (!json_has_outcome(result)) return "error";
    return result->code == TARRY__CODE__EXISTS ? "exists" : outcome_name(result->outcome);
}

static const void *member_of(const ProtobufCMessage *message, const char *name) {
    const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);
    return field != NULL ? (const char *)message + field->offset : NULL;
}

void json_result_of(struct json_result *out, const Tarry__Op *op, const Tarry__OpResult *result) {
    const ProtobufCMessage *named = arguments_of(op);
    const ProtobufCMessage *const *task = member_of(named, "task");
    if (task != NULL) named = *task;
    char *const *queue = member_of(named, "queue");
    const ProtobufCBinaryData *key = member_of(named, "key");
    out->queue = queue != NULL && (*queue)[0] != '\0' ? *queue : NULL;
    if (key != NULL) out->key = *key;
    out->has_key = key != NULL && out->queue != NULL;
    out->is_new = op->op_case == TARRY__OP__OP_SCHEDULE && result->code == TARRY__CODE__OK;
    out->result = result;
}

/* Returns the JSON name of OpResult.at_ms. NULL: at_ms means nothing to a client with this outcome. */
static const char *time_name_of(Tarry__Outcome outcome) {
    switch (outcome) {
    case TARRY__OUTCOME__IN_FLIGHT:
    case TARRY__OUTCOME__DEAD:
    case TARRY__OUTCOME__BURIED:
        return "since";
    case TARRY__OUTCOME__CANCELLED:
    case TARRY__OUTCOME__ALREADY_CANCELLED:
    case TARRY__OUTCOME__ACKED:
    case TARRY__OUTCOME__EXPIRED:
    case TARRY__OUTCOME__DROPPED:
    case TARRY__OUTCOME__SHARED:
    case TARRY__OUTCOME__UNMATCHED:
        return "ended";
    case TARRY__OUTCOME__DONE:
        return "paused_until";
    case TARRY__OUTCOME__REDACTED:
        return "scheduled";
    default:
        return NULL;
    }
}

static void write_circumstances(struct text *out, const Tarry__OpResult *result) {
    const char *time_name = time_name_of(result->outcome);
    bool counts = result->job != 0 || result->outcome == TARRY__OUTCOME__REDACTED;
    if (result->id != 0) out_number(out, "deliveries", result->deliveries);
    if (time_name != NULL) out_time(out, time_name, result->at_ms);
    if (result->outcome == TARRY__OUTCOME__IN_FLIGHT) out_token(out, "token", result->token);
    static const char *const others[] = {"known_since_ms", "session", "delivered_ms", "lease_deadline_ms", "job"};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) json_write_field(out, &result->base, others[i]);
    if (!counts) return;
    out_number(out, "count", result->count);
    out_number(out, "left", result->left);
}

static void write_code(struct text *out, const struct json_result *what) {
    const Tarry__OpResult *result = what->result;
    const char *sentence = what->sentence != NULL ? what->sentence : code_sentence(result->code);
    out_text(out, "code", what->code != NULL ? what->code : code_name(result->code));
    out_text(out, "message", result->message[0] != '\0' ? result->message : sentence);
}

void json_write_result(struct text *out, const struct json_result *what) {
    const Tarry__OpResult *result = what->result;
    out_begin(out, '{');
    if (what->line != 0) out_number(out, "line", what->line);
    if (what->name != NULL) out_text(out, "op", what->name);
    out_id(out, "id", result->id);
    if (what->queue != NULL) out_text(out, "queue", what->queue);
    if (what->has_key || what->key.len > 0)
        out_bytes(out, "key", what->key.len > 0 ? what->key.data : NULL, what->key.len);
    out_text(out, "result", json_result_word(result));
    if (result->code != TARRY__CODE__OK) write_code(out, what);
    out_time(out, "due", result->due_ms);
    if (json_has_outcome(result) && !what->is_new) write_circumstances(out, result);
    if (what->position != 0) out_number(out, "position", what->position);
    out_end(out, '}');
}
