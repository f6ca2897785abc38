/* huge_pages.h: memory that is large and used at random. */
#ifndef TARRY_COMMON_HUGE_PAGES_H
#define TARRY_COMMON_HUGE_PAGES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#define HUGE_PAGES_MIN ((size_t)64 << 20) /* of less the processor remembers where its pages lie, most of the time */

/* Asks the kernel for pages of 2 MiB, where it gives them on request (transparent_hugepage: madvise, as many
 * distributions have it): a table of millions of tasks costs a walk through the page tables a touch otherwise. Advice:
 * nothing depends on it. */
static inline void huge_pages_wanted(void *region, size_t size) {
    const uintptr_t page = 64u << 10; /* of every system's pages a multiple */
    const uintptr_t from = ((uintptr_t)region + page - 1) & ~(page - 1), to = ((uintptr_t)region + size) & ~(page - 1);
    if (size >= HUGE_PAGES_MIN) (void)madvise((void *)from, to - from, MADV_HUGEPAGE);
}

#endif
