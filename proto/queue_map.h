/* queue_map.h: something about each of some queues, by number. Numbers are sparse (row.h): former queues have some,
 * too. A sorted list. */
#ifndef TARRY_PROTO_QUEUE_MAP_H
#define TARRY_PROTO_QUEUE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct queue_map_item {
    uint32_t number;
    void *value;
};
struct queue_map {                /* zeroed: empty */
    struct queue_map_item *items; /* in order of number */
    size_t count;
    size_t room;
};

/* `free_value`: called with each value; NULL: they are not the map's. */
void queue_map_deinit(struct queue_map *map, void (*free_value)(void *value));
/* NULL: there is none. */
void *queue_map_get(const struct queue_map *map, uint32_t number);
/* There is none of that number yet. False: no memory. */
bool queue_map_put(struct queue_map *map, uint32_t number, void *value);

/* ---- of names: each value is a copy, for free() */

/* A number keeps its first name. False: no memory. */
bool queue_map_learn(struct queue_map *map, uint32_t number, const char *name);
/* How many numbers have the name: the queue that has it, and former ones. `out_number`: the highest of them. */
size_t queue_map_find(const struct queue_map *map, const char *name, uint32_t *out_number);

#endif
