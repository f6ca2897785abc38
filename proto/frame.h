/* frame.h: byte layout of a frame, the atomic unit of the log. storage/FORMAT.md describes it for users.
 *
 *   offset size
 *        0    4  magic "TRY1" (0x31595254 little-endian)
 *        4    2  type (enum frame_type)
 *        6    2  flags: bit 0: a content in the blob area was erased
 *        8    4  epoch
 *       12    4  body_size
 *       16    4  blob_size
 *       20    4  reserved, 0
 *       24    8  position: log position of this frame's first byte
 *       32    8  synced_to: the log was durable up to here when this frame was written (LOG-5)
 *       40    8  steady_ns   logical times of the decision (TIME-2)
 *       48    8  wall_ns
 *       56    8  body_sum: XXH3-64 of the body
 *       64    8  blob_sum: XXH3-64 of the blob area (invalid if flag bit 0 is set)
 *       72   32  chain: BLAKE2b-256(chain of the previous frame ‖ bytes 0…71 with flags and blob_sum as 0 ‖ body)
 *      104    8  header_sum: XXH3-64 of bytes 0…103, flag bit 0 as 0
 *      112       blob area, body (a packed tarry.FrameBody), zeros up to a multiple of 8
 *
 * The blob area comes first, so that records in the body can refer to positions in it. It has the contents one after
 * another, each as `salt[16] ‖ packed tarry.Content`. A record has the log position, size and checksum of its content.
 * It also has the BLAKE2b-256 of salt and content, so the chain proves the content without containing it.
 *
 * All integers are little-endian. Log positions count the bytes of frames, starting at 1 << 12, and never decrease.
 * Segment headers are not counted. */
#ifndef TARRY_PROTO_FRAME_H
#define TARRY_PROTO_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRAME_MAGIC 0x31595254u
#define FRAME_HEADER_SIZE 112u
#define FRAME_ALIGN 8u
#define FRAME_CHAIN_SIZE 32u
#define FRAME_FLAG_ERASED 1u
#define FRAME_FLAGS_OFFSET 6u /* offset of the byte with the flags */
#define LOG_POSITION_FIRST 4096u
#define BLOB_SALT_SIZE 16u
#define CONTENT_HASH_SIZE 32u
#define CONFIG_DIGEST_SIZE 32u /* EpochPut.config_digest */

enum frame_type { FRAME_COMMIT = 1, FRAME_SEAL = 2 }; /* a seal has no body */

struct frame_header {
    uint16_t type;
    uint16_t flags;
    uint32_t epoch;
    uint32_t body_size;
    uint32_t blob_size;
    uint64_t position;
    uint64_t synced_to;
    uint64_t steady_ns;
    uint64_t wall_ns;
    uint64_t body_sum;
    uint64_t blob_sum;
    uint8_t chain[FRAME_CHAIN_SIZE];
};

/* Size of a frame in the log in bytes, with padding. */
static inline uint64_t frame_size(uint32_t body_size, uint32_t blob_size) {
    uint64_t size = FRAME_HEADER_SIZE + (uint64_t)body_size + blob_size;
    return (size + FRAME_ALIGN - 1) & ~(uint64_t)(FRAME_ALIGN - 1);
}

/* Log position of the blob area of the frame at `position`. */
static inline uint64_t frame_blob_position(uint64_t position) {
    return position + FRAME_HEADER_SIZE;
}

/* Log position of the body of the frame at `position`. */
static inline uint64_t frame_body_position(uint64_t position, uint32_t blob_size) {
    return position + FRAME_HEADER_SIZE + blob_size;
}

/* Writes FRAME_HEADER_SIZE bytes, with header_sum. The other sums and the chain must be set. */
void frame_header_encode(const struct frame_header *header, uint8_t out[FRAME_HEADER_SIZE]);

/* Decodes a header. False: magic, header_sum, type, flags, reserved bytes or sizes (tarry_limits.h) are wrong; `out`
 * is then untouched. Does not check position, synced_to and chain, which need the neighbouring frames. */
bool frame_header_decode(const uint8_t in[FRAME_HEADER_SIZE], struct frame_header *out);

/* Computes the chain hash of a frame (see the table above). */
void frame_chain(const uint8_t previous[FRAME_CHAIN_SIZE], const struct frame_header *header, const void *body,
                 uint8_t out[FRAME_CHAIN_SIZE]);

/* Returns the XXH3-64 of the bytes. */
uint64_t frame_sum(const void *data, size_t size);

/* Returns a hash of a principal's name for tables and the index. 0: the local principal, whose name is empty. */
uint64_t principal_owner(const char *name);

/* True: the blob contains only zeros, as after a redaction. (A salt is never zero.) */
bool content_is_erased(const void *blob, size_t size);

/* Computes BLAKE2b-256 of a blob (salt and content). */
void content_hash(const void *blob, size_t size, uint8_t out[CONTENT_HASH_SIZE]);

#endif
