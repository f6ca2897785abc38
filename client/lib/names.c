/* names.c: see names.h. Open addressing with linear probing, at most half full. Removal shifts later entries back. */
#include "names.h"

#include <assert.h>
#include <stdlib.h>

#define NAMES_CAPACITY_MIN 64u

/* FNV-1a. */
static uint64_t mix(uint64_t hash, const void *data, size_t size) {
    const uint8_t *bytes = data;
    for (size_t i = 0; i < size; i++) hash = (hash ^ bytes[i]) * 0x100000001B3ull;
    return hash;
}

static uint32_t fold(uint64_t hash) {
    uint32_t name = (uint32_t)(hash ^ hash >> 32);
    return name != 0 ? name : 1;
}

#define FNV_BASIS 0xCBF29CE484222325ull

uint32_t name_of_key(const char *queue, const void *key, size_t key_size) {
    uint64_t hash = FNV_BASIS;
    size_t size = 0;
    while (queue[size] != 0) size++;
    hash = mix(hash, queue, size + 1); /* the final 0 separates the name from the key */
    return fold(mix(hash, key, key_size));
}

uint32_t name_of_id(uint64_t id) {
    return fold(mix(FNV_BASIS, &id, sizeof(id)));
}

void names_deinit(struct names *names) {
    free(names->items);
    *names = (struct names){NULL, 0, 0, 0};
}

/* Returns the index at which the name is or would be inserted. */
static size_t place_of(const struct names *names, uint32_t name) {
    size_t mask = names->capacity - 1, at = name & mask;
    while (names->items[at].name != 0 && names->items[at].name != name) at = (at + 1) & mask;
    return at;
}

static bool grow(struct names *names) {
    struct names larger = {.capacity = names->capacity == 0 ? NAMES_CAPACITY_MIN : names->capacity * 2};
    larger.items = calloc(larger.capacity, sizeof(*larger.items));
    if (larger.items == NULL) return false;
    for (size_t i = 0; i < names->capacity; i++)
        if (names->items[i].name != 0) larger.items[place_of(&larger, names->items[i].name)] = names->items[i];
    larger.used = names->used;
    larger.lost = names->lost;
    free(names->items);
    *names = larger;
    return true;
}

void names_add(struct names *names, uint32_t name) {
    if (names->used * 2 >= names->capacity && !grow(names)) {
        names->lost++;
        return;
    }
    struct name_count *item = &names->items[place_of(names, name)];
    if (item->name == 0) names->used++;
    item->name = name;
    item->count++;
}

void names_remove(struct names *names, uint32_t name) {
    size_t hole = names->capacity > 0 ? place_of(names, name) : 0;
    if (names->capacity == 0 || names->items[hole].name == 0) {
        /* If the table has no entry, names_add found no memory for it and counted it in names->lost. */
        assert(names->lost > 0);
        names->lost--;
        return;
    }
    if (--names->items[hole].count > 0) return;
    size_t mask = names->capacity - 1;
    for (size_t at = (hole + 1) & mask; names->items[at].name != 0; at = (at + 1) & mask) {
        size_t from_home = (at - names->items[at].name) & mask;
        if (from_home < ((at - hole) & mask)) continue;
        names->items[hole] = names->items[at];
        hole = at;
    }
    names->items[hole] = (struct name_count){0, 0};
    names->used--;
}

bool names_has(const struct names *names, uint32_t name) {
    if (names->lost > 0) return true;
    return names->capacity > 0 && names->items[place_of(names, name)].name != 0;
}
