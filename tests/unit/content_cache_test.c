/* content_cache_test.c: the cache returns exactly what was put there, or nothing (CALM-1, KEEP-1). */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../random.h"
#include "content_cache.h"

#define MEMORY ((size_t)512 << 10)

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);

/* Number of locks that the current thread holds; number of times that it has taken a lock. */
static _Thread_local int held, taken;

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex) {
    held++;
    taken++;
    return __real_pthread_mutex_lock(mutex);
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex) {
    assert_int_equal(held--, 1);
    return __real_pthread_mutex_unlock(mutex);
}

struct fx {
    struct content_cache *cache;
    struct arena arena;
};

static int begin(void **state) {
    static struct fx fx;
    fx.cache = content_cache_new(MEMORY);
    arena_init(&fx.arena, 1u << 20);
    *state = &fx;
    return fx.cache != NULL ? 0 : -1;
}

static int end(void **state) {
    struct fx *f = *state;
    content_cache_free(f->cache);
    arena_deinit(&f->arena);
    return 0;
}

/* Makes the content of a task. Each id has different bytes. */
static size_t make(uint64_t id, size_t size, uint8_t *out) {
    for (size_t i = 0; i < size; i++) out[i] = (uint8_t)(id * 31 + i);
    return size;
}

static void put(struct fx *f, uint64_t id, size_t size) {
    uint8_t bytes[CONTENT_CACHE_SIZE_MAX + 1];
    const struct content_put one = {.id = id, .bytes = bytes, .size = make(id, size, bytes)};
    content_cache_put(f->cache, &one, 1);
}

static void forget(struct fx *f, uint64_t id) {
    content_cache_forget(f->cache, &id, 1);
}

/* Returns whether the cache has the content of this id. */
static bool is_there(struct content_cache *cache, struct arena *arena, uint64_t id, size_t size) {
    uint8_t bytes[CONTENT_CACHE_SIZE_MAX];
    void *found;
    size_t found_size;
    arena_reset(arena);
    int result = content_cache_get(cache, id, arena, &found, &found_size);
    if (result != 0) {
        assert_int_equal(result, 1);
        return false;
    }
    assert_int_equal(found_size, make(id, size, bytes));
    assert_memory_equal(found, bytes, size);
    return true;
}

static bool has(struct fx *f, uint64_t id, size_t size) {
    return is_there(f->cache, &f->arena, id, size);
}

static void what_is_put_is_found_until_it_is_forgotten(void **state) {
    struct fx *f = *state;
    static const size_t sizes[] = {0, 1, 16, 144, CONTENT_CACHE_SIZE_MAX};
    for (uint64_t id = 1; id <= 200; id++) put(f, id, sizes[id % 5]);
    for (uint64_t id = 1; id <= 200; id++) assert_true(has(f, id, sizes[id % 5]));
    for (uint64_t id = 1; id <= 200; id += 2) forget(f, id);
    forget(f, 3); /* the content was dropped already, so this has no effect */
    for (uint64_t id = 1; id <= 200; id++) assert_int_equal(has(f, id, sizes[id % 5]), id % 2 == 0);
    for (uint64_t id = 2; id <= 200; id += 2) forget(f, id);
    assert_int_equal(content_cache_bytes(f->cache), 0);
}

static void many_are_forgotten_at_once(void **state) {
    struct fx *f = *state;
    uint64_t ids[100];
    for (size_t count = 0; count <= 100; count++) {
        for (uint64_t id = 1; id <= 110; id++) put(f, id, 50);
        /* The numbers are a permutation, so no id occurs twice. */
        for (uint64_t i = 0; i < count; i++) ids[i] = 1 + (i * 7 + count) % 101;
        content_cache_forget(f->cache, ids, count);
        size_t left = 0;
        for (uint64_t id = 1; id <= 110; id++) left += has(f, id, 50);
        assert_int_equal(left, 110 - count);
        for (size_t i = 0; i < count; i++) assert_false(has(f, ids[i], 50));
    }
}

static void many_are_put_at_once(void **state) {
    struct fx *f = *state;
    static uint8_t bytes[100][CONTENT_CACHE_SIZE_MAX + 1];
    struct content_put puts[100];
    uint64_t ids[100];
    for (uint64_t i = 0; i < 100; i++) {
        ids[i] = i % 10 == 9 ? i : 1 + i; /* every tenth id repeats the one before */
        size_t size = i % 7 == 0 ? CONTENT_CACHE_SIZE_MAX + 1 : 40;
        puts[i] = (struct content_put){.id = ids[i], .bytes = bytes[i], .size = make(ids[i], size, bytes[i])};
    }
    content_cache_put(f->cache, puts, 0);
    assert_int_equal(content_cache_bytes(f->cache), 0);
    content_cache_put(f->cache, puts, 100);
    content_cache_prefetch(f->cache, ids, 100); /* the ids include some that are not cached */
    for (uint64_t i = 0; i < 100; i++) {
        bool fits = i % 7 != 0 || (i % 10 == 9 && (i - 1) % 7 != 0) || (i % 10 == 8 && (i + 1) % 7 != 0);
        assert_int_equal(has(f, ids[i], 40), fits);
    }
    for (uint64_t i = 0; i < 100; i++) forget(f, ids[i]);
    assert_int_equal(content_cache_bytes(f->cache), 0);
}

static void a_content_that_is_too_large_is_not_kept(void **state) {
    struct fx *f = *state;
    put(f, 1, CONTENT_CACHE_SIZE_MAX + 1);
    assert_false(has(f, 1, 0));
    assert_int_equal(content_cache_bytes(f->cache), 0);
}

static void a_retirement_that_is_repeated_changes_nothing(void **state) {
    struct fx *f = *state;
    put(f, 7, 100);
    size_t bytes = content_cache_bytes(f->cache);
    for (int i = 0; i < 2000; i++) put(f, 7, 100);
    assert_int_equal(content_cache_bytes(f->cache), bytes);
    forget(f, 7);
    assert_false(has(f, 7, 100));
}

/* CALM-1. */
static void where_there_is_no_room_others_make_it(void **state) {
    struct fx *f = *state;
    const uint64_t count = 20000;
    for (uint64_t id = 1; id <= count; id++) {
        put(f, id, 144);
        assert_true(has(f, id, 144));
        assert_true(content_cache_bytes(f->cache) <= MEMORY);
    }
    size_t kept = 0, young = 0;
    const size_t room = MEMORY / 192;
    for (uint64_t id = 1; id <= count; id++) {
        const bool there = has(f, id, 144);
        kept += there;
        young += there && id > count - 4 * room;
    }
    assert_true(kept > room * 3 / 4);
    assert_true(young > kept * 3 / 4); /* most contents in the cache are among the newest */
}

/* Contents of another size need other pages of the cache. They get pages, because the clock algorithm empties old pages
 * eventually. */
static void sizes_may_change(void **state) {
    struct fx *f = *state;
    for (uint64_t id = 1; id <= 5000; id++) put(f, id, 144);
    size_t kept = 0;
    for (uint64_t id = 5001; id <= 10000; id++) {
        put(f, id, 900);
        kept += has(f, id, 900);
    }
    assert_true(kept > 4000);
}

static void whatever_happens_what_is_found_is_right(void **state) {
    struct fx *f = *state;
    struct random random = {random_seed(1)};
    static uint16_t sizes[10001]; /* by id: size of the content plus 1; 0: the cache certainly lacks the content */
    memset(sizes, 0, sizeof sizes);
    for (int i = 0; i < 200000; i++) {
        const uint64_t id = 1 + random_below(&random, 10000);
        const uint64_t what = random_below(&random, 4);
        if (what == 0) {
            forget(f, id);
            sizes[id] = 0;
        } else if (what == 1 && sizes[id] == 0) {
            sizes[id] = (uint16_t)(1 + random_below(&random, CONTENT_CACHE_SIZE_MAX + 1));
            put(f, id, sizes[id] - 1u);
        } else {
            const bool there = has(f, id, sizes[id] > 0 ? sizes[id] - 1u : 0);
            assert_true(!there || sizes[id] != 0);
        }
    }
}

static void *read_on(void *argument) {
    struct content_cache *cache = argument;
    struct arena arena;
    arena_init(&arena, 1u << 20);
    for (int round = 0; round < 20; round++)
        for (uint64_t id = 1; id <= 5000; id++) (void)is_there(cache, &arena, id, 144);
    arena_deinit(&arena);
    return NULL;
}

static void readers_and_writer_do_not_meet(void **state) {
    struct fx *f = *state;
    pthread_t readers[2];
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&readers[i], NULL, read_on, f->cache), 0);
    for (int round = 0; round < 20; round++) {
        for (uint64_t id = 1; id <= 5000; id++) put(f, id, 144);
        for (uint64_t id = 1; id <= 5000; id += 3) forget(f, id);
    }
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_join(readers[i], NULL), 0);
}

/* Checks that each call takes the lock once and releases it. A test with threads would show an error only by chance. */
static void each_call_holds_the_lock(void **state) {
    struct fx *f = *state;
    const uint64_t id = 1;
    int before = taken;
    put(f, id, 16);
    assert_true(taken == before + 1 && held == 0);
    content_cache_prefetch(f->cache, &id, 1);
    assert_true(taken == before + 2 && held == 0);
    assert_true(has(f, id, 16));
    assert_true(taken == before + 3 && held == 0);
    (void)content_cache_bytes(f->cache);
    assert_true(taken == before + 4 && held == 0);
    forget(f, id);
    assert_true(taken == before + 5 && held == 0);
}

static void too_little_memory_makes_none(void **state) {
    (void)state;
    assert_null(content_cache_new(CONTENT_CACHE_MEMORY_MIN - 1));
    struct content_cache *cache = content_cache_new(CONTENT_CACHE_MEMORY_MIN);
    assert_non_null(cache);
    content_cache_free(cache);
    content_cache_free(NULL);
}

#define CACHE_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void) {
    const struct CMUnitTest tests[] = {
        CACHE_TEST(what_is_put_is_found_until_it_is_forgotten),
        CACHE_TEST(many_are_forgotten_at_once),
        CACHE_TEST(many_are_put_at_once),
        CACHE_TEST(a_content_that_is_too_large_is_not_kept),
        CACHE_TEST(a_retirement_that_is_repeated_changes_nothing),
        CACHE_TEST(where_there_is_no_room_others_make_it),
        CACHE_TEST(sizes_may_change),
        CACHE_TEST(whatever_happens_what_is_found_is_right),
        CACHE_TEST(readers_and_writer_do_not_meet),
        CACHE_TEST(each_call_holds_the_lock),
        cmocka_unit_test(too_little_memory_makes_none),
    };
    return cmocka_run_group_tests_name("content_cache", tests, NULL, NULL);
}
