/* vector.c: see vector.h. */
#include "vector.h"

#include <stdlib.h>

void *vector_grown(void *items, size_t needed, size_t *capacity, size_t item_size) {
    size_t wanted = *capacity * 2 > needed ? *capacity * 2 : needed;
    if (wanted < 16) wanted = 16;
    void *grown = realloc(items, wanted * item_size);
    if (grown != NULL) *capacity = wanted;
    return grown;
}
