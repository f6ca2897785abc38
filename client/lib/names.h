/* names.h: counts the waiting operations for each task that they name, by a 32-bit hash of (queue, key) or of the id. A
 * cancel may be sent before older waiting operations only if none of them names the same task. Not thread-safe. */
#ifndef TARRY_NAMES_H
#define TARRY_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct name_count {
    uint32_t name; /* 0: the entry is free */
    uint32_t count;
};

struct names { /* a struct of zeros is an empty multiset */
    struct name_count *items;
    size_t used;
    size_t capacity; /* number of places in the table, a power of two */
    /* additions that failed for lack of memory; while it is not 0, names_has returns true for every name */
    size_t lost;
};

/* Return the hash of a task; never 0. Different tasks may have the same hash. A task has one hash by key and another
 * by id. */
uint32_t name_of_key(const char *queue, const void *key, size_t key_size);
uint32_t name_of_id(uint64_t id);

void names_deinit(struct names *names);
void names_add(struct names *names, uint32_t name);
/* Removes one occurrence of a name that was added. */
void names_remove(struct names *names, uint32_t name);
bool names_has(const struct names *names, uint32_t name);

#endif
