/* entries.h: the entries of a coordinator that is a file, as text.
 *
 *   tarry-coordinator 1
 *   birth <16 hex digits, made at random with the file>
 *   entry <name> <version> <size>        … its bytes and a newline; as many times as there are entries
 *   sum <16 hex digits: XXH3-64 of all that stands before this line>
 *
 * What is not to the byte what would be written for it is refused. Pure functions, but for entries_add's randomness. */
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
    uint64_t birth; /* 0: there is no file */
    size_t count;
    struct entry items[COORDINATOR_NAMES_MAX];
};

/* False: it is damaged, or something else; then `out` is void. */
bool entries_read(const char *text, size_t size, struct entries *out);
/* At most ENTRIES_SIZE_MAX bytes and a zero; their count. */
size_t entries_write(const struct entries *entries, char *out);
/* NULL: there is none. */
struct entry *entries_find(struct entries *entries, const char *name);
/* A new entry at version 0, empty; the first one gives the whole its birth. NULL: there is no room for
 * another, or no randomness. */
struct entry *entries_add(struct entries *entries, const char *name);

#endif
