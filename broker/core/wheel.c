/* wheel.c: see wheel.h.
 *
 * A timer's level is the highest 8-bit digit in which its due time differs from now. Its slot is that digit of the due
 * time. Hence
 *   W-1  on each level every occupied slot is higher than the digit of now, so the lowest bit set is the earliest slot;
 *   W-2  every timer on a lower level is due before every timer on a higher level;
 *   W-3  if now advances at most to the first millisecond of the earliest slot, no timer changes its level or slot;
 *   W-4  timers due in the same millisecond are always in the same slot, in the order of arming; the timers that
 *        are already in the slot's stage come first.
 *
 * wheel_pop opens slot after slot. It distributes the bucket of an opened slot to lower levels, and moves the slot's
 * stage as a whole. Timers due in the current millisecond are sorted by tie and move to `expired`. That happens only
 * while `expired` is empty. So `expired` holds one millisecond at a time, and its order needs no search. A timer that
 * is armed after its due time is appended to `expired` if it comes last there. Otherwise it goes into `late`, and the
 * next pop sorts `late` and merges it. */
#include "wheel.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

/* ---- rings */

static void ring_init(struct wheel_bucket *bucket) {
    bucket->head = (struct wheel_timer){.next = &bucket->head, .prev = &bucket->head};
}

static bool ring_is_empty(const struct wheel_bucket *bucket) {
    return bucket->head.next == &bucket->head;
}

/* Inserts the timer before `next` in the ring. */
static void ring_insert(struct wheel_timer *next, struct wheel_timer *timer) {
    timer->next = next;
    timer->prev = next->prev;
    next->prev->next = timer;
    next->prev = timer;
}

static void ring_unlink(struct wheel_timer *timer) {
    timer->prev->next = timer->next;
    timer->next->prev = timer->prev;
    timer->next = timer->prev = NULL;
}

static bool timer_before(const struct wheel_timer *a, const struct wheel_timer *b) {
    return a->due_ms != b->due_ms ? a->due_ms < b->due_ms : a->tie < b->tie;
}

/* ---- sorting: merge sort of lists that are linked by `next` alone and end with NULL; no recursion */

/* Maximum number of sorted runs; run i contains 2^i timers, so 48 runs exceed any address space. */
#define RUNS_MAX 48

static struct wheel_timer *merge(struct wheel_timer *a, struct wheel_timer *b) {
    struct wheel_timer *first = NULL, **end = &first;
    while (a != NULL && b != NULL) {
        struct wheel_timer **sooner = timer_before(b, a) ? &b : &a;
        *end = *sooner;
        end = &(*sooner)->next;
        *sooner = *end;
    }
    *end = a != NULL ? a : b;
    return first;
}

/* Removes all timers from the ring and returns them sorted. They are usually sorted already, which takes one pass. */
static struct wheel_timer *ring_take_sorted(struct wheel_bucket *bucket) {
    if (ring_is_empty(bucket)) return NULL;
    struct wheel_timer *first = bucket->head.next;
    bucket->head.prev->next = NULL;
    ring_init(bucket);
    struct wheel_timer *at = first;
    while (at->next != NULL && !timer_before(at->next, at)) at = at->next;
    if (at->next == NULL) return first;
    struct wheel_timer *runs[RUNS_MAX] = {NULL};
    while (first != NULL) {
        struct wheel_timer *run = first;
        first = first->next;
        run->next = NULL;
        size_t i = 0;
        for (; runs[i] != NULL; i++) {
            assert(i + 1 < RUNS_MAX);
            run = merge(runs[i], run);
            runs[i] = NULL;
        }
        runs[i] = run;
    }
    for (size_t i = 0; i < RUNS_MAX; i++) first = merge(runs[i], first);
    return first;
}

/* Merges `late` into `expired`. Stops at the position of the last late timer. */
static void wheel_settle(struct wheel *wheel) {
    struct wheel_timer *late = ring_take_sorted(&wheel->late);
    struct wheel_timer *at = wheel->expired.head.next;
    while (late != NULL) {
        struct wheel_timer *timer = late;
        late = late->next;
        while (at != &wheel->expired.head && !timer_before(timer, at)) at = at->next;
        ring_insert(at, timer);
    }
}

/* ---- places */

static unsigned level_shift(unsigned level) {
    return level * WHEEL_BITS;
}

/* Returns the first millisecond of a slot that begins after now. */
static uint64_t slot_start(uint64_t now_ms, unsigned level, unsigned slot) {
    unsigned above = level_shift(level) + WHEEL_BITS;
    uint64_t high = above < 64 ? now_ms >> above << above : 0;
    return high | (uint64_t)slot << level_shift(level);
}

static void occupy(struct wheel *wheel, unsigned level, unsigned slot) {
    wheel->occupied[level][slot / 64] |= 1ull << slot % 64;
}

static void vacate(struct wheel *wheel, unsigned level, unsigned slot) {
    wheel->occupied[level][slot / 64] &= ~(1ull << slot % 64);
}

/* Returns the level's stage; NULL: it has none. */
static struct wheel_stage *stage_of(struct wheel *wheel, unsigned level) {
    return level >= 1 && level <= WHEEL_STAGES ? &wheel->stages[level - 1] : NULL;
}

/* Notes that another slot may now be the level's earliest one. */
static void level_changed(struct wheel *wheel, unsigned level) {
    if (stage_of(wheel, level) != NULL) wheel->unprepared |= 1u << (level - 1);
}

static bool stage_is_empty(const struct wheel_stage *stage) {
    return (stage->occupied[0] | stage->occupied[1] | stage->occupied[2] | stage->occupied[3]) == 0;
}

static void stage_insert(struct wheel_stage *stage, unsigned level, struct wheel_timer *timer) {
    unsigned below = timer->due_ms >> level_shift(level - 1) & (WHEEL_SLOTS - 1);
    ring_insert(&stage->buckets[below].head, timer);
    stage->occupied[below / 64] |= 1ull << below % 64;
}

static void wheel_place(struct wheel *wheel, struct wheel_timer *timer) {
    assert(timer->due_ms > wheel->now_ms);
    unsigned highest_bit = 63u - (unsigned)__builtin_clzll(timer->due_ms ^ wheel->now_ms);
    unsigned level = highest_bit / WHEEL_BITS;
    unsigned slot = timer->due_ms >> level_shift(level) & (WHEEL_SLOTS - 1);
    struct wheel_bucket *bucket = &wheel->slots[level][slot];
    struct wheel_stage *stage = stage_of(wheel, level);
    if (stage != NULL && stage->slot == slot && ring_is_empty(bucket)) /* W-4 */
        stage_insert(stage, level, timer);
    else
        ring_insert(&bucket->head, timer);
    if (stage != NULL && slot < stage->slot) level_changed(wheel, level);
    occupy(wheel, level, slot);
}

/* Updates the occupancy bitmaps after the ring of `head` (a bucket or a stage) has become empty, because the whole slot
 * may now be empty. */
static void wheel_emptied(struct wheel *wheel, const struct wheel_timer *head) {
    uintptr_t slot_at = (uintptr_t)head - (uintptr_t)&wheel->slots[0][0];
    uintptr_t stage_at = (uintptr_t)head - (uintptr_t)&wheel->stages[0];
    unsigned level, slot;
    struct wheel_stage *stage;
    if (slot_at < sizeof(wheel->slots)) {
        level = (unsigned)(slot_at / sizeof(struct wheel_bucket) / WHEEL_SLOTS);
        slot = (unsigned)(slot_at / sizeof(struct wheel_bucket) % WHEEL_SLOTS);
        stage = stage_of(wheel, level);
        if (stage == NULL || stage->slot != slot) stage = NULL;
    } else if (stage_at < sizeof(wheel->stages)) {
        level = (unsigned)(stage_at / sizeof(struct wheel_stage)) + 1;
        stage = stage_of(wheel, level);
        unsigned below = (unsigned)((const struct wheel_bucket *)head - stage->buckets);
        stage->occupied[below / 64] &= ~(1ull << below % 64);
        slot = stage->slot;
    } else {
        return; /* the timer was in `expired` or `late`, so no slot has changed */
    }
    if (!ring_is_empty(&wheel->slots[level][slot]) || (stage != NULL && !stage_is_empty(stage))) return;
    vacate(wheel, level, slot);
    if (stage == NULL) return;
    stage->slot = WHEEL_SLOTS;
    level_changed(wheel, level);
}

/* Returns the earliest slot of a level; WHEEL_SLOTS: none. */
static unsigned level_first(const struct wheel *wheel, unsigned level) {
    for (unsigned word = 0; word < WHEEL_WORDS; word++) {
        uint64_t occupied = wheel->occupied[level][word];
        if (occupied != 0) return word * 64 + (unsigned)__builtin_ctzll(occupied);
    }
    return WHEEL_SLOTS;
}

/* Finds the earliest slot: the earliest slot of the lowest level that has timers (W-1, W-2). Returns false if no slot
 * has timers. */
static bool wheel_first(const struct wheel *wheel, unsigned *out_level, unsigned *out_slot) {
    for (unsigned level = 0; level < WHEEL_LEVELS; level++) {
        unsigned slot = level_first(wheel, level);
        if (slot == WHEEL_SLOTS) continue;
        *out_level = level;
        *out_slot = slot;
        return true;
    }
    return false;
}

/* Moves one timer of each level's earliest slot to the level's stage, where timers are sorted by their slot in the
 * level below. So the work is spread over the pops, and little work is left when a slot opens. The timers are scattered
 * in memory, so the next one is prefetched. */
static void wheel_prepare(struct wheel *wheel) {
    for (unsigned left = wheel->unprepared; left != 0; left &= left - 1) {
        unsigned level = (unsigned)__builtin_ctz(left) + 1;
        struct wheel_stage *stage = stage_of(wheel, level);
        if (stage_is_empty(stage)) stage->slot = level_first(wheel, level);
        struct wheel_bucket *bucket = stage->slot < WHEEL_SLOTS ? &wheel->slots[level][stage->slot] : NULL;
        if (bucket == NULL || ring_is_empty(bucket)) {
            wheel->unprepared &= ~(1u << (level - 1));
            continue;
        }
        struct wheel_timer *timer = bucket->head.next;
        ring_unlink(timer);
        stage_insert(stage, level, timer);
        __builtin_prefetch(bucket->head.next);
    }
}

/* Moves the stage of an opened slot to the level below. On the level below all slots are empty, except the first, which
 * was opened already. */
static void stage_open(struct wheel *wheel, struct wheel_stage *stage, unsigned level) {
    struct wheel_bucket *below = wheel->slots[level - 1];
    stage->slot = WHEEL_SLOTS;
    level_changed(wheel, level);
    level_changed(wheel, level - 1);
    stage->occupied[0] &= ~1ull;
    for (unsigned word = 0; word < WHEEL_WORDS; word++) {
        uint64_t occupied = stage->occupied[word];
        wheel->occupied[level - 1][word] |= occupied;
        stage->occupied[word] = 0;
        for (; occupied != 0; occupied &= occupied - 1) {
            unsigned slot = word * 64 + (unsigned)__builtin_ctzll(occupied);
            struct wheel_bucket *from = &stage->buckets[slot];
            assert(ring_is_empty(&below[slot]));
            below[slot] = *from;
            below[slot].head.next->prev = below[slot].head.prev->next = &below[slot].head;
            ring_init(from);
        }
    }
}

/* Distributes the timers of a bucket whose slot has begun. */
static void bucket_open(struct wheel *wheel, struct wheel_bucket *bucket) {
    struct wheel_timer *timer = bucket->head.next;
    /* The loop ends at the bucket's head, because the timers are not unlinked one by one. */
    while (timer != &bucket->head) {
        struct wheel_timer *next = timer->next;
        assert(timer->due_ms >= wheel->now_ms); /* TIME-1: no timer of an earlier millisecond was skipped */
        if (timer->due_ms == wheel->now_ms) {
            ring_insert(&wheel->late.head, timer);
        } else {
            wheel_place(wheel, timer);
        }
        timer = next;
    }
    ring_init(bucket);
}

/* Opens a slot: now becomes its first millisecond. */
static void wheel_open_slot(struct wheel *wheel, unsigned level, unsigned slot) {
    struct wheel_stage *stage = stage_of(wheel, level);
    assert(ring_is_empty(&wheel->expired) && ring_is_empty(&wheel->late));
    wheel->now_ms = slot_start(wheel->now_ms, level, slot);
    vacate(wheel, level, slot);
    if (stage != NULL && stage->slot == slot) {
        stage_open(wheel, stage, level);
        bucket_open(wheel, &stage->buckets[0]);
    }
    bucket_open(wheel, &wheel->slots[level][slot]);
    wheel_settle(wheel);
}

/* ---- the interface */

void wheel_init(struct wheel *wheel, uint64_t now_ms) {
    wheel->now_ms = wheel->asked_ms = now_ms;
    wheel->armed = 0;
    wheel->late_due_ms = WHEEL_NEVER;
    wheel->unprepared = 0;
    ring_init(&wheel->expired);
    ring_init(&wheel->late);
    memset(wheel->occupied, 0, sizeof(wheel->occupied));
    for (unsigned level = 0; level < WHEEL_LEVELS; level++)
        for (unsigned slot = 0; slot < WHEEL_SLOTS; slot++) ring_init(&wheel->slots[level][slot]);
    for (unsigned i = 0; i < WHEEL_STAGES; i++) {
        wheel->stages[i].slot = WHEEL_SLOTS;
        memset(wheel->stages[i].occupied, 0, sizeof(wheel->stages[i].occupied));
        for (unsigned slot = 0; slot < WHEEL_SLOTS; slot++) ring_init(&wheel->stages[i].buckets[slot]);
    }
}

void wheel_arm(struct wheel *wheel, struct wheel_timer *timer, uint64_t due_ms, uint64_t tie) {
    assert(!wheel_is_armed(timer) && due_ms != WHEEL_NEVER);
    timer->due_ms = due_ms;
    timer->tie = tie;
    wheel->armed++;
    if (due_ms > wheel->now_ms) {
        wheel_place(wheel, timer);
    } else if (ring_is_empty(&wheel->expired) || !timer_before(timer, wheel->expired.head.prev)) {
        ring_insert(&wheel->expired.head, timer);
    } else {
        if (ring_is_empty(&wheel->late) || due_ms < wheel->late_due_ms) wheel->late_due_ms = due_ms;
        ring_insert(&wheel->late.head, timer);
    }
}

void wheel_cancel(struct wheel *wheel, struct wheel_timer *timer) {
    if (!wheel_is_armed(timer)) return;
    assert(wheel->armed > 0);
    wheel->armed--;
    struct wheel_timer *neighbour = timer->next;
    bool was_alone = neighbour == timer->prev;
    ring_unlink(timer);
    if (was_alone) wheel_emptied(wheel, neighbour); /* the neighbour is the ring's head, so the ring is empty */
}

uint64_t wheel_next(const struct wheel *wheel) {
    uint64_t next = WHEEL_NEVER;
    if (!ring_is_empty(&wheel->expired)) next = wheel->expired.head.next->due_ms;
    if (!ring_is_empty(&wheel->late) && wheel->late_due_ms < next) next = wheel->late_due_ms;
    unsigned level, slot;
    if (next == WHEEL_NEVER && wheel_first(wheel, &level, &slot)) next = slot_start(wheel->now_ms, level, slot);
    return next;
}

struct wheel_timer *wheel_pop(struct wheel *wheel, uint64_t now_ms) {
    assert(now_ms >= wheel->asked_ms); /* TIME-2 */
    wheel->asked_ms = now_ms;
    wheel_settle(wheel);
    wheel_prepare(wheel);
    while (ring_is_empty(&wheel->expired)) {
        unsigned level, slot;
        if (!wheel_first(wheel, &level, &slot) || slot_start(wheel->now_ms, level, slot) > now_ms) {
            wheel->now_ms = now_ms;
            return NULL;
        }
        wheel_open_slot(wheel, level, slot);
    }
    struct wheel_timer *timer = wheel->expired.head.next;
    assert(timer->due_ms <= now_ms); /* TIME-1 */
    ring_unlink(timer);
    wheel->armed--;
    return timer;
}

/* ---- for tests */

/* Returns the number of timers in a ring with consistent links; -1: inconsistent. */
static int64_t ring_check(const struct wheel_bucket *bucket) {
    int64_t count = 0;
    for (const struct wheel_timer *at = &bucket->head; at->next != &bucket->head; at = at->next, count++)
        if (at->next == NULL || at->next->prev != at) return -1;
    return bucket->head.prev->next == &bucket->head ? count : -1;
}

static bool is_occupied(const uint64_t *occupied, unsigned slot) {
    return (occupied[slot / 64] >> slot % 64 & 1) != 0;
}

/* Returns the number of timers in a slot's ring; -1: one is in the wrong place. */
static int64_t bucket_check(const struct wheel *wheel, const struct wheel_bucket *bucket, unsigned level,
                            unsigned slot) {
    int64_t count = ring_check(bucket);
    if (count < 0) return -1;
    for (const struct wheel_timer *at = bucket->head.next; at != &bucket->head; at = at->next) {
        if (at->due_ms <= wheel->now_ms) return -1;
        unsigned highest_bit = 63u - (unsigned)__builtin_clzll(at->due_ms ^ wheel->now_ms);
        if (highest_bit / WHEEL_BITS != level) return -1;
        if ((at->due_ms >> level_shift(level) & (WHEEL_SLOTS - 1)) != slot) return -1;
    }
    return count;
}

/* Checks a level's stage. Returns the number of its timers; negative: an invariant is broken. */
static int64_t stage_check(const struct wheel *wheel, unsigned level) {
    const struct wheel_stage *stage = &wheel->stages[level - 1];
    int64_t total = 0;
    for (unsigned i = 0; i < WHEEL_SLOTS; i++) {
        const struct wheel_bucket *bucket = &stage->buckets[i];
        int64_t count = bucket_check(wheel, bucket, level, stage->slot);
        if (count < 0 || (count > 0) != is_occupied(stage->occupied, i)) return -1;
        for (const struct wheel_timer *at = bucket->head.next; at != &bucket->head; at = at->next)
            if ((at->due_ms >> level_shift(level - 1) & (WHEEL_SLOTS - 1)) != i) return -1;
        total += count;
    }
    return total;
}

static bool slot_check(const struct wheel *wheel, unsigned level, unsigned slot, int64_t *total) {
    bool is_staged = level >= 1 && level <= WHEEL_STAGES && wheel->stages[level - 1].slot == slot;
    int64_t count = bucket_check(wheel, &wheel->slots[level][slot], level, slot);
    int64_t staged = is_staged ? stage_check(wheel, level) : 0;
    if (count < 0 || staged < 0 || (count + staged > 0) != is_occupied(wheel->occupied[level], slot)) return false;
    if (count + staged > 0 && slot_start(wheel->now_ms, level, slot) <= wheel->now_ms) return false; /* W-1 */
    *total += count + staged;
    return true;
}

bool wheel_check(const struct wheel *wheel) {
    int64_t expired = ring_check(&wheel->expired), late = ring_check(&wheel->late);
    if (expired < 0 || late < 0 || wheel->now_ms > wheel->asked_ms) return false;
    int64_t total = expired + late;
    for (unsigned level = 0; level < WHEEL_LEVELS; level++)
        for (unsigned slot = 0; slot < WHEEL_SLOTS; slot++)
            if (!slot_check(wheel, level, slot, &total)) return false;
    const struct wheel_timer *head = &wheel->expired.head;
    for (const struct wheel_timer *at = head->next; at != head; at = at->next)
        if (at->due_ms > wheel->now_ms || (at->next != head && timer_before(at->next, at))) return false;
    for (const struct wheel_timer *at = wheel->late.head.next; at != &wheel->late.head; at = at->next)
        if (at->due_ms > wheel->now_ms || at->due_ms < wheel->late_due_ms) return false;
    return (uint64_t)total == wheel->armed;
}
