/* sparse.h: tables of a fixed size of which most is never touched: zeros that cost no memory before they are written.
 *
 * That is calloc, but not AddressSanitizer's: it writes an eighth of the size, twice, and the core has 100 MB of
 * tables. There a table is a mapping of its own with a page behind the last entry that must not be touched. */
#ifndef TARRY_COMMON_SPARSE_H
#define TARRY_COMMON_SPARSE_H

#include <stddef.h>

#define SPARSE_ALIGN 16u

/* `count` entries, all zero; NULL: no memory. `size` is a multiple of their alignment, which is SPARSE_ALIGN at most.
 */
void *sparse_new(size_t count, size_t size);

/* With the count and size that it was made with. NULL: nothing happens. */
void sparse_free(void *table, size_t count, size_t size);

#endif
