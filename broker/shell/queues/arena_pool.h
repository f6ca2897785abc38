/* arena_pool.h: arenas that many users share in turn, the last used first: what is in use follows the load, not the
 * number of possible users.
 *
 * Thread-safe. What is taken is the taker's alone until it is given back. Memory: `idle_max` idle arenas of `keep_max`
 * bytes each at most. */
#ifndef TARRY_SHELL_ARENA_POOL_H
#define TARRY_SHELL_ARENA_POOL_H

#include <pthread.h>

#include "arena.h"

struct pooled_arena {
    struct pooled_arena *next; /* while it is idle */
    struct arena arena;
};

struct arena_pool {
    pthread_mutex_t mutex;
    size_t size_max; /* of each, as arena_init has it */
    size_t keep_max; /* … as arena.h has it, between two uses */
    size_t idle_max; /* so many are kept */
    struct pooled_arena *idle;
    size_t idle_count;
};

void arena_pool_init(struct arena_pool *pool, size_t size_max, size_t keep_max, size_t idle_max);
/* Frees those that are idle; the others were given back before. */
void arena_pool_deinit(struct arena_pool *pool);
/* An empty one; NULL: there is no memory for it. */
struct pooled_arena *arena_pool_take(struct arena_pool *pool);
/* What was handed out of it is gone. */
void arena_pool_give(struct arena_pool *pool, struct pooled_arena *arena);

#endif
