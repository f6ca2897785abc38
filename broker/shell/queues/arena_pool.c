/* arena_pool.c: see arena_pool.h. */
#include "arena_pool.h"

#include <stdlib.h>

void arena_pool_init(struct arena_pool *pool, size_t size_max, size_t keep_max, size_t idle_max) {
    *pool = (struct arena_pool){.size_max = size_max, .keep_max = keep_max, .idle_max = idle_max};
    pthread_mutex_init(&pool->mutex, NULL);
}

static void drop(struct pooled_arena *arena) {
    arena_deinit(&arena->arena);
    free(arena);
}

void arena_pool_deinit(struct arena_pool *pool) {
    while (pool->idle != NULL) {
        struct pooled_arena *arena = pool->idle;
        pool->idle = arena->next;
        drop(arena);
    }
    pthread_mutex_destroy(&pool->mutex);
}

struct pooled_arena *arena_pool_take(struct arena_pool *pool) {
    pthread_mutex_lock(&pool->mutex);
    struct pooled_arena *arena = pool->idle;
    if (arena != NULL) {
        pool->idle = arena->next;
        pool->idle_count--;
    }
    pthread_mutex_unlock(&pool->mutex);
    if (arena != NULL) return arena;
    arena = malloc(sizeof(*arena));
    if (arena == NULL) return NULL;
    arena_init(&arena->arena, pool->size_max);
    arena->arena.keep_max = pool->keep_max;
    return arena;
}

void arena_pool_give(struct arena_pool *pool, struct pooled_arena *arena) {
    arena_reset(&arena->arena);
    pthread_mutex_lock(&pool->mutex);
    bool keep = pool->idle_count < pool->idle_max;
    if (keep) {
        arena->next = pool->idle;
        pool->idle = arena;
        pool->idle_count++;
    }
    pthread_mutex_unlock(&pool->mutex);
    if (!keep) drop(arena);
}
