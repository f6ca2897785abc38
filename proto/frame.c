/* frame.c: see frame.h, whose table has the offsets. No I/O. */
#include "frame.h"

#include <assert.h>
#include <sodium.h>
#include <string.h>
#include <xxhash.h>

#include "bytes.h"
#include "tarry_limits.h"

enum {
    AT_MAGIC = 0,
    AT_TYPE = 4,
    AT_FLAGS = 6,
    AT_EPOCH = 8,
    AT_BODY_SIZE = 12,
    AT_BLOB_SIZE = 16,
    AT_RESERVED = 20,
    AT_POSITION = 24,
    AT_SYNCED_TO = 32,
    AT_STEADY = 40,
    AT_WALL = 48,
    AT_BODY_SUM = 56,
    AT_BLOB_SUM = 64,
    AT_CHAIN = 72,
    AT_HEADER_SUM = 104,
};

_Static_assert(AT_HEADER_SUM + 8 == FRAME_HEADER_SIZE, "the table in frame.h");
_Static_assert(crypto_generichash_BYTES == FRAME_CHAIN_SIZE, "BLAKE2b-256");
_Static_assert(CONTENT_HASH_SIZE == FRAME_CHAIN_SIZE, "BLAKE2b-256");

/* Encodes bytes 0 … 71 of the header. */
static void frame_head_encode(const struct frame_header *header, uint16_t flags, uint64_t blob_sum,
                              uint8_t out[AT_CHAIN]) {
    put_u32(out + AT_MAGIC, FRAME_MAGIC);
    put_u16(out + AT_TYPE, header->type);
    put_u16(out + AT_FLAGS, flags);
    put_u32(out + AT_EPOCH, header->epoch);
    put_u32(out + AT_BODY_SIZE, header->body_size);
    put_u32(out + AT_BLOB_SIZE, header->blob_size);
    put_u32(out + AT_RESERVED, 0);
    put_u64(out + AT_POSITION, header->position);
    put_u64(out + AT_SYNCED_TO, header->synced_to);
    put_u64(out + AT_STEADY, header->steady_ns);
    put_u64(out + AT_WALL, header->wall_ns);
    put_u64(out + AT_BODY_SUM, header->body_sum);
    put_u64(out + AT_BLOB_SUM, blob_sum);
}

/* Computes header_sum with the erased flag taken as 0, so header_sum stays valid when an erasure sets that flag later.
 * The erasure writes a single byte, so a power failure cannot leave half of the write. */
static uint64_t header_sum(const uint8_t in[AT_HEADER_SUM]) {
    uint8_t bytes[AT_HEADER_SUM];
    memcpy(bytes, in, sizeof(bytes));
    bytes[AT_FLAGS] &= (uint8_t)~FRAME_FLAG_ERASED;
    return frame_sum(bytes, sizeof(bytes));
}

void frame_header_encode(const struct frame_header *header, uint8_t out[FRAME_HEADER_SIZE]) {
    frame_head_encode(header, header->flags, header->blob_sum, out);
    memcpy(out + AT_CHAIN, header->chain, FRAME_CHAIN_SIZE);
    put_u64(out + AT_HEADER_SUM, header_sum(out));
}

static bool frame_shape_is_right(const struct frame_header *header) {
    if ((header->flags & ~FRAME_FLAG_ERASED) != 0) return false;
    if ((header->flags & FRAME_FLAG_ERASED) != 0 && header->blob_size == 0) return false;
    switch (header->type) {
    case FRAME_COMMIT:
        return header->body_size <= FRAME_BODY_SIZE_MAX && header->blob_size <= FRAME_BLOB_SIZE_MAX;
    case FRAME_SEAL:
        return header->body_size == 0 && header->blob_size == 0;
    default:
        return false;
    }
}

bool frame_header_decode(const uint8_t in[FRAME_HEADER_SIZE], struct frame_header *out) {
    /* The magic is checked first, because the scan for a torn tail (LOG-5) tries every offset. */
    if (get_u32(in + AT_MAGIC) != FRAME_MAGIC) return false;
    bool is_whole = get_u64(in + AT_HEADER_SUM) == header_sum(in);
    if (!is_whole) return false;
    if (get_u32(in + AT_RESERVED) != 0) return false;
    struct frame_header header = {
        .type = get_u16(in + AT_TYPE),
        .flags = get_u16(in + AT_FLAGS),
        .epoch = get_u32(in + AT_EPOCH),
        .body_size = get_u32(in + AT_BODY_SIZE),
        .blob_size = get_u32(in + AT_BLOB_SIZE),
        .position = get_u64(in + AT_POSITION),
        .synced_to = get_u64(in + AT_SYNCED_TO),
        .steady_ns = get_u64(in + AT_STEADY),
        .wall_ns = get_u64(in + AT_WALL),
        .body_sum = get_u64(in + AT_BODY_SUM),
        .blob_sum = get_u64(in + AT_BLOB_SUM),
    };
    memcpy(header.chain, in + AT_CHAIN, FRAME_CHAIN_SIZE);
    if (!frame_shape_is_right(&header)) return false;
    *out = header;
    return true;
}

void frame_chain(const uint8_t previous[FRAME_CHAIN_SIZE], const struct frame_header *header, const void *body,
                 uint8_t out[FRAME_CHAIN_SIZE]) {
    /* Flags and blob_sum are hashed as 0, because erasing a content changes them but must not change the chain. (The
     * body has the hashes of contents.) */
    uint8_t head[AT_CHAIN];
    frame_head_encode(header, 0, 0, head);
    crypto_generichash_state state;
    int failed = crypto_generichash_init(&state, NULL, 0, FRAME_CHAIN_SIZE);
    failed |= crypto_generichash_update(&state, previous, FRAME_CHAIN_SIZE);
    failed |= crypto_generichash_update(&state, head, sizeof(head));
    failed |= crypto_generichash_update(&state, body, header->body_size);
    failed |= crypto_generichash_final(&state, out, FRAME_CHAIN_SIZE);
    assert(failed == 0); /* libsodium fails here only on wrong sizes */
}

uint64_t frame_sum(const void *data, size_t size) {
    return XXH3_64bits(data, size);
}

uint64_t principal_owner(const char *name) {
    if (*name == '\0') return 0;
    uint64_t owner = frame_sum(name, strlen(name));
    return owner != 0 ? owner : 1;
}

bool content_is_erased(const void *blob, size_t size) {
    const uint8_t *bytes = blob;
    /* The first byte of the salt usually decides. sodium_is_zero took 200 ns for 150 bytes. */
    return size > 0 && bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0;
}

void content_hash(const void *blob, size_t size, uint8_t out[CONTENT_HASH_SIZE]) {
    int failed = crypto_generichash(out, CONTENT_HASH_SIZE, blob, size, NULL, 0);
    assert(failed == 0);
}
