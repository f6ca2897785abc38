/* wire_unpack.h: what comes with every task, unpacked without reflection: the same as protobuf-c makes of the same
 * bytes, and refused where that refuses them. Pure, thread-safe.
 *
 * What is as we pack it (wire_field.h) is read in one pass; anything else protobuf-c unpacks, message by message. */
#ifndef TARRY_PROTO_WIRE_UNPACK_H
#define TARRY_PROTO_WIRE_UNPACK_H

#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "tarry.pb-c.h"

/* In the arena, copies included; NULL: malformed, or the arena is full. */
Tarry__FrameBody *frame_body_unpack(struct arena *arena, size_t size, const uint8_t *data);
Tarry__Request *request_unpack(struct arena *arena, size_t size, const uint8_t *data);
/* What a client gets. */
Tarry__Reply *reply_unpack(struct arena *arena, size_t size, const uint8_t *data);
Tarry__Delivery *delivery_unpack(struct arena *arena, size_t size, const uint8_t *data);
Tarry__Content *content_unpack(struct arena *arena, size_t size, const uint8_t *data);

#endif
