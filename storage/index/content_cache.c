/* content_cache.c: see content_cache.h. A hash table of chains, selected by the low bits of the id. Ids are assigned in
 * ascending order, so the ids of a commit share cache lines. When the cache is full, contents are dropped from one
 * chain after the other, round the table (the clock algorithm). So old and young contents are dropped about equally
 * often. (Dropping the oldest first is not better: if all tasks have the same delay, the oldest content is due next.)
 */
#include "content_cache.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "slab.h"
#include "sparse.h"

/* Bytes of memory for each chain. */
#define MEMORY_PER_CHAIN 256u
/* Limits of contents dropped and of chains examined for one new content. If there is no space after that, the new
 * content is not kept. */
#define GIVEN_UP_MAX 8u
#define LOOKED_AT_MAX 1024u
#define FORGOTTEN_AHEAD 8u
#define CACHE_LINE 64u
#define LINES_AHEAD 3u /* cache lines of a content to prefetch; the hardware prefetcher loads the others */

struct content {
    uint64_t id;
    struct content *next; /* next content in the same chain */
    uint16_t size;
    uint8_t bytes[];
};

struct content_cache {
    pthread_mutex_t lock; /* protects all fields below */
    struct slab *slab;
    struct content **chains;
    size_t chain_count; /* a power of two */
    size_t hand;        /* index of the next chain to drop contents from */
    uint64_t newest;    /* greatest id added so far */
};

static_assert(offsetof(struct content, bytes) + CONTENT_CACHE_SIZE_MAX <= SLAB_OBJECT_SIZE_MAX, "an object of a slab");

static size_t object_size(size_t size) {
    return offsetof(struct content, bytes) + size;
}

struct content_cache *content_cache_new(size_t memory) {
    if (memory < CONTENT_CACHE_MEMORY_MIN) return NULL;
    struct content_cache *cache = calloc(1, sizeof *cache);
    if (cache == NULL) return NULL;
    pthread_mutex_init(&cache->lock, NULL);
    cache->chain_count = 1;
    while (cache->chain_count * 2 * MEMORY_PER_CHAIN <= memory) cache->chain_count *= 2;
    cache->chains = sparse_new(cache->chain_count, sizeof *cache->chains);
    cache->slab = slab_new(memory - cache->chain_count * sizeof *cache->chains);
    if (cache->chains != NULL && cache->slab != NULL) return cache;
    content_cache_free(cache);
    return NULL;
}

void content_cache_free(struct content_cache *cache) {
    if (cache == NULL) return;
    slab_free_all(cache->slab);
    sparse_free(cache->chains, cache->chain_count, sizeof *cache->chains);
    pthread_mutex_destroy(&cache->lock);
    free(cache);
}

/* ---- functions whose caller has the lock */

static struct content **chain_of(struct content_cache *cache, uint64_t id) {
    return &cache->chains[id & (cache->chain_count - 1)];
}

/* Returns the address of the pointer to the id's content, or of the NULL at the end of the chain. */
static struct content **find(struct content_cache *cache, uint64_t id) {
    struct content **at = chain_of(cache, id);
    while (*at != NULL && (*at)->id != id) at = &(*at)->next;
    return at;
}

static void drop(struct content_cache *cache, struct content **at) {
    struct content *content = *at;
    *at = content->next;
    /* Overwrite the content, because a core dump must not contain redacted contents. */
    memset(content->bytes, 0, content->size);
    slab_release(cache->slab, content, object_size(content->size));
}

/* Allocates an object. If the cache is full, drops contents of the next chains. NULL: the dropped contents were of
 * other sizes. */
static struct content *make_room(struct content_cache *cache, size_t size) {
    struct content *content = slab_alloc(cache->slab, size);
    size_t given_up = 0;
    for (size_t i = 0; content == NULL && i < LOOKED_AT_MAX && given_up < GIVEN_UP_MAX; i++) {
        struct content **at = &cache->chains[cache->hand];
        for (; content == NULL && *at != NULL && given_up < GIVEN_UP_MAX; given_up++) {
            drop(cache, at);
            content = slab_alloc(cache->slab, size);
        }
        if (*at == NULL) cache->hand = (cache->hand + 1) & (cache->chain_count - 1);
    }
    return content;
}

static void put(struct content_cache *cache, uint64_t id, const void *bytes, size_t size) {
    /* A retirement that is repeated (as after a full disk) offers contents that the cache already has. */
    if (id <= cache->newest && *find(cache, id) != NULL) return;
    struct content *content = make_room(cache, object_size(size));
    if (content == NULL) return;
    if (id > cache->newest) cache->newest = id;
    struct content **chain = chain_of(cache, id);
    *content = (struct content){.id = id, .next = *chain, .size = (uint16_t)size};
    memcpy(content->bytes, bytes, size);
    *chain = content;
}

/* ---- */

void content_cache_put(struct content_cache *cache, const struct content_put *puts, size_t count) {
    pthread_mutex_lock(&cache->lock);
    for (size_t i = 0; i < count; i++)
        if (puts[i].size <= CONTENT_CACHE_SIZE_MAX) put(cache, puts[i].id, puts[i].bytes, puts[i].size);
    pthread_mutex_unlock(&cache->lock);
}

/* Prefetches the chain heads, then the first content of each chain; few contents are not first. */
void content_cache_prefetch(struct content_cache *cache, const uint64_t *ids, size_t count) {
    pthread_mutex_lock(&cache->lock);
    for (size_t i = 0; i < count; i++) __builtin_prefetch(chain_of(cache, ids[i]));
    for (size_t i = 0; i < count; i++) {
        const char *content = (const char *)*chain_of(cache, ids[i]);
        for (size_t line = 0; content != NULL && line < LINES_AHEAD; line++)
            __builtin_prefetch(content + line * CACHE_LINE);
    }
    pthread_mutex_unlock(&cache->lock);
}

int content_cache_get(struct content_cache *cache, uint64_t id, struct arena *arena, void **out, size_t *out_size) {
    pthread_mutex_lock(&cache->lock);
    const struct content *content = *find(cache, id);
    int error = content != NULL ? 0 : 1;
    if (error == 0) {
        *out = arena_alloc(arena, content->size > 0 ? content->size : 1);
        *out_size = content->size;
        if (*out == NULL) error = -ENOMEM;
    }
    if (error == 0) memcpy(*out, content->bytes, content->size);
    pthread_mutex_unlock(&cache->lock);
    return error;
}

/* Prefetches the next few contents, because they are not in the CPU cache. */
void content_cache_forget(struct content_cache *cache, const uint64_t *ids, size_t count) {
    pthread_mutex_lock(&cache->lock);
    for (size_t i = 0; i < count + FORGOTTEN_AHEAD; i++) {
        if (i < count) __builtin_prefetch(chain_of(cache, ids[i]));
        if (i >= FORGOTTEN_AHEAD / 2 && i - FORGOTTEN_AHEAD / 2 < count)
            __builtin_prefetch(*chain_of(cache, ids[i - FORGOTTEN_AHEAD / 2]));
        if (i < FORGOTTEN_AHEAD) continue;
        struct content **at = find(cache, ids[i - FORGOTTEN_AHEAD]);
        if (*at != NULL) drop(cache, at);
    }
    pthread_mutex_unlock(&cache->lock);
}

size_t content_cache_bytes(struct content_cache *cache) {
    pthread_mutex_lock(&cache->lock);
    size_t bytes = slab_used(cache->slab);
    pthread_mutex_unlock(&cache->lock);
    return bytes;
}
