/* content_hash.c: see content_hash.h. BLAKE2b is libsodium's; the lanes are RFC 7693's compression four times side by
 * side, held to libsodium by tests/property/content_hash_test.c. Of contents that take equally many blocks alone, so
 * that all lanes end together. */
#include "content_hash.h"

#include <assert.h>
#include <sodium.h>
#include <stdbool.h>
#include <string.h>

#include "bytes.h"

void content_hash(const void *blob, size_t size, uint8_t out[CONTENT_HASH_SIZE]) {
    int failed = crypto_generichash(out, CONTENT_HASH_SIZE, blob, size, NULL, 0);
    assert(failed == 0);
}

#define BLOCK_SIZE 128u
#define BLOCK_WORDS 16
#define STATE_WORDS 8

#ifdef __x86_64__

typedef uint64_t lanes __attribute__((vector_size(8 * CONTENT_HASH_LANES)));

static const uint64_t initial[STATE_WORDS] = {0x6a09e667f3bcc908u, 0xbb67ae8584caa73bu, 0x3c6ef372fe94f82bu,
                                              0xa54ff53a5f1d36f1u, 0x510e527fade682d1u, 0x9b05688c2b3e6c1fu,
                                              0x1f83d9abfb41bd6bu, 0x5be0cd19137e2179u};
/* No key, one leaf, a hash of 32 bytes. */
#define PARAMETERS (0x01010000u ^ CONTENT_HASH_SIZE)

#define EVERY                                                                                                          \
    static inline __attribute__((always_inline)) /* it becomes part of a function for one kind of processor            \
                                                  */

/* No functions: a vector is no argument where the processor may lack it. */
#define ALL(value) ((lanes){(value), (value), (value), (value)})
#define TURNED(value, bits) ((value) >> (bits) | (value) << (64 - (bits)))

#define MIX(a, b, c, d, x, y)                                                                                          \
    do {                                                                                                               \
        (a) += (b) + (x), (d) = TURNED((d) ^ (a), 32);                                                                 \
        (c) += (d), (b) = TURNED((b) ^ (c), 24);                                                                       \
        (a) += (b) + (y), (d) = TURNED((d) ^ (a), 16);                                                                 \
        (c) += (d), (b) = TURNED((b) ^ (c), 63);                                                                       \
    } while (0)

#define ROUND(v, m, s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, sa, sb, sc, sd, se, sf)                                    \
    do {                                                                                                               \
        MIX((v)[0], (v)[4], (v)[8], (v)[12], (m)[s0], (m)[s1]);                                                        \
        MIX((v)[1], (v)[5], (v)[9], (v)[13], (m)[s2], (m)[s3]);                                                        \
        MIX((v)[2], (v)[6], (v)[10], (v)[14], (m)[s4], (m)[s5]);                                                       \
        MIX((v)[3], (v)[7], (v)[11], (v)[15], (m)[s6], (m)[s7]);                                                       \
        MIX((v)[0], (v)[5], (v)[10], (v)[15], (m)[s8], (m)[s9]);                                                       \
        MIX((v)[1], (v)[6], (v)[11], (v)[12], (m)[sa], (m)[sb]);                                                       \
        MIX((v)[2], (v)[7], (v)[8], (v)[13], (m)[sc], (m)[sd]);                                                        \
        MIX((v)[3], (v)[4], (v)[9], (v)[14], (m)[se], (m)[sf]);                                                        \
    } while (0)

/* `message`: word by word of each lane's block; `sizes`: bytes hashed, these included. */
EVERY void compress(lanes state[STATE_WORDS], const lanes message[BLOCK_WORDS], const lanes *sizes, bool is_last) {
    lanes v[2 * STATE_WORDS];
    for (int i = 0; i < STATE_WORDS; i++) {
        v[i] = state[i];
        v[STATE_WORDS + i] = ALL(initial[i]);
    }
    v[12] ^= *sizes;
    if (is_last) v[14] = ~v[14];
    ROUND(v, message, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    ROUND(v, message, 14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3);
    ROUND(v, message, 11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4);
    ROUND(v, message, 7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8);
    ROUND(v, message, 9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13);
    ROUND(v, message, 2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9);
    ROUND(v, message, 12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11);
    ROUND(v, message, 13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10);
    ROUND(v, message, 6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5);
    ROUND(v, message, 10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0);
    ROUND(v, message, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    ROUND(v, message, 14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3);
    for (int i = 0; i < STATE_WORDS; i++) state[i] ^= v[i] ^ v[STATE_WORDS + i];
}

/* The block of a job that begins at `at`, padded with zeros in `room` if it is not whole; *out_size: what is hashed
 * then. */
static const uint8_t *block_of(const struct content_hash_job *job, size_t at, uint8_t room[BLOCK_SIZE],
                               uint64_t *out_size) {
    const size_t left = job->size - at;
    *out_size = left < BLOCK_SIZE ? job->size : at + BLOCK_SIZE;
    if (left >= BLOCK_SIZE) return job->blob + at;
    memcpy(room, job->blob + at, left);
    memset(room + left, 0, BLOCK_SIZE - left);
    return room;
}

/* All take `blocks` blocks. */
EVERY void hash_lanes(const struct content_hash_job jobs[CONTENT_HASH_LANES], size_t blocks) {
    uint8_t room[CONTENT_HASH_LANES][BLOCK_SIZE];
    lanes state[STATE_WORDS], message[BLOCK_WORDS];
    for (int i = 0; i < STATE_WORDS; i++) state[i] = ALL(initial[i]);
    state[0] ^= ALL((uint64_t)PARAMETERS);
    for (size_t block = 0; block < blocks; block++) {
        const uint8_t *from[CONTENT_HASH_LANES];
        uint64_t sizes[CONTENT_HASH_LANES];
        for (size_t lane = 0; lane < CONTENT_HASH_LANES; lane++)
            from[lane] = block_of(&jobs[lane], block * BLOCK_SIZE, room[lane], &sizes[lane]);
        for (size_t word = 0; word < BLOCK_WORDS; word++)
            message[word] = (lanes){get_u64(from[0] + 8 * word), get_u64(from[1] + 8 * word),
                                    get_u64(from[2] + 8 * word), get_u64(from[3] + 8 * word)};
        const lanes hashed = {sizes[0], sizes[1], sizes[2], sizes[3]};
        compress(state, message, &hashed, block + 1 == blocks);
    }
    for (size_t lane = 0; lane < CONTENT_HASH_LANES; lane++)
        for (size_t word = 0; word < CONTENT_HASH_SIZE / 8; word++)
            put_u64(jobs[lane].out + 8 * word, state[word][lane]);
}

__attribute__((target("avx2"))) static void hash_avx2(const struct content_hash_job *jobs, size_t blocks) {
    hash_lanes(jobs, blocks);
}

__attribute__((target("avx2,avx512f,avx512vl"))) static void hash_avx512(const struct content_hash_job *jobs,
                                                                         size_t blocks) {
    hash_lanes(jobs, blocks);
}

#ifndef CONTENT_HASH_AVX512
#define CONTENT_HASH_AVX512 1 /* 0: a test of what processors without it use */
#endif

/* False: this processor has no such vectors. */
static bool hash_together(const struct content_hash_job *jobs, size_t blocks) {
    if (CONTENT_HASH_AVX512 && __builtin_cpu_supports("avx512vl")) {
        hash_avx512(jobs, blocks);
        return true;
    }
    if (!__builtin_cpu_supports("avx2")) return false;
    hash_avx2(jobs, blocks);
    return true;
}

#else

static bool hash_together(const struct content_hash_job *jobs, size_t blocks) {
    (void)jobs;
    (void)blocks;
    return false;
}

#endif

static void hash_apart(const struct content_hash_job *jobs, size_t count) {
    for (size_t i = 0; i < count; i++) content_hash(jobs[i].blob, jobs[i].size, jobs[i].out);
}

void content_hashes_add(struct content_hashes *hashes, const void *blob, size_t size, uint8_t out[CONTENT_HASH_SIZE]) {
    const struct content_hash_job job = {blob, size, out};
    const size_t blocks = (size + BLOCK_SIZE - 1) / BLOCK_SIZE;
    if (blocks == 0 || blocks > CONTENT_HASH_BLOCKS_MAX) {
        hash_apart(&job, 1);
        return;
    }
    struct content_hash_job *waiting = hashes->waiting[blocks - 1];
    unsigned *count = &hashes->count[blocks - 1];
    waiting[(*count)++] = job;
    if (*count < CONTENT_HASH_LANES) return;
    if (!hash_together(waiting, blocks)) hash_apart(waiting, *count);
    *count = 0;
}

void content_hashes_end(struct content_hashes *hashes) {
    for (size_t i = 0; i < CONTENT_HASH_BLOCKS_MAX; i++) {
        hash_apart(hashes->waiting[i], hashes->count[i]);
        hashes->count[i] = 0;
    }
}
