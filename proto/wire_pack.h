/* wire_pack.h: what the broker packs for every task, without reflection: the very bytes that protobuf-c makes of the
 * same message. Pure, thread-safe.
 *
 * Each message has a bound on its size, quickly told, and is written from behind: to the end of a room that has that
 * size at least. The bytes before what was written are clobbered. */
#ifndef TARRY_PROTO_WIRE_PACK_H
#define TARRY_PROTO_WIRE_PACK_H

#include <stddef.h>
#include <stdint.h>

#include "tarry.pb-c.h"

/* Bytes of room; no less than the message takes packed. */
size_t frame_body_room(const Tarry__FrameBody *body);
size_t commit_reply_room(const Tarry__CommitReply *reply);
size_t delivery_room(const Tarry__Delivery *delivery);

/* Each returns where the packed message begins; it ends at `end`. */
uint8_t *frame_body_pack(const Tarry__FrameBody *body, uint8_t *end);
uint8_t *commit_reply_pack(const Tarry__CommitReply *reply, uint8_t *end);
uint8_t *delivery_pack(const Tarry__Delivery *delivery, uint8_t *end);

#endif
