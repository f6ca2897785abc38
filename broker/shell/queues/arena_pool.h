/* arena_pool.h: a pool of arenas. The arena used last is handed out first, so memory use follows the load and not the
 * number of possible users.
 *
 * Thread-safe. An arena that was taken belongs to the taker until it is given back. The pool keeps at most `idle_max`
 * idle arenas of `keep_max` bytes each. */
#ifndef TARRY_SHELL_ARENA_POOL_H
#define TARRY_SHELL_ARENA_POOL_H

#include <pthread.h>

#include "arena.h"

struct pooled_arena {
    struct pooled_arena *next; /* the next idle arena in the pool */
    struct arena arena;
};

struct arena_pool {
    pthread_mutex_t mutex;
    size_t size_max; /* maximum size of an arena in bytes (arena_init) */
    size_t keep_max; /* maximum number of bytes that an idle arena keeps (arena.h) */
    size_t idle_max; /* maximum number of idle arenas in the pool */
    struct pooled_arena *idle;
    size_t idle_count;
};

void arena_pool_init(struct arena_pool *pool, size_t size_max, size_t keep_max, size_t idle_max);
/* Frees the idle arenas. All arenas must have been given back. */
void arena_pool_deinit(struct arena_pool *pool);
/* Returns an empty arena; NULL if memory is exhausted. */
struct pooled_arena *arena_pool_take(struct arena_pool *pool);
/* Gives an arena back; memory allocated from it becomes invalid. */
void arena_pool_give(struct arena_pool *pool, struct pooled_arena *arena);

#endif
