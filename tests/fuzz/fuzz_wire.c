/* fuzz_wire.c: what is packed and unpacked without reflection (proto/wire.h) against protobuf-c:
 * the same bytes, the same message, refused alike. The input's first byte says which message the others are. */
#include "fuzz.h"
#include "wire_same.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0 || size > 1u << 16) return 0;
    wire_same_unpacked(&wire_kinds[data[0] % WIRE_KINDS], data + 1, size - 1);
    return 0;
}
