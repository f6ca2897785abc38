/* deadlines.c: see deadlines.h. */
#include "deadlines.h"

#include <assert.h>
#include <stdlib.h>
#include <time.h>

uint64_t deadlines_now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

bool deadlines_init(struct deadlines *timers, size_t capacity) {
    *timers = (struct deadlines){.heap = calloc(capacity, sizeof(struct deadline *)), .capacity = capacity};
    return timers->heap != NULL;
}

void deadlines_deinit(struct deadlines *timers) {
    free(timers->heap);
    timers->heap = NULL;
}

static void put(struct deadlines *timers, size_t at, struct deadline *timer) {
    timers->heap[at] = timer;
    timer->place = at + 1;
}

static void sift_up(struct deadlines *timers, size_t at) {
    struct deadline *timer = timers->heap[at];
    for (; at > 0 && timers->heap[(at - 1) / 2]->key_us > timer->key_us; at = (at - 1) / 2)
        put(timers, at, timers->heap[(at - 1) / 2]);
    put(timers, at, timer);
}

static void sift_down(struct deadlines *timers, size_t at) {
    struct deadline *timer = timers->heap[at];
    for (size_t child; (child = 2 * at + 1) < timers->count; at = child) {
        if (child + 1 < timers->count && timers->heap[child + 1]->key_us < timers->heap[child]->key_us) child++;
        if (timers->heap[child]->key_us >= timer->key_us) break;
        put(timers, at, timers->heap[child]);
    }
    put(timers, at, timer);
}

void deadline_arm(struct deadlines *timers, struct deadline *timer, uint64_t due_us) {
    timer->due_us = due_us;
    if (timer->place == 0) {
        assert(timers->count < timers->capacity);
        timer->key_us = due_us;
        put(timers, timers->count++, timer);
        sift_up(timers, timer->place - 1);
    } else if (due_us < timer->key_us) {
        timer->key_us = due_us;
        sift_up(timers, timer->place - 1);
    }
}

void deadline_cancel(struct deadline *timer) {
    timer->due_us = 0;
}

void deadline_drop(struct deadlines *timers, struct deadline *timer) {
    timer->due_us = 0;
    if (timer->place == 0) return;
    size_t at = timer->place - 1;
    struct deadline *last = timers->heap[--timers->count];
    timer->place = 0;
    if (last == timer) return;
    put(timers, at, last);
    sift_up(timers, at);
    sift_down(timers, last->place - 1);
}

uint64_t deadlines_next_us(const struct deadlines *timers) {
    return timers->count > 0 ? timers->heap[0]->key_us : UINT64_MAX;
}

void deadlines_run(struct deadlines *timers, uint64_t now_us) {
    while (timers->count > 0 && timers->heap[0]->key_us <= now_us) {
        struct deadline *timer = timers->heap[0];
        if (timer->due_us > now_us) { /* the timer was moved to a later time, so the heap must be sorted again */
            timer->key_us = timer->due_us;
            sift_down(timers, 0);
            continue;
        }
        bool is_armed = timer->due_us != 0;
        deadline_drop(timers, timer);
        if (is_armed) timer->fire(timer);
    }
}
