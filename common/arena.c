/* arena.c: see arena.h. malloc provides the blocks, and the arena links them in the order in which they were filled.
 * Single objects are never freed. */
#include "arena.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

/* The first block fits nearly every message, so a reused arena rarely calls malloc. Pages of the block that were never
 * written cost no memory. Later blocks double in size, so a large message needs few blocks. */
#define ARENA_FIRST_SIZE (256u << 10)
#define ARENA_BLOCK_SIZE_MAX (4u << 20)

static void *arena_pb_alloc(void *data, size_t size) {
    return arena_alloc(data, size);
}

static void arena_pb_free(void *data, void *pointer) {
    (void)data;
    (void)pointer;
}

void arena_init(struct arena *arena, size_t size_max) {
    *arena = (struct arena){
        .size_max = size_max,
        .pb = {.alloc = arena_pb_alloc, .free = arena_pb_free, .allocator_data = arena},
    };
}

static void arena_free_blocks(struct arena_block *block) {
    while (block != NULL) {
        struct arena_block *next = block->next;
        free(block);
        block = next;
    }
}

void arena_deinit(struct arena *arena) {
    arena_free_blocks(arena->first);
    arena->first = arena->current = NULL;
    arena->used = 0;
}

void arena_reset(struct arena *arena) {
    arena->used = 0;
    arena->starved = false;
    arena->current = arena->first;
    if (arena->first == NULL) return;
    size_t kept = arena->first->size;
    struct arena_block *last = arena->first;
    last->used = 0;
    while (last->next != NULL && kept + last->next->size <= arena->keep_max) {
        last = last->next;
        last->used = 0;
        kept += last->size;
    }
    arena_free_blocks(last->next);
    last->next = NULL;
}

static struct arena_block *arena_grow(struct arena *arena, size_t size) {
    while (arena->current != NULL && arena->current->next != NULL) { /* a block that the last reset kept */
        arena->current = arena->current->next;
        if (size <= arena->current->size) return arena->current;
    }
    size_t block_size = ARENA_FIRST_SIZE;
    if (arena->current != NULL) {
        block_size = arena->current->size * 2;
        if (block_size > ARENA_BLOCK_SIZE_MAX) block_size = ARENA_BLOCK_SIZE_MAX;
    }
    if (block_size > arena->size_max) block_size = arena->size_max;
    /* Make the block only as large as `size` needs beyond the usual size. The arena keeps its first block, so a huge
     * first message must not make that block larger than necessary. */
    if (size > block_size) block_size = size;
    struct arena_block *block = malloc(sizeof(*block) + block_size);
    if (block == NULL) {
        arena->starved = true;
        if (arena->on_starved != NULL) arena->on_starved();
        return NULL;
    }
    block->next = NULL;
    block->size = block_size;
    block->used = 0;
    if (arena->current != NULL) {
        assert(arena->current->next == NULL);
        arena->current->next = block;
    } else {
        arena->first = block;
    }
    arena->current = block;
    return block;
}

void *arena_alloc_slowly(struct arena *arena, size_t size) {
    /* Check the size before it is rounded up, because rounding a huge size would overflow. */
    if (size > arena->size_max) return NULL;
    size_t rounded = (size + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
    if (rounded == 0) rounded = ARENA_ALIGN;
    if (arena->used > arena->size_max || rounded > arena->size_max - arena->used) return NULL;
    struct arena_block *block = arena->current;
    if (block == NULL || rounded > block->size - block->used) {
        block = arena_grow(arena, rounded);
        if (block == NULL) return NULL;
    }
    void *memory = block->data + block->used;
    block->used += rounded;
    arena->used += rounded;
    return memory;
}

struct arena_mark arena_mark(const struct arena *arena) {
    const struct arena_block *block = arena->current;
    return (struct arena_mark){arena->current, block != NULL ? block->used : 0, arena->used};
}

void arena_rewind(struct arena *arena, struct arena_mark mark) {
    struct arena_block *first = mark.block != NULL ? mark.block : arena->first;
    for (struct arena_block *block = first; block != NULL; block = block->next) block->used = 0;
    if (mark.block != NULL) mark.block->used = mark.block_used;
    arena->current = first;
    arena->used = mark.used;
}
