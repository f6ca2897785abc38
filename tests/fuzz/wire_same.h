/* wire_same.h: compares what the generated wire_codec.c makes with what protobuf-c makes; for fuzz_wire.c and
 * wire_test.c. */
#ifndef TARRY_TESTS_FUZZ_WIRE_SAME_H
#define TARRY_TESTS_FUZZ_WIRE_SAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

/* A message that wire.h has a function for. */
struct wire_kind {
    const ProtobufCMessageDescriptor *descriptor;
    bool is_packed;
    bool is_unpacked;
};
#define WIRE_KINDS 7u
extern const struct wire_kind wire_kinds[WIRE_KINDS];

/* Asserts that the message (of a kind that is packed) is packed to the bytes that protobuf-c packs it to, within the
 * room that it says. */
void wire_same_packed(const struct wire_kind *kind, const ProtobufCMessage *message);
/* Asserts that the bytes mean the same to both, or nothing to either; then also what wire_same_packed does. */
void wire_same_unpacked(const struct wire_kind *kind, const uint8_t *data, size_t size);
/* Whether the bytes are unpacked when there are so many bytes of memory. */
bool wire_fits(const struct wire_kind *kind, const uint8_t *data, size_t size, size_t memory);

#endif
