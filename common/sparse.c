/* sparse.c: see sparse.h. */
#include "sparse.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "huge_pages.h"

#if defined(__SANITIZE_ADDRESS__)

#define PAGE (64u << 10) /* size in bytes that is a multiple of the page size of every system */

/* Returns the size of the table rounded up to whole pages, without the guard page. */
static size_t pages_of(size_t bytes) {
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* Returns the offset of the table in its mapping. The table ends at the guard page, or as close to it as the alignment
 * allows. */
static size_t lead_of(size_t bytes) {
    return (pages_of(bytes) - bytes) / SPARSE_ALIGN * SPARSE_ALIGN;
}

void *sparse_new(size_t count, size_t size) {
    assert(count > 0 && size > 0 && count <= SIZE_MAX / 2 / size);
    size_t pages = pages_of(count * size), all = pages + pages_of(1);
    // cppcheck-suppress invalidFunctionArg ; -1 is right with MAP_ANONYMOUS
    uint8_t *region = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (region == MAP_FAILED) return NULL;
    if (mprotect(region + pages, all - pages, PROT_NONE) == 0) return region + lead_of(count * size);
    int failed = munmap(region, all);
    assert(failed == 0);
    return NULL;
}

void sparse_free(void *table, size_t count, size_t size) {
    if (table == NULL) return;
    uint8_t *region = (uint8_t *)table - lead_of(count * size);
    int failed = munmap(region, pages_of(count * size) + pages_of(1));
    assert(failed == 0);
}

#else

void *sparse_new(size_t count, size_t size) {
    void *table = calloc(count, size);
    if (table != NULL) huge_pages_wanted(table, count * size);
    return table;
}

void sparse_free(void *table, size_t count, size_t size) {
    (void)count, (void)size;
    free(table);
}

#endif
