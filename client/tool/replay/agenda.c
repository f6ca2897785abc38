/* agenda.c: see agenda.h. */
#include "agenda.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"

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
