/* id_map.c: see id_map.h. At most half of the slots are taken. */
#include "id_map.h"

#include <stdbool.h>
#include <stdlib.h>

#include "alloc.h"

#define SLOTS_MIN 1024u

static size_t home(const struct id_map *map, uint64_t id) {
    return (size_t)(id * 0x9E3779B97F4A7C15ull >> 20) & map->mask;
}

/* Returns the index where the id is or would be inserted. */
static size_t find(const struct id_map *map, uint64_t id) {
    size_t at = home(map, id);
    while (map->slots[at].id != 0 && map->slots[at].id != id) at = (at + 1) & map->mask;
    return at;
}

void *id_map_get(const struct id_map *map, uint64_t id) {
    return map->slots != NULL ? map->slots[find(map, id)].value : NULL;
}

static void grow(struct id_map *map) {
    struct id_map old = *map;
    size_t slots = old.slots != NULL ? 2 * (old.mask + 1) : SLOTS_MIN;
    map->slots = tool_alloc(slots * sizeof *map->slots);
    map->mask = slots - 1;
    for (size_t i = 0; old.slots != NULL && i <= old.mask; i++)
        if (old.slots[i].id != 0) map->slots[find(map, old.slots[i].id)] = old.slots[i];
    free(old.slots);
}

void id_map_put(struct id_map *map, uint64_t id, void *value) {
    if (map->slots == NULL || 2 * map->count > map->mask) grow(map);
    struct id_slot *slot = &map->slots[find(map, id)];
    map->count += slot->id == 0;
    *slot = (struct id_slot){id, value};
}

/* Moves following entries into the gap if their probe sequence passes it. */
static void close_gap(struct id_map *map, size_t gap) {
    for (size_t at = (gap + 1) & map->mask; map->slots[at].id != 0; at = (at + 1) & map->mask) {
        size_t from_home = (at - home(map, map->slots[at].id)) & map->mask;
        if (from_home < ((at - gap) & map->mask)) continue;
        map->slots[gap] = map->slots[at];
        gap = at;
    }
    map->slots[gap] = (struct id_slot){0};
}

void *id_map_take(struct id_map *map, uint64_t id) {
    if (map->slots == NULL) return NULL;
    size_t at = find(map, id);
    void *value = map->slots[at].value;
    if (map->slots[at].id == 0) return NULL;
    map->count--;
    close_gap(map, at);
    return value;
}

void id_map_each(const struct id_map *map, void (*each)(void *argument, void *value), void *argument) {
    for (size_t i = 0; map->slots != NULL && i <= map->mask; i++)
        if (map->slots[i].id != 0) each(argument, map->slots[i].value);
}

void id_map_deinit(struct id_map *map) {
    free(map->slots);
    *map = (struct id_map){0};
}
