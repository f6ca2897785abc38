/* tables.c: see tables.h. */
#include "tables.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"

/* ---- at most half of the slots are taken */

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

/* Closes the gap that a removed entry leaves. An entry after the gap moves into it, if a lookup for the entry's id
 * comes past the gap. */
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

/* ---- future events */

static bool before(const struct agenda_entry *a, const struct agenda_entry *b) {
    if (a->at_ns != b->at_ns) return a->at_ns < b->at_ns;
    if (a->position != b->position) return a->position < b->position;
    return a->number < b->number;
}

static void swap(struct agenda *agenda, size_t a, size_t b) {
    struct agenda_entry spare = agenda->items[a];
    agenda->items[a] = agenda->items[b];
    agenda->items[b] = spare;
}

void agenda_add(struct agenda *agenda, const struct agenda_entry *item) {
    if (agenda->count == agenda->capacity) {
        agenda->capacity = agenda->capacity > 0 ? 2 * agenda->capacity : 256;
        struct agenda_entry *grown = tool_alloc(agenda->capacity * sizeof *grown);
        if (agenda->count > 0) memcpy(grown, agenda->items, agenda->count * sizeof *grown);
        free(agenda->items);
        agenda->items = grown;
    }
    size_t at = agenda->count++;
    agenda->items[at] = *item;
    agenda->items[at].number = agenda->added++;
    for (; at > 0 && before(&agenda->items[at], &agenda->items[(at - 1) / 2]); at = (at - 1) / 2)
        swap(agenda, at, (at - 1) / 2);
}

const struct agenda_entry *agenda_first(const struct agenda *agenda) {
    return agenda->count > 0 ? &agenda->items[0] : NULL;
}

struct agenda_entry agenda_take(struct agenda *agenda) {
    struct agenda_entry first = agenda->items[0];
    agenda->items[0] = agenda->items[--agenda->count];
    for (size_t at = 0;;) {
        size_t least = at, left = 2 * at + 1;
        for (size_t child = left; child < left + 2 && child < agenda->count; child++)
            if (before(&agenda->items[child], &agenda->items[least])) least = child;
        if (least == at) return first;
        swap(agenda, at, least);
        at = least;
    }
}

void agenda_deinit(struct agenda *agenda) {
    free(agenda->items);
    *agenda = (struct agenda){0};
}
