/* wire.c: see wire.h. */
#include "wire.h"

#include <assert.h>
#include <string.h>

/* Field 11, length-delimited. `code` is OK = 0 and `message` empty, so proto3 leaves both out. */
#define REPLY_COMMIT_TAG ((11u << 3) | 2u)
_Static_assert(REPLY_COMMIT_TAG < 0x80, "the tag takes one byte");

static size_t varint_size(size_t value) {
    size_t size = 1;
    for (; value >= 0x80; value >>= 7) size++;
    return size;
}

size_t wire_commit_reply_size(size_t packed_size) {
    return 1 + varint_size(packed_size) + packed_size;
}

size_t wire_commit_reply_encode(const void *packed, size_t packed_size, uint8_t *out) {
    uint8_t *at = out;
    *at++ = REPLY_COMMIT_TAG;
    size_t rest = packed_size;
    for (; rest >= 0x80; rest >>= 7) *at++ = (uint8_t)(rest | 0x80);
    *at++ = (uint8_t)rest;
    if (packed_size > 0) memcpy(at, packed, packed_size);
    at += packed_size;
    assert((size_t)(at - out) == wire_commit_reply_size(packed_size));
    return (size_t)(at - out);
}
