/* wire.h: messages as bytes, without reflection, where there are many of them. Pure, thread-safe. */
#ifndef TARRY_PROTO_WIRE_H
#define TARRY_PROTO_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "tarry.pb-c.h"

/* ---- wire.c: replies put together from parts that are packed already, so that a retried commit gets the very bytes
 * that were logged (ONCE-1) and nothing is unpacked to be packed again. */
/* Bytes of a packed Reply{code = OK, position = P, commit = C}, where C is a packed CommitReply of `packed_size` bytes.
 */
size_t wire_commit_reply_size(size_t packed_size, uint64_t position);
/* Writes exactly wire_commit_reply_size(packed_size, position) bytes, and returns that number. `packed` may be NULL if
 * its size is 0; it must not overlap `out`. */
size_t wire_commit_reply_encode(const void *packed, size_t packed_size, uint64_t position, uint8_t *out);
/* Reply.age_max_ms, as it may stand behind any packed Reply that does not say it. Returns how many bytes. */
#define WIRE_AGE_SIZE_MAX 6u
size_t wire_age_encode(uint32_t age_max_ms, uint8_t out[WIRE_AGE_SIZE_MAX]);

/* ---- wire_codec.c, which wire_generate.c makes of tarry.proto: packs and unpacks without reflection the messages that
 * come with every task. The bytes are those of protobuf-c, and so is the meaning of any bytes. */
/* Bytes of room for a packed message: at least its size. */
size_t op_room(const Tarry__Op *op);
size_t frame_body_room(const Tarry__FrameBody *body);
size_t commit_reply_room(const Tarry__CommitReply *reply);
size_t delivery_room(const Tarry__Delivery *delivery);

/* Writes backward, to a room that ends at `end`. Returns where the message begins; the room before it is clobbered. */
uint8_t *op_pack(const Tarry__Op *op, uint8_t *end);
uint8_t *frame_body_pack(const Tarry__FrameBody *body, uint8_t *end);
uint8_t *commit_reply_pack(const Tarry__CommitReply *reply, uint8_t *end);
uint8_t *delivery_pack(const Tarry__Delivery *delivery, uint8_t *end);

/* Returns a message that lies in the arena and refers to nothing outside of it; NULL: malformed, or the arena is
 * full. */
Tarry__FrameBody *frame_body_unpack(struct arena *arena, size_t size, const uint8_t *data);
Tarry__Request *request_unpack(struct arena *arena, size_t size, const uint8_t *data);
Tarry__Reply *reply_unpack(struct arena *arena, size_t size, const uint8_t *data);
Tarry__Delivery *delivery_unpack(struct arena *arena, size_t size, const uint8_t *data);
Tarry__Content *content_unpack(struct arena *arena, size_t size, const uint8_t *data);

#endif
