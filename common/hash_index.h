/* hash_index.h: a hash table that finds the items of an array by a hash of their keys. The table uses open addressing
 * with linear probing, is at most half full, and stores item numbers: 1 + the index in the array. The table stores each
 * hash, so it grows without computing hashes again, and the caller compares only items with an equal hash. Single items
 * cannot be removed; hash_index_clear removes all. Not thread-safe.
 *
 * A lookup calls hash_index_next repeatedly, and compares the key of each item that it returns (see batch_find in
 * storage/index/index_absorb.c). */
#ifndef TARRY_COMMON_HASH_INDEX_H
#define TARRY_COMMON_HASH_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define HASH_INDEX_SLOTS_MIN 8u

struct hash_index { /* zeroed: empty */
    struct hash_index_slot {
        uint32_t hash;
        uint32_t number; /* 0: free */
    } * slots;
    size_t capacity; /* number of slots, a power of two; 0: the table is empty */
    size_t count;
};

/* Mixes the bits of a number. Returns the high half of a product, because its bits depend on all bits of `value`. */
static inline uint32_t hash_index_mix(uint64_t value) {
    return (uint32_t)((value * UINT64_C(0x9E3779B97F4A7C15)) >> 32);
}

/* Returns the number of the next item with this hash; 0: no more. The caller sets `*at` to `hash` before the first
 * call. */
static inline uint32_t hash_index_next(const struct hash_index *index, uint32_t hash, size_t *at) {
    while (index->capacity != 0) {
        const struct hash_index_slot *slot = &index->slots[(*at)++ & (index->capacity - 1)];
        if (slot->number == 0 || slot->hash == hash) return slot->number;
    }
    return 0;
}

static inline void hash_index_place(struct hash_index *index, uint32_t hash, uint32_t number) {
    size_t at = hash & (index->capacity - 1);
    while (index->slots[at].number != 0) at = (at + 1) & (index->capacity - 1);
    index->slots[at] = (struct hash_index_slot){hash, number};
}

/* Adds an item that is not in the table yet. False: out of memory; the table is unchanged. */
static inline bool hash_index_add(struct hash_index *index, uint32_t hash, uint32_t number) {
    if ((index->count + 1) * 2 > index->capacity) {
        struct hash_index grown = {.capacity = index->capacity == 0 ? HASH_INDEX_SLOTS_MIN : index->capacity * 2};
        grown.slots = (struct hash_index_slot *)calloc(grown.capacity, sizeof(struct hash_index_slot));
        if (grown.slots == NULL) return false;
        for (size_t i = 0; i < index->capacity; i++)
            if (index->slots[i].number != 0) hash_index_place(&grown, index->slots[i].hash, index->slots[i].number);
        free(index->slots);
        index->slots = grown.slots;
        index->capacity = grown.capacity;
    }
    hash_index_place(index, hash, number);
    index->count++;
    return true;
}

/* Removes all items and keeps the memory. */
static inline void hash_index_clear(struct hash_index *index) {
    if (index->count > 0) memset(index->slots, 0, index->capacity * sizeof(struct hash_index_slot));
    index->count = 0;
}

static inline void hash_index_deinit(struct hash_index *index) {
    free(index->slots);
    *index = (struct hash_index){0};
}

static inline size_t hash_index_bytes(const struct hash_index *index) {
    return index->capacity * sizeof(struct hash_index_slot);
}

#endif
