/* pack.c: the user's arguments as packed operations.
 *
 * Each function appends one entry of Commit.ops (tag, length, Op) to `body`. What comes with every task (it is
 * scheduled, moved, cancelled, or delivered and settled) is encoded by hand, in one pass and without a copy in between;
 * client_test.c holds the result against protobuf-c, which packs the others. Whether the values are acceptable is the
 * broker's to say; here only what could not be packed at all is refused. */
#include "client.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"

#define TAG(number, wire_type) ((uint8_t)((number) << 3 | (wire_type)))
#define VARINT 0
#define BYTES 2
#define COMMIT_OPS TAG(5, BYTES)
#define OP_SIZE_MAX (REQUEST_SIZE_MAX - REQUEST_OVERHEAD_MAX)

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

static size_t field_size(size_t size) {
    return 1 + varint_size(size) + size;
}

/* Here as below: a field whose value is the default is left out. */
static size_t data_size(size_t size) {
    return size == 0 ? 0 : field_size(size);
}

static uint8_t *put_data(uint8_t *out, uint8_t tag, const void *data, size_t size) {
    if (size == 0) return out;
    *out++ = tag;
    out = put_varint(out, size);
    memcpy(out, data, size);
    return out + size;
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
    if (size > OP_SIZE_MAX) return TARRY_TOO_LARGE;
    int rv = buffer_reserve(body, field_size(size));
    if (rv != TARRY_OK) return rv;
    uint8_t *out = body->data + body->size;
    *out++ = COMMIT_OPS;
    out = put_varint(out, size);
    tarry__op__pack(op, out);
    body->size += field_size(size);
    return TARRY_OK;
}

/* The head of a message that lies in another one. */
static uint8_t *put_head(uint8_t *out, uint8_t tag, size_t size) {
    *out++ = tag;
    return put_varint(out, size);
}

/* Writes what comes before the fields, of `size` bytes, of the operation that is Op's field `number`; *out is where
 * they belong. Nothing counts before op_end. */
static int op_begin(struct buffer *body, unsigned number, size_t size, uint8_t **out) {
    const size_t op_size = field_size(size);
    if (op_size > OP_SIZE_MAX) return TARRY_TOO_LARGE;
    int rv = buffer_reserve(body, field_size(op_size));
    if (rv != TARRY_OK) return rv;
    *out = put_head(put_head(body->data + body->size, COMMIT_OPS, op_size), TAG(number, BYTES), size);
    return TARRY_OK;
}

/* Its fields end at `out`; `size` is what op_begin was told. */
static int op_end(struct buffer *body, const uint8_t *out, size_t size) {
    assert(out == body->data + body->size + field_size(field_size(size)));
    (void)size;
    body->size = (size_t)(out - body->data);
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
    size_t content;
    size_t schedule;
};

static size_t when_size(enum tarry_when when, uint64_t ms) {
    return number_size((uint64_t)when) + number_size(ms);
}

static uint8_t *put_when(uint8_t *out, uint8_t tag, enum tarry_when when, uint64_t ms) {
    out = put_head(out, tag, when_size(when, ms));
    out = put_number(out, TAG(1, VARINT), (uint64_t)when);
    return put_number(out, TAG(2, VARINT), ms);
}

static size_t attribute_size(const struct tarry_attribute *attribute) {
    return data_size(strlen(attribute->name)) + data_size(strlen(attribute->value));
}

static int schedule_measure(const struct tarry_schedule_options *o, struct schedule_sizes *s) {
    if (o == NULL || o->queue == NULL || (o->payload == NULL && o->payload_size != 0) ||
        (o->attributes == NULL && o->attribute_count != 0) || (o->key == NULL && o->key_size != 0) ||
        (unsigned)o->when > TARRY_AT || (unsigned)o->on_conflict > TARRY_KEEP_LATER)
        return TARRY_E_ARGUMENT;
    s->queue = strlen(o->queue);
    s->key = key_size_of(o->key, o->key_size);
    if (o->payload_size > OP_SIZE_MAX || s->queue > OP_SIZE_MAX || s->key > OP_SIZE_MAX) return TARRY_TOO_LARGE;
    s->content = data_size(o->payload_size);
    for (size_t i = 0; i < o->attribute_count; i++) {
        if (o->attributes[i].name == NULL || o->attributes[i].value == NULL) return TARRY_E_ARGUMENT;
        s->content += field_size(attribute_size(&o->attributes[i]));
        if (s->content > OP_SIZE_MAX) return TARRY_TOO_LARGE;
    }
    s->schedule = data_size(s->queue) + data_size(s->key) + field_size(when_size(o->when, o->when_ms)) +
                  data_size(s->content) + number_size(o->priority) + number_size(o->expires_ms) +
                  number_size((uint64_t)o->on_conflict);
    return TARRY_OK;
}

static uint8_t *put_content(uint8_t *out, const struct tarry_schedule_options *o) {
    for (size_t i = 0; i < o->attribute_count; i++) {
        const struct tarry_attribute *attribute = &o->attributes[i];
        out = put_head(out, TAG(1, BYTES), attribute_size(attribute));
        out = put_data(out, TAG(1, BYTES), attribute->name, strlen(attribute->name));
        out = put_data(out, TAG(2, BYTES), attribute->value, strlen(attribute->value));
    }
    return put_data(out, TAG(2, BYTES), o->payload, o->payload_size);
}

int pack_schedule(struct buffer *body, const struct tarry_schedule_options *options) {
    struct schedule_sizes sizes;
    uint8_t *out;
    int rv = schedule_measure(options, &sizes);
    if (rv == TARRY_OK) rv = op_begin(body, TARRY__OP__OP_SCHEDULE, sizes.schedule, &out);
    if (rv != TARRY_OK) return rv;
    out = put_data(out, TAG(1, BYTES), options->queue, sizes.queue);
    out = put_data(out, TAG(2, BYTES), options->key, sizes.key);
    out = put_when(out, TAG(3, BYTES), options->when, options->when_ms);
    if (sizes.content > 0) out = put_content(put_head(out, TAG(4, BYTES), sizes.content), options);
    out = put_number(out, TAG(5, VARINT), options->priority);
    out = put_number(out, TAG(6, VARINT), options->expires_ms);
    out = put_number(out, TAG(7, VARINT), (uint64_t)options->on_conflict);
    return op_end(body, out, sizes.schedule);
}

/* ---- a task that is named */

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

struct packed_ref {
    uint64_t id;
    const char *queue;
    const void *key;
    size_t queue_size;
    size_t key_size;
    size_t size;
};

static int ref_measure(const struct tarry_ref *ref, struct packed_ref *out) {
    Tarry__Ref task;
    int rv = ref_to_proto(ref, true, &task);
    if (rv != TARRY_OK) return rv;
    *out = (struct packed_ref){task.id, task.queue, task.key.data, strlen(task.queue), task.key.len, 0};
    if (out->queue_size > OP_SIZE_MAX || out->key_size > OP_SIZE_MAX) return TARRY_TOO_LARGE;
    out->size = number_size(out->id) + data_size(out->queue_size) + data_size(out->key_size);
    return TARRY_OK;
}

static uint8_t *put_ref(uint8_t *out, uint8_t tag, const struct packed_ref *ref) {
    out = put_head(out, tag, ref->size);
    out = put_number(out, TAG(1, VARINT), ref->id);
    out = put_data(out, TAG(2, BYTES), ref->queue, ref->queue_size);
    return put_data(out, TAG(3, BYTES), ref->key, ref->key_size);
}

int pack_cancel(struct buffer *body, const struct tarry_ref *ref, bool withdraw) {
    struct packed_ref task;
    uint8_t *out;
    int rv = ref_measure(ref, &task);
    if (rv != TARRY_OK) return rv;
    const size_t size = field_size(task.size) + number_size(withdraw);
    if ((rv = op_begin(body, TARRY__OP__OP_CANCEL, size, &out)) != TARRY_OK) return rv;
    out = put_ref(out, TAG(1, BYTES), &task);
    out = put_number(out, TAG(2, VARINT), withdraw);
    return op_end(body, out, size);
}

int pack_move(struct buffer *body, const struct tarry_ref *ref, enum tarry_when when, uint64_t when_ms) {
    struct packed_ref task;
    uint8_t *out;
    int rv = ref_measure(ref, &task);
    if (rv != TARRY_OK) return rv;
    if ((unsigned)when > TARRY_AT) return TARRY_E_ARGUMENT;
    const size_t size = field_size(task.size) + field_size(when_size(when, when_ms));
    if ((rv = op_begin(body, TARRY__OP__OP_MOVE, size, &out)) != TARRY_OK) return rv;
    out = put_ref(out, TAG(1, BYTES), &task);
    out = put_when(out, TAG(2, BYTES), when, when_ms);
    return op_end(body, out, size);
}

/* ---- a lease: each begins with the task's id and the lease's token */

static size_t token_size(struct tarry_token token) {
    return number_size(token.epoch) + number_size(token.position);
}

static size_t lease_size(uint64_t id, struct tarry_token token) {
    return number_size(id) + field_size(token_size(token));
}

static uint8_t *put_lease(uint8_t *out, uint64_t id, struct tarry_token token) {
    out = put_number(out, TAG(1, VARINT), id);
    out = put_head(out, TAG(2, BYTES), token_size(token));
    out = put_number(out, TAG(1, VARINT), token.epoch);
    return put_number(out, TAG(2, VARINT), token.position);
}

/* The operation is no more than that. */
static int pack_lease(struct buffer *body, unsigned number, uint64_t id, struct tarry_token token) {
    uint8_t *out;
    const size_t size = lease_size(id, token);
    int rv = op_begin(body, number, size, &out);
    return rv != TARRY_OK ? rv : op_end(body, put_lease(out, id, token), size);
}

int pack_ack(struct buffer *body, uint64_t id, struct tarry_token token) {
    return pack_lease(body, TARRY__OP__OP_ACK, id, token);
}

int pack_release(struct buffer *body, uint64_t id, struct tarry_token token) {
    return pack_lease(body, TARRY__OP__OP_RELEASE, id, token);
}

int pack_nack(struct buffer *body, uint64_t id, struct tarry_token token, const struct tarry_nack_options *options) {
    static const struct tarry_nack_options none;
    const struct tarry_nack_options *o = options != NULL ? options : &none;
    const size_t reason = o->reason != NULL ? strlen(o->reason) : 0;
    uint8_t *out;
    if (reason > OP_SIZE_MAX) return TARRY_TOO_LARGE;
    const size_t size = lease_size(id, token) + number_size(o->has_delay) + number_size(o->delay_ms) +
                        number_size(o->dead) + data_size(reason);
    int rv = op_begin(body, TARRY__OP__OP_NACK, size, &out);
    if (rv != TARRY_OK) return rv;
    out = put_lease(out, id, token);
    out = put_number(out, TAG(3, VARINT), o->has_delay);
    out = put_number(out, TAG(4, VARINT), o->delay_ms);
    out = put_number(out, TAG(5, VARINT), o->dead);
    out = put_data(out, TAG(6, BYTES), o->reason, reason);
    return op_end(body, out, size);
}

int pack_extend(struct buffer *body, uint64_t id, struct tarry_token token, uint64_t lease_ms) {
    uint8_t *out;
    const size_t size = lease_size(id, token) + number_size(lease_ms);
    int rv = op_begin(body, TARRY__OP__OP_EXTEND, size, &out);
    if (rv != TARRY_OK) return rv;
    out = put_number(put_lease(out, id, token), TAG(3, VARINT), lease_ms);
    return op_end(body, out, size);
}

/* ---- the others */

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
