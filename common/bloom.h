/* bloom.h: a blocked Bloom filter: "certainly not" or "perhaps", at the price of one cache line.
 *
 * `blocks` blocks of 64 bytes, aligned to 64; the high bits of the hash choose the block, and one bit of each of its
 * eight words is set (F. Putze, P. Sanders, J. Singler, Cache-, Hash- and Space-Efficient Bloom Filters, 2007). At 12
 * bits a key some 0.5 % of "perhaps" are wrong. The hash must be a good one of 64 bits. Pure but for the filter. */
#ifndef TARRY_STORAGE_BLOOM_H
#define TARRY_STORAGE_BLOOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline size_t bloom_place(uint64_t blocks, uint64_t hash) {
    return (size_t)(((unsigned __int128)hash * blocks) >> 64);
}

static inline uint64_t *bloom_block(uint64_t *bloom, uint64_t blocks, uint64_t hash) {
    return bloom + bloom_place(blocks, hash) * 8;
}

static inline uint64_t bloom_bits(uint64_t hash) {
    uint64_t mixed = hash * 0x9FB21C651E98DF25ull;
    return mixed ^ mixed >> 32;
}

/* While others read: the tail's filter of the index. On x86-64 the load costs nothing. */
static inline void bloom_add(uint64_t *bloom, uint64_t blocks, uint64_t hash) {
    uint64_t *block = bloom_block(bloom, blocks, hash), bits = bloom_bits(hash);
    for (unsigned i = 0; i < 8; i++) {
        uint64_t bit = 1ull << (bits >> (6 * i) & 63);
        if (!(__atomic_load_n(&block[i], __ATOMIC_RELAXED) & bit)) __atomic_fetch_or(&block[i], bit, __ATOMIC_RELAXED);
    }
}

/* Of one block that somebody else has chosen; `bits` from bloom_bits. While nobody else looks. */
static inline void bloom_block_fill(uint64_t block[8], uint64_t bits) {
    for (unsigned i = 0; i < 8; i++) block[i] |= 1ull << (bits >> (6 * i) & 63);
}

/* Which bits of a block are a key's, in any filter; `bits` from bloom_bits. */
struct bloom_mask {
    uint64_t word[8];
};

static inline struct bloom_mask bloom_mask(uint64_t bits) {
    struct bloom_mask mask;
    for (unsigned i = 0; i < 8; i++) mask.word[i] = 1ull << (bits >> (6 * i) & 63);
    return mask;
}

static inline bool bloom_block_covers(const uint64_t block[8], const struct bloom_mask *mask) {
    uint64_t missing = 0;
    for (unsigned i = 0; i < 8; i++) missing |= mask->word[i] & ~__atomic_load_n(&block[i], __ATOMIC_RELAXED);
    return missing == 0;
}

static inline bool bloom_block_has(const uint64_t block[8], uint64_t bits) {
    struct bloom_mask mask = bloom_mask(bits);
    return bloom_block_covers(block, &mask);
}

/* While nobody else looks. */
static inline void bloom_fill(uint64_t *bloom, uint64_t blocks, uint64_t hash) {
    bloom_block_fill(bloom_block(bloom, blocks, hash), bloom_bits(hash));
}

static inline bool bloom_has(const uint64_t *bloom, uint64_t blocks, uint64_t hash) {
    return bloom_block_has(bloom_block((uint64_t *)bloom, blocks, hash), bloom_bits(hash));
}

#endif
