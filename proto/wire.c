/* wire.c: see wire.h. */
#include "wire.h"

#include <assert.h>
#include <string.h>

#include "bytes.h"

/* Tags of the fields 4 and 8 of a Reply, which are numbers. */
#define REPLY_POSITION_TAG (4u << 3)
#define REPLY_AGE_TAG (8u << 3)
/* Tag of field 11 of a Reply, the length-delimited CommitReply. proto3 omits `code` (OK = 0) and the empty `message`.
 */
#define REPLY_COMMIT_TAG ((11u << 3) | 2u)
_Static_assert(REPLY_COMMIT_TAG < 0x80, "the tag takes one byte");

size_t wire_commit_reply_size(size_t packed_size, uint64_t position) {
    size_t position_size = position == 0 ? 0 : 1 + varint_size(position);
    return position_size + 1 + varint_size(packed_size) + packed_size;
}

size_t wire_commit_reply_encode(const void *packed, size_t packed_size, uint64_t position, uint8_t *out) {
    uint8_t *at = out;
    if (position != 0) {
        *at++ = REPLY_POSITION_TAG;
        at = put_varint(at, position);
    }
    *at++ = REPLY_COMMIT_TAG;
    at = put_varint(at, packed_size);
    if (packed_size > 0) memcpy(at, packed, packed_size);
    at += packed_size;
    assert((size_t)(at - out) == wire_commit_reply_size(packed_size, position));
    return (size_t)(at - out);
}

size_t wire_age_encode(uint32_t age_max_ms, uint8_t out[WIRE_AGE_SIZE_MAX]) {
    out[0] = REPLY_AGE_TAG;
    return (size_t)(put_varint(out + 1, age_max_ms) - out);
}
