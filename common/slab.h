/* slab.h: one region of memory of a fixed size, taken at start, in objects of a few sizes (CALM-1, CAP-1).
 *
 * The region is cut into pages of 64 KiB; a page serves one size class while any object on it lives, and goes back to
 * the common pool when it is empty, so that a wave of one size does not starve another. alloc and free are O(1). Not
 * thread-safe. */
#ifndef TARRY_COMMON_SLAB_H
#define TARRY_COMMON_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SLAB_PAGE_SIZE (64u << 10)
#define SLAB_OBJECT_SIZE_MAX 1024u
#define SLAB_ALIGN 16u
#define SLAB_CLASSES (SLAB_OBJECT_SIZE_MAX / SLAB_ALIGN)

struct slab;
/* Reserves (mmap, not touched until used) `size` bytes, rounded down to pages. NULL: out of memory. */
struct slab *slab_new(size_t size);
void slab_free_all(struct slab *slab); /* NULL is fine */
/* 16-byte aligned, not cleared; NULL when the region is full. size ≤ SLAB_OBJECT_SIZE_MAX. */
void *slab_alloc(struct slab *slab, size_t size);
/* `size` as at slab_alloc. NULL is fine. */
void slab_release(struct slab *slab, void *object, size_t size);
/* Objects that may be asked for, by size. Zeroed: none. */
struct slab_need {
    uint32_t counts[SLAB_CLASSES];
};
void slab_need_add(struct slab_need *need, size_t size, uint32_t count);
/* Free pages that allocating all of `need` would take: what finds no room on the pages of its own size. It surely fits
 * if no more than slab_pages_free. `slab` NULL: the pages of an empty region. O(SLAB_CLASSES). */
uint32_t slab_need_pages(const struct slab *slab, const struct slab_need *need);
/* One of this size would take no free page. */
bool slab_has_room(const struct slab *slab, size_t size);
uint32_t slab_pages_free(const struct slab *slab);
uint64_t slab_allocated(const struct slab *slab); /* objects ever handed out: grows by one with each */
size_t slab_used(const struct slab *slab);        /* bytes in pages in use */
size_t slab_capacity(const struct slab *slab);    /* bytes */

#endif
