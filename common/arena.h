/* arena.h: a bump allocator for unpacking protobuf messages. Bounded, reset at once, not thread-safe. */
#ifndef TARRY_PROTO_ARENA_H
#define TARRY_PROTO_ARENA_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARENA_ALIGN 16u

struct arena_block {
    struct arena_block *next;
    size_t size; /* of `data` */
    size_t used;
    _Alignas(ARENA_ALIGN) uint8_t data[];
};

struct arena {
    struct arena_block *first; /* kept across resets */
    struct arena_block *current;
    size_t used;     /* bytes handed out since the last reset */
    size_t size_max; /* handing out more than this fails (NULL) */
    bool starved;    /* since the last reset malloc gave nothing: what failed need not be malformed or too large */
    void (*on_starved)(void); /* called then, and need not return; NULL: arena_alloc says NULL */
    size_t keep_max;          /* blocks of so many bytes in all survive a reset; the first one always does */
    ProtobufCAllocator pb;    /* allocates from this arena; free is a no-op */
};

/* Allocates nothing yet. The arena must not move afterwards (pb points to it). */
void arena_init(struct arena *arena, size_t size_max);
void arena_deinit(struct arena *arena);
/* Forgets everything handed out. Keeps blocks up to keep_max (0 after arena_init; set it for an arena that is large
 * time and again), gives the others back. */
void arena_reset(struct arena *arena);
/* The way of arena_alloc when the current block has no room, or nothing is asked for. */
void *arena_alloc_slowly(struct arena *arena, size_t size);
/* 16-byte aligned, uninitialised; NULL if over size_max or out of memory. Inline, for a commit asks some times an
 * operation, and nearly always for a size that is known when it is compiled. */
static inline void *arena_alloc(struct arena *arena, size_t size) {
    struct arena_block *block = arena->current;
    size_t rounded = (size + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1); /* 0: none, or so much that it overflows */
    bool fits = block != NULL && rounded != 0 && rounded <= block->size - block->used;
    if (!fits || arena->used + rounded > arena->size_max) return arena_alloc_slowly(arena, size);
    void *memory = block->data + block->used;
    block->used += rounded;
    arena->used += rounded;
    return memory;
}

/* Everything handed out since `mark` was taken is forgotten; its blocks stay. */
struct arena_mark {
    struct arena_block *block;
    size_t block_used;
    size_t used;
};
struct arena_mark arena_mark(const struct arena *arena);
void arena_rewind(struct arena *arena, struct arena_mark mark);

#endif
