/* tables.h: tables of a replay: a hash table from ids, and a heap of future events. */
#ifndef TARRY_TABLES_H
#define TARRY_TABLES_H

#include <stddef.h>
#include <stdint.h>

/* ---- from ids to values */

/* Hash table from ids (never 0) to values of the caller; it grows. One owner, not thread-safe.
 *
 * Open addressing with linear probing (Knuth, The Art of Computer Programming, 6.4, algorithms L and R). */

struct id_map { /* a struct of zeros is an empty table */
    struct id_slot {
        uint64_t id; /* 0: free */
        void *value;
    } * slots;
    size_t mask; /* number of slots - 1 */
    size_t count;
};

void *id_map_get(const struct id_map *map, uint64_t id); /* returns the value of `id`; NULL: not found */
/* Sets the value of `id`. `value` must not be NULL. If memory is used up, the process ends (text.h). */
void id_map_put(struct id_map *map, uint64_t id, void *value);
void *id_map_take(struct id_map *map, uint64_t id); /* removes and returns the value; NULL: not found */
/* Calls `each` with every value, in no particular order; the map must not change meanwhile. */
void id_map_each(const struct id_map *map, void (*each)(void *argument, void *value), void *argument);
void id_map_deinit(struct id_map *map); /* frees the map, but not the values */

/* ---- future events */

/* Future events of a dry run, the earliest first; events of the same time are in the order of the log. A
 * binary heap. */

struct agenda_entry {
    uint64_t at_ns;
    uint64_t position; /* log position of the recorded event that this entry repeats; UINT64_MAX: none */
    uint64_t number;   /* sequence number, set by agenda_add; orders entries of the same time */
    void (*run)(void *argument, const struct agenda_entry *item);
    void *subject;
    uint64_t version; /* version of `subject` when the entry was added; the entry is ignored if `subject` has a newer
                         version */
    const void *detail;
    uint32_t tries;
};

struct agenda {
    struct agenda_entry *items;
    size_t count, capacity;
    uint64_t added;
};

void agenda_add(struct agenda *agenda, const struct agenda_entry *item);
const struct agenda_entry *agenda_first(const struct agenda *agenda); /* NULL: empty */
struct agenda_entry agenda_take(struct agenda *agenda); /* Returns the first entry; the agenda must not be empty. */
void agenda_deinit(struct agenda *agenda);

#endif
