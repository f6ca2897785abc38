/* json_ops.c: converts JSON to the operations of a commit; see json_in.h. */
#include <assert.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_in.h"
#include "rfc3339.h"
#include "tarry_limits.h"

#define WHEN "in in_ms delay_ms at due_ms"

static bool wrong(struct json_in *in, const char *sentence) {
    snprintf(in->problem, sizeof(in->problem), "%s", sentence);
    return false;
}

/* Allocates zeroed memory from the arena. NULL: the arena is full. */
static void *make(struct json_in *in, size_t size) {
    void *made = arena_alloc(in->arena, size > 0 ? size : 1);
    if (made != NULL) memset(made, 0, size);
    if (made == NULL) {
        in->too_large = true;
        wrong(in, "there is not enough memory for what is sent");
    }
    return made;
}
#define MAKE(in, type) ((type *)make((in), sizeof(type)))

/* ---- parts of operations */

static bool get_when(struct json_in *in, json_t *members, Tarry__When *out) {
    uint64_t delay_ms = 0, due_ms = 0;
    bool is_delay = false;
    const char *at = NULL;
    json_t *delay = json_member(members, "delay_ms"), *due = json_member(members, "due_ms");
    if (!json_get_duration(in, members, "in", &delay_ms, &is_delay) || !json_get_text(in, members, "at", &at) ||
        !json_get_u64(in, members, "delay_ms", INT64_MAX, &delay_ms) ||
        !json_get_u64(in, members, "due_ms", INT64_MAX, &due_ms))
        return false;
    int said = is_delay + (delay != NULL) + (at != NULL) + (due != NULL);
    if (said != 1) return wrong(in, "when: one of in (\"30m\"), delay_ms, at (RFC 3339) and due_ms must be there");
    tarry__when__init(out);
    const char *problem = at != NULL ? rfc3339_parse(at, &due_ms) : NULL;
    if (problem != NULL) {
        snprintf(in->problem, sizeof(in->problem), "at: %s", problem);
        return false;
    }
    bool is_at = at != NULL || due != NULL;
    out->kind = is_at ? TARRY__WHEN__KIND__AT : TARRY__WHEN__KIND__DELAY;
    out->ms = is_at ? due_ms : delay_ms;
    return true;
}

/* Reads the queue. Default: the queue in the path. */
static bool get_queue(struct json_in *in, json_t *members, char **out) {
    const char *queue = in->queue;
    if (!json_get_text(in, members, "queue", &queue)) return false;
    if (queue == NULL) return wrong(in, "queue is missing");
    *out = (char *)queue;
    return true;
}

static bool get_key(struct json_in *in, json_t *members, ProtobufCBinaryData *out) {
    json_t *key = json_member(members, "key");
    if (key == NULL) return true;
    if (!json_is_string(key)) return wrong(in, "key is not a string");
    if (json_string_length(key) == 0) return wrong(in, "key is empty; a task without a key has none");
    *out = (ProtobufCBinaryData){.len = json_string_length(key), .data = (uint8_t *)json_string_value(key)};
    return true;
}

/* Reads a reference to a task: by id, or by queue and key. */
static Tarry__Ref *get_ref(struct json_in *in, json_t *members) {
    Tarry__Ref *ref = MAKE(in, Tarry__Ref);
    json_t *id = json_member(members, "id");
    if (ref == NULL) return NULL;
    tarry__ref__init(ref);
    if (id != NULL) return json_id_parse(id, &ref->id) || wrong(in, "id is none") ? ref : NULL;
    if (!get_queue(in, members, &ref->queue) || !get_key(in, members, &ref->key)) return NULL;
    return ref->key.len > 0 || wrong(in, "which task is missing: id, or queue and key") ? ref : NULL;
}

static bool get_lease(struct json_in *in, json_t *members, uint64_t *out_id, Tarry__Token **out_token) {
    const char *token = NULL;
    json_t *id = json_member(members, "id");
    *out_token = MAKE(in, Tarry__Token);
    if (*out_token == NULL || !json_get_text(in, members, "token", &token)) return false;
    if (id == NULL || !json_id_parse(id, out_id)) return wrong(in, "id is missing, or none");
    if (token == NULL || !json_token_parse(token, *out_token))
        return wrong(in, "token is missing, or not one of a lease");
    return true;
}

/* ---- contents */

static bool decode_base64(struct json_in *in, json_t *value, ProtobufCBinaryData *out) {
    size_t size = json_string_length(value);
    const char *end;
    out->data = make(in, size / 4 * 3 + 3);
    if (out->data == NULL) return false;
    bool is_good = sodium_base642bin(out->data, size / 4 * 3 + 3, json_string_value(value), size, NULL, &out->len, &end,
                                     sodium_base64_VARIANT_ORIGINAL) == 0 &&
                   end == json_string_value(value) + size;
    return is_good || wrong(in, "body_base64 is not base64 (RFC 4648, with padding)");
}

static bool dump_json(struct json_in *in, json_t *value, ProtobufCBinaryData *out) {
    const size_t flags = JSON_COMPACT | JSON_ENCODE_ANY;
    size_t size = json_dumpb(value, NULL, 0, flags);
    out->data = make(in, size);
    out->len = size;
    return out->data != NULL &&
           (json_dumpb(value, (char *)out->data, size, flags) == size || wrong(in, "json cannot be written"));
}

static bool get_payload(struct json_in *in, json_t *members, Tarry__Content *content, bool *out_is_json) {
    json_t *text = json_member(members, "body"), *base64 = json_member(members, "body_base64");
    json_t *json = json_object_get(members, "json"); /* null is also a JSON value */
    *out_is_json = json != NULL;
    if ((text != NULL) + (base64 != NULL) + (json != NULL) > 1)
        return wrong(in, "one of body, body_base64 and json is enough");
    if (text != NULL && !json_is_string(text)) return wrong(in, "body is not a string; JSON is sent as `json`");
    if (base64 != NULL && !json_is_string(base64)) return wrong(in, "body_base64 is not a string");
    if (text != NULL)
        content->payload =
            (ProtobufCBinaryData){.len = json_string_length(text), .data = (uint8_t *)json_string_value(text)};
    if (base64 != NULL) return decode_base64(in, base64, &content->payload);
    return json == NULL || dump_json(in, json, &content->payload);
}

static Tarry__Attribute *attribute(struct json_in *in, const char *name, const char *value) {
    Tarry__Attribute *made = MAKE(in, Tarry__Attribute);
    if (made == NULL) return NULL;
    tarry__attribute__init(made);
    made->name = (char *)name;
    made->value = (char *)value;
    return made;
}

static bool get_attributes(struct json_in *in, json_t *members, Tarry__Content *content, bool is_json) {
    json_t *object = json_member(members, "attributes"), *value;
    const char *name;
    if (object != NULL && !json_is_object(object)) return wrong(in, "attributes is not an object of strings");
    if (json_object_size(object) > ATTRIBUTES_MAX) return wrong(in, "there are more than 64 attributes");
    content->attributes = make(in, (json_object_size(object) + 1) * sizeof(Tarry__Attribute *));
    if (content->attributes == NULL) return false;
    bool says_type = false;
    json_object_foreach(object, name, value) {
        if (!json_is_string(value) || strlen(json_string_value(value)) != json_string_length(value))
            return wrong(in, "attributes is not an object of strings without 0 bytes");
        says_type |= strcmp(name, "content-type") == 0;
        Tarry__Attribute *made = attribute(in, name, json_string_value(value));
        if (made == NULL) return false;
        content->attributes[content->n_attributes++] = made;
    }
    if (!is_json || says_type) return true;
    Tarry__Attribute *type = attribute(in, "content-type", "application/json");
    if (type != NULL) content->attributes[content->n_attributes++] = type;
    return type != NULL;
}

static bool get_content(struct json_in *in, json_t *members, ProtobufCBinaryData *out) {
    Tarry__Content content = TARRY__CONTENT__INIT;
    bool is_json;
    if (!get_payload(in, members, &content, &is_json) || !get_attributes(in, members, &content, is_json)) return false;
    out->len = tarry__content__get_packed_size(&content);
    if (out->len == 0) return true;
    out->data = make(in, out->len);
    if (out->data == NULL) return false;
    tarry__content__pack(&content, out->data);
    return true;
}

/* ---- operations: each function reads its members and fills in the operation */

static bool is_word_of(const char *text, const char *const *words, size_t count, size_t *out) {
    for (*out = 0; *out < count; (*out)++)
        if (strcmp(text, words[*out]) == 0) return true;
    return false;
}

static bool op_schedule(struct json_in *in, json_t *members, Tarry__Op *op) {
    static const char *const conflicts[] = {"reject", "replace", "earlier", "later"};
    Tarry__Schedule *schedule = op->schedule = MAKE(in, Tarry__Schedule);
    const char *on_conflict = "reject";
    uint64_t priority = 0;
    size_t which;
    if (schedule == NULL) return false;
    tarry__schedule__init(schedule);
    op->op_case = TARRY__OP__OP_SCHEDULE;
    schedule->when = MAKE(in, Tarry__When);
    if (schedule->when == NULL || !get_queue(in, members, &schedule->queue) || !get_key(in, members, &schedule->key) ||
        !get_when(in, members, schedule->when) || !get_content(in, members, &schedule->content) ||
        !json_get_u64(in, members, "priority", PRIORITY_COUNT - 1, &priority) ||
        !json_get_duration(in, members, "expires", &schedule->expires_ms, NULL) ||
        !json_get_text(in, members, "on_conflict", &on_conflict))
        return false;
    if (!is_word_of(on_conflict, conflicts, 4, &which))
        return wrong(in, "on_conflict is none of reject, replace, earlier and later");
    schedule->priority = (uint32_t)priority;
    schedule->on_conflict = (Tarry__Schedule__OnConflict)which;
    return true;
}

static bool op_cancel(struct json_in *in, json_t *members, Tarry__Op *op) {
    op->cancel = MAKE(in, Tarry__Cancel);
    if (op->cancel == NULL) return false;
    tarry__cancel__init(op->cancel);
    op->op_case = TARRY__OP__OP_CANCEL;
    bool withdraw = false;
    if (!json_get_bool(in, members, "withdraw", &withdraw)) return false;
    op->cancel->withdraw = withdraw;
    return (op->cancel->task = get_ref(in, members)) != NULL;
}

static bool op_move(struct json_in *in, json_t *members, Tarry__Op *op) {
    op->move = MAKE(in, Tarry__Move);
    if (op->move == NULL) return false;
    tarry__move__init(op->move);
    op->op_case = TARRY__OP__OP_MOVE;
    op->move->when = MAKE(in, Tarry__When);
    return op->move->when != NULL && get_when(in, members, op->move->when) &&
           (op->move->task = get_ref(in, members)) != NULL;
}

static bool op_ack(struct json_in *in, json_t *members, Tarry__Op *op) {
    op->ack = MAKE(in, Tarry__Ack);
    if (op->ack == NULL) return false;
    tarry__ack__init(op->ack);
    op->op_case = TARRY__OP__OP_ACK;
    return get_lease(in, members, &op->ack->id, &op->ack->token);
}

static bool op_release(struct json_in *in, json_t *members, Tarry__Op *op) {
    op->release = MAKE(in, Tarry__Release);
    if (op->release == NULL) return false;
    tarry__release__init(op->release);
    op->op_case = TARRY__OP__OP_RELEASE;
    return get_lease(in, members, &op->release->id, &op->release->token);
}

static bool op_extend(struct json_in *in, json_t *members, Tarry__Op *op) {
    op->extend = MAKE(in, Tarry__Extend);
    if (op->extend == NULL) return false;
    tarry__extend__init(op->extend);
    op->op_case = TARRY__OP__OP_EXTEND;
    return json_get_duration(in, members, "lease", &op->extend->lease_ms, NULL) &&
           get_lease(in, members, &op->extend->id, &op->extend->token);
}

static bool op_nack(struct json_in *in, json_t *members, Tarry__Op *op) {
    Tarry__Nack *nack = op->nack = MAKE(in, Tarry__Nack);
    const char *reason = "";
    bool has_delay = false, dead = false;
    if (nack == NULL) return false;
    tarry__nack__init(nack);
    op->op_case = TARRY__OP__OP_NACK;
    if (!json_get_duration(in, members, "delay", &nack->delay_ms, &has_delay) ||
        !json_get_bool(in, members, "dead", &dead) || !json_get_text(in, members, "reason", &reason))
        return false;
    nack->has_delay = has_delay;
    nack->dead = dead;
    nack->reason = (char *)reason;
    return get_lease(in, members, &nack->id, &nack->token);
}

static bool op_dead(struct json_in *in, json_t *members, Tarry__Op *op, Tarry__DeadOp__What what) {
    bool all = false;
    op->dead = MAKE(in, Tarry__DeadOp);
    if (op->dead == NULL || !json_get_bool(in, members, "all", &all)) return false;
    tarry__dead_op__init(op->dead);
    op->op_case = TARRY__OP__OP_DEAD;
    op->dead->what = what;
    op->dead->all = all;
    if (all && (json_member(members, "id") != NULL || json_member(members, "key") != NULL))
        return wrong(in, "all means every dead letter: id and key name one");
    if (!all) return (op->dead->task = get_ref(in, members)) != NULL;
    op->dead->task = MAKE(in, Tarry__Ref);
    if (op->dead->task == NULL) return false;
    tarry__ref__init(op->dead->task);
    return get_queue(in, members, &op->dead->task->queue);
}

static bool op_requeue(struct json_in *in, json_t *members, Tarry__Op *op) {
    return op_dead(in, members, op, TARRY__DEAD_OP__WHAT__REQUEUE);
}

static bool op_drop(struct json_in *in, json_t *members, Tarry__Op *op) {
    return op_dead(in, members, op, TARRY__DEAD_OP__WHAT__DROP);
}

static bool op_redact(struct json_in *in, json_t *members, Tarry__Op *op) {
    const char *reason = NULL;
    op->redact = MAKE(in, Tarry__Redact);
    if (op->redact == NULL || !json_get_text(in, members, "reason", &reason)) return false;
    tarry__redact__init(op->redact);
    op->op_case = TARRY__OP__OP_REDACT;
    if (reason == NULL) return wrong(in, "reason is missing: it is recorded");
    op->redact->reason = (char *)reason;
    return (op->redact->task = get_ref(in, members)) != NULL;
}

static bool op_policy(struct json_in *in, json_t *members, Tarry__Op *op) {
    static const char *const backoffs[] = {"fixed", "exponential"};
    Tarry__QueueSet *set = op->queue_set = MAKE(in, Tarry__QueueSet);
    Tarry__Policy *policy = MAKE(in, Tarry__Policy);
    if (set == NULL || policy == NULL) return false;
    tarry__queue_set__init(set);
    tarry__policy__init(policy);
    op->op_case = TARRY__OP__OP_QUEUE_SET;
    set->policy = policy;
    set->fields = make(in, QUEUE_POLICY_FIELDS * sizeof(char *));
    uint64_t attempts = 0, jitter = 0;
    const char *backoff = NULL, *push = NULL;
    bool lease, least, most;
    size_t which = 0;
    if (set->fields == NULL || !get_queue(in, members, &set->queue) ||
        !json_get_duration(in, members, "lease", &policy->lease_ms, &lease) ||
        !json_get_duration(in, members, "backoff_min", &policy->backoff_min_ms, &least) ||
        !json_get_duration(in, members, "backoff_max", &policy->backoff_max_ms, &most) ||
        !json_get_u64(in, members, "max_attempts", UINT32_MAX, &attempts) ||
        !json_get_u64(in, members, "backoff_jitter", 100, &jitter) ||
        !json_get_text(in, members, "backoff", &backoff) || !json_get_text(in, members, "push", &push))
        return false;
    if (backoff != NULL && !is_word_of(backoff, backoffs, 2, &which))
        return wrong(in, "backoff is neither fixed nor exponential");
    policy->max_attempts = (uint32_t)attempts;
    policy->backoff_jitter = (uint32_t)jitter;
    policy->backoff = (Tarry__Policy__Backoff)which;
    if (lease) set->fields[set->n_fields++] = "lease_ms";
    if (least) set->fields[set->n_fields++] = "backoff_min_ms";
    if (most) set->fields[set->n_fields++] = "backoff_max_ms";
    if (json_member(members, "max_attempts") != NULL) set->fields[set->n_fields++] = "max_attempts";
    if (json_member(members, "backoff_jitter") != NULL) set->fields[set->n_fields++] = "backoff_jitter";
    if (backoff != NULL) set->fields[set->n_fields++] = "backoff";
    if (push != NULL) set->fields[set->n_fields++] = "push", policy->push = (char *)push;
    return set->n_fields > 0 || wrong(in, "the policy says nothing");
}

static bool set_pause(struct json_in *in, json_t *members, Tarry__Op *op, bool paused) {
    op->queue_pause = MAKE(in, Tarry__QueuePause);
    if (op->queue_pause == NULL) return false;
    tarry__queue_pause__init(op->queue_pause);
    op->op_case = TARRY__OP__OP_QUEUE_PAUSE;
    op->queue_pause->paused = paused;
    return get_queue(in, members, &op->queue_pause->queue) &&
           json_get_duration(in, members, "for", &op->queue_pause->for_ms, NULL);
}

static bool op_pause(struct json_in *in, json_t *members, Tarry__Op *op) {
    return set_pause(in, members, op, true);
}

static bool op_resume(struct json_in *in, json_t *members, Tarry__Op *op) {
    return set_pause(in, members, op, false);
}

static bool op_purge(struct json_in *in, json_t *members, Tarry__Op *op) {
    static const char *const states[] = {"pending", "ready", "in_flight", "dead"};
    op->queue_purge = MAKE(in, Tarry__QueuePurge);
    json_t *list = json_member(members, "states"), *value;
    size_t i, which;
    if (op->queue_purge == NULL) return false;
    tarry__queue_purge__init(op->queue_purge);
    op->op_case = TARRY__OP__OP_QUEUE_PURGE;
    if (list != NULL && !json_is_array(list)) return wrong(in, "states is not an array");
    json_array_foreach(list, i, value) {
        if (!json_is_string(value) || !is_word_of(json_string_value(value), states, 4, &which))
            return wrong(in, "states holds what is none of pending, ready, in_flight and dead");
        op->queue_purge->states |= 1u << which;
    }
    return get_queue(in, members, &op->queue_purge->queue);
}

static bool op_delete(struct json_in *in, json_t *members, Tarry__Op *op) {
    op->queue_delete = MAKE(in, Tarry__QueueDelete);
    if (op->queue_delete == NULL) return false;
    tarry__queue_delete__init(op->queue_delete);
    op->op_case = TARRY__OP__OP_QUEUE_DELETE;
    return get_queue(in, members, &op->queue_delete->queue);
}

static const struct {
    const char *name;
    const char *members;
    bool (*read)(struct json_in *in, json_t *members, Tarry__Op *op);
} operations[] = {
    {"schedule", "queue key " WHEN " body body_base64 json attributes priority expires expires_ms on_conflict",
     op_schedule},
    {"cancel", "id queue key withdraw", op_cancel},
    {"move", "id queue key " WHEN, op_move},
    {"ack", "id token", op_ack},
    {"nack", "id token delay delay_ms dead reason", op_nack},
    {"extend", "id token lease lease_ms", op_extend},
    {"release", "id token", op_release},
    {"requeue", "id queue key all", op_requeue},
    {"drop", "id queue key all", op_drop},
    {"redact", "id queue key reason", op_redact},
    {"policy",
     "queue lease lease_ms max_attempts backoff backoff_min backoff_min_ms backoff_max backoff_max_ms backoff_jitter "
     "push",
     op_policy},
    {"pause", "queue for for_ms", op_pause},
    {"resume", "queue", op_resume},
    {"purge", "queue states", op_purge},
    {"delete", "queue", op_delete},
};

Tarry__Op *json_op_named(struct json_in *in, const char *name, json_t *members) {
    Tarry__Op *op = MAKE(in, Tarry__Op);
    if (op == NULL) return NULL;
    tarry__op__init(op);
    for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
        if (strcmp(name, operations[i].name) != 0) continue;
        bool is_good = json_only(in, members, operations[i].members) && operations[i].read(in, members, op);
        return is_good ? op : NULL;
    }
    snprintf(in->problem, sizeof(in->problem), "there is no operation %.40s", name);
    return NULL;
}

Tarry__Op *json_op(struct json_in *in, json_t *object) {
    void *first = json_object_iter(object);
    if (json_object_size(object) != 1) {
        wrong(in, "an operation is an object with one member: its name, and what it takes");
        return NULL;
    }
    return json_op_named(in, json_object_iter_key(first), json_object_iter_value(first));
}
