/* slots.h: slot of an id, or of the hash of a key, in a hash table. Pure.
 *
 * Tasks with consecutive ids are usually created, become due and end at about the same time. So 64 consecutive ids
 * share 8 cache lines of the table, and most look-ups hit the CPU cache. When ids were spread over the whole table,
 * cache misses cost 300 ns per task. The higher bits of the id choose the group of 64 slots and the order of the ids
 * within the group. So ids with a step of 64, as in one of many queues, do not collide in the same slots. */
#ifndef TARRY_CORE_SLOTS_H
#define TARRY_CORE_SLOTS_H

#include <stdint.h>

/* Returns the slot of an id. `mask`: number of slots - 1; the number is a power of two, at most 2^32. */
static inline uint64_t id_slot(uint64_t id, uint64_t mask) {
    return (((id >> 6) * 0x9E3779B97F4A7C15ull >> 32) ^ (id & 63)) & mask;
}

/* Returns the slot of a hash. Clients choose keys and queue names and know the hash function. Without the secret odd
 * salt they could choose many names for one slot (M. Dietzfelbinger et al., A Reliable Randomized Algorithm for the
 * Closest-Pair Problem, 1997: multiply-shift). */
static inline uint64_t hash_slot(uint64_t hash, uint64_t salt, uint64_t mask) {
    return (hash * salt >> 32) & mask;
}

#endif
