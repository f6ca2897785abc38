/* random.h: seeded random numbers for tests (splitmix64, after Vigna). A test's behaviour follows from its seed
 * alone. */
#ifndef TARRY_TESTS_RANDOM_H
#define TARRY_TESTS_RANDOM_H

#include <stdint.h>
#include <stdlib.h>

struct random {
    uint64_t state;
};

static inline uint64_t random_u64(struct random *random) {
    uint64_t z = random->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Returns a number from 0 to below - 1. */
static inline uint64_t random_below(struct random *random, uint64_t below) {
    return random_u64(random) % below;
}

/* Returns a number from 0 to 2^bits - 1; every magnitude is equally likely. */
static inline uint64_t random_magnitude(struct random *random, unsigned bits) {
    unsigned shift = (unsigned)random_below(random, bits + 1);
    return shift == 0 ? 0 : random_u64(random) >> (64 - shift);
}

/* TARRY_SEED in the environment, or `otherwise`. */
static inline uint64_t random_seed(uint64_t otherwise) {
    const char *text = getenv("TARRY_SEED");
    return text != NULL ? strtoull(text, NULL, 0) : otherwise;
}

#endif
