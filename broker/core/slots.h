/* slots.h: where an id, or a hash of a key, hangs in a hash table. Pure.
 *
 * Ids that follow each other come into being, fall due and end at about the same time. So 64 of them share 8 lines of
 * the table, and what is looked up finds its slot in the cache (spread over all of it, each look-up waited for memory:
 * 300 ns a life). Where those 64 lie, and in which order, the other bits decide: ids that leave out all but each 64th,
 * as of one of many queues, do not meet in the same slots. */
#ifndef TARRY_CORE_SLOTS_H
#define TARRY_CORE_SLOTS_H

#include <stdint.h>

/* `mask`: slots - 1, of a power of two up to 2^32. */
static inline uint64_t id_slot(uint64_t id, uint64_t mask) {
    return (((id >> 6) * 0x9E3779B97F4A7C15ull >> 32) ^ (id & 63)) & mask;
}

/* Clients choose keys and names of queues, and know how they are hashed: without the salt, which is odd and secret,
 * they would choose very many that hang in one slot (M. Dietzfelbinger et al., A Reliable Randomized Algorithm for the
 * Closest-Pair Problem, 1997: multiply-shift). */
static inline uint64_t hash_slot(uint64_t hash, uint64_t salt, uint64_t mask) {
    return (hash * salt >> 32) & mask;
}

#endif
