/* arena.h: a bump allocator with a size limit, into which protobuf-c unpacks messages. A reset frees all objects at
 * once. Not thread-safe. */
#ifndef TARRY_PROTO_ARENA_H
#define TARRY_PROTO_ARENA_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARENA_ALIGN 16u

struct arena_block {
    struct arena_block *next;
    size_t size; /* size of `data` in bytes */
    size_t used;
    _Alignas(ARENA_ALIGN) uint8_t data[];
};

struct arena {
    struct arena_block *first; /* first block; a reset keeps it */
    struct arena_block *current;
    size_t used;     /* bytes allocated since the last reset */
    size_t size_max; /* limit of `used`, in bytes; an allocation beyond it returns NULL */
    bool starved; /* malloc failed since the last reset, so a failed unpacking does not prove bad or oversized input */
    void (*on_starved)(void); /* called when malloc fails; it may exit the process. NULL: arena_alloc returns NULL */
    size_t keep_max;       /* limit in bytes of the blocks that a reset keeps; a reset always keeps the first block */
    ProtobufCAllocator pb; /* allocator for protobuf-c: takes memory from this arena, and frees nothing */
};

/* Initialises the arena; allocates no memory. The caller must not move the arena afterwards, because `pb` points to it.
 */
void arena_init(struct arena *arena, size_t size_max);
void arena_deinit(struct arena *arena);
/* Frees all objects. Keeps blocks of up to keep_max bytes in total and returns the other blocks to malloc. keep_max is
 * 0 after arena_init; set it for an arena that often holds large messages. */
void arena_reset(struct arena *arena);
/* Slow path of arena_alloc: the current block is too small, or `size` is 0. */
void *arena_alloc_slowly(struct arena *arena, size_t size);
/* Returns uninitialised memory, aligned to 16 bytes; NULL: over size_max, or out of memory. Inline, because a commit
 * calls it several times per operation, mostly with a constant size. */
static inline void *arena_alloc(struct arena *arena, size_t size) {
    struct arena_block *block = arena->current;
    /* The result is 0 if `size` is 0 or the rounding overflows. */
    size_t rounded = (size + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
    bool fits = block != NULL && rounded != 0 && rounded <= block->size - block->used;
    if (!fits || arena->used + rounded > arena->size_max) return arena_alloc_slowly(arena, size);
    void *memory = block->data + block->used;
    block->used += rounded;
    arena->used += rounded;
    return memory;
}

/* A position in the arena. arena_rewind frees all objects that were allocated after the mark, and keeps the blocks. */
struct arena_mark {
    struct arena_block *block;
    size_t block_used;
    size_t used;
};
struct arena_mark arena_mark(const struct arena *arena);
void arena_rewind(struct arena *arena, struct arena_mark mark);

#endif
