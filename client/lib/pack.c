/* pack.c: packs the program's arguments as operations.
 *
 * Each function appends one entry of Commit.ops to `body`. The broker checks the values. This code refuses only what
 * cannot be packed. */
#include "client.h"

#include <stdlib.h>
#include <string.h>

#include "queue_policy.h"
#include "wire.h"
#include "wire_field.h"

#define COMMIT_OPS 5u /* number of the field `ops` in the message Commit */
#define OP_SIZE_MAX (REQUEST_SIZE_MAX - REQUEST_OVERHEAD_MAX)
/* An operation that needs more bytes than this is larger than OP_SIZE_MAX in any case. */
#define OP_ROOM_MAX (OP_SIZE_MAX + 4096u)
#define POLICY_FIELDS_ALL (TARRY_POLICY_FILTER * 2 - 1)

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

/* Appends `op`. It is packed backward from `end` and then moved to its place. */
static int append(struct buffer *body, const Tarry__Op *op, uint8_t *end) {
    uint8_t *at = op_pack(op, end);
    if ((size_t)(end - at) > OP_SIZE_MAX) return TARRY_TOO_LARGE;
    at = message_before(at, COMMIT_OPS, end);
    memmove(body->data + body->size, at, (size_t)(end - at));
    body->size += (size_t)(end - at);
    return TARRY_OK;
}

int pack_op(struct buffer *body, const Tarry__Op *op) {
    const size_t room = op_room(op);
    if (room > OP_ROOM_MAX) return TARRY_TOO_LARGE;
    int rv = buffer_reserve(body, BYTES_ROOM + room);
    return rv != TARRY_OK ? rv : append(body, op, body->data + body->size + BYTES_ROOM + room);
}

static ProtobufCBinaryData key_of(const char *key, size_t key_size) {
    size_t size = key == NULL ? 0 : key_size != 0 ? key_size : strlen(key);
    return (ProtobufCBinaryData){size, (uint8_t *)key};
}

static char *text_of(const char *text) {
    return text != NULL ? (char *)text : (char *)protobuf_c_empty_string;
}

/* ---- schedule */

static bool schedule_is_complete(const struct tarry_schedule_options *o) {
    if (o == NULL || o->queue == NULL || (o->payload == NULL && o->payload_size != 0) ||
        (o->properties == NULL && o->properties_size != 0) || (o->attributes == NULL && o->attribute_count != 0) ||
        (o->key == NULL && o->key_size != 0) || (unsigned)o->when > TARRY_AT ||
        (unsigned)o->on_conflict > TARRY_KEEP_LATER)
        return false;
    for (size_t i = 0; i < o->attribute_count; i++)
        if (o->attributes[i].name == NULL || o->attributes[i].value == NULL) return false;
    return true;
}

/* Returns an upper bound of the packed Content's size in bytes; more than OP_SIZE_MAX if it cannot fit. */
static size_t content_room(const struct tarry_schedule_options *o) {
    if (o->payload_size > OP_SIZE_MAX) return o->payload_size;
    if (o->properties_size > OP_SIZE_MAX) return o->properties_size;
    size_t room = 2 * BYTES_ROOM + o->payload_size + o->properties_size;
    for (size_t i = 0; i < o->attribute_count && room <= OP_SIZE_MAX; i++)
        room += 3 * BYTES_ROOM + strlen(o->attributes[i].name) + strlen(o->attributes[i].value);
    return room;
}

/* Packs Content{attributes = 1, payload = 2, properties = 3} directly from the options. */
static uint8_t *content_before(uint8_t *at, const struct tarry_schedule_options *o) {
    at = data_before(at, 3, o->properties, o->properties_size);
    at = data_before(at, 2, o->payload, o->payload_size);
    for (size_t i = o->attribute_count; i-- > 0;) {
        const uint8_t *end = at;
        at = text_before(at, 2, o->attributes[i].value);
        at = text_before(at, 1, o->attributes[i].name);
        at = message_before(at, 1, end);
    }
    return at;
}

int pack_schedule(struct buffer *body, const struct tarry_schedule_options *o) {
    struct tarry_own_policy own;
    if (!schedule_is_complete(o)) return TARRY_E_ARGUMENT;
    if (OPTIONS_TAKE(own, o->own) != TARRY_OK) return TARRY_E_VERSION;
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Schedule schedule = TARRY__SCHEDULE__INIT;
    Tarry__When when = TARRY__WHEN__INIT;
    const size_t content_size = content_room(o);
    schedule.key = key_of(o->key, o->key_size);
    schedule.serial = key_of(o->serial, 0);
    if (schedule.key.len > OP_SIZE_MAX || schedule.serial.len > OP_SIZE_MAX || content_size > OP_ROOM_MAX)
        return TARRY_TOO_LARGE;
    when.kind = (Tarry__When__Kind)o->when;
    when.ms = o->when_ms;
    schedule.queue = (char *)o->queue;
    schedule.when = &when;
    schedule.priority = o->priority;
    schedule.expires_ms = o->expires_ms;
    schedule.max_attempts = own.max_attempts;
    schedule.backoff_ms = own.backoff_ms;
    schedule.lease_ms = own.lease_ms;
    schedule.on_conflict = (Tarry__Schedule__OnConflict)o->on_conflict;
    op.op_case = TARRY__OP__OP_SCHEDULE;
    op.schedule = &schedule;
    /* The content is packed behind the place where the operation will be, and then copied into the operation. */
    const size_t room = BYTES_ROOM + op_room(&op) + content_size;
    if (room > OP_ROOM_MAX) return TARRY_TOO_LARGE;
    int rv = buffer_reserve(body, room + content_size);
    if (rv != TARRY_OK) return rv;
    uint8_t *op_end = body->data + body->size + room, *content_end = op_end + content_size;
    schedule.content.data = content_before(content_end, o);
    schedule.content.len = (size_t)(content_end - schedule.content.data);
    return append(body, &op, op_end);
}

/* ---- references to tasks */

int ref_to_proto(const struct tarry_ref *ref, bool needs_key, Tarry__Ref *out) {
    if (ref == NULL || (ref->id == 0 && ref->queue == NULL)) return TARRY_E_ARGUMENT;
    if (ref->id == 0 && needs_key && ref->key == NULL) return TARRY_E_ARGUMENT;
    tarry__ref__init(out);
    out->id = ref->id;
    if (ref->id != 0) return TARRY_OK;
    out->queue = (char *)ref->queue;
    out->key = key_of(ref->key, ref->key_size);
    return TARRY_OK;
}

/* Converts a reference like ref_to_proto, and checks that the key can be packed. */
static int ref_of(const struct tarry_ref *ref, bool needs_key, Tarry__Ref *out) {
    int rv = ref_to_proto(ref, needs_key, out);
    return rv == TARRY_OK && out->key.len > OP_SIZE_MAX ? TARRY_TOO_LARGE : rv;
}

int pack_cancel(struct buffer *body, const struct tarry_ref *ref, bool withdraw) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Cancel cancel = TARRY__CANCEL__INIT;
    Tarry__Ref task;
    int rv = ref_of(ref, true, &task);
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
    Tarry__When wire_when = TARRY__WHEN__INIT;
    Tarry__Ref task;
    int rv = ref_of(ref, true, &task);
    if (rv != TARRY_OK) return rv;
    if ((unsigned)when > TARRY_AT) return TARRY_E_ARGUMENT;
    wire_when.kind = (Tarry__When__Kind)when;
    wire_when.ms = when_ms;
    move.task = &task;
    move.when = &wire_when;
    op.op_case = TARRY__OP__OP_MOVE;
    op.move = &move;
    return pack_op(body, &op);
}

/* ---- a lease */

static Tarry__Token token_of(struct tarry_token token) {
    Tarry__Token out = TARRY__TOKEN__INIT;
    out.epoch = token.epoch;
    out.position = token.position;
    return out;
}

int pack_ack(struct buffer *body, uint64_t id, struct tarry_token token) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Ack ack = TARRY__ACK__INIT;
    Tarry__Token wire_token = token_of(token);
    ack.id = id;
    ack.token = &wire_token;
    op.op_case = TARRY__OP__OP_ACK;
    op.ack = &ack;
    return pack_op(body, &op);
}

int pack_release(struct buffer *body, uint64_t id, struct tarry_token token) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Release release = TARRY__RELEASE__INIT;
    Tarry__Token wire_token = token_of(token);
    release.id = id;
    release.token = &wire_token;
    op.op_case = TARRY__OP__OP_RELEASE;
    op.release = &release;
    return pack_op(body, &op);
}

int pack_nack(struct buffer *body, uint64_t id, struct tarry_token token, const struct tarry_nack_options *options) {
    static const struct tarry_nack_options none;
    const struct tarry_nack_options *o = options != NULL ? options : &none;
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Nack nack = TARRY__NACK__INIT;
    Tarry__Token wire_token = token_of(token);
    nack.id = id;
    nack.token = &wire_token;
    nack.has_delay = o->has_delay;
    nack.delay_ms = o->delay_ms;
    nack.dead = o->dead;
    nack.reason = text_of(o->reason);
    op.op_case = TARRY__OP__OP_NACK;
    op.nack = &nack;
    return pack_op(body, &op);
}

int pack_extend(struct buffer *body, uint64_t id, struct tarry_token token, uint64_t lease_ms) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Extend extend = TARRY__EXTEND__INIT;
    Tarry__Token wire_token = token_of(token);
    extend.id = id;
    extend.token = &wire_token;
    extend.lease_ms = lease_ms;
    op.op_case = TARRY__OP__OP_EXTEND;
    op.extend = &extend;
    return pack_op(body, &op);
}

/* ---- dead letters and ended tasks */

int pack_dead(struct buffer *body, enum tarry_dead_what what, const struct tarry_ref *ref, bool all) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__DeadOp dead = TARRY__DEAD_OP__INIT;
    Tarry__Ref task;
    int rv = ref_of(ref, !all, &task);
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
    int rv = ref_of(&options->task, false, &task);
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

/* ---- whole queues */

int pack_queue_set(struct buffer *body, const char *queue, const struct tarry_policy *policy, uint32_t fields) {
    static const char *const names[] = {
#define POLICY_NUMBER(field, ...) #field,
#define POLICY_TEXT(field, ...) #field,
#include "policy.def"
    };
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__QueueSet set = TARRY__QUEUE_SET__INIT;
    Tarry__Policy wire = TARRY__POLICY__INIT;
    char *named[POLICY_FIELDS];
    _Static_assert(POLICY_FIELDS_ALL == (1 << POLICY_FIELDS) - 1 && TARRY_POLICY_PUSH == 1 << POLICY_AT_push,
                   "enum tarry_policy_field has the order of policy.def");
    if (queue == NULL || policy == NULL || (fields & ~(uint32_t)POLICY_FIELDS_ALL) != 0) return TARRY_E_ARGUMENT;
#define COPY_DURATION(field) wire.field = policy->field;
#define COPY_COUNT(field) wire.field = policy->field;
#define COPY_RATE(field) wire.field = policy->field;
#define COPY_BACKOFF(field)                                                                                            \
    wire.field = policy->field##_exponential ? TARRY__POLICY__BACKOFF__EXPONENTIAL : TARRY__POLICY__BACKOFF__FIXED;
#define POLICY_NUMBER(field, word, option, kind, ...) COPY_##kind(field)
#define POLICY_TEXT(field, ...)                                                                                        \
    if ((fields & 1u << POLICY_AT_##field) != 0 && policy->field != NULL) wire.field = (char *)policy->field;
#include "policy.def"
    for (size_t i = 0; i < POLICY_FIELDS; i++)
        if ((fields & 1u << i) != 0) named[set.n_fields++] = (char *)names[i];
    set.queue = (char *)queue;
    set.policy = &wire;
    set.fields = named;
    op.op_case = TARRY__OP__OP_QUEUE_SET;
    op.queue_set = &set;
    return pack_op(body, &op);
}

int pack_queue_pause(struct buffer *body, const char *queue, bool paused, uint64_t for_ms) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__QueuePause pause = TARRY__QUEUE_PAUSE__INIT;
    if (queue == NULL) return TARRY_E_ARGUMENT;
    pause.queue = (char *)queue;
    pause.paused = paused;
    pause.for_ms = for_ms;
    op.op_case = TARRY__OP__OP_QUEUE_PAUSE;
    op.queue_pause = &pause;
    return pack_op(body, &op);
}

int pack_recur_set(struct buffer *body, const struct tarry_recur_options *o) {
    const struct tarry_schedule_options as_task = {
        .queue = o->queue,
        .payload = o->payload,
        .payload_size = o->payload_size,
        .attributes = o->attributes,
        .attribute_count = o->attribute_count,
    };
    if (o->name == NULL || !schedule_is_complete(&as_task)) return TARRY_E_ARGUMENT;
    const size_t content_size = content_room(&as_task);
    if (content_size > OP_ROOM_MAX) return TARRY_TOO_LARGE;
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__RecurSet set = TARRY__RECUR_SET__INIT;
    set.queue = (char *)o->queue;
    set.name = (char *)o->name;
    set.cron = text_of(o->cron);
    set.every_ms = o->every_ms;
    set.rrule = text_of(o->rrule);
    set.zone = text_of(o->zone);
    set.from_ms = o->from_ms;
    set.until_ms = o->until_ms;
    set.count = o->count;
    set.jitter_ms = o->jitter_ms;
    set.gap = text_of(o->gap);
    set.fold = text_of(o->fold);
    set.missed = text_of(o->missed);
    set.missed_window_ms = o->missed_window_ms;
    set.overlap = text_of(o->overlap);
    set.days = text_of(o->days);
    set.priority = o->priority;
    set.expires_ms = o->expires_ms;
    uint8_t *content = malloc(content_size + 1);
    if (content == NULL) return TARRY_E_NOMEM;
    set.content.data = content_before(content + content_size, &as_task);
    set.content.len = (size_t)(content + content_size - set.content.data);
    op.op_case = TARRY__OP__OP_RECUR_SET;
    op.recur_set = &set;
    int rv = pack_op(body, &op);
    free(content);
    return rv;
}

int pack_recur_do(struct buffer *body, const char *queue, const char *name, enum tarry_recur_what what) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__RecurDo order = TARRY__RECUR_DO__INIT;
    if (queue == NULL || name == NULL || (unsigned)what > TARRY_RECUR_DELETE) return TARRY_E_ARGUMENT;
    order.queue = (char *)queue;
    order.name = (char *)name;
    order.what = (Tarry__RecurDo__What)what;
    op.op_case = TARRY__OP__OP_RECUR_DO;
    op.recur_do = &order;
    return pack_op(body, &op);
}

int pack_queue_delete(struct buffer *body, const char *queue) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__QueueDelete delete = TARRY__QUEUE_DELETE__INIT;
    if (queue == NULL) return TARRY_E_ARGUMENT;
    delete.queue = (char *)queue;
    op.op_case = TARRY__OP__OP_QUEUE_DELETE;
    op.queue_delete = &delete;
    return pack_op(body, &op);
}

int pack_queue_purge(struct buffer *body, const char *queue, uint32_t states) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__QueuePurge purge = TARRY__QUEUE_PURGE__INIT;
    if (queue == NULL) return TARRY_E_ARGUMENT;
    const uint32_t all = TARRY_STATE_PENDING | TARRY_STATE_READY | TARRY_STATE_IN_FLIGHT | TARRY_STATE_DEAD;
    if ((states & ~all) != 0) return TARRY_E_ARGUMENT;
    purge.states = states;
    purge.queue = (char *)queue;
    op.op_case = TARRY__OP__OP_QUEUE_PURGE;
    op.queue_purge = &purge;
    return pack_op(body, &op);
}
