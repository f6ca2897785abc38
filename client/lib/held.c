/* held.c: see held.h. Open addressing with linear probing, at most half full. Removal shifts later entries back, so
 * there are no tombstones. */
#include "held.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define HELD_CAPACITY_MIN 64u

static size_t home(const struct held *held, uint64_t id) {
    return (size_t)((id * 0x9E3779B97F4A7C15ull) >> 32) & (held->capacity - 1);
}

void held_deinit(struct held *held) {
    free(held->entries);
    *held = (struct held){NULL, 0, 0};
}

struct held_entry *held_find(const struct held *held, uint64_t id) {
    if (held->capacity == 0) return NULL;
    for (size_t at = home(held, id); held->entries[at].id != 0; at = (at + 1) & (held->capacity - 1))
        if (held->entries[at].id == id) return &held->entries[at];
    return NULL;
}

static void place(struct held *held, struct held_entry entry) {
    size_t at = home(held, entry.id);
    while (held->entries[at].id != 0) at = (at + 1) & (held->capacity - 1);
    held->entries[at] = entry;
    held->count++;
}

static bool grow(struct held *held) {
    struct held larger = {.capacity = held->capacity == 0 ? HELD_CAPACITY_MIN : held->capacity * 2};
    larger.entries = calloc(larger.capacity, sizeof(*larger.entries));
    if (larger.entries == NULL) return false;
    for (size_t i = 0; i < held->capacity; i++)
        if (held->entries[i].id != 0) place(&larger, held->entries[i]);
    free(held->entries);
    *held = larger;
    return true;
}

static bool token_before(struct tarry_token a, struct tarry_token b) {
    return a.epoch != b.epoch ? a.epoch < b.epoch : a.position < b.position;
}

bool held_take(struct held *held, struct held_entry entry) {
    assert(entry.id != 0);
    struct held_entry *found = held_find(held, entry.id);
    if (found != NULL) {
        if (!token_before(found->token, entry.token)) return false;
        *found = entry;
        return true;
    }
    if (held->count * 2 >= held->capacity && !grow(held)) return false;
    place(held, entry);
    return true;
}

static void held_remove(struct held *held, uint64_t id) {
    struct held_entry *found = held_find(held, id);
    if (found == NULL) return;
    size_t mask = held->capacity - 1, hole = (size_t)(found - held->entries);
    for (size_t at = (hole + 1) & mask; held->entries[at].id != 0; at = (at + 1) & mask) {
        /* An entry may move to the free place unless that is before the entry's home place, where a lookup for its id
         * starts. */
        size_t from_home = (at - home(held, held->entries[at].id)) & mask;
        if (from_home < ((at - hole) & mask)) continue;
        held->entries[hole] = held->entries[at];
        hole = at;
    }
    held->entries[hole] = (struct held_entry){0};
    held->count--;
}

/* Ignores a settling whose token is older than the entry's: the task has been delivered again since, and the new lease
 * stays. */
void held_settle(struct held *held, uint64_t id, struct tarry_token token) {
    struct held_entry *found = held_find(held, id);
    if (found == NULL || token_before(token, found->token)) return;
    if (found->may_return)
        found->settled = true;
    else
        held_remove(held, id);
}

void held_resume(struct held *held) {
    size_t i = 0;
    while (i < held->capacity) {
        struct held_entry *entry = &held->entries[i];
        if (entry->settled) { /* The former lane is closed and can bring no duplicate of this settled task, so the entry
                                 goes */
            held_remove(held, entry->id); /* stay at place i, because held_remove may have moved another entry to it */
            continue;
        }
        entry->may_return = entry->id != 0;
        i++;
    }
}

void held_clear(struct held *held) {
    if (held->capacity > 0) memset(held->entries, 0, held->capacity * sizeof(*held->entries));
    held->count = 0;
}

void held_sweep(struct held *held, uint64_t now_ms) {
    size_t i = 0;
    while (i < held->capacity) {
        const struct held_entry *entry = &held->entries[i];
        /* Looks at this place again after a removal, which may have shifted another entry to it. */
        if (entry->id != 0 && entry->until_ms < now_ms)
            held_remove(held, entry->id);
        else
            i++;
    }
}
