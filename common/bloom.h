/* bloom.h: a blocked Bloom filter. A lookup answers "certainly absent" or "possibly present" and reads one cache line.
 *
 * The filter has `blocks` blocks of 64 bytes, aligned to 64. The high bits of the hash select the block. A key sets one
 * bit in each of the block's eight words (F. Putze, P. Sanders, J. Singler, Cache-, Hash- and Space-Efficient Bloom
 * Filters, 2007). At 12 bits per key about 0.5 % of the absent keys look present. The hash must be a well-mixed 64-bit
 * hash. */
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

/* Adds a key while other threads read the filter (index_keys.c). On x86-64 a relaxed load is as cheap as a plain load.
 */
static inline void bloom_add(uint64_t *bloom, uint64_t blocks, uint64_t hash) {
    uint64_t *block = bloom_block(bloom, blocks, hash), bits = bloom_bits(hash);
    for (unsigned i = 0; i < 8; i++) {
        uint64_t bit = 1ull << (bits >> (6 * i) & 63);
        if (!(__atomic_load_n(&block[i], __ATOMIC_RELAXED) & bit)) __atomic_fetch_or(&block[i], bit, __ATOMIC_RELAXED);
    }
}

/* Adds a key to a block that the caller selected; `bits` comes from bloom_bits. No other thread may read the block
 * meanwhile. */
static inline void bloom_block_fill(uint64_t block[8], uint64_t bits) {
    for (unsigned i = 0; i < 8; i++) block[i] |= 1ull << (bits >> (6 * i) & 63);
}

/* The bits that a key sets in its block; the same in every filter. Made by bloom_mask from the result of bloom_bits. */
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

/* Adds a key. No other thread may read the filter meanwhile. */
static inline void bloom_fill(uint64_t *bloom, uint64_t blocks, uint64_t hash) {
    bloom_block_fill(bloom_block(bloom, blocks, hash), bloom_bits(hash));
}

static inline bool bloom_has(const uint64_t *bloom, uint64_t blocks, uint64_t hash) {
    return bloom_block_has(bloom_block((uint64_t *)bloom, blocks, hash), bloom_bits(hash));
}

#endif
