/* fuzz_frame.c: the frame header. An accepted header is within the limits and encodes to the same bytes; a wrong
 * checksum is refused. The target also tries the input with a corrected checksum, because otherwise no input would
 * get past it. */
#include <assert.h>
#include <string.h>

#include "bytes.h"
#include "frame.h"
#include "fuzz.h"
#include "tarry_limits.h"

static void try_header(const uint8_t bytes[FRAME_HEADER_SIZE]) {
    struct frame_header header;
    if (!frame_header_decode(bytes, &header)) return;
    assert(header.body_size <= FRAME_BODY_SIZE_MAX && header.blob_size <= FRAME_BLOB_SIZE_MAX);
    assert(header.type == FRAME_COMMIT || header.type == FRAME_SEAL);
    assert(frame_size(header.body_size, header.blob_size) % FRAME_ALIGN == 0);
    uint8_t again[FRAME_HEADER_SIZE];
    frame_header_encode(&header, again);
    assert(memcmp(again, bytes, FRAME_HEADER_SIZE) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < FRAME_HEADER_SIZE) return 0;
    try_header(data);
    uint8_t bytes[FRAME_HEADER_SIZE];
    memcpy(bytes, data, FRAME_HEADER_SIZE);
    put_u64(bytes + FRAME_HEADER_SIZE - 8, frame_sum(bytes, FRAME_HEADER_SIZE - 8));
    try_header(bytes);
    return 0;
}
