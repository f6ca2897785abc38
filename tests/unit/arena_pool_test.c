/* arena_pool_test.c: the pool returns the arena that was given back last, and keeps at most a fixed number of arenas
 * (CALM-1). */
#include "arena_pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SIZE_LIMIT (64u << 10)
#define KEPT (16u << 10)
#define IDLE 2

static int setup(void **state) {
    static struct arena_pool pool;
    arena_pool_init(&pool, SIZE_LIMIT, KEPT, IDLE);
    *state = &pool;
    return 0;
}

static int teardown(void **state) {
    arena_pool_deinit(*state);
    return 0;
}

static void each_taker_has_one_of_its_own_and_it_is_bounded(void **state) {
    struct arena_pool *pool = *state;
    struct pooled_arena *first = arena_pool_take(pool), *second = arena_pool_take(pool);
    assert_ptr_not_equal(first, second);
    assert_non_null(arena_alloc(&first->arena, SIZE_LIMIT / 2));
    assert_null(arena_alloc(&first->arena, SIZE_LIMIT));
    assert_int_equal(first->arena.keep_max, KEPT);
    assert_int_equal(second->arena.used, 0);
    arena_pool_give(pool, first);
    arena_pool_give(pool, second);
}

static void the_last_that_was_given_back_is_taken_first_and_is_empty(void **state) {
    struct arena_pool *pool = *state;
    struct pooled_arena *first = arena_pool_take(pool), *second = arena_pool_take(pool);
    assert_non_null(arena_alloc(&second->arena, 100));
    arena_pool_give(pool, first);
    arena_pool_give(pool, second);
    assert_int_equal(pool->idle_count, 2);
    assert_ptr_equal(arena_pool_take(pool), second);
    assert_int_equal(second->arena.used, 0);
    assert_int_equal(pool->idle_count, 1);
    assert_ptr_equal(arena_pool_take(pool), first);
    assert_int_equal(pool->idle_count, 0);
    assert_null(pool->idle);
    struct pooled_arena *third = arena_pool_take(pool); /* the pool is empty, so it makes a new arena */
    assert_ptr_not_equal(third, first);
    assert_ptr_not_equal(third, second);
    arena_pool_give(pool, first);
    arena_pool_give(pool, second);
    arena_pool_give(pool, third);
}

static void no_more_are_kept_than_may_be(void **state) { /* CALM-1 */
    struct arena_pool *pool = *state;
    for (int round = 0; round < 3; round++) { /* in every round, the pool keeps the same number of arenas */
        struct pooled_arena *taken[IDLE + 2];
        for (int i = 0; i < IDLE + 2; i++) taken[i] = arena_pool_take(pool);
        for (int i = 0; i < IDLE + 2; i++) arena_pool_give(pool, taken[i]);
        assert_int_equal(pool->idle_count, IDLE);
        assert_ptr_equal(pool->idle, taken[IDLE - 1]);
        assert_ptr_equal(pool->idle->next, taken[0]);
        assert_null(pool->idle->next->next);
    }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(each_taker_has_one_of_its_own_and_it_is_bounded),
        TEST(the_last_that_was_given_back_is_taken_first_and_is_empty),
        TEST(no_more_are_kept_than_may_be),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
