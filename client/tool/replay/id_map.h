/* id_map.h: from an id (never 0) to something of the caller's: a hash table that grows. One owner, not thread-safe.
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
    size_t mask; /* slots - 1 */
    size_t count;
};

void *id_map_get(const struct id_map *map, uint64_t id); /* NULL: not there */
/* `value` is not NULL. Replaces what was there. Running out of memory ends the process (text.h). */
void id_map_put(struct id_map *map, uint64_t id, void *value);
void *id_map_take(struct id_map *map, uint64_t id); /* takes it out; NULL: it was not there */
/* Every value, in no order; the map must not change meanwhile. */
void id_map_each(const struct id_map *map, void (*each)(void *argument, void *value), void *argument);
void id_map_deinit(struct id_map *map); /* the values are the caller's */

#endif
