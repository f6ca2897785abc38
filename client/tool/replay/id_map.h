/* id_map.h: hash table from ids (never 0) to values of the caller; it grows. One owner, not thread-safe.
 *
 * Open addressing with linear probing (Knuth, The Art of Computer Programming, 6.4, algorithms L and R). */
#ifndef TARRY_TOOL_ID_MAP_H
#define TARRY_TOOL_ID_MAP_H

#include <stddef.h>
#include <stdint.h>

struct id_map { /* all zero: empty */
    struct id_slot {
        uint64_t id; /* 0: free */
        void *value;
    } * slots;
    size_t mask; /* number of slots - 1 */
    size_t count;
};

void *id_map_get(const struct id_map *map, uint64_t id); /* returns the value of `id`; NULL: not found */
/* Sets the value of `id`, which must not be NULL. Without memory the process ends (text.h). */
void id_map_put(struct id_map *map, uint64_t id, void *value);
void *id_map_take(struct id_map *map, uint64_t id); /* removes and returns the value; NULL: not found */
/* Calls `each` with every value, in no particular order; the map must not change meanwhile. */
void id_map_each(const struct id_map *map, void (*each)(void *argument, void *value), void *argument);
void id_map_deinit(struct id_map *map); /* frees the map, but not the values */

#endif
