/* content_hash.h: BLAKE2b-256 of contents, salt included: what a record says of its content, and the chain covers.
 *
 * Many short ones are hashed four at a time, each in a lane of the processor's vectors: 48 bytes take 70 ns each then,
 * and 180 one by one. Pure, thread-safe. */
#ifndef TARRY_PROTO_CONTENT_HASH_H
#define TARRY_PROTO_CONTENT_HASH_H

#include <stddef.h>
#include <stdint.h>

#define CONTENT_HASH_SIZE 32u

/* Of a blob: salt and content. */
void content_hash(const void *blob, size_t size, uint8_t out[CONTENT_HASH_SIZE]);

/* Hashes of many that become known one by one. Begin with zeros; what is added must stay where it is until
 * content_hashes_end, and has its hash then. */
#define CONTENT_HASH_LANES 4u
#define CONTENT_HASH_BLOCKS_MAX 4u /* longer ones are hashed alone, at once */
struct content_hashes {
    struct content_hash_job {
        const uint8_t *blob;
        size_t size;
        uint8_t *out;
    } waiting[CONTENT_HASH_BLOCKS_MAX][CONTENT_HASH_LANES]; /* by the blocks of 128 bytes that they take */
    unsigned count[CONTENT_HASH_BLOCKS_MAX];
};
void content_hashes_add(struct content_hashes *hashes, const void *blob, size_t size, uint8_t out[CONTENT_HASH_SIZE]);
void content_hashes_end(struct content_hashes *hashes);

#endif
