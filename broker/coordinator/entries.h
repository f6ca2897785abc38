/* entries.h: the text format of a coordinator's file: its entries.
 *
 *   tarry-coordinator 1
 *   birth <16 hex digits, random, made with the file>
 *   entry <name> <version> <size>        then the entry's bytes and a newline; one per entry
 *   sum <16 hex digits: XXH3-64 of all bytes before this line>
 *
 * entries_read refuses every text that entries_write would not write byte for byte. Pure functions; only entries_add
 * uses random bytes. */
#ifndef TARRY_COORDINATOR_ENTRIES_H
#define TARRY_COORDINATOR_ENTRIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coordinator.h"

#define ENTRIES_LINE_MAX 128
#define ENTRIES_SIZE_MAX                                                                                               \
    (COORDINATOR_NAMES_MAX * (COORDINATOR_VALUE_SIZE_MAX + ENTRIES_LINE_MAX) + 3 * ENTRIES_LINE_MAX)

struct entry {
    char name[COORDINATOR_NAME_SIZE_MAX + 1];
    uint64_t version; /* from 1 */
    size_t size;
    char value[COORDINATOR_VALUE_SIZE_MAX];
};

struct entries {
    uint64_t birth; /* random number of the file; 0: the file does not exist */
    size_t count;
    struct entry items[COORDINATOR_NAMES_MAX];
};

/* Returns false if the text is damaged or of another format; `out` is then invalid. */
bool entries_read(const char *text, size_t size, struct entries *out);
/* Writes at most ENTRIES_SIZE_MAX bytes and a NUL; returns the number of bytes without the NUL. */
size_t entries_write(const struct entries *entries, char *out);
/* Returns the entry with this name; NULL: none. */
struct entry *entries_find(struct entries *entries, const char *name);
/* Adds an empty entry at version 0; the first one also sets `birth`. Returns NULL if the table is full or no random
 * bytes are available. */
struct entry *entries_add(struct entries *entries, const char *name);

#endif
