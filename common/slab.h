/* slab.h: an allocator for objects of a few sizes in one region of fixed size, reserved at start (CALM-1, CAP-1).
 *
 * The region is divided into pages of 64 KiB. A page serves one size class while it holds an object. An empty page
 * returns to the common pool, so many objects of one size do not starve the other sizes. alloc and free are O(1). Not
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
/* Returns the number of bytes that an object of this size takes in the region. */
static inline size_t slab_bytes(size_t size) {
    return (size + SLAB_ALIGN - 1) / SLAB_ALIGN * SLAB_ALIGN;
}

struct slab;
/* Reserves `size` bytes by mmap, rounded down to whole pages; the kernel assigns memory on first use. NULL: out of
 * memory. */
struct slab *slab_new(size_t size);
void slab_free_all(struct slab *slab); /* frees the slab, which may be NULL */
/* Returns an object of `size` bytes (at most SLAB_OBJECT_SIZE_MAX), aligned to 16 bytes and not cleared. NULL: the
 * region is full. */
void *slab_alloc(struct slab *slab, size_t size);
/* Frees an object; `size` is the size that was passed to slab_alloc. NULL is allowed. */
void slab_release(struct slab *slab, void *object, size_t size);
/* Number of objects of each size class that a caller may allocate. Zeroed: no objects. */
struct slab_need {
    uint32_t counts[SLAB_CLASSES];
};
void slab_need_add(struct slab_need *need, size_t size, uint32_t count);
/* Returns an upper bound of the number of free pages that the objects of `need` take, beyond the room on pages that
 * their size classes already have. If the result is at most slab_pages_free, the objects certainly fit. NULL `slab`:
 * counts for an empty region. O(SLAB_CLASSES). */
uint32_t slab_need_pages(const struct slab *slab, const struct slab_need *need);
/* Returns true if an object of this size fits on a page that its class already has. */
bool slab_has_room(const struct slab *slab, size_t size);
uint32_t slab_pages_free(const struct slab *slab);
uint64_t slab_allocated(const struct slab *slab); /* returns the number of objects ever allocated */
size_t slab_used(const struct slab *slab);        /* returns the size of the pages in use, in bytes */
size_t slab_capacity(const struct slab *slab);    /* bytes */

#endif
