/* content_cache.h: contents of retired segments that are in memory, too, until their tasks end.
 *
 * A content that is no longer in the log lies in the index, at a place of its own: to read it for a delivery costs a
 * way through a tree and, where tens of millions are pending, a fault for a page that nothing else is wanted of. It was
 * in memory once, when it was moved there. What is kept of that is found by the task's id, and given up when the task
 * ends, when it is redacted, or for want of room. What is not found here is read from the index (bench/README, S9, has
 * what it costs).
 *
 * Any thread. */
#ifndef TARRY_INDEX_CONTENT_CACHE_H
#define TARRY_INDEX_CONTENT_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"

#define CONTENT_CACHE_MEMORY_MIN ((size_t)128 << 10)
/* A larger content is not kept. */
#define CONTENT_CACHE_SIZE_MAX 1000u

struct content_cache;
/* With `memory` bytes for contents and table, which are touched as they are needed; what tells of the pages comes on
 * top, 0.04 %. NULL: no memory, or less than CONTENT_CACHE_MEMORY_MIN. */
struct content_cache *content_cache_new(size_t memory);
void content_cache_free(struct content_cache *cache); /* NULL is fine */

struct content_put {
    uint64_t id;
    const void *bytes; /* borrowed for the call */
    size_t size;
};
/* What has no room, or is too large, is not kept. An id that is there already stays as it is. */
void content_cache_put(struct content_cache *cache, const struct content_put *puts, size_t count);
/* A copy, in the arena. 0, 1: it is not here, -ENOMEM. */
int content_cache_get(struct content_cache *cache, uint64_t id, struct arena *arena, void **out, size_t *out_size);
/* Has the processor fetch what content_cache_get will look at: some tens of ids at a time. */
void content_cache_prefetch(struct content_cache *cache, const uint64_t *ids, size_t count);
void content_cache_forget(struct content_cache *cache, const uint64_t *ids, size_t count);

size_t content_cache_bytes(struct content_cache *cache); /* in use */

#endif
