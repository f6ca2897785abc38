/* queue_map.h: sorted map from queue numbers to values. Queue numbers are sparse, because deleted queues keep theirs
 * (row.h). */
#ifndef TARRY_PROTO_QUEUE_MAP_H
#define TARRY_PROTO_QUEUE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct queue_map_item {
    uint32_t number;
    void *value;
};
struct queue_map {                /* map from queue numbers to values; a zeroed struct is an empty map */
    struct queue_map_item *items; /* the items, sorted by queue number */
    size_t count;
    size_t room;
};

/* Frees the map. `free_value` is called with each value; NULL: the map does not own the values. */
void queue_map_deinit(struct queue_map *map, void (*free_value)(void *value));
/* Returns the value of a number; NULL: none. */
void *queue_map_get(const struct queue_map *map, uint32_t number);
/* Adds a value. The map must not have the number yet. False: out of memory. */
bool queue_map_put(struct queue_map *map, uint32_t number, void *value);

/* ---- maps of names: each value is a copy on the heap */

/* Adds a name. A number that has a name keeps it. False: out of memory. */
bool queue_map_learn(struct queue_map *map, uint32_t number, const char *name);
/* Returns how many queue numbers have this name: that of the present queue, and those of deleted queues. `out_number`:
 * the highest of these numbers. */
size_t queue_map_find(const struct queue_map *map, const char *name, uint32_t *out_number);

#endif
