/* queue_map.c: see queue_map.h. */
#include "queue_map.h"

#include <stdlib.h>
#include <string.h>

void queue_map_deinit(struct queue_map *map, void (*free_value)(void *value)) {
    for (size_t i = 0; free_value != NULL && i < map->count; i++) free_value(map->items[i].value);
    free(map->items);
    *map = (struct queue_map){0};
}

/* Returns the index at which `number` is or would be inserted. */
static size_t place_of(const struct queue_map *map, uint32_t number) {
    size_t low = 0, high = map->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (map->items[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void *queue_map_get(const struct queue_map *map, uint32_t number) {
    size_t place = place_of(map, number);
    return place < map->count && map->items[place].number == number ? map->items[place].value : NULL;
}

bool queue_map_put(struct queue_map *map, uint32_t number, void *value) {
    if (map->count == map->room) {
        size_t room = map->room > 0 ? 2 * map->room : 16;
        struct queue_map_item *items = realloc(map->items, room * sizeof(*items));
        if (items == NULL) return false;
        map->items = items;
        map->room = room;
    }
    size_t place = place_of(map, number);
    memmove(&map->items[place + 1], &map->items[place], (map->count - place) * sizeof(*map->items));
    map->items[place] = (struct queue_map_item){number, value};
    map->count++;
    return true;
}

bool queue_map_learn(struct queue_map *map, uint32_t number, const char *name) {
    if (queue_map_get(map, number) != NULL) return true;
    char *copy = strdup(name);
    if (copy != NULL && queue_map_put(map, number, copy)) return true;
    free(copy);
    return false;
}

size_t queue_map_find(const struct queue_map *map, const char *name, uint32_t *out_number) {
    size_t count = 0;
    for (size_t i = 0; i < map->count; i++) {
        if (strcmp(map->items[i].value, name) != 0) continue;
        *out_number = map->items[i].number;
        count++;
    }
    return count;
}
