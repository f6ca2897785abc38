/* hash_index_test.c: a lookup by hash finds every item with this hash, also if several items have it, and finds no
 * other item. */
#include "hash_index.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "../random.h"

#define ITEMS 5000

static uint64_t items[ITEMS];
static uint32_t hashes[ITEMS];

/* Returns the item's number; 0: not found. `*looked`: number of compared items. */
static uint32_t find(const struct hash_index *index, uint32_t hash, uint64_t item, size_t *looked) {
    uint32_t number;
    *looked = 0;
    for (size_t at = hash; (number = hash_index_next(index, hash, &at)) != 0;) {
        ++*looked;
        if (items[number - 1] == item) break;
    }
    return number;
}

/* Fills the table. `spread`: number of different hashes in it. */
static void fill(struct hash_index *index, struct random *random, uint32_t spread) {
    size_t looked;
    for (uint32_t i = 0; i < ITEMS; i++) {
        items[i] = random_u64(random) | 1;
        hashes[i] = hash_index_mix(items[i]) % spread;
        assert_int_equal(find(index, hashes[i], items[i], &looked), 0);
        assert_true(hash_index_add(index, hashes[i], i + 1));
        assert_true(index->count * 2 <= index->capacity);
    }
    for (uint32_t i = 0; i < ITEMS; i++) assert_int_equal(find(index, hashes[i], items[i], &looked), i + 1);
    assert_int_equal(find(index, hashes[0], 0, &looked), 0);
}

static void what_was_added_is_found(void **state) {
    (void)state;
    struct hash_index index = {0};
    struct random random = {5};
    size_t looked;
    assert_int_equal(find(&index, 7, 1, &looked), 0);
    hash_index_clear(&index);
    fill(&index, &random, UINT32_MAX);
    size_t capacity = index.capacity;
    hash_index_clear(&index);
    assert_int_equal(find(&index, hashes[0], items[0], &looked), 0);
    fill(&index, &random, UINT32_MAX);
    assert_int_equal(index.capacity, capacity);
    assert_int_equal(hash_index_bytes(&index), capacity * 8);
    hash_index_deinit(&index);
    assert_int_equal(find(&index, hashes[0], items[0], &looked), 0);
}

static void equal_hashes_are_told_apart(void **state) {
    (void)state;
    struct hash_index index = {0};
    struct random random = {6};
    fill(&index, &random, 97);
    hash_index_deinit(&index);
}

/* Neighbouring entries of the table have other hashes. They are skipped without a comparison of items. */
static void only_equal_hashes_are_looked_at(void **state) {
    (void)state;
    struct hash_index index = {0};
    size_t looked;
    for (uint32_t i = 0; i < 3; i++) {
        items[i] = i + 1;
        assert_true(hash_index_add(&index, 1 + i * 1024, i + 1));
    }
    assert_int_equal(find(&index, 1 + 2 * 1024, 3, &looked), 3);
    assert_int_equal(looked, 1);
    hash_index_deinit(&index);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_added_is_found),
        cmocka_unit_test(equal_hashes_are_told_apart),
        cmocka_unit_test(only_equal_hashes_are_looked_at),
    };
    return cmocka_run_group_tests_name("hash_index", tests, NULL, NULL);
}
