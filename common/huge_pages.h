/* huge_pages.h: requests huge pages for large memory that is accessed at random. */
#ifndef TARRY_COMMON_HUGE_PAGES_H
#define TARRY_COMMON_HUGE_PAGES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

/* Minimum size in bytes. Smaller memory gains little, because the TLB usually covers it. */
#define HUGE_PAGES_MIN ((size_t)64 << 20)

/* Asks the kernel for pages of 2 MiB where transparent_hugepage is `madvise`, the default of many distributions.
 * Without them each access to a table of millions of tasks costs a page table walk. The call is only advice. */
static inline void huge_pages_wanted(void *region, size_t size) {
    const uintptr_t page = 64u << 10; /* size in bytes that is a multiple of the page size of every system */
    const uintptr_t from = ((uintptr_t)region + page - 1) & ~(page - 1), to = ((uintptr_t)region + size) & ~(page - 1);
    if (size >= HUGE_PAGES_MIN) (void)madvise((void *)from, to - from, MADV_HUGEPAGE);
}

#endif
