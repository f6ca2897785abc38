/* wire.h: replies put together from parts that are packed already, so that a retried commit gets the very bytes that
 * were logged (ONCE-1) and nothing is unpacked to be packed again. Pure, thread-safe. */
#ifndef TARRY_PROTO_WIRE_H
#define TARRY_PROTO_WIRE_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of a packed Reply{code = OK, position = P, commit = C}, where C is a packed CommitReply of `packed_size` bytes.
 */
size_t wire_commit_reply_size(size_t packed_size, uint64_t position);
/* Writes exactly wire_commit_reply_size(packed_size, position) bytes, and returns that number. `packed` may be NULL if
 * its size is 0; it must not overlap `out`. */
size_t wire_commit_reply_encode(const void *packed, size_t packed_size, uint64_t position, uint8_t *out);
/* Reply.age_max_ms, as it may stand behind any packed Reply that does not say it. Returns how many bytes. */
#define WIRE_AGE_SIZE_MAX 6u
size_t wire_age_encode(uint32_t age_max_ms, uint8_t out[WIRE_AGE_SIZE_MAX]);

#endif
