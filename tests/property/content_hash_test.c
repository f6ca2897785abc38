/* content_hash_test.c: contents hashed together have the hashes that libsodium gives each alone: of any sizes, in any
 * order, as many as there are lanes, more and fewer; and no byte beside a hash is written. TARRY_SEED seeds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sodium.h>

#include "../random.h"
#include "content_hash.h"

#define ROUNDS 4000
#define TOGETHER_MAX 40
#define SIZE_MAX_DRAWN (128 * (CONTENT_HASH_BLOCKS_MAX + 2))
#define GUARD 0xa5

static struct random random_state;

struct content {
    uint8_t *bytes; /* of its own, so that ASan sees a read beyond it */
    size_t size;
    uint8_t hash[1 + CONTENT_HASH_SIZE + 1]; /* guarded */
};

static size_t random_size(int round) {
    if (round % 4 == 0)
        return 128 * (size_t)random_below(&random_state, CONTENT_HASH_BLOCKS_MAX + 2); /* to the block */
    return (size_t)random_below(&random_state, round % 4 == 1 ? 200 : SIZE_MAX_DRAWN);
}

static void make(struct content *content, size_t size) {
    content->size = size;
    content->bytes = malloc(size + (size == 0));
    assert_non_null(content->bytes);
    for (size_t i = 0; i < size; i++) content->bytes[i] = (uint8_t)random_u64(&random_state);
    memset(content->hash, GUARD, sizeof(content->hash));
}

static void check(struct content *content) {
    uint8_t expected[CONTENT_HASH_SIZE];
    assert_int_equal(crypto_generichash(expected, sizeof(expected), content->bytes, content->size, NULL, 0), 0);
    assert_memory_equal(content->hash + 1, expected, sizeof(expected));
    assert_int_equal(content->hash[0], GUARD);
    assert_int_equal(content->hash[sizeof(content->hash) - 1], GUARD);
    free(content->bytes);
}

static void together_is_as_alone(void **state) {
    static struct content contents[TOGETHER_MAX];
    (void)state;
    random_state.state = random_seed(1);
    for (int round = 0; round < ROUNDS; round++) {
        struct content_hashes hashes = {0};
        const size_t count = (size_t)random_below(&random_state, TOGETHER_MAX + 1);
        for (size_t i = 0; i < count; i++) {
            make(&contents[i], random_size(round));
            content_hashes_add(&hashes, contents[i].bytes, contents[i].size, contents[i].hash + 1);
        }
        content_hashes_end(&hashes);
        for (size_t i = 0; i < count; i++) check(&contents[i]);
    }
}

int main(void) {
    if (sodium_init() < 0) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(together_is_as_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
