/* timers.c: see timers.h. The parent of place p is p / 2. */
#include "timers.h"

#include <assert.h>
#include <stdlib.h>

void timers_deinit(struct timers *timers) {
    free(timers->items);
    *timers = (struct timers){NULL, 0, 0};
}

bool timers_reserve(struct timers *timers, size_t count) {
    if (count <= timers->capacity) return true;
    size_t capacity = timers->capacity == 0 ? 64 : timers->capacity;
    while (capacity < count) capacity *= 2;
    struct timer **items = realloc(timers->items, capacity * sizeof(struct timer *));
    if (items == NULL) return false;
    timers->items = items;
    timers->capacity = capacity;
    return true;
}

static struct timer *at(const struct timers *timers, size_t place) {
    return timers->items[place - 1];
}

static void put(struct timers *timers, size_t place, struct timer *timer) {
    timers->items[place - 1] = timer;
    timer->place = place;
}

static void rise(struct timers *timers, struct timer *timer) {
    size_t place = timer->place;
    for (; place > 1 && at(timers, place / 2)->at_ms > timer->at_ms; place /= 2)
        put(timers, place, at(timers, place / 2));
    put(timers, place, timer);
}

static void sink(struct timers *timers, struct timer *timer) {
    size_t place = timer->place;
    for (;;) {
        size_t child = place * 2;
        if (child > timers->count) break;
        if (child < timers->count && at(timers, child + 1)->at_ms < at(timers, child)->at_ms) child++;
        if (at(timers, child)->at_ms >= timer->at_ms) break;
        put(timers, place, at(timers, child));
        place = child;
    }
    put(timers, place, timer);
}

static void settle(struct timers *timers, struct timer *timer) {
    rise(timers, timer);
    sink(timers, timer);
}

void timer_set(struct timers *timers, struct timer *timer, uint64_t at_ms) {
    timer->at_ms = at_ms;
    if (timer->place == 0) {
        assert(timers->count < timers->capacity);
        put(timers, ++timers->count, timer);
    }
    settle(timers, timer);
}

void timer_clear(struct timers *timers, struct timer *timer) {
    if (timer->place == 0) return;
    struct timer *last = at(timers, timers->count--);
    if (last != timer) {
        put(timers, timer->place, last);
        settle(timers, last);
    }
    timer->place = 0;
}
