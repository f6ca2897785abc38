/* entries.h: the entries of a coordinator that is a file, as text.
 *
 *   tarry-coordinator 1
 *   birth <16 hex digits, made at random with the file>
 *   entry <name> <version> <size>        … its bytes and a newline; as many times as there are entries
 *   sum <16 hex digits: XXH3-64 of all that stands before this line>
 *
 * A text that differs in any byte from what entries_write would write is refused. Pure functions, except that
 * entries_add reads random bytes. */
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

/* Parses the file's text. False: it is damaged, or not such a file; then `out` is invalid. */
bool entries_read(const char *text, size_t size, struct entries *out);
/* Writes at most ENTRIES_SIZE_MAX bytes and a zero; returns the number of bytes without it. */
size_t entries_write(const struct entries *entries, char *out);
/* Returns the entry of that name; NULL: there is none. */
struct entry *entries_find(struct entries *entries, const char *name);
/* Adds an empty entry at version 0; the first one also sets `birth`. NULL: the table is full, or there are no random
 * bytes. */
struct entry *entries_add(struct entries *entries, const char *name);

#endif
