/* deadlines.h: deadlines of one event loop, in a binary heap. Moving a deadline to a later time and cancelling it cost
 * O(1): the timer keeps its old place in the heap, and is moved or removed when it reaches the top. So a loop may wake
 * once without a timer to fire. Not thread-safe. Allocates only in deadlines_init: the owner states the maximum number
 * of timers. */
#ifndef TARRY_NET_DEADLINES_H
#define TARRY_NET_DEADLINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct deadline {
    void (*fire)(struct deadline *timer);
    uint64_t due_us; /* time at which the timer fires; 0: not armed */
    uint64_t key_us; /* time by which the heap is ordered; at most due_us */
    size_t place;    /* index in the heap plus 1; 0: not in the heap */
};

struct deadlines {
    struct deadline **heap;
    size_t count;
    size_t capacity;
};

/* Returns the monotonic clock in microseconds. */
uint64_t deadlines_now_us(void);
/* Initializes the heap. Returns false if memory is exhausted. */
bool deadlines_init(struct deadlines *timers, size_t capacity);
void deadlines_deinit(struct deadlines *timers);
/* Calls `timer->fire` once at `due_us`; replaces an earlier deadline. */
void deadline_arm(struct deadlines *timers, struct deadline *timer, uint64_t due_us);
void deadline_cancel(struct deadline *timer);
/* Removes the timer from the heap. Call it before the timer's memory is freed. */
void deadline_drop(struct deadlines *timers, struct deadline *timer);
/* Returns when the loop must wake at the latest; UINT64_MAX: never. */
uint64_t deadlines_next_us(const struct deadlines *timers);
/* Fires the timers that are due at `now_us`. A callback may arm, cancel and drop any timer. */
void deadlines_run(struct deadlines *timers, uint64_t now_us);

#endif
