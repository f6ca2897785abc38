/* wheel.h: hierarchical timing wheel, 1 ms ticks.
 *
 * After Varghese & Lauck, "Hashed and Hierarchical Timing Wheels" (SOSP 1987), scheme 7: eight bits a level, eight
 * levels for all of 64 bits, intrusive doubly linked buckets, an occupancy bitmap per level so that idle time costs
 * nothing; timers cascade to lower levels as their slot opens, so no precision is lost (TIME-1). Most have been sorted
 * by their next slots by then, one of each level with each pop: a slot of a minute may hold millions, which took a
 * second at once.
 *
 * arm, cancel: O(1). pop: O(1) amortised plus the sort of a bucket. Timers come out in the order (due, tie).
 * Not thread-safe; allocates nothing; the timer's memory belongs to the caller and must not move while armed. */
#ifndef TARRY_CORE_WHEEL_H
#define TARRY_CORE_WHEEL_H

#include <stdbool.h>
#include <stdint.h>

#define WHEEL_BITS 8
#define WHEEL_SLOTS (1 << WHEEL_BITS)
#define WHEEL_LEVELS 8
#define WHEEL_WORDS (WHEEL_SLOTS / 64)
#define WHEEL_STAGES 4 /* levels 1 to 4 have one; a slot of level 4 is 49 days */
#define WHEEL_NEVER UINT64_MAX

struct wheel_timer {
    struct wheel_timer *next; /* NULL: not armed */
    struct wheel_timer *prev;
    uint64_t due_ms;
    uint64_t tie;
};

struct wheel_bucket { /* a ring through `head` */
    struct wheel_timer head;
};

/* The timers of the soonest slot of a level, by the slots of the level below that they will come to. */
struct wheel_stage {
    unsigned slot; /* whose; WHEEL_SLOTS: of none, and it is empty */
    uint64_t occupied[WHEEL_WORDS];
    struct wheel_bucket buckets[WHEEL_SLOTS];
};

struct wheel {
    uint64_t now_ms;   /* everything due at or before it has been moved to `expired` or `late` */
    uint64_t asked_ms; /* the latest now_ms of wheel_pop; now_ms stays behind while `expired` is not drained */
    uint64_t armed;    /* timers armed, expired ones not yet popped included */
    uint64_t occupied[WHEEL_LEVELS][WHEEL_WORDS];
    struct wheel_bucket slots[WHEEL_LEVELS][WHEEL_SLOTS];
    struct wheel_stage stages[WHEEL_STAGES]; /* [level - 1] */
    unsigned unprepared;                     /* bit level - 1: its soonest slot may not be in its stage as a whole */
    struct wheel_bucket expired;             /* in order (due, tie) */
    struct wheel_bucket late;                /* armed when due already, before the last of `expired`; in no order */
    uint64_t late_due_ms;                    /* valid while `late` is not empty: not above any due time in it */
};

/* The wheel must not move afterwards. */
void wheel_init(struct wheel *wheel, uint64_t now_ms);
/* The timer must not be armed (a new one is zeroed). due_ms in the past: it comes out at the next pop, in its order.
 * WHEEL_NEVER is not allowed. */
void wheel_arm(struct wheel *wheel, struct wheel_timer *timer, uint64_t due_ms, uint64_t tie);
/* Not armed: nothing happens. */
void wheel_cancel(struct wheel *wheel, struct wheel_timer *timer);
static inline bool wheel_is_armed(const struct wheel_timer *timer) {
    return timer->next != 0;
}
/* When to pop next: never later than the earliest due time, and (after that pop) exact in the end; WHEEL_NEVER when
 * empty. A caller that pops at each returned time wakes at most WHEEL_LEVELS times per timer. */
uint64_t wheel_next(const struct wheel *wheel);
/* The next timer with due_ms <= now_ms, disarmed; NULL when there is none. now_ms never goes back (asserted). */
struct wheel_timer *wheel_pop(struct wheel *wheel, uint64_t now_ms);
/* What the next wheel_pop returns, if it is known already; NULL: it is not. For fetching it into the cache. */
static inline const struct wheel_timer *wheel_at_hand(const struct wheel *wheel) {
    const struct wheel_timer *first = wheel->expired.head.next;
    return first != &wheel->expired.head ? first : 0;
}
/* Walks every invariant; for tests. */
bool wheel_check(const struct wheel *wheel);

#endif
