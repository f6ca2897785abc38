/* timeline.h: what is going to happen, in the order of virtual time. Two things at one moment happen in the order in
 * which they were put down, so that a history is the same whenever it is played.
 *
 * Nothing is ever taken back. What may have become pointless carries a number (the broker's life, say) and compares. */
#ifndef TARRY_TESTS_SIM_TIMELINE_H
#define TARRY_TESTS_SIM_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct world;
typedef void happen(struct world *world, void *argument, uint64_t number);

struct happening {
    uint64_t at_ns;
    uint64_t order;
    happen *run;
    void *argument;
    uint64_t number;
    uint32_t place; /* on whose machine (world.h) */
};

struct timeline {
    struct happening *items; /* a binary heap */
    size_t count;
    size_t capacity;
    uint64_t order;
};

void timeline_clear(struct timeline *timeline); /* keeps its memory */
void timeline_free(struct timeline *timeline);
/* `order` is given here. */
void timeline_add(struct timeline *timeline, const struct happening *happening);
/* When the next thing happens; UINT64_MAX: nothing will. */
uint64_t timeline_next_ns(const struct timeline *timeline);
struct happening timeline_pop(struct timeline *timeline);

#endif
