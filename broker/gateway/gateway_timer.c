/* gateway_timer.c: deadlines, in a binary heap; the door's alarm is set to the earliest deadline. */
#include <stdlib.h>
#include <time.h>

#include "gateway_parts.h"

uint64_t timer_now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

static void put(struct timers *timers, size_t place, struct timer *timer) {
    timers->heap[place] = timer;
    timer->place = place;
}

static void rise(struct timers *timers, size_t place) {
    struct timer *timer = timers->heap[place];
    for (; place > 1 && timers->heap[place / 2]->at_ms > timer->at_ms; place /= 2)
        put(timers, place, timers->heap[place / 2]);
    put(timers, place, timer);
}

static void sink(struct timers *timers, size_t place) {
    struct timer *timer = timers->heap[place];
    for (size_t child; (child = 2 * place) <= timers->count; place = child) {
        if (child < timers->count && timers->heap[child + 1]->at_ms < timers->heap[child]->at_ms) child++;
        if (timers->heap[child]->at_ms >= timer->at_ms) break;
        put(timers, place, timers->heap[child]);
    }
    put(timers, place, timer);
}

static void set_alarm(struct gateway *gateway) {
    const struct timers *timers = &gateway->timers;
    if (timers->count == 0) return;
    uint64_t now_ms = timer_now_ms(), at_ms = timers->heap[1]->at_ms;
    door_alarm(gateway->door, at_ms > now_ms ? at_ms - now_ms : 0);
}

void timer_cancel(struct gateway *gateway, struct timer *timer) {
    struct timers *timers = &gateway->timers;
    size_t place = timer->place;
    if (place == 0) return;
    timer->place = 0;
    struct timer *last = timers->heap[timers->count--];
    if (last == timer) return;
    put(timers, place, last);
    rise(timers, place);
    sink(timers, last->place);
}

bool timer_arm(struct gateway *gateway, struct timer *timer, uint64_t after_ms) {
    struct timers *timers = &gateway->timers;
    timer_cancel(gateway, timer);
    if (timers->count + 2 > timers->capacity) {
        size_t capacity = timers->capacity > 0 ? 2 * timers->capacity : 64;
        struct timer **grown = realloc(timers->heap, capacity * sizeof(struct timer *));
        if (grown == NULL) return false;
        timers->heap = grown;
        timers->capacity = capacity;
    }
    timer->at_ms = timer_now_ms() + after_ms;
    put(timers, ++timers->count, timer);
    rise(timers, timers->count);
    if (timer->place == 1) set_alarm(gateway);
    return true;
}

void gateway_alarm(struct gateway *gateway) {
    struct timers *timers = &gateway->timers;
    uint64_t now_ms = timer_now_ms();
    while (timers->count > 0 && timers->heap[1]->at_ms <= now_ms) {
        struct timer *timer = timers->heap[1];
        timer_cancel(gateway, timer);
        timer->fires(gateway, timer);
    }
    set_alarm(gateway);
}

/* ---- timers of protocols */

struct told_timer {
    struct timer timer; /* must be the first member */
    uint64_t id;
    gateway_timeout *timeout;
    void *argument;
};

static void fires(struct gateway *gateway, struct timer *timer) {
    struct told_timer told = *(struct told_timer *)timer;
    handle_free(gateway, told.id);
    free(timer);
    told.timeout(told.argument);
}

uint64_t gateway_timer(struct gateway *gateway, uint64_t after_ms, gateway_timeout *timeout, void *argument) {
    struct told_timer *told = calloc(1, sizeof(*told));
    if (told == NULL) return 0;
    *told = (struct told_timer){.timer.fires = fires, .timeout = timeout, .argument = argument};
    told->id = handle_new(gateway, HANDLE_TIMER, told);
    if (told->id != 0 && timer_arm(gateway, &told->timer, after_ms)) return told->id;
    if (told->id != 0) handle_free(gateway, told->id);
    free(told);
    return 0;
}

void gateway_timer_cancel(struct gateway *gateway, uint64_t handle) {
    struct told_timer *told = handle_find(gateway, handle, HANDLE_TIMER);
    if (told == NULL) return;
    timer_cancel(gateway, &told->timer);
    handle_free(gateway, handle);
    free(told);
}
