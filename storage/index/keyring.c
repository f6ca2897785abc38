/* keyring.c: see keyring.h.
 *
 * An update replaces the file in four steps. A kill -9 at any step leaves a complete keyring, and the next start
 * overwrites a remaining old keyring.
 *   1. Write the new nodes to keyring.new; sync the file.
 *   2. Link keyring as keyring.old; sync the directory.
 *   3. Rename keyring.new to keyring; sync the directory.
 *   4. Overwrite keyring.old with zeros, sync it, unlink it, and sync the directory. */
#include "keyring.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bytes.h"
#include "disk.h"
#include "frame.h"
#include "storage_codes.h"

#define KEYRING_VERSION 1u
#define HEADER_SIZE 24u
#define NODE_SIZE 48u
#define SUM_SIZE 8u
#define LEAF_DEPTH 64u
#define PATH_SIZE 4096u
#define FILE_SIZE_MAX (1ll << 32)
#define SPAN_DEPTH 56u /* depth of a cached key; a span is the 256 ids whose keys derive from one cached key */
#ifndef INDEX_TINY
#define SPANS (1u << 17)
#else
#define SPANS 4u
#endif

static const char magic[8] = "TARRYKEY";
static const char kdf_context[crypto_kdf_CONTEXTBYTES] = "TarryKey";

struct node { /* a key that covers all ids with the same first `depth` bits */
    uint64_t first;
    uint32_t depth;
    uint8_t key[crypto_kdf_KEYBYTES];
};

/* Cached path of keys to the last id. Contents move in order of id, and neighbouring ids share most of the path. */
struct way {
    uint8_t key[LEAF_DEPTH + 1][crypto_kdf_KEYBYTES];
    uint64_t id;
    uint32_t top; /* depth of the first cached key on the path to `id`; above LEAF_DEPTH: no cached path */
};

struct span_key {
    uint64_t number; /* number of the span plus 1: (id >> (LEAF_DEPTH - SPAN_DEPTH)) + 1; 0: unused */
    uint8_t key[crypto_kdf_KEYBYTES];
};

struct keyring {
    char directory[PATH_SIZE];
    bool no_sync;
    pthread_mutex_t mutex;
    struct node *nodes; /* nodes in order of `first`; no node covers another */
    size_t count;
    struct way to_span, in_span;
    /* Cache of span keys, one per number modulo its size. Deliveries read contents in order of due time, so ids come at
     * random. From a span key, a derivation takes 8 steps. Without the cache it takes 25 steps, because ids at random
     * share few levels: 10 µs, or a whole CPU core at 100,000/s. NULL: not used yet, or out of memory. */
    struct span_key *spans;
};

static int path_of(const char *directory, const char *suffix, char out[PATH_SIZE]) {
    int size = snprintf(out, PATH_SIZE, "%s/%s%s", directory, KEYRING_NAME, suffix);
    return size > 0 && (size_t)size < PATH_SIZE ? 0 : -ENAMETOOLONG;
}

static uint64_t node_last(const struct node *node) {
    return node->depth == LEAF_DEPTH ? node->first : node->first + (UINT64_MAX >> node->depth);
}

/* Returns the index of the node that covers the id; SIZE_MAX: the key is destroyed. */
static size_t node_of(const struct keyring *keyring, uint64_t id) {
    size_t low = 0, high = keyring->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (keyring->nodes[middle].first <= id)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && node_last(&keyring->nodes[low - 1]) >= id ? low - 1 : SIZE_MAX;
}

static unsigned bit_of(uint64_t id, uint32_t depth) {
    return (unsigned)(id >> (LEAF_DEPTH - 1 - depth)) & 1u;
}

static void child_key(const uint8_t parent[crypto_kdf_KEYBYTES], unsigned bit, uint8_t out[crypto_kdf_KEYBYTES]) {
    /* libsodium fails here only for wrong sizes. */
    (void)crypto_kdf_derive_from_key(out, crypto_kdf_KEYBYTES, bit, kdf_context, parent);
}

static void way_forget(struct way *way) {
    sodium_memzero(way->key, sizeof way->key);
    way->top = LEAF_DEPTH + 1;
}

/* Clears all derived keys from memory. */
static void keys_forget(struct keyring *keyring) {
    way_forget(&keyring->to_span);
    way_forget(&keyring->in_span);
    if (keyring->spans != NULL) sodium_memzero(keyring->spans, SPANS * sizeof *keyring->spans);
}

/* Derives the key at depth `bottom` on the path from the root to `id`. `key` is the key at depth `top` on that path. */
static const uint8_t *way_down(struct way *way, const uint8_t key[crypto_kdf_KEYBYTES], uint32_t top, uint32_t bottom,
                               uint64_t id) {
    uint64_t other = id ^ way->id;
    /* Number of levels that this path shares with the last path. */
    uint32_t depth = other == 0 ? LEAF_DEPTH : (uint32_t)__builtin_clzll(other);
    if (way->top != top || depth < top) {
        depth = top;
        memcpy(way->key[depth], key, sizeof way->key[depth]);
    }
    for (; depth < bottom; depth++) child_key(way->key[depth], bit_of(id, depth), way->key[depth + 1]);
    way->id = id;
    way->top = top;
    return way->key[bottom];
}

/* Returns the key of the id's span, which is below the node. */
static const uint8_t *span_key(struct keyring *keyring, const struct node *node, uint64_t id) {
    if (keyring->spans == NULL) keyring->spans = calloc(SPANS, sizeof *keyring->spans);
    if (keyring->spans == NULL) return way_down(&keyring->to_span, node->key, node->depth, SPAN_DEPTH, id);
    uint64_t number = id >> (LEAF_DEPTH - SPAN_DEPTH);
    struct span_key *span = &keyring->spans[number % SPANS];
    if (span->number != number + 1) {
        span->number = number + 1;
        memcpy(span->key, way_down(&keyring->to_span, node->key, node->depth, SPAN_DEPTH, id), sizeof span->key);
    }
    return span->key;
}

/* Derives the key of an id. 1: the key is destroyed. */
static int key_of(struct keyring *keyring, uint64_t id, uint8_t out[crypto_kdf_KEYBYTES]) {
    size_t i = node_of(keyring, id);
    if (i == SIZE_MAX) return 1;
    const struct node *node = &keyring->nodes[i];
    bool in_span = node->depth > SPAN_DEPTH;
    const uint8_t *from = in_span ? node->key : span_key(keyring, node, id);
    uint32_t top = in_span ? node->depth : SPAN_DEPTH;
    memcpy(out, way_down(&keyring->in_span, from, top, LEAF_DEPTH, id), crypto_kdf_KEYBYTES);
    return 0;
}

size_t keyring_bytes(struct keyring *keyring) {
    pthread_mutex_lock(&keyring->mutex);
    size_t bytes = sizeof *keyring + keyring->count * sizeof *keyring->nodes;
    if (keyring->spans != NULL) bytes += SPANS * sizeof *keyring->spans;
    pthread_mutex_unlock(&keyring->mutex);
    return bytes;
}

int keyring_apply(struct keyring *keyring, uint64_t id, void *data, size_t size) {
    /* The nonce may be 0, because a key encrypts only one content. */
    static const uint8_t nonce[crypto_stream_chacha20_NONCEBYTES];
    uint8_t key[crypto_kdf_KEYBYTES];
    pthread_mutex_lock(&keyring->mutex);
    int result = key_of(keyring, id, key);
    pthread_mutex_unlock(&keyring->mutex);
    if (result == 0) crypto_stream_chacha20_xor(data, data, size, nonce, key);
    sodium_memzero(key, sizeof key);
    return result;
}

/* ---- the file */

static void file_encode(const struct node *nodes, size_t count, uint8_t *out) {
    memset(out, 0, HEADER_SIZE);
    memcpy(out, magic, sizeof magic);
    put_u32(out + 8, KEYRING_VERSION);
    put_u64(out + 16, count);
    uint8_t *at = out + HEADER_SIZE;
    for (size_t i = 0; i < count; i++, at += NODE_SIZE) {
        put_u64(at, nodes[i].first);
        put_u32(at + 8, nodes[i].depth);
        put_u32(at + 12, 0);
        memcpy(at + 16, nodes[i].key, sizeof nodes[i].key);
    }
    put_u64(at, frame_sum(out, (size_t)(at - out)));
}

/* Decodes the file. INDEX_DAMAGED, -ENOMEM. */
static int file_decode(const uint8_t *in, size_t size, struct node **out, size_t *out_count) {
    if (size < HEADER_SIZE + SUM_SIZE || memcmp(in, magic, sizeof magic) != 0) return INDEX_DAMAGED;
    if (get_u64(in + size - SUM_SIZE) != frame_sum(in, size - SUM_SIZE)) return INDEX_DAMAGED;
    if (get_u32(in + 8) != KEYRING_VERSION) return INDEX_VERSION;
    uint64_t count = get_u64(in + 16);
    if (get_u32(in + 12) != 0 || count != (size - HEADER_SIZE - SUM_SIZE) / NODE_SIZE ||
        (size - HEADER_SIZE - SUM_SIZE) % NODE_SIZE != 0)
        return INDEX_DAMAGED;
    struct node *nodes = calloc(count + 1, sizeof *nodes);
    if (nodes == NULL) return -ENOMEM;
    int error = 0;
    for (size_t i = 0; i < count && error == 0; i++) {
        const uint8_t *at = in + HEADER_SIZE + i * NODE_SIZE;
        nodes[i].first = get_u64(at);
        nodes[i].depth = get_u32(at + 8);
        memcpy(nodes[i].key, at + 16, sizeof nodes[i].key);
        bool is_right = nodes[i].depth <= LEAF_DEPTH && get_u32(at + 12) == 0;
        uint64_t span = is_right ? node_last(&nodes[i]) - nodes[i].first : 0;
        if (!is_right || (nodes[i].first & span) != 0) error = INDEX_DAMAGED;
        if (error == 0 && i > 0 && nodes[i].first <= node_last(&nodes[i - 1])) error = INDEX_DAMAGED;
    }
    if (error != 0) {
        free(nodes);
        return error;
    }
    *out = nodes;
    *out_count = count;
    return 0;
}

static int file_write(const char *path, const struct node *nodes, size_t count, bool no_sync) {
    size_t size = HEADER_SIZE + count * NODE_SIZE + SUM_SIZE;
    uint8_t *bytes = malloc(size);
    if (bytes == NULL) return -ENOMEM;
    file_encode(nodes, count, bytes);
    int handle = disk_posix.open(NULL, path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    int error = handle < 0 ? handle : disk_write_all(&disk_posix, handle, bytes, size, 0);
    if (error == 0 && !no_sync) error = disk_posix.sync(NULL, handle);
    if (handle >= 0) {
        int closed = disk_posix.close(NULL, handle);
        if (error == 0) error = closed;
    }
    sodium_memzero(bytes, size);
    free(bytes);
    return error;
}

static int file_read(const char *path, struct node **out, size_t *out_count) {
    int handle = disk_posix.open(NULL, path, O_RDONLY, 0);
    if (handle < 0) return handle == -ENOENT ? INDEX_DAMAGED : handle;
    int64_t size = disk_posix.size(NULL, handle);
    int error = size < 0 ? (int)size : size > FILE_SIZE_MAX ? INDEX_DAMAGED : 0;
    uint8_t *bytes = error == 0 ? malloc((size_t)size + 1) : NULL;
    if (error == 0 && bytes == NULL) error = -ENOMEM;
    if (error == 0) {
        int64_t count = disk_read_all(&disk_posix, handle, bytes, (size_t)size, 0);
        error = count < 0 ? (int)count : file_decode(bytes, (size_t)count, out, out_count);
        sodium_memzero(bytes, (size_t)size);
    }
    free(bytes);
    int closed = disk_posix.close(NULL, handle);
    return error != 0 ? error : closed;
}

static int sync_directory(const char *directory, bool no_sync) {
    return no_sync ? 0 : disk_posix.sync_directory(NULL, directory);
}

/* Overwrites and unlinks a file, if it exists and is not another name of the current keyring. */
static int file_destroy(const char *directory, const char *suffix, bool no_sync) {
    char path[PATH_SIZE], current[PATH_SIZE];
    struct stat status, status_current;
    int error = path_of(directory, suffix, path);
    if (error == 0) error = path_of(directory, "", current);
    if (error != 0) return error;
    if (stat(path, &status) != 0) return errno == ENOENT ? 0 : -errno;
    if (stat(current, &status_current) != 0) return -errno;
    bool is_current = status.st_ino == status_current.st_ino && status.st_dev == status_current.st_dev;
    if (!is_current) {
        int handle = disk_posix.open(NULL, path, O_WRONLY, 0);
        if (handle < 0) return handle;
        error = disk_write_zeros(&disk_posix, handle, 0, (uint64_t)status.st_size);
        if (error == 0 && !no_sync) error = disk_posix.sync(NULL, handle);
        int closed = disk_posix.close(NULL, handle);
        if (error == 0) error = closed;
    }
    if (error == 0) error = disk_posix.unlink(NULL, path);
    return error == 0 ? sync_directory(directory, no_sync) : error;
}

/* The file gets its name when it is complete (F-1); the next start would report an incomplete file as damage. */
int keyring_make(const char *directory, bool no_sync) {
    char path[PATH_SIZE], path_new[PATH_SIZE];
    struct node root = {0};
    struct stat status;
    int error = path_of(directory, "", path);
    if (error == 0) error = path_of(directory, ".new", path_new);
    if (error != 0) return error;
    if (sodium_init() < 0) return -EIO;
    if (stat(path, &status) != 0) {
        crypto_kdf_keygen(root.key);
        error = file_write(path_new, &root, 1, no_sync);
        if (error == 0) error = disk_posix.rename(NULL, path_new, path);
        sodium_memzero(&root, sizeof root);
    }
    return error == 0 ? sync_directory(directory, no_sync) : error;
}

int keyring_copy(const struct keyring *keyring, const char *directory) {
    char path[PATH_SIZE];
    int error = path_of(directory, "", path);
    if (error == 0) error = file_write(path, keyring->nodes, keyring->count, keyring->no_sync);
    return error == 0 ? sync_directory(directory, keyring->no_sync) : error;
}

int keyring_open(struct keyring **out, const char *directory, bool read_only, bool no_sync) {
    char path[PATH_SIZE];
    int error = path_of(directory, "", path);
    if (error != 0) return error;
    struct keyring *keyring = calloc(1, sizeof *keyring);
    if (keyring == NULL) return -ENOMEM;
    keyring->no_sync = no_sync;
    keys_forget(keyring);
    memcpy(keyring->directory, directory, strlen(directory) + 1);
    pthread_mutex_init(&keyring->mutex, NULL);
    error = file_read(path, &keyring->nodes, &keyring->count);
    if (error == 0 && !read_only) error = file_destroy(directory, ".new", no_sync);
    if (error == 0 && !read_only) error = file_destroy(directory, ".old", no_sync);
    if (error != 0) {
        keyring_close(keyring);
        return error;
    }
    *out = keyring;
    return 0;
}

void keyring_close(struct keyring *keyring) {
    if (keyring == NULL) return;
    if (keyring->nodes != NULL) sodium_memzero(keyring->nodes, keyring->count * sizeof *keyring->nodes);
    free(keyring->nodes);
    keys_forget(keyring);
    free(keyring->spans);
    pthread_mutex_destroy(&keyring->mutex);
    free(keyring);
}

/* ---- destroying */

static int compare_nodes(const void *a, const void *b) {
    uint64_t left = ((const struct node *)a)->first, right = ((const struct node *)b)->first;
    return left < right ? -1 : left > right;
}

/* Destroys the key of `id`, which derives from nodes[i]. Replaces nodes[i] by the siblings of all nodes on the path
 * from nodes[i] to `id`. The caller has reserved the space. */
static void puncture(struct node *nodes, size_t *count, size_t i, uint64_t id) {
    struct node at = nodes[i];
    nodes[i] = nodes[--*count];
    while (at.depth < LEAF_DEPTH) {
        unsigned bit = bit_of(id, at.depth);
        uint64_t half = UINT64_C(1) << (LEAF_DEPTH - 1 - at.depth);
        struct node beside = {.first = at.first + (bit ? 0 : half), .depth = at.depth + 1};
        struct node next = {.first = at.first + (bit ? half : 0), .depth = at.depth + 1};
        child_key(at.key, 1 - bit, beside.key);
        child_key(at.key, bit, next.key);
        nodes[(*count)++] = beside;
        at = next;
    }
    sodium_memzero(&at, sizeof at);
    qsort(nodes, *count, sizeof *nodes, compare_nodes);
}

/* Replaces the keyring's file by one that contains `nodes`. */
static int replace(struct keyring *keyring, const struct node *nodes, size_t count) {
    char path[PATH_SIZE] = "", path_new[PATH_SIZE] = "", path_old[PATH_SIZE] = "";
    int error = path_of(keyring->directory, "", path);
    if (error == 0) error = path_of(keyring->directory, ".new", path_new);
    if (error == 0) error = path_of(keyring->directory, ".old", path_old);
    /* A failed attempt may have left the file. */
    if (error == 0) error = file_destroy(keyring->directory, ".old", keyring->no_sync);
    if (error == 0) error = file_write(path_new, nodes, count, keyring->no_sync);
    if (error == 0 && link(path, path_old) != 0) error = -errno;
    if (error == 0) error = sync_directory(keyring->directory, keyring->no_sync);
    if (error == 0) error = disk_posix.rename(NULL, path_new, path);
    if (error == 0) error = sync_directory(keyring->directory, keyring->no_sync);
    return error == 0 ? file_destroy(keyring->directory, ".old", keyring->no_sync) : error;
}

int keyring_destroy(struct keyring *keyring, const uint64_t *ids, size_t count) {
    struct keyring next = {.count = keyring->count};
    size_t room = keyring->count + count * LEAF_DEPTH + 1;
    next.nodes = malloc(room * sizeof *next.nodes);
    if (next.nodes == NULL) return -ENOMEM;
    memcpy(next.nodes, keyring->nodes, keyring->count * sizeof *next.nodes);
    bool is_changed = false;
    for (size_t k = 0; k < count; k++) {
        size_t i = node_of(&next, ids[k]);
        if (i == SIZE_MAX) continue;
        puncture(next.nodes, &next.count, i, ids[k]);
        is_changed = true;
    }
    int error = is_changed ? replace(keyring, next.nodes, next.count) : 0;
    if (error == 0) {
        pthread_mutex_lock(&keyring->mutex);
        struct node *former = keyring->nodes;
        size_t former_count = keyring->count;
        keyring->nodes = next.nodes;
        keyring->count = next.count;
        keys_forget(keyring);
        pthread_mutex_unlock(&keyring->mutex);
        next.nodes = former;
        next.count = former_count;
    }
    sodium_memzero(next.nodes, next.count * sizeof *next.nodes);
    free(next.nodes);
    return error;
}
