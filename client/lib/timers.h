/* timers.h: moments at which something is to be done, the earliest first: a binary heap. O(log n), no walk. Intrusive:
 * a timer's memory is its owner's and must not move while it is set. Not thread-safe. */
#ifndef TARRY_TIMERS_H
#define TARRY_TIMERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct timer { /* zeroed: not set */
    uint64_t at_ms;
    size_t place; /* 1 … count; 0: it is not set */
};

struct timers { /* zeroed: none */
    struct timer **items;
    size_t count;
    size_t capacity;
};

void timers_deinit(struct timers *timers);
/* Makes room for `count` timers in all. False: out of memory. */
bool timers_reserve(struct timers *timers, size_t count);
/* Sets it, or moves it if it is set. There must be room. */
void timer_set(struct timers *timers, struct timer *timer, uint64_t at_ms);
/* Nothing, unless it is set. */
void timer_clear(struct timers *timers, struct timer *timer);
/* The earliest; NULL: none is set. */
static inline struct timer *timers_first(const struct timers *timers) {
    return timers->count > 0 ? timers->items[0] : NULL;
}

#endif
