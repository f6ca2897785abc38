/* wheel.h: hierarchical timing wheel with ticks of 1 ms.
 *
 * After Varghese & Lauck, "Hashed and Hierarchical Timing Wheels" (SOSP 1987), scheme 7. It has eight bits per level,
 * eight levels for all 64 bits, and intrusive doubly linked buckets. An occupancy bitmap per level makes idle time cost
 * nothing. When a slot opens, its timers move to lower levels, so no precision is lost (TIME-1). A slot of a minute may
 * hold millions of timers, and moving them at once took a second. So each pop prepares one timer of each level: it
 * sorts the timer by its slot in the level below, before the slot opens.
 *
 * arm, cancel: O(1). pop: O(1) amortised plus the sort of a bucket. Timers expire in order of (due, tie). Not
 * thread-safe; allocates nothing. The caller owns a timer's memory and must not move it while armed. */
#ifndef TARRY_CORE_WHEEL_H
#define TARRY_CORE_WHEEL_H

#include <stdbool.h>
#include <stdint.h>

#define WHEEL_BITS 8
#define WHEEL_SLOTS (1 << WHEEL_BITS)
#define WHEEL_LEVELS 8
#define WHEEL_WORDS (WHEEL_SLOTS / 64)
#define WHEEL_STAGES 4 /* number of levels with a stage: levels 1 to 4; a slot of level 4 covers 49 days */
#define WHEEL_NEVER UINT64_MAX

struct wheel_timer {
    struct wheel_timer *next; /* next timer in the ring; NULL: the timer is not armed */
    struct wheel_timer *prev;
    uint64_t due_ms;
    uint64_t tie;
};

struct wheel_bucket { /* Timers in a ring through `head`. */
    struct wheel_timer head;
};

/* Timers of a level's earliest slot, sorted by their slots in the level below. */
struct wheel_stage {
    unsigned slot; /* slot whose timers are here; WHEEL_SLOTS: none, the stage is empty */
    uint64_t occupied[WHEEL_WORDS];
    struct wheel_bucket buckets[WHEEL_SLOTS];
};

struct wheel {
    uint64_t now_ms;   /* all timers due at or before this time are in `expired` or `late` */
    uint64_t asked_ms; /* latest time passed to wheel_pop. `wheel.now_ms` reaches it only when `expired` is empty */
    uint64_t armed;    /* number of armed timers, including expired ones that were not popped */
    uint64_t occupied[WHEEL_LEVELS][WHEEL_WORDS];
    struct wheel_bucket slots[WHEEL_LEVELS][WHEEL_SLOTS];
    struct wheel_stage stages[WHEEL_STAGES]; /* stages of the levels; the stage of a level is at level - 1 */
    /* Set of bits: if bit L - 1 is 1, some timers of the earliest slot of level L may not be in the level's stage
     * yet. */
    unsigned unprepared;
    struct wheel_bucket expired; /* expired timers, sorted by (due, tie) */
    struct wheel_bucket late; /* timers armed after their due time that precede the last one of `expired`; unsorted */
    uint64_t late_due_ms;     /* lower bound of the due times in `late`; valid if `late` is not empty */
};

/* Initialises a wheel. The wheel must not move afterwards. */
void wheel_init(struct wheel *wheel, uint64_t now_ms);
/* Arms a timer that is not armed (zero-initialise a new one). If due_ms is in the past, the next pops return the timer
 * in order. due_ms must not be WHEEL_NEVER. */
void wheel_arm(struct wheel *wheel, struct wheel_timer *timer, uint64_t due_ms, uint64_t tie);
/* Disarms the timer; does nothing if it is not armed. */
void wheel_cancel(struct wheel *wheel, struct wheel_timer *timer);
static inline bool wheel_is_armed(const struct wheel_timer *timer) {
    return timer->next != 0;
}
/* Returns when to pop next; WHEEL_NEVER: the wheel is empty. The time is never later than the earliest due time,
 * possibly earlier. A caller that pops at each returned time wakes at most WHEEL_LEVELS times per timer. */
uint64_t wheel_next(const struct wheel *wheel);
/* Disarms and returns the next timer with due_ms <= now_ms; NULL: none. now_ms must never decrease (asserted). */
struct wheel_timer *wheel_pop(struct wheel *wheel, uint64_t now_ms);
/* Returns the timer that the next wheel_pop will return, for a prefetch; NULL: not known yet. */
static inline const struct wheel_timer *wheel_at_hand(const struct wheel *wheel) {
    const struct wheel_timer *first = wheel->expired.head.next;
    return first != &wheel->expired.head ? first : 0;
}
/* Checks every invariant; for tests. */
bool wheel_check(const struct wheel *wheel);

#endif
