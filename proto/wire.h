/* wire.h: replies put together from parts that are packed already, so that a retried commit gets the very bytes that
 * were logged (ONCE-1) and nothing is unpacked to be packed again. Pure, thread-safe. */
#ifndef TARRY_PROTO_WIRE_H
#define TARRY_PROTO_WIRE_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of a packed Reply{code = OK, commit = C}, where C is a packed CommitReply of `packed_size` bytes. */
size_t wire_commit_reply_size(size_t packed_size);
/* Writes exactly wire_commit_reply_size(packed_size) bytes, and returns that number. `packed` may be NULL if its size
 * is 0; it must not overlap `out`. */
size_t wire_commit_reply_encode(const void *packed, size_t packed_size, uint8_t *out);

#endif
