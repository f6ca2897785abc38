/* timers.h: timers in a binary heap, the earliest first. Setting and clearing take O(log n). A timer is embedded in
 * its owner's memory, which must not move while the timer is set. Not thread-safe. */
#ifndef TARRY_TIMERS_H
#define TARRY_TIMERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct timer { /* a timer of zeros is not set */
    uint64_t at_ms;
    size_t place; /* index in the heap, from 1; 0: not set */
};

struct timers { /* a struct of zeros is an empty heap */
    struct timer **items;
    size_t count;
    size_t capacity;
};

void timers_deinit(struct timers *timers);
/* Makes room for `count` timers in total. False: out of memory. */
bool timers_reserve(struct timers *timers, size_t count);
/* Sets or moves a timer. There must be room (timers_reserve). */
void timer_set(struct timers *timers, struct timer *timer, uint64_t at_ms);
/* Clears a timer. Nothing happens if it is not set. */
void timer_clear(struct timers *timers, struct timer *timer);
/* Returns the earliest timer; NULL: none is set. */
static inline struct timer *timers_first(const struct timers *timers) {
    return timers->count > 0 ? timers->items[0] : NULL;
}

#endif
