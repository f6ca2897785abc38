/* timeline.c: see timeline.h. */
#include "timeline.h"

#include <stdlib.h>

#include "../must.h"

static bool is_before(const struct happening *a, const struct happening *b) {
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

void timeline_clear(struct timeline *timeline) {
    timeline->count = 0;
    timeline->order = 0;
}

void timeline_free(struct timeline *timeline) {
    free(timeline->items);
    *timeline = (struct timeline){0};
}

void timeline_add(struct timeline *timeline, const struct happening *happening) {
    if (timeline->count == timeline->capacity) {
        timeline->capacity = timeline->capacity ? timeline->capacity * 2 : 256;
        timeline->items = realloc(timeline->items, timeline->capacity * sizeof *timeline->items);
        MUST(timeline->items);
    }
    struct happening *items = timeline->items;
    struct happening added = *happening;
    added.order = timeline->order++;
    size_t at = timeline->count++;
    for (; at > 0 && is_before(&added, &items[(at - 1) / 2]); at = (at - 1) / 2) items[at] = items[(at - 1) / 2];
    items[at] = added;
}

uint64_t timeline_next_ns(const struct timeline *timeline) {
    return timeline->count ? timeline->items[0].at_ns : UINT64_MAX;
}

struct happening timeline_pop(struct timeline *timeline) {
    MUST(timeline->count);
    struct happening *items = timeline->items;
    struct happening first = items[0];
    struct happening last = items[--timeline->count];
    size_t at = 0;
    for (size_t child = 1; child < timeline->count; child = 2 * at + 1) {
        if (child + 1 < timeline->count && is_before(&items[child + 1], &items[child])) child++;
        if (!is_before(&items[child], &last)) break;
        items[at] = items[child];
        at = child;
    }
    if (timeline->count) items[at] = last;
    return first;
}
