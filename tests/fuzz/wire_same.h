/* wire_same.h: compares the generated wire_codec.c with protobuf-c; for fuzz_wire.c and wire_test.c. */
#ifndef TARRY_TESTS_FUZZ_WIRE_SAME_H
#define TARRY_TESTS_FUZZ_WIRE_SAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

/* A kind of message that wire.h has functions for. */
struct wire_kind {
    const ProtobufCMessageDescriptor *descriptor;
    bool is_packed;
    bool is_unpacked;
};
#define WIRE_KINDS 7u
extern const struct wire_kind wire_kinds[WIRE_KINDS];

/* Asserts that wire.h and protobuf-c pack the message to the same bytes, within the size that wire.h announced. `kind`
 * is a kind that is packed. */
void wire_same_packed(const struct wire_kind *kind, const ProtobufCMessage *message);
/* Asserts that both unpack the bytes to the same message, or both refuse them; then calls wire_same_packed. */
void wire_same_unpacked(const struct wire_kind *kind, const uint8_t *data, size_t size);
/* Returns whether the bytes can be unpacked with that many bytes of memory. */
bool wire_fits(const struct wire_kind *kind, const uint8_t *data, size_t size, size_t memory);

#endif
