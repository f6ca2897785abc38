/* content_cache.c: see content_cache.h.
 *
 * A table of chains by the low bits of the id: ids are given one after the other, so that those of a commit share cache
 * lines. A content that is put where there is no room takes the place of others, which a hand that goes round the table
 * comes to: about as much an old one as a young one. (The oldest would be no better: where all wait for as long, it is
 * what is due next.) */
#include "content_cache.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "seeded_bug.h"
#include "slab.h"
#include "sparse.h"

/* Bytes of memory for each chain. */
#define MEMORY_PER_CHAIN 256u
/* The hand gives up so many contents, and looks at so many chains, for the sake of one; no room then: that one is not
 * kept. */
#define GIVEN_UP_MAX 8u
#define LOOKED_AT_MAX 1024u
#define FORGOTTEN_AHEAD 8u
#define CACHE_LINE 64u
#define LINES_AHEAD 3u /* of a content; the processor guesses the others */

struct content {
    uint64_t id;
    struct content *next; /* of its chain */
    uint16_t size;
    uint8_t bytes[];
};

struct content_cache {
    pthread_mutex_t lock; /* of all that follows */
    struct slab *slab;
    struct content **chains;
    size_t chain_count; /* a power of two */
    size_t hand;        /* the chain that is looked at next for want of room */
    uint64_t newest;    /* no greater id was put */
};

static_assert(offsetof(struct content, bytes) + CONTENT_CACHE_SIZE_MAX <= SLAB_OBJECT_SIZE_MAX, "a slab's object");

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

/* ---- with the lock */

static struct content **chain_of(struct content_cache *cache, uint64_t id) {
    return &cache->chains[id & (cache->chain_count - 1)];
}

/* Where the pointer to it is, or would be. */
static struct content **find(struct content_cache *cache, uint64_t id) {
    struct content **at = chain_of(cache, id);
    while (*at != NULL && (*at)->id != id) at = &(*at)->next;
    return at;
}

static void drop(struct content_cache *cache, struct content **at) {
    struct content *content = *at;
    *at = content->next;
    memset(content->bytes, 0, content->size); /* a core dump has nothing of what was redacted */
    slab_release(cache->slab, content, object_size(content->size));
}

/* Room for an object, which contents that the hand comes to are given up for. NULL: they were others' sizes. */
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
    if (id <= cache->newest && *find(cache, id) != NULL) return; /* a retirement that is repeated */
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

/* First where their chains begin, then what those lead to, but for the few that are not the first of their chain. */
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

/* Where they lie is no place that the processor has at hand: it is told some of them ahead. */
void content_cache_forget(struct content_cache *cache, const uint64_t *ids, size_t count) {
    if (SEEDED_BUG(cached_content_stays)) return;
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
