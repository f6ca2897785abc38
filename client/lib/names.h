/* names.h: which tasks the operations name that wait for room: a multiset of hashes of (queue, key) or id. A cancel may
 * pass what waits only if nothing there means the same task. Not thread-safe. */
#ifndef TARRY_NAMES_H
#define TARRY_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct name_count {
    uint32_t name; /* 0: empty */
    uint32_t count;
};

struct names { /* zeroed: empty */
    struct name_count *items;
    size_t used;
    size_t capacity; /* a power of two */
    size_t lost;     /* additions that there was no memory for: until they are taken back, anything may be in it */
};

/* Never 0. Different tasks may have the same name; one task has one name each by id and by key. */
uint32_t name_of_key(const char *queue, const void *key, size_t key_size);
uint32_t name_of_id(uint64_t id);

void names_deinit(struct names *names);
void names_add(struct names *names, uint32_t name);
/* It has been added. */
void names_remove(struct names *names, uint32_t name);
bool names_has(const struct names *names, uint32_t name);

#endif
