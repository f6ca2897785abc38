/* vector.h: growing arrays. `items` may be NULL; the owner frees it. Not thread-safe. */
#ifndef TARRY_STORAGE_VECTOR_H
#define TARRY_STORAGE_VECTOR_H

#include <errno.h>
#include <stddef.h>

#define VECTOR_FIELDS(type)                                                                                            \
    {                                                                                                                  \
        type *items;                                                                                                   \
        size_t count;                                                                                                  \
        size_t capacity;                                                                                               \
    }
#define VECTOR(type) struct VECTOR_FIELDS(type)
/* Reallocates the items for at least `needed` entries. NULL: out of memory; the old items are unchanged. */
void *vector_grown(void *items, size_t needed, size_t *capacity, size_t item_size);
/* Reserves space for `more` items; 0 or -ENOMEM. */
#define VECTOR_RESERVE(vector, more)                                                                                   \
    ({                                                                                                                 \
        int error_ = 0;                                                                                                \
        size_t needed_ = (vector)->count + (more);                                                                     \
        if (needed_ > (vector)->capacity) {                                                                            \
            void *grown_ = vector_grown((vector)->items, needed_, &(vector)->capacity, sizeof *(vector)->items);       \
            if (grown_ != NULL)                                                                                        \
                (vector)->items = grown_;                                                                              \
            else                                                                                                       \
                error_ = -ENOMEM;                                                                                      \
        }                                                                                                              \
        error_;                                                                                                        \
    })
#define VECTOR_PUSH(vector, ...)                                                                                       \
    ({                                                                                                                 \
        int pushed_ = VECTOR_RESERVE(vector, 1);                                                                       \
        if (pushed_ == 0) (vector)->items[(vector)->count++] = (__VA_ARGS__);                                          \
        pushed_;                                                                                                       \
    })

#endif
