/* wire_copies.h: what the parts of wire_unpack*.c have in common: what is kept of a message is copied. */
#ifndef TARRY_PROTO_WIRE_COPIES_H
#define TARRY_PROTO_WIRE_COPIES_H

#include "arena.h"
#include "tarry.pb-c.h"
#include "wire_field.h"

struct copies {
    struct arena *arena;
    bool lacks; /* the arena was full */
};

static inline void keep_bytes(struct copies *copies, ProtobufCBinaryData *bytes) {
    if (bytes->len == 0) {
        bytes->data = NULL;
        return;
    }
    uint8_t *copy = arena_alloc(copies->arena, bytes->len);
    if (copy == NULL) {
        copies->lacks = true;
        return;
    }
    memcpy(copy, bytes->data, bytes->len);
    bytes->data = copy;
}

/* `*out` stays what it is if there is no such field. */
static inline void keep_text(struct copies *copies, ProtobufCBinaryData bytes, char **out) {
    if (bytes.data == NULL) return;
    char *copy = arena_alloc(copies->arena, bytes.len + 1);
    if (copy == NULL) {
        copies->lacks = true;
        return;
    }
    if (bytes.len > 0) memcpy(copy, bytes.data, bytes.len);
    copy[bytes.len] = '\0';
    *out = copy;
}

/* Into `*token`, if there is one, and then `*out` is it. False: it is odd. */
static inline bool take_token(ProtobufCBinaryData bytes, Tarry__Token *token, Tarry__Token **out) {
    if (bytes.data == NULL) return true;
    *out = token;
    *token = (Tarry__Token)TARRY__TOKEN__INIT;
    struct wire_reader reader = reader_of(bytes);
    take_number32(&reader, 1, &token->epoch);
    take_number(&reader, 2, &token->position);
    return reader_done(&reader);
}

/* ---- wire_unpack_ops.c */

/* NULL: malformed, or the arena is full. */
Tarry__Op *op_unpack(struct copies *copies, ProtobufCBinaryData bytes);

#endif
