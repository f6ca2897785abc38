/* pack.c: the user's arguments as packed operations.
 *
 * Each function appends one entry of Commit.ops (tag, length, Op) to `body`. Schedules carry payloads, and they and
 * acks are the most frequent by far, so they are encoded by hand, in one pass and without a copy in between;
 * client_test.c holds the result against protobuf-c. Whether the values are acceptable is the broker's to say; here
 * only what could not be packed at all is refused. */
#include "client.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "varint.h"

#define TAG(number, wire_type) ((uint8_t)((number) << 3 | (wire_type)))
#define VARINT 0
#define BYTES 2
#define COMMIT_OPS TAG(5, BYTES)

int buffer_reserve(struct buffer *buffer, size_t size) {
    if (size <= buffer->capacity - buffer->size) return TARRY_OK;
    size_t capacity = buffer->capacity < 4096 ? 4096 : buffer->capacity;
    while (capacity - buffer->size < size) capacity *= 2;
    uint8_t *data = realloc(buffer->data, capacity);
    if (data == NULL) return TARRY_E_NOMEM;
    buffer->data = data;
    buffer->capacity = capacity;
    return TARRY_OK;
}

static uint8_t *put_field(uint8_t *out, uint8_t tag, const void *data, size_t size) {
    *out++ = tag;
    out = put_varint(out, size);
    if (size > 0) memcpy(out, data, size);
    return out + size;
}

static size_t field_size(size_t size) {
    return 1 + varint_size(size) + size;
}

static size_t number_size(uint64_t value) {
    return value == 0 ? 0 : 1 + varint_size(value);
}

static uint8_t *put_number(uint8_t *out, uint8_t tag, uint64_t value) {
    if (value == 0) return out;
    *out++ = tag;
    return put_varint(out, value);
}

int pack_op(struct buffer *body, const Tarry__Op *op) {
    size_t size = tarry__op__get_packed_size(op);
    if (size > REQUEST_SIZE_MAX - REQUEST_OVERHEAD_MAX) return TARRY_TOO_LARGE;
    int rv = buffer_reserve(body, field_size(size));
    if (rv != TARRY_OK) return rv;
    uint8_t *out = body->data + body->size;
    *out++ = COMMIT_OPS;
    out = put_varint(out, size);
    tarry__op__pack(op, out);
    body->size += field_size(size);
    return TARRY_OK;
}

static size_t key_size_of(const char *key, size_t key_size) {
    if (key == NULL) return 0;
    return key_size != 0 ? key_size : strlen(key);
}

/* ---- schedule */

struct schedule_sizes {
    size_t queue;
    size_t key;
    size_t when;
    size_t content;
    size_t schedule;
    size_t op;
};

static size_t attribute_size(const struct tarry_attribute *attribute) {
    size_t name = strlen(attribute->name), value = strlen(attribute->value);
    return (name > 0 ? field_size(name) : 0) + (value > 0 ? field_size(value) : 0);
}

static int schedule_measure(const struct tarry_schedule_options *o, struct schedule_sizes *s) {
    const size_t size_max = REQUEST_SIZE_MAX - REQUEST_OVERHEAD_MAX;
    if (o == NULL || o->queue == NULL || (o->payload == NULL && o->payload_size != 0) ||
        (o->attributes == NULL && o->attribute_count != 0) || (o->key == NULL && o->key_size != 0) ||
        (unsigned)o->when > TARRY_AT || (unsigned)o->on_conflict > TARRY_KEEP_LATER)
        return TARRY_E_ARGUMENT;
    s->queue = strlen(o->queue);
    s->key = key_size_of(o->key, o->key_size);
    s->when = number_size((uint64_t)o->when) + number_size(o->when_ms);
    if (o->payload_size > size_max || s->queue > size_max || s->key > size_max) return TARRY_TOO_LARGE;
    s->content = o->payload_size > 0 ? field_size(o->payload_size) : 0;
    for (size_t i = 0; i < o->attribute_count; i++) {
        if (o->attributes[i].name == NULL || o->attributes[i].value == NULL) return TARRY_E_ARGUMENT;
        s->content += field_size(attribute_size(&o->attributes[i]));
        if (s->content > size_max) return TARRY_TOO_LARGE;
    }
    s->schedule = (s->queue > 0 ? field_size(s->queue) : 0) + (s->key > 0 ? field_size(s->key) : 0) +
                  field_size(s->when) + (s->content > 0 ? field_size(s->content) : 0) + number_size(o->priority) +
                  number_size(o->expires_ms) + number_size((uint64_t)o->on_conflict);
    s->op = field_size(s->schedule);
    return s->op > size_max ? TARRY_TOO_LARGE : TARRY_OK;
}

static uint8_t *put_content(uint8_t *out, const struct tarry_schedule_options *o) {
    for (size_t i = 0; i < o->attribute_count; i++) {
        const struct tarry_attribute *attribute = &o->attributes[i];
        size_t name = strlen(attribute->name), value = strlen(attribute->value);
        *out++ = TAG(1, BYTES);
        out = put_varint(out, attribute_size(attribute));
        if (name > 0) out = put_field(out, TAG(1, BYTES), attribute->name, name);
        if (value > 0) out = put_field(out, TAG(2, BYTES), attribute->value, value);
    }
    if (o->payload_size > 0) out = put_field(out, TAG(2, BYTES), o->payload, o->payload_size);
    return out;
}

int pack_schedule(struct buffer *body, const struct tarry_schedule_options *options) {
    struct schedule_sizes sizes;
    int rv = schedule_measure(options, &sizes);
    if (rv != TARRY_OK) return rv;
    if ((rv = buffer_reserve(body, field_size(sizes.op))) != TARRY_OK) return rv;
    uint8_t *out = body->data + body->size;
    *out++ = COMMIT_OPS;
    out = put_varint(out, sizes.op);
    *out++ = TAG(1, BYTES); /* Op.schedule */
    out = put_varint(out, sizes.schedule);
    if (sizes.queue > 0) out = put_field(out, TAG(1, BYTES), options->queue, sizes.queue);
    if (sizes.key > 0) out = put_field(out, TAG(2, BYTES), options->key, sizes.key);
    *out++ = TAG(3, BYTES);
    out = put_varint(out, sizes.when);
    out = put_number(out, TAG(1, VARINT), (uint64_t)options->when);
    out = put_number(out, TAG(2, VARINT), options->when_ms);
    if (sizes.content > 0) {
        *out++ = TAG(4, BYTES);
        out = put_varint(out, sizes.content);
        out = put_content(out, options);
    }
    out = put_number(out, TAG(5, VARINT), options->priority);
    out = put_number(out, TAG(6, VARINT), options->expires_ms);
    out = put_number(out, TAG(7, VARINT), (uint64_t)options->on_conflict);
    assert(out == body->data + body->size + field_size(sizes.op));
    body->size += field_size(sizes.op);
    return TARRY_OK;
}

/* ---- the others */

int ref_to_proto(const struct tarry_ref *ref, bool needs_key, Tarry__Ref *out) {
    if (ref == NULL || (ref->id == 0 && ref->queue == NULL)) return TARRY_E_ARGUMENT;
    if (ref->id == 0 && needs_key && ref->key == NULL) return TARRY_E_ARGUMENT;
    tarry__ref__init(out);
    out->id = ref->id;
    if (ref->id != 0) return TARRY_OK;
    out->queue = (char *)ref->queue;
    out->key = (ProtobufCBinaryData){key_size_of(ref->key, ref->key_size), (uint8_t *)ref->key};
    return TARRY_OK;
}

static Tarry__Token token_to_proto(struct tarry_token token) {
    Tarry__Token out = TARRY__TOKEN__INIT;
    out.epoch = token.epoch;
    out.position = token.position;
    return out;
}

int pack_cancel(struct buffer *body, const struct tarry_ref *ref, bool withdraw) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Cancel cancel = TARRY__CANCEL__INIT;
    Tarry__Ref task;
    int rv = ref_to_proto(ref, true, &task);
    if (rv != TARRY_OK) return rv;
    cancel.task = &task;
    cancel.withdraw = withdraw;
    op.op_case = TARRY__OP__OP_CANCEL;
    op.cancel = &cancel;
    return pack_op(body, &op);
}

int pack_move(struct buffer *body, const struct tarry_ref *ref, enum tarry_when when, uint64_t when_ms) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Move move = TARRY__MOVE__INIT;
    Tarry__When to = TARRY__WHEN__INIT;
    Tarry__Ref task;
    int rv = ref_to_proto(ref, true, &task);
    if (rv != TARRY_OK) return rv;
    if ((unsigned)when > TARRY_AT) return TARRY_E_ARGUMENT;
    to.kind = (Tarry__When__Kind)when;
    to.ms = when_ms;
    move.task = &task;
    move.when = &to;
    op.op_case = TARRY__OP__OP_MOVE;
    op.move = &move;
    return pack_op(body, &op);
}

int pack_ack(struct buffer *body, uint64_t id, struct tarry_token token) {
    size_t token_size = number_size(token.epoch) + number_size(token.position);
    size_t ack_size = number_size(id) + field_size(token_size), op_size = field_size(ack_size);
    int rv = buffer_reserve(body, field_size(op_size));
    if (rv != TARRY_OK) return rv;
    uint8_t *out = body->data + body->size;
    *out++ = COMMIT_OPS;
    out = put_varint(out, op_size);
    *out++ = TAG(4, BYTES); /* Op.ack */
    out = put_varint(out, ack_size);
    out = put_number(out, TAG(1, VARINT), id);
    *out++ = TAG(2, BYTES);
    out = put_varint(out, token_size);
    out = put_number(out, TAG(1, VARINT), token.epoch);
    out = put_number(out, TAG(2, VARINT), token.position);
    assert(out == body->data + body->size + field_size(op_size));
    body->size += field_size(op_size);
    return TARRY_OK;
}

int pack_nack(struct buffer *body, uint64_t id, struct tarry_token token, const struct tarry_nack_options *options) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Nack nack = TARRY__NACK__INIT;
    Tarry__Token lease = token_to_proto(token);
    nack.id = id;
    nack.token = &lease;
    if (options != NULL) {
        nack.has_delay = options->has_delay;
        nack.delay_ms = options->delay_ms;
        nack.dead = options->dead;
        if (options->reason != NULL) nack.reason = (char *)options->reason;
    }
    op.op_case = TARRY__OP__OP_NACK;
    op.nack = &nack;
    return pack_op(body, &op);
}

int pack_extend(struct buffer *body, uint64_t id, struct tarry_token token, uint64_t lease_ms) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Extend extend = TARRY__EXTEND__INIT;
    Tarry__Token lease = token_to_proto(token);
    extend.id = id;
    extend.token = &lease;
    extend.lease_ms = lease_ms;
    op.op_case = TARRY__OP__OP_EXTEND;
    op.extend = &extend;
    return pack_op(body, &op);
}

int pack_release(struct buffer *body, uint64_t id, struct tarry_token token) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Release release = TARRY__RELEASE__INIT;
    Tarry__Token lease = token_to_proto(token);
    release.id = id;
    release.token = &lease;
    op.op_case = TARRY__OP__OP_RELEASE;
    op.release = &release;
    return pack_op(body, &op);
}

int pack_dead(struct buffer *body, enum tarry_dead_what what, const struct tarry_ref *ref, bool all) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__DeadOp dead = TARRY__DEAD_OP__INIT;
    Tarry__Ref task;
    int rv = ref_to_proto(ref, !all, &task);
    if (rv != TARRY_OK) return rv;
    if ((unsigned)what > TARRY_DROP || (all && ref->queue == NULL)) return TARRY_E_ARGUMENT;
    if (all) {
        task.id = 0;
        task.queue = (char *)ref->queue;
        task.key = (ProtobufCBinaryData){0, NULL};
    }
    dead.what = (Tarry__DeadOp__What)what;
    dead.task = &task;
    dead.all = all;
    op.op_case = TARRY__OP__OP_DEAD;
    op.dead = &dead;
    return pack_op(body, &op);
}

int pack_redact(struct buffer *body, const struct tarry_redact_options *options) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Redact redact = TARRY__REDACT__INIT;
    Tarry__Ref task;
    if (options == NULL || options->reason == NULL) return TARRY_E_ARGUMENT;
    int rv = ref_to_proto(&options->task, false, &task);
    if (rv != TARRY_OK) return rv;
    redact.task = &task;
    redact.reason = (char *)options->reason;
    redact.from_ms = options->from_ms;
    redact.to_ms = options->to_ms;
    redact.after_id = options->after_id;
    op.op_case = TARRY__OP__OP_REDACT;
    op.redact = &redact;
    return pack_op(body, &op);
}
