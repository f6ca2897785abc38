/* wire_same.c: see wire_same.h. */
#include "wire_same.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "wire.h"

/* Maximum size of a result. No input of 64 KiB has a larger one. */
#define ARENA_SIZE_MAX (256u << 20)
#define GUARD 64u

const struct wire_kind wire_kinds[WIRE_KINDS] = {
    {&tarry__frame_body__descriptor, true, true}, {&tarry__commit_reply__descriptor, true, false},
    {&tarry__delivery__descriptor, true, true},   {&tarry__request__descriptor, true, true},
    {&tarry__reply__descriptor, false, true},     {&tarry__content__descriptor, false, true},
    {&tarry__op__descriptor, true, false},
};

/* The arenas are static, so that their large first blocks are kept between inputs. */
static struct arena generated, by_library, packed;

static void begin(void) {
    if (generated.size_max != 0) return;
    arena_init(&generated, ARENA_SIZE_MAX);
    arena_init(&by_library, ARENA_SIZE_MAX);
    arena_init(&packed, ARENA_SIZE_MAX);
}

static const ProtobufCMessage *unpack(const struct wire_kind *kind, const uint8_t *data, size_t size) {
    if (kind->descriptor == &tarry__frame_body__descriptor)
        return (const ProtobufCMessage *)frame_body_unpack(&generated, size, data);
    if (kind->descriptor == &tarry__delivery__descriptor)
        return (const ProtobufCMessage *)delivery_unpack(&generated, size, data);
    if (kind->descriptor == &tarry__reply__descriptor)
        return (const ProtobufCMessage *)reply_unpack(&generated, size, data);
    if (kind->descriptor == &tarry__content__descriptor)
        return (const ProtobufCMessage *)content_unpack(&generated, size, data);
    return (const ProtobufCMessage *)request_unpack(&generated, size, data);
}

static size_t room_of(const ProtobufCMessage *message) {
    if (message->descriptor == &tarry__frame_body__descriptor)
        return frame_body_room((const Tarry__FrameBody *)message);
    if (message->descriptor == &tarry__delivery__descriptor) return delivery_room((const Tarry__Delivery *)message);
    if (message->descriptor == &tarry__op__descriptor) return op_room((const Tarry__Op *)message);
    if (message->descriptor == &tarry__request__descriptor) return request_room((const Tarry__Request *)message);
    return commit_reply_room((const Tarry__CommitReply *)message);
}

static uint8_t *pack(const ProtobufCMessage *message, uint8_t *end) {
    if (message->descriptor == &tarry__frame_body__descriptor)
        return frame_body_pack((const Tarry__FrameBody *)message, end);
    if (message->descriptor == &tarry__delivery__descriptor)
        return delivery_pack((const Tarry__Delivery *)message, end);
    if (message->descriptor == &tarry__op__descriptor) return op_pack((const Tarry__Op *)message, end);
    if (message->descriptor == &tarry__request__descriptor) return request_pack((const Tarry__Request *)message, end);
    return commit_reply_pack((const Tarry__CommitReply *)message, end);
}

/* Packs with protobuf-c. */
static ProtobufCBinaryData pack_plainly(const ProtobufCMessage *message) {
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = arena_alloc(&packed, size);
    assert(bytes != NULL && protobuf_c_message_pack(message, bytes) == size);
    return (ProtobufCBinaryData){size, bytes};
}

static bool is_guarded(const uint8_t *guard) {
    for (size_t i = 0; i < GUARD; i++)
        if (guard[i] != 0xa5) return false;
    return true;
}

void wire_same_packed(const struct wire_kind *kind, const ProtobufCMessage *message) {
    assert(kind->is_packed);
    begin();
    ProtobufCBinaryData expected = pack_plainly(message);
    size_t room = room_of(message);
    uint8_t *from = arena_alloc(&packed, room + (size_t)2 * GUARD);
    assert(from != NULL && room >= expected.len);
    memset(from, 0xa5, GUARD);
    memset(from + GUARD + room, 0xa5, GUARD);
    const uint8_t *end = from + GUARD + room, *bytes = pack(message, from + GUARD + room);
    assert((size_t)(end - bytes) == expected.len && memcmp(bytes, expected.data, expected.len) == 0);
    assert(is_guarded(from) && is_guarded(end)); /* no byte outside of the buffer may have been written */
    arena_reset(&packed);
}

void wire_same_unpacked(const struct wire_kind *kind, const uint8_t *data, size_t size) {
    begin();
    ProtobufCMessage *library = protobuf_c_message_unpack(kind->descriptor, &by_library.pb, size, data);
    uint8_t *copy =
        malloc(size + (size == 0)); /* a separate copy, so that AddressSanitizer detects a read past its end */
    assert(copy != NULL);
    if (size > 0) memcpy(copy, data, size);
    const ProtobufCMessage *ours = kind->is_unpacked ? unpack(kind, copy, size) : library;
    explicit_bzero(copy, size); /* the unpacked message must not point into the packed bytes */
    free(copy);
    assert((library == NULL) == (ours == NULL));
    if (library != NULL) {
        assert(ours->descriptor == kind->descriptor);
        /* The memory of wire.h has a place for each nested message, even if that is absent. */
        assert(generated.used <= 2 * by_library.used + 64);
        ProtobufCBinaryData one = pack_plainly(library), other = pack_plainly(ours);
        assert(one.len == other.len && memcmp(one.data, other.data, one.len) == 0);
        if (kind->is_packed) wire_same_packed(kind, ours);
    }
    arena_reset(&packed);
    arena_reset(&generated);
    arena_reset(&by_library);
}

bool wire_fits(const struct wire_kind *kind, const uint8_t *data, size_t size, size_t memory) {
    begin();
    generated.size_max = memory;
    bool fits = unpack(kind, data, size) != NULL;
    generated.size_max = ARENA_SIZE_MAX;
    arena_reset(&generated);
    return fits;
}
