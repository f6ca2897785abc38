/* frame.h: the log's atomic unit, byte by byte. storage/FORMAT.md tells the same to people.
 *
 *   offset size
 *        0    4  magic "TRY1" (0x31595254 little-endian)
 *        4    2  type (enum frame_type)
 *        6    2  flags: bit 0: some content of the blob area was erased
 *        8    4  epoch
 *       12    4  body_size
 *       16    4  blob_size
 *       20    4  reserved, 0
 *       24    8  position: log position of this frame's first byte
 *       32    8  synced_to: the log was durable up to here when this frame was written (LOG-5)
 *       40    8  steady_ns   logical times of the decision (TIME-2)
 *       48    8  wall_ns
 *       56    8  body_sum: XXH3-64 of the body
 *       64    8  blob_sum: XXH3-64 of the blob area (void if flag bit 0)
 *       72   32  chain: BLAKE2b-256(chain of the previous frame ‖ bytes 0…71 with flags and blob_sum as 0 ‖ body)
 *      104    8  header_sum: XXH3-64 of bytes 0…103, flag bit 0 as 0
 *      112       blob area, body (a packed tarry.FrameBody), zeros up to a multiple of 8
 *
 * The blob area comes first, so that records in the body can name positions in it.
 *
 * The blob area holds contents one after another, each `salt[16] ‖ packed tarry.Content`; records
 * name them by log position, size and checksum, and carry a BLAKE2b-256 over salt and content, so that the
 * chain proves a content without containing it.
 * All integers are little-endian. Positions count bytes of frames from 1 << 12 on and never go back; segment headers
 * do not count. */
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
#define FRAME_FLAGS_OFFSET 6u /* of the byte that has it */
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

/* Bytes that a frame takes in the log, padding included. */
static inline uint64_t frame_size(uint32_t body_size, uint32_t blob_size) {
    uint64_t size = FRAME_HEADER_SIZE + (uint64_t)body_size + blob_size;
    return (size + FRAME_ALIGN - 1) & ~(uint64_t)(FRAME_ALIGN - 1);
}

/* Log position of the blob area of a frame at `position`. */
static inline uint64_t frame_blob_position(uint64_t position) {
    return position + FRAME_HEADER_SIZE;
}

/* Log position of the body. */
static inline uint64_t frame_body_position(uint64_t position, uint32_t blob_size) {
    return position + FRAME_HEADER_SIZE + blob_size;
}

/* Writes FRAME_HEADER_SIZE bytes, header_sum included. Sums and chain must be set. */
void frame_header_encode(const struct frame_header *header, uint8_t out[FRAME_HEADER_SIZE]);

/* False, `out` untouched, unless magic, header_sum, type, flags, reserved and sizes (tarry_limits.h) are right. Says
 * nothing about position, synced_to and chain, which only the neighbours can tell. */
bool frame_header_decode(const uint8_t in[FRAME_HEADER_SIZE], struct frame_header *out);

/* The chain hash of a frame (see the table above). */
void frame_chain(const uint8_t previous[FRAME_CHAIN_SIZE], const struct frame_header *header, const void *body,
                 uint8_t out[FRAME_CHAIN_SIZE]);

/* XXH3-64. */
uint64_t frame_sum(const void *data, size_t size);

/* A principal's name as a number, for tables and the index; 0: whoever is local, whose name is empty. */
uint64_t principal_owner(const char *name);

/* Whether nothing but zeros is left of a blob: what a redaction leaves. (A salt is never zero.) */
bool content_is_erased(const void *blob, size_t size);

/* BLAKE2b-256 over a blob (salt and content). */
void content_hash(const void *blob, size_t size, uint8_t out[CONTENT_HASH_SIZE]);

#endif
