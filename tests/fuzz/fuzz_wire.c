/* fuzz_wire.c: compares packing and unpacking without reflection (proto/wire.h) with protobuf-c: the same bytes, the
 * same message, the same refusals. The input's first byte selects the message type of the rest. */
#include "fuzz.h"
#include "wire_same.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0 || size > 1u << 16) return 0;
    wire_same_unpacked(&wire_kinds[data[0] % WIRE_KINDS], data + 1, size - 1);
    return 0;
}
