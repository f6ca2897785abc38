/* wire_same.h: what proto/wire_pack and wire_unpack make is what protobuf-c makes; for fuzz_wire.c and wire_test.c. */
#ifndef TARRY_TESTS_FUZZ_WIRE_SAME_H
#define TARRY_TESTS_FUZZ_WIRE_SAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

/* A message that is packed or unpacked by hand. */
struct wire_kind {
    const ProtobufCMessageDescriptor *descriptor;
    bool is_packed;
    bool is_unpacked;
};
#define WIRE_KINDS 6u
extern const struct wire_kind wire_kinds[WIRE_KINDS];

/* Asserts that the message (of a kind that is packed) is packed to the bytes that protobuf-c packs it to, within the
 * room that it says. */
void wire_same_packed(const struct wire_kind *kind, const ProtobufCMessage *message);
/* Asserts that the bytes mean the same to both, or nothing to either; then also what wire_same_packed does. */
void wire_same_unpacked(const struct wire_kind *kind, const uint8_t *data, size_t size);
/* Whether the bytes are unpacked when there are so many bytes of memory. */
bool wire_fits(const struct wire_kind *kind, const uint8_t *data, size_t size, size_t memory);

#endif
