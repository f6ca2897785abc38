/* content_cache.h: a memory cache for contents that moved from retired segments to the index.
 *
 * To read such a content for a delivery, the index descends a tree. With tens of millions of pending tasks, that read
 * usually waits for a page fault. A content is in memory when it moves to the index, so this cache keeps a copy, found
 * by the task's id. The cache drops a content when the content's task ends, when the content is redacted, or when the
 * cache is full. On a miss, the caller reads the index. bench/README.md has the measurement (S9).
 *
 * Any thread. */
#ifndef TARRY_INDEX_CONTENT_CACHE_H
#define TARRY_INDEX_CONTENT_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"

#define CONTENT_CACHE_MEMORY_MIN ((size_t)128 << 10)
/* Size in bytes of the largest content that the cache keeps. */
#define CONTENT_CACHE_SIZE_MAX 1000u

struct content_cache;
/* Makes a cache with `memory` bytes for contents and table; the kernel assigns memory on first use. Page records take
 * another 0.04 %. NULL: out of memory, or `memory` is below CONTENT_CACHE_MEMORY_MIN. */
struct content_cache *content_cache_new(size_t memory);
void content_cache_free(struct content_cache *cache); /* frees the cache; the argument may be NULL */

struct content_put {
    uint64_t id;
    const void *bytes; /* bytes of the content; borrowed during the call */
    size_t size;
};
/* Adds contents. Skips a content that is too large or finds no space, and an id that is already in the cache. */
void content_cache_put(struct content_cache *cache, const struct content_put *puts, size_t count);
/* Copies a content into the arena. 0; 1: not in the cache; -ENOMEM. */
int content_cache_get(struct content_cache *cache, uint64_t id, struct arena *arena, void **out, size_t *out_size);
/* Prefetches the cache lines that content_cache_get will read, for a few tens of ids. */
void content_cache_prefetch(struct content_cache *cache, const uint64_t *ids, size_t count);
void content_cache_forget(struct content_cache *cache, const uint64_t *ids, size_t count);

size_t content_cache_bytes(struct content_cache *cache); /* returns the number of bytes in use */

#endif
