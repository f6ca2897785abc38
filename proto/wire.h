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

/* ---- wire_pack.c: what the broker packs for every task, without reflection: the very bytes that protobuf-c makes of
 * the same message.
 *
 * Each message has a bound on its size, quickly told, and is written from behind: to the end of a room that has that
 * size at least. The bytes before what was written are clobbered. */
/* Bytes of room; no less than the message takes packed. */
size_t frame_body_room(const Tarry__FrameBody *body);
size_t commit_reply_room(const Tarry__CommitReply *reply);
size_t delivery_room(const Tarry__Delivery *delivery);

/* Each returns where the packed message begins; it ends at `end`. */
uint8_t *frame_body_pack(const Tarry__FrameBody *body, uint8_t *end);
uint8_t *commit_reply_pack(const Tarry__CommitReply *reply, uint8_t *end);
uint8_t *delivery_pack(const Tarry__Delivery *delivery, uint8_t *end);

/* ---- wire_unpack*.c: what comes with every task, unpacked without reflection: the same as protobuf-c makes of the
 * same bytes, and refused where that refuses them.
 *
 * What is as we pack it (wire_field.h) is read in one pass; anything else protobuf-c unpacks, message by message. */
/* In the arena, copies included; NULL: malformed, or the arena is full. */
Tarry__FrameBody *frame_body_unpack(struct arena *arena, size_t size, const uint8_t *data);
Tarry__Request *request_unpack(struct arena *arena, size_t size, const uint8_t *data);
/* What a client gets. */
Tarry__Reply *reply_unpack(struct arena *arena, size_t size, const uint8_t *data);
Tarry__Delivery *delivery_unpack(struct arena *arena, size_t size, const uint8_t *data);
Tarry__Content *content_unpack(struct arena *arena, size_t size, const uint8_t *data);

#endif
