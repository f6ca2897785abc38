/* wire_unpack_ops.c: the operations of a commit. See wire.h; those that are rare protobuf-c unpacks. */
#include "wire_copies.h"

/* This and take_ref like take_token. */
static bool take_when(ProtobufCBinaryData bytes, Tarry__When *when, Tarry__When **out) {
    if (bytes.data == NULL) return true;
    *out = when;
    *when = (Tarry__When)TARRY__WHEN__INIT;
    struct wire_reader reader = reader_of(bytes);
    when->kind = (Tarry__When__Kind)take_enum(&reader, 1);
    take_number(&reader, 2, &when->ms);
    return reader_done(&reader);
}

struct schedule_parts {
    Tarry__Op op;
    Tarry__Schedule schedule;
    Tarry__When when;
};

/* Here as below, NULL: it is odd, or the arena is full, which protobuf-c will find out. */
static Tarry__Op *unpack_schedule(struct copies *copies, ProtobufCBinaryData bytes) {
    struct schedule_parts *parts = arena_alloc(copies->arena, sizeof(*parts));
    if (parts == NULL) return NULL;
    Tarry__Schedule *schedule = &parts->schedule;
    parts->op = (Tarry__Op)TARRY__OP__INIT;
    parts->schedule = (Tarry__Schedule)TARRY__SCHEDULE__INIT;
    struct wire_reader reader = reader_of(bytes);
    ProtobufCBinaryData queue = take_bytes(&reader, 1);
    schedule->key = take_bytes(&reader, 2);
    ProtobufCBinaryData when = take_bytes(&reader, 3);
    schedule->content = take_bytes(&reader, 4);
    take_number32(&reader, 5, &schedule->priority);
    take_number(&reader, 6, &schedule->expires_ms);
    schedule->on_conflict = (Tarry__Schedule__OnConflict)take_enum(&reader, 7);
    if (!reader_done(&reader) || !take_when(when, &parts->when, &schedule->when)) return NULL;
    parts->op.op_case = TARRY__OP__OP_SCHEDULE;
    parts->op.schedule = schedule;
    keep_text(copies, queue, &schedule->queue);
    keep_bytes(copies, &schedule->key);
    keep_bytes(copies, &schedule->content);
    return &parts->op;
}

/* ---- of a task by id or key */

static bool take_ref(struct copies *copies, ProtobufCBinaryData bytes, Tarry__Ref *ref, Tarry__Ref **out) {
    if (bytes.data == NULL) return true;
    *out = ref;
    *ref = (Tarry__Ref)TARRY__REF__INIT;
    struct wire_reader reader = reader_of(bytes);
    take_number(&reader, 1, &ref->id);
    ProtobufCBinaryData queue = take_bytes(&reader, 2);
    ref->key = take_bytes(&reader, 3);
    if (!reader_done(&reader)) return false;
    keep_text(copies, queue, &ref->queue);
    keep_bytes(copies, &ref->key);
    return true;
}

struct cancel_parts {
    Tarry__Op op;
    Tarry__Cancel cancel;
    Tarry__Ref ref;
};

static Tarry__Op *unpack_cancel(struct copies *copies, ProtobufCBinaryData bytes) {
    struct cancel_parts *parts = arena_alloc(copies->arena, sizeof(*parts));
    if (parts == NULL) return NULL;
    parts->op = (Tarry__Op)TARRY__OP__INIT;
    parts->cancel = (Tarry__Cancel)TARRY__CANCEL__INIT;
    struct wire_reader reader = reader_of(bytes);
    ProtobufCBinaryData ref = take_bytes(&reader, 1);
    take_bool(&reader, 2, &parts->cancel.withdraw);
    if (!reader_done(&reader) || !take_ref(copies, ref, &parts->ref, &parts->cancel.task)) return NULL;
    parts->op.op_case = TARRY__OP__OP_CANCEL;
    parts->op.cancel = &parts->cancel;
    return &parts->op;
}

struct move_parts {
    Tarry__Op op;
    Tarry__Move move;
    Tarry__Ref ref;
    Tarry__When when;
};

static Tarry__Op *unpack_move(struct copies *copies, ProtobufCBinaryData bytes) {
    struct move_parts *parts = arena_alloc(copies->arena, sizeof(*parts));
    if (parts == NULL) return NULL;
    Tarry__Move *move = &parts->move;
    parts->op = (Tarry__Op)TARRY__OP__INIT;
    parts->move = (Tarry__Move)TARRY__MOVE__INIT;
    struct wire_reader reader = reader_of(bytes);
    ProtobufCBinaryData ref = take_bytes(&reader, 1), when = take_bytes(&reader, 2);
    take_bool(&reader, 3, &move->has_priority);
    take_number32(&reader, 4, &move->priority);
    if (!reader_done(&reader) || !take_when(when, &parts->when, &move->when) ||
        !take_ref(copies, ref, &parts->ref, &move->task))
        return NULL;
    parts->op.op_case = TARRY__OP__OP_MOVE;
    parts->op.move = move;
    return &parts->op;
}

/* ---- of a lease */

struct ack_parts {
    Tarry__Op op;
    Tarry__Ack ack;
    Tarry__Token token;
};

static Tarry__Op *unpack_ack(struct copies *copies, ProtobufCBinaryData bytes) {
    struct ack_parts *parts = arena_alloc(copies->arena, sizeof(*parts));
    if (parts == NULL) return NULL;
    parts->op = (Tarry__Op)TARRY__OP__INIT;
    parts->ack = (Tarry__Ack)TARRY__ACK__INIT;
    struct wire_reader reader = reader_of(bytes);
    take_number(&reader, 1, &parts->ack.id);
    ProtobufCBinaryData token = take_bytes(&reader, 2);
    if (!reader_done(&reader) || !take_token(token, &parts->token, &parts->ack.token)) return NULL;
    parts->op.op_case = TARRY__OP__OP_ACK;
    parts->op.ack = &parts->ack;
    return &parts->op;
}

struct nack_parts {
    Tarry__Op op;
    Tarry__Nack nack;
    Tarry__Token token;
};

static Tarry__Op *unpack_nack(struct copies *copies, ProtobufCBinaryData bytes) {
    struct nack_parts *parts = arena_alloc(copies->arena, sizeof(*parts));
    if (parts == NULL) return NULL;
    Tarry__Nack *nack = &parts->nack;
    parts->op = (Tarry__Op)TARRY__OP__INIT;
    parts->nack = (Tarry__Nack)TARRY__NACK__INIT;
    struct wire_reader reader = reader_of(bytes);
    take_number(&reader, 1, &nack->id);
    ProtobufCBinaryData token = take_bytes(&reader, 2);
    take_bool(&reader, 3, &nack->has_delay);
    take_number(&reader, 4, &nack->delay_ms);
    take_bool(&reader, 5, &nack->dead);
    ProtobufCBinaryData reason = take_bytes(&reader, 6);
    if (!reader_done(&reader) || !take_token(token, &parts->token, &nack->token)) return NULL;
    parts->op.op_case = TARRY__OP__OP_NACK;
    parts->op.nack = nack;
    keep_text(copies, reason, &nack->reason);
    return &parts->op;
}

struct extend_parts {
    Tarry__Op op;
    Tarry__Extend extend;
    Tarry__Token token;
};

static Tarry__Op *unpack_extend(struct copies *copies, ProtobufCBinaryData bytes) {
    struct extend_parts *parts = arena_alloc(copies->arena, sizeof(*parts));
    if (parts == NULL) return NULL;
    parts->op = (Tarry__Op)TARRY__OP__INIT;
    parts->extend = (Tarry__Extend)TARRY__EXTEND__INIT;
    struct wire_reader reader = reader_of(bytes);
    take_number(&reader, 1, &parts->extend.id);
    ProtobufCBinaryData token = take_bytes(&reader, 2);
    take_number(&reader, 3, &parts->extend.lease_ms);
    if (!reader_done(&reader) || !take_token(token, &parts->token, &parts->extend.token)) return NULL;
    parts->op.op_case = TARRY__OP__OP_EXTEND;
    parts->op.extend = &parts->extend;
    return &parts->op;
}

struct release_parts {
    Tarry__Op op;
    Tarry__Release release;
    Tarry__Token token;
    Tarry__When when;
};

static Tarry__Op *unpack_release(struct copies *copies, ProtobufCBinaryData bytes) {
    struct release_parts *parts = arena_alloc(copies->arena, sizeof(*parts));
    if (parts == NULL) return NULL;
    Tarry__Release *release = &parts->release;
    parts->op = (Tarry__Op)TARRY__OP__INIT;
    parts->release = (Tarry__Release)TARRY__RELEASE__INIT;
    struct wire_reader reader = reader_of(bytes);
    take_number(&reader, 1, &release->id);
    ProtobufCBinaryData token = take_bytes(&reader, 2), when = take_bytes(&reader, 3);
    take_bool(&reader, 4, &release->has_priority);
    take_number32(&reader, 5, &release->priority);
    if (!reader_done(&reader) || !take_token(token, &parts->token, &release->token) ||
        !take_when(when, &parts->when, &release->when))
        return NULL;
    parts->op.op_case = TARRY__OP__OP_RELEASE;
    parts->op.release = release;
    return &parts->op;
}

/* ---- any of them */

static Tarry__Op *unpack_plain(struct copies *copies, ProtobufCBinaryData bytes) {
    if (bytes.len == 0) return NULL;
    const unsigned tag = bytes.data[0];
    struct wire_reader reader = {.at = bytes.data + 1, .end = bytes.data + bytes.len};
    ProtobufCBinaryData body = take_sized(&reader);
    if (!reader_done(&reader) || (tag & 7) != WIRE_BYTES) return NULL;
    switch ((Tarry__Op__OpCase)(tag >> 3)) { /* a case is its field's number, and those here are below 16 */
    case TARRY__OP__OP_SCHEDULE:
        return unpack_schedule(copies, body);
    case TARRY__OP__OP_CANCEL:
        return unpack_cancel(copies, body);
    case TARRY__OP__OP_MOVE:
        return unpack_move(copies, body);
    case TARRY__OP__OP_ACK:
        return unpack_ack(copies, body);
    case TARRY__OP__OP_NACK:
        return unpack_nack(copies, body);
    case TARRY__OP__OP_EXTEND:
        return unpack_extend(copies, body);
    case TARRY__OP__OP_RELEASE:
        return unpack_release(copies, body);
    default:
        return NULL;
    }
}

Tarry__Op *op_unpack(struct copies *copies, ProtobufCBinaryData bytes) {
    struct arena_mark mark = arena_mark(copies->arena);
    Tarry__Op *op = unpack_plain(copies, bytes);
    if (op != NULL) return op;
    arena_rewind(copies->arena, mark);
    return tarry__op__unpack(&copies->arena->pb, bytes.len, bytes.data);
}
