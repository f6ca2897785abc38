/* entries.c: see entries.h. */
#include "entries.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "frame.h"

#define ENTRIES_FIRST_LINE "tarry-coordinator 1\n"

static bool take_line(const char **at, const char *end, char out[ENTRIES_LINE_MAX]) {
    const char *newline = memchr(*at, '\n', (size_t)(end - *at));
    if (newline == NULL || newline - *at >= ENTRIES_LINE_MAX) return false;
    if (memchr(*at, '\0', (size_t)(newline - *at)) != NULL)
        return false; /* a NUL byte would end the string too early */
    memcpy(out, *at, (size_t)(newline - *at));
    out[newline - *at] = '\0';
    *at = newline + 1;
    return true;
}

static int write_entry_line(const struct entry *entry, char *out, size_t room) {
    return snprintf(out, room, "entry %s %" PRIu64 " %zu", entry->name, entry->version, entry->size);
}

/* Parses one entry. Strict: accepts only what entries_write would write. */
static bool take_entry(const char **at, const char *end, const char *line, struct entries *out) {
    char again[ENTRIES_LINE_MAX];
    if (out->count == COORDINATOR_NAMES_MAX) return false;
    struct entry *entry = &out->items[out->count++];
    if (sscanf(line, "entry %31[a-z0-9-] %" SCNu64 " %zu", entry->name, &entry->version, &entry->size) != 3)
        return false;
    write_entry_line(entry, again, sizeof again);
    for (size_t i = 0; i + 1 < out->count; i++)
        if (strcmp(out->items[i].name, entry->name) == 0) return false;
    if (strcmp(again, line) != 0 || entry->version == 0 || entry->size > COORDINATOR_VALUE_SIZE_MAX) return false;
    if ((size_t)(end - *at) < entry->size + 1 || (*at)[entry->size] != '\n') return false;
    memcpy(entry->value, *at, entry->size);
    *at += entry->size + 1;
    return true;
}

static bool take_number(const char *line, const char *word, uint64_t *out) {
    char again[ENTRIES_LINE_MAX];
    size_t size = strlen(word);
    if (strncmp(line, word, size) != 0 || line[size] != ' ' || sscanf(line + size + 1, "%" SCNx64, out) != 1)
        return false;
    snprintf(again, sizeof again, "%s %016" PRIx64, word, *out);
    return strcmp(again, line) == 0;
}

bool entries_read(const char *text, size_t size, struct entries *out) {
    const char *at = text, *end = text + size, *before;
    char line[ENTRIES_LINE_MAX];
    uint64_t sum;
    out->count = 0;
    size_t first = strlen(ENTRIES_FIRST_LINE);
    if (size < first || memcmp(text, ENTRIES_FIRST_LINE, first) != 0) return false;
    at += first;
    if (!take_line(&at, end, line) || !take_number(line, "birth", &out->birth) || out->birth == 0) return false;
    for (before = at; take_line(&at, end, line) && strncmp(line, "entry ", 6) == 0; before = at)
        if (!take_entry(&at, end, line, out)) return false;
    return at == end && take_number(line, "sum", &sum) && sum == frame_sum(text, (size_t)(before - text));
}

size_t entries_write(const struct entries *entries, char *out) {
    char *at = out;
    at += sprintf(at, ENTRIES_FIRST_LINE "birth %016" PRIx64 "\n", entries->birth);
    for (size_t i = 0; i < entries->count; i++) {
        const struct entry *entry = &entries->items[i];
        at += write_entry_line(entry, at, ENTRIES_LINE_MAX);
        *at++ = '\n';
        memcpy(at, entry->value, entry->size);
        at += entry->size;
        *at++ = '\n';
    }
    at += sprintf(at, "sum %016" PRIx64 "\n", frame_sum(out, (size_t)(at - out)));
    return (size_t)(at - out);
}

struct entry *entries_find(struct entries *entries, const char *name) {
    for (size_t i = 0; i < entries->count; i++)
        if (strcmp(entries->items[i].name, name) == 0) return &entries->items[i];
    return NULL;
}

struct entry *entries_add(struct entries *entries, const char *name) {
    if (entries->count == COORDINATOR_NAMES_MAX) return NULL;
    if (entries->birth == 0 && getrandom(&entries->birth, sizeof entries->birth, 0) != sizeof entries->birth)
        return NULL;
    struct entry *entry = &entries->items[entries->count++];
    snprintf(entry->name, sizeof entry->name, "%s", name);
    entry->version = 0;
    return entry;
}
