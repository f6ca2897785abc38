/* sparse.h: zero-filled tables of fixed size. An entry that was never written costs no memory.
 *
 * The implementation is calloc, except under AddressSanitizer, whose calloc writes an eighth of the size, twice; the
 * core has 100 MB of tables. Under AddressSanitizer each table is its own mapping with a guard page behind the last
 * entry. */
#ifndef TARRY_COMMON_SPARSE_H
#define TARRY_COMMON_SPARSE_H

#include <stddef.h>

#define SPARSE_ALIGN 16u

/* Returns `count` entries of `size` bytes, all zero; NULL: out of memory. `size` must be a multiple of the entry's
 * alignment, which is at most SPARSE_ALIGN. */
void *sparse_new(size_t count, size_t size);

/* Frees a table; `count` and `size` are those that were passed to sparse_new. NULL is allowed. */
void sparse_free(void *table, size_t count, size_t size);

#endif
