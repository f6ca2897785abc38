/* arena_test.c: limits, alignment, reuse, and unpacking into an arena. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../random.h"
#include "arena.h"
#include "tarry.pb-c.h"

static void what_is_handed_out_is_aligned_and_apart(void **state) {
    (void)state;
    enum { COUNT = 4000 };
    struct random random = {random_seed(1)};
    struct arena arena;
    arena_init(&arena, 16u << 20);
    for (int round = 0; round < 5; round++) {
        static uint8_t *at[COUNT];
        static size_t size[COUNT];
        for (int i = 0; i < COUNT; i++) {
            size[i] = random_magnitude(&random, 13);
            at[i] = arena_alloc(&arena, size[i]);
            assert_non_null(at[i]);
            assert_int_equal((uintptr_t)at[i] % 16, 0);
            memset(at[i], i & 0xff, size[i]);
        }
        for (int i = 0; i < COUNT; i++)
            for (size_t k = 0; k < size[i]; k++) assert_int_equal(at[i][k], i & 0xff);
        arena_reset(&arena);
        assert_int_equal(arena.used, 0);
    }
    arena_deinit(&arena);
}

static void the_limit_holds_to_the_byte(void **state) { /* CALM-1 */
    (void)state;
    struct arena arena;
    arena_init(&arena, 1000);
    assert_null(arena_alloc(&arena, 1001));
    assert_null(arena_alloc(&arena, SIZE_MAX));
    assert_null(arena_alloc(&arena, SIZE_MAX - 7));
    assert_null(arena_alloc(&arena, 1000)); /* the arena rounds 1,000 bytes up to 1,008, which do not fit */
    assert_non_null(arena_alloc(&arena, 992));
    assert_null(arena_alloc(&arena, 0)); /* even an allocation of 0 bytes takes 16 bytes of the arena */
    assert_int_equal(arena.used, 992);
    arena_reset(&arena);
    for (int i = 0; i < 62; i++) assert_non_null(arena_alloc(&arena, i % 2));
    assert_null(arena_alloc(&arena, 1));
    arena_deinit(&arena);
    arena_deinit(&arena);
}

static void the_first_block_is_kept(void **state) {
    (void)state;
    struct arena arena;
    arena_init(&arena, 64u << 20);
    arena_reset(&arena); /* the arena is empty */
    void *first = arena_alloc(&arena, 64);
    assert_non_null(arena_alloc(&arena, 8u << 20)); /* an allocation larger than any block */
    assert_non_null(arena_alloc(&arena, 8u << 20));
    arena_reset(&arena);
    assert_ptr_equal(arena_alloc(&arena, 64), first);
    arena_deinit(&arena);
}

/* The linker replaces malloc and free by these: they count the blocks. */
static int blocks;

void *__real_malloc(size_t size);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void __wrap_free(void *memory);

void *__wrap_malloc(size_t size) {
    blocks++;
    return __real_malloc(size);
}

void __wrap_free(void *memory) {
    if (memory != NULL) blocks--;
    __real_free(memory);
}

static void each_block_is_twice_as_large_as_the_one_before(void **state) {
    (void)state;
    struct arena arena;
    const int before = blocks;
    arena_init(&arena, 64u << 20);
    for (size_t used = 0; used < 40u << 20; used += 64u << 10) assert_non_null(arena_alloc(&arena, 64u << 10));
    size_t size = arena.first->size;
    for (const struct arena_block *block = arena.first; block != NULL; block = block->next) {
        assert_int_equal(block->size, size);
        if (size < 4u << 20) size *= 2;
    }
    assert_int_equal(size, 4u << 20);
    assert_true(blocks - before > 10);
    arena_reset(&arena);
    assert_int_equal(blocks - before, 1); /* after a reset the arena still has its first block */
    arena_deinit(&arena);
    assert_int_equal(blocks, before);
}

/* With keep_max, every round gets the same memory. A block that is too small for an allocation is skipped. */
static void blocks_are_kept_up_to_keep_max(void **state) {
    (void)state;
    struct arena arena;
    arena_init(&arena, 64u << 20);
    arena.keep_max = 4u << 20;
    static const size_t sizes[] = {100u << 10, 400u << 10, 900u << 10, 3u << 20};
    void *before[4] = {NULL};
    for (int round = 0; round < 4; round++) {
        for (size_t i = 0; i < 4; i++) {
            uint8_t *at = arena_alloc(&arena, sizes[i]);
            assert_non_null(at);
            memset(at, round, sizes[i]);
            /* The last block would exceed keep_max, so it is not kept. */
            if (round > 0 && i < 3) assert_ptr_equal(at, before[i]);
            before[i] = at;
        }
        arena_reset(&arena);
        assert_int_equal(arena.used, 0);
    }
    uint8_t *large = arena_alloc(&arena, 900u << 10), *small = arena_alloc(&arena, 16);
    assert_ptr_equal(large, before[2]);
    assert_true(small >= large + (900u << 10));
    arena_deinit(&arena);
}

/* A rewind frees the memory since the mark, so that the next allocation gets it again. */
static void what_was_handed_out_since_a_mark_is_taken_back(void **state) {
    (void)state;
    struct random random = {random_seed(2)};
    for (int round = 0; round < 200; round++) {
        struct arena arena;
        arena_init(&arena, 64u << 20);
        size_t before = (size_t)random_below(&random, 3);
        for (size_t i = 0; i < before; i++) assert_non_null(arena_alloc(&arena, random_magnitude(&random, 19)));
        const struct arena_mark mark = arena_mark(&arena);
        const size_t used = arena.used;
        uint8_t *first = arena_alloc(&arena, 100);
        memset(first, 1, 100);
        for (size_t i = random_below(&random, 5); i > 0; i--) memset(arena_alloc(&arena, 1u << 18), 2, 1u << 18);
        arena_rewind(&arena, mark);
        assert_int_equal(arena.used, used);
        assert_ptr_equal(arena_alloc(&arena, 100), first);
        for (size_t i = 0; i < 5; i++) memset(arena_alloc(&arena, 1u << 18), 3, 1u << 18);
        for (size_t i = 0; i < 100; i++)
            assert_int_equal(first[i], 1); /* the memory still has its value, so later allocations did not return it */
        arena_deinit(&arena);
    }
}

/* If the message is truncated anywhere, or the arena is too small, unpacking fails and changes nothing else. */
static void unpacking_is_bounded(void **state) { /* F-20, CALM-1 */
    (void)state;
    Tarry__Ref ref = TARRY__REF__INIT;
    ref.id = 7;
    Tarry__Cancel cancel = TARRY__CANCEL__INIT;
    cancel.task = &ref;
    Tarry__Op op = TARRY__OP__INIT, *ops[500];
    op.op_case = TARRY__OP__OP_CANCEL;
    op.cancel = &cancel;
    for (size_t i = 0; i < 500; i++) ops[i] = &op;
    Tarry__Commit commit = TARRY__COMMIT__INIT;
    commit.ops = ops;
    commit.n_ops = 500;
    uint8_t packed[8000];
    size_t size = tarry__commit__get_packed_size(&commit);
    assert_true(size <= sizeof(packed));
    tarry__commit__pack(&commit, packed);
    struct arena arena;
    size_t needed = 0;
    arena_init(&arena, 1u << 20);
    Tarry__Commit *got = tarry__commit__unpack(&arena.pb, size, packed);
    assert_non_null(got);
    assert_int_equal(got->n_ops, 500);
    assert_int_equal(got->ops[499]->cancel->task->id, 7);
    needed = arena.used;
    arena_deinit(&arena);
    for (size_t size_max = 0; size_max < needed; size_max += 97) {
        arena_init(&arena, size_max);
        assert_null(tarry__commit__unpack(&arena.pb, size, packed));
        assert_true(arena.used <= size_max);
        arena_deinit(&arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_handed_out_is_aligned_and_apart),
        cmocka_unit_test(the_limit_holds_to_the_byte),
        cmocka_unit_test(the_first_block_is_kept),
        cmocka_unit_test(each_block_is_twice_as_large_as_the_one_before),
        cmocka_unit_test(blocks_are_kept_up_to_keep_max),
        cmocka_unit_test(what_was_handed_out_since_a_mark_is_taken_back),
        cmocka_unit_test(unpacking_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
