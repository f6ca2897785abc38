/* timeline.h: future events in the order of virtual time. Events of the same moment happen in the order in which they
 * were added, so that a history is the same whenever it is played. Events are never removed. Therefore an event gets a
 * number, such as the broker's life, and does nothing if the number is no longer current. */
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
    uint32_t place; /* number of the machine on which the event happens (world.h) */
};

struct timeline {
    struct happening *items; /* the events, as a binary heap */
    size_t count;
    size_t capacity;
    uint64_t order;
};

void timeline_clear(
    struct timeline *timeline); /* removes all events; the memory stays allocated for the next history */
void timeline_free(struct timeline *timeline);
/* Adds an event, and sets its field `order`. */
void timeline_add(struct timeline *timeline, const struct happening *happening);
/* Returns the time of the next event; UINT64_MAX: there is none. */
uint64_t timeline_next_ns(const struct timeline *timeline);
struct happening timeline_pop(struct timeline *timeline);

#endif
