/* request_peek.c: walks the outer levels of a packed Request; see request.h. */
#include "request.h"

#include "tarry.pb-c.h"

#define FIELD_REQUEST_COMMIT 11
#define FIELD_REQUEST_SUBSCRIBE 13
#define FIELD_COMMIT_OPS 5
#define FIELD_OP_SCHEDULE 1
#define FIELD_SUBSCRIBE_QUEUES 1

struct walk {
    const uint8_t *at;
    const uint8_t *end;
};

static bool walk_varint(struct walk *walk, uint64_t *out) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && walk->at < walk->end; shift += 7) {
        uint8_t byte = *walk->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0) {
            *out = value;
            return true;
        }
    }
    return false;
}

/* Reads the next field. `*out_inner` is its bytes if it is length-delimited, otherwise empty. */
static bool walk_field(struct walk *walk, uint64_t *out_field, struct walk *out_inner) {
    uint64_t tag, value = 0;
    if (!walk_varint(walk, &tag)) return false;
    *out_field = tag >> 3;
    *out_inner = (struct walk){walk->at, walk->at};
    switch (tag & 7) {
    case 0:
        return walk_varint(walk, &value);
    case 1:
        value = 8;
        break;
    case 2:
        if (!walk_varint(walk, &value)) return false;
        break;
    case 5:
        value = 4;
        break;
    default:
        return false;
    }
    if (value > (uint64_t)(walk->end - walk->at)) return false;
    if ((tag & 7) == 2) *out_inner = (struct walk){walk->at, walk->at + value};
    walk->at += value;
    return true;
}

/* Returns whether the field belongs to the message's oneof. (Request and Op have only one oneof.) */
static bool is_body(const ProtobufCMessageDescriptor *message, uint64_t field) {
    if (field > UINT32_MAX) return false;
    const ProtobufCFieldDescriptor *known = protobuf_c_message_descriptor_get_field(message, (unsigned)field);
    return known != NULL && (known->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
}

/* Counts the bodies of an operation. Unknown fields of a newer client are allowed beside the body. */
static bool peek_op(struct walk op, struct request_peek *out) {
    size_t body_count = 0;
    while (op.at < op.end) {
        uint64_t field;
        struct walk inner;
        if (!walk_field(&op, &field, &inner)) return false;
        if (field == FIELD_OP_SCHEDULE) out->schedules = true;
        if (is_body(&tarry__op__descriptor, field)) body_count++;
    }
    if (body_count > out->op_bodies_max) out->op_bodies_max = body_count;
    return true;
}

static bool peek_commit(struct walk commit, struct request_peek *out) {
    while (commit.at < commit.end) {
        uint64_t field;
        struct walk op;
        if (!walk_field(&commit, &field, &op)) return false;
        if (field != FIELD_COMMIT_OPS) continue;
        out->op_count++;
        if (!peek_op(op, out)) return false;
    }
    return true;
}

static bool peek_subscribe(struct walk subscribe, struct request_peek *out) {
    while (subscribe.at < subscribe.end) {
        uint64_t field;
        struct walk queue;
        if (!walk_field(&subscribe, &field, &queue)) return false;
        if (field == FIELD_SUBSCRIBE_QUEUES) out->queue_count++;
    }
    return true;
}

bool request_peek(const uint8_t *data, size_t size, struct request_peek *out) {
    *out = (struct request_peek){0};
    struct walk request = {data, data + size};
    while (request.at < request.end) {
        uint64_t field;
        struct walk inner;
        if (!walk_field(&request, &field, &inner)) return false;
        if (is_body(&tarry__request__descriptor, field)) out->body_count++;
        if (field == FIELD_REQUEST_SUBSCRIBE && !peek_subscribe(inner, out)) return false;
        if (field == FIELD_REQUEST_COMMIT && !peek_commit(inner, out)) return false;
    }
    return true;
}
