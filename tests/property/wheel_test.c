/* wheel_test.c: compares the timing wheel with a flat table (TIME-1).
 *
 * Each history arms, cancels, moves and advances timers at random, with times around the level boundaries. It checks
 * with the table every timer that expires, and every one that does not. A failure prints the seed; TARRY_SEED
 * repeats it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../random.h"
#include "wheel.h"

#define TIMERS 160
#define HISTORIES 10000
#define OPERATIONS 160

struct fixture {
    struct random random;
    struct wheel wheel;
    struct wheel_timer timers[TIMERS];
    bool armed[TIMERS]; /* state of the model, which has its own arrays for due times and ties */
    uint64_t due_ms[TIMERS];
    uint64_t tie[TIMERS];
    uint64_t now_ms;
    uint64_t seed;
};

static struct fixture fx;

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) fail_msg("%s (TARRY_SEED=%llu)", #condition, (unsigned long long)fx.seed);                   \
    } while (0)

/* Returns the model's earliest timer; -1: none. */
static int model_min(void) {
    int min = -1;
    for (int i = 0; i < TIMERS; i++) {
        if (!fx.armed[i]) continue;
        if (min < 0 || fx.due_ms[i] < fx.due_ms[min] || (fx.due_ms[i] == fx.due_ms[min] && fx.tie[i] < fx.tie[min])) {
            min = i;
        }
    }
    return min;
}

static uint64_t model_count(void) {
    uint64_t count = 0;
    for (int i = 0; i < TIMERS; i++) count += fx.armed[i];
    return count;
}

static uint64_t saturating_add(uint64_t a, uint64_t b) {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* Returns a time near now, of any magnitude ahead, at a level's boundary, or at the end of time. */
static uint64_t random_time(void) {
    struct random *random = &fx.random;
    uint64_t border;
    switch (random_below(random, 8)) {
    case 0:
        return saturating_add(fx.now_ms, random_below(random, 4));
    case 1:
        return saturating_add(fx.now_ms, random_below(random, 200));
    case 2: /* a time of now + 64^k ± 1 */
        border = 1ull << WHEEL_BITS * random_below(random, WHEEL_LEVELS);
        return saturating_add(fx.now_ms, border - 1 + random_below(random, 3));
    case 3: /* the next multiple of 64^k, ± 1 */
        border = 1ull << WHEEL_BITS * random_below(random, WHEEL_LEVELS);
        border = saturating_add(fx.now_ms & ~(border - 1), border);
        return border - 1 + random_below(random, border == UINT64_MAX ? 1 : 3);
    case 4:
        return UINT64_MAX - 1 - random_below(random, 3);
    case 5: /* a due time in the past */
        return fx.now_ms - (fx.now_ms > 0 ? random_magnitude(random, 62) % fx.now_ms : 0);
    default:
        return saturating_add(fx.now_ms, random_magnitude(random, 64));
    }
}

static void arm(int i) {
    uint64_t due_ms = random_time();
    if (due_ms == WHEEL_NEVER) due_ms--;
    fx.armed[i] = true;
    fx.due_ms[i] = due_ms;
    fx.tie[i] = random_below(&fx.random, 2) ? random_below(&fx.random, 8) : random_u64(&fx.random);
    wheel_arm(&fx.wheel, &fx.timers[i], due_ms, fx.tie[i]);
}

static void cancel(int i) {
    wheel_cancel(&fx.wheel, &fx.timers[i]);
    CHECK(!wheel_is_armed(&fx.timers[i]));
    fx.armed[i] = false;
}

/* Pops at most `count_max` timers and compares each with the model. Returns true if these were all due timers. */
static bool pop_and_compare(uint64_t count_max) {
    for (uint64_t n = 0; n < count_max; n++) {
        int min = model_min();
        uint64_t next_ms = wheel_next(&fx.wheel);
        CHECK(min >= 0 ? next_ms <= fx.due_ms[min] : next_ms == WHEEL_NEVER);
        struct wheel_timer *timer = wheel_pop(&fx.wheel, fx.now_ms);
        if (timer == NULL) {
            CHECK(min < 0 || fx.due_ms[min] > fx.now_ms); /* not late */
            next_ms = wheel_next(&fx.wheel);
            /* The next time is later than now, so the caller does not loop without sleeping. */
            CHECK(next_ms > fx.now_ms || next_ms == WHEEL_NEVER);
            CHECK(fx.wheel.now_ms == fx.now_ms);
            return true;
        }
        CHECK(timer->due_ms <= fx.now_ms); /* no timer expires early (TIME-1) */
        int i = (int)(timer - fx.timers);
        CHECK(i >= 0 && i < TIMERS && fx.armed[i] && !wheel_is_armed(timer));
        CHECK(fx.due_ms[i] == fx.due_ms[min] &&
              fx.tie[i] == fx.tie[min]); /* timers expire in the order of due time and tie */
        fx.armed[i] = false;
    }
    return false;
}

static void advance(void) {
    uint64_t to_ms = fx.now_ms;
    switch (random_below(&fx.random, 4)) {
    case 0: /* advances exactly to the timer's time, or 1 ms before or after it */
        to_ms = wheel_next(&fx.wheel);
        if (to_ms == WHEEL_NEVER) to_ms = fx.now_ms;
        to_ms = to_ms - (to_ms > 0) + random_below(&fx.random, 3);
        break;
    case 1:
        to_ms = saturating_add(fx.now_ms, random_magnitude(&fx.random, 20));
        break;
    case 2:
        to_ms = random_time();
        break;
    default:
        break;
    }
    if (to_ms > fx.now_ms) fx.now_ms = to_ms;
    /* Sometimes pops only some of the due timers, as a caller with bounded steps does. */
    pop_and_compare(random_below(&fx.random, 4) == 0 ? random_below(&fx.random, 4) : UINT64_MAX);
}

static void play(uint64_t seed) {
    memset(&fx, 0, sizeof(fx));
    fx.seed = seed;
    fx.random.state = seed;
    switch (random_below(&fx.random, 4)) {
    case 0:
        fx.now_ms = random_below(&fx.random, 3);
        break;
    case 1:
        fx.now_ms = UINT64_MAX - 1 - random_magnitude(&fx.random, 20);
        break;
    case 2:
        fx.now_ms = 1790000000000u + random_magnitude(&fx.random, 40);
        break;
    default:
        fx.now_ms = random_magnitude(&fx.random, 64);
        break;
    }
    wheel_init(&fx.wheel, fx.now_ms);
    uint64_t crowd = 1 + random_below(&fx.random, TIMERS);
    for (int n = 0; n < OPERATIONS; n++) {
        int i = (int)random_below(&fx.random, crowd);
        if (random_below(&fx.random, 4) == 0) {
            advance();
        } else if (!fx.armed[i]) {
            arm(i);
        } else if (random_below(&fx.random, 2) == 0) {
            cancel(i);
        } else { /* otherwise the test moves a timer */
            cancel(i);
            arm(i);
        }
        CHECK(fx.wheel.armed == model_count());
        if (n % 16 == 0) CHECK(wheel_check(&fx.wheel));
    }
    fx.now_ms = UINT64_MAX;
    CHECK(pop_and_compare(UINT64_MAX) && model_count() == 0 && wheel_check(&fx.wheel));
}

static void random_histories_agree_with_a_table(void **state) { /* TIME-1 */
    (void)state;
    if (getenv("TARRY_SEED") != NULL) {
        play(random_seed(0));
        return;
    }
    for (uint64_t seed = 1; seed <= HISTORIES; seed++) play(seed);
}

/* A timer at any boundary of any level expires at its millisecond, not one earlier. */
static void borders_are_exact_to_the_millisecond(void **state) { /* F-36, TIME-1 */
    (void)state;
    static const uint64_t starts[] = {0, 1, 63, 64, 4095, 1790000000123u, (1ull << 60) - 1, UINT64_MAX / 2};
    for (size_t s = 0; s < sizeof(starts) / sizeof(starts[0]); s++) {
        for (unsigned level = 0; level < WHEEL_LEVELS; level++) {
            for (int delta = -1; delta <= 1; delta++) {
                uint64_t due_ms = starts[s] + (1ull << WHEEL_BITS * level) + (uint64_t)delta;
                static struct wheel wheel;
                struct wheel_timer timer = {0};
                wheel_init(&wheel, starts[s]);
                wheel_arm(&wheel, &timer, due_ms, 0);
                if (due_ms > starts[s]) assert_null(wheel_pop(&wheel, due_ms - 1)); /* TIME-1 */
                assert_ptr_equal(wheel_pop(&wheel, due_ms), &timer);
                assert_int_equal(wheel_next(&wheel), WHEEL_NEVER);
            }
        }
    }
}

/* A caller that pops at each time from wheel_next wakes at most once per level. */
static void a_timer_costs_few_wakes(void **state) {
    (void)state;
    struct random random = {7};
    static struct wheel wheel;
    for (int n = 0; n < 10000; n++) {
        uint64_t now_ms = random_magnitude(&random, 63), due_ms = now_ms + random_magnitude(&random, 63);
        if (due_ms == WHEEL_NEVER) continue;
        struct wheel_timer timer = {0};
        wheel_init(&wheel, now_ms);
        wheel_arm(&wheel, &timer, due_ms, 1);
        int wakes = 0;
        while (wheel_pop(&wheel, now_ms) == NULL) {
            uint64_t next_ms = wheel_next(&wheel);
            assert_true(next_ms > now_ms && next_ms <= due_ms);
            now_ms = next_ms;
            wakes++;
        }
        assert_int_equal(now_ms, due_ms > wheel.now_ms ? due_ms : now_ms);
        assert_true(wakes <= WHEEL_LEVELS);
    }
}

/* Timers of the same millisecond expire in the order of their ties, however they were armed. */
static void ties_come_out_in_order(void **state) { /* F-38 */
    (void)state;
    enum { CROWD = 100000 };
    struct wheel_timer *timers = calloc(CROWD, sizeof(*timers));
    assert_non_null(timers);
    static struct wheel wheel;
    wheel_init(&wheel, 1000);
    for (uint64_t i = 0; i < CROWD; i++) wheel_arm(&wheel, &timers[i], 500000, i * 48271 % 100003);
    assert_null(wheel_pop(&wheel, 499999));
    uint64_t last = 0;
    for (int i = 0; i < CROWD; i++) {
        struct wheel_timer *timer = wheel_pop(&wheel, 500000);
        assert_non_null(timer);
        assert_true(i == 0 || timer->tie > last);
        last = timer->tie;
    }
    assert_null(wheel_pop(&wheel, 500000));
    free(timers);
}

/* CALM-1: popping a timer also sorts some timers of the next slot, so that the slot opens with little work. A timer
 * that is armed later for this slot goes directly to its sorted place. */
static void a_slot_opens_with_little_to_do(void **state) {
    (void)state;
    enum { SOON = 10000, CROWD = 9000, MINUTE = 1 << 2 * WHEEL_BITS };
    struct wheel_timer *timers = calloc(SOON + CROWD + 1, sizeof(*timers));
    assert_non_null(timers);
    static struct wheel wheel;
    wheel_init(&wheel, MINUTE);
    for (uint64_t i = 0; i < SOON; i++) wheel_arm(&wheel, &timers[i], MINUTE + 1 + i, i);
    for (uint64_t i = 0; i < CROWD; i++) wheel_arm(&wheel, &timers[SOON + i], 2 * MINUTE + i * 48271 % MINUTE, i);
    assert_ptr_not_equal(wheel.slots[2][2].head.next, &wheel.slots[2][2].head);
    for (uint64_t i = 0; i < SOON; i++) assert_ptr_equal(wheel_pop(&wheel, MINUTE + 1 + i), &timers[i]);
    wheel_arm(&wheel, &timers[SOON + CROWD], 2 * MINUTE + 300, CROWD);
    assert_ptr_equal(wheel.slots[2][2].head.next, &wheel.slots[2][2].head);
    assert_true(wheel_check(&wheel) && wheel.armed == CROWD + 1);
    uint64_t last_ms = 0;
    for (uint64_t i = 0; i <= CROWD; i++) {
        const struct wheel_timer *timer = wheel_pop(&wheel, 3 * MINUTE);
        assert_non_null(timer);
        assert_true(timer->due_ms >= last_ms);
        last_ms = timer->due_ms;
    }
    assert_null(wheel_pop(&wheel, 3 * MINUTE));
    free(timers);
}

/* A wheel with a timer in each kind of place: two expired, one late, one on level 0, one on a higher level. */
struct small {
    struct wheel wheel;
    struct wheel_timer popped, expired[2], late, near, far;
};

static void small_build(struct small *small) {
    memset(small, 0, sizeof(*small));
    wheel_init(&small->wheel, 1000);
    wheel_arm(&small->wheel, &small->popped, 1005, 0);
    wheel_arm(&small->wheel, &small->expired[0], 1005, 1);
    wheel_arm(&small->wheel, &small->expired[1], 1005, 2);
    wheel_arm(&small->wheel, &small->near, 1020, 0);
    wheel_arm(&small->wheel, &small->far, 1000000, 0);
    assert_ptr_equal(wheel_pop(&small->wheel, 1010), &small->popped);
    wheel_arm(&small->wheel, &small->late, 1004, 0);
}

/* Tests that the check on which all other tests rely can fail. */
static void a_broken_wheel_is_found_out(void **state) {
    (void)state;
    enum { WAYS = 18 };
    for (unsigned way = 0; way <= WAYS; way++) {
        struct small small;
        struct wheel *wheel = &small.wheel;
        small_build(&small);
        switch (way) {
        case 0: /* case 0: the wheel stays intact */
            break;
        case 1:
            small.near.next->prev = &small.far;
            break;
        case 2:
            small.near.prev->next = NULL;
            break;
        case 3:
            wheel->expired.head.prev = &small.near;
            break;
        case 4:
            wheel->late.head.next = NULL;
            break;
        case 5:
            wheel->occupied[WHEEL_LEVELS - 1][0] ^= 1;
            break;
        case 6:
            memset(wheel->occupied, 0, sizeof(wheel->occupied));
            break;
        case 7:
            small.near.due_ms = wheel->now_ms;
            break;
        case 8:
            small.near.due_ms = 1u << 30;
            break;
        case 9:
            small.near.due_ms++;
            break;
        case 10:
            wheel->asked_ms = wheel->now_ms - 1;
            break;
        case 11:
            wheel->armed++;
            break;
        case 12:
            small.expired[1].due_ms = wheel->now_ms + 1;
            break;
        case 13:
            small.expired[0].tie = 3;
            break;
        case 14:
            small.late.due_ms = wheel->now_ms + 1;
            break;
        case 15: /* the wheel has already prepared the slot of `far` */
            wheel->stages[1].occupied[0] ^= 2;
            break;
        case 16:
            wheel->stages[1].slot++;
            break;
        case 17:
            small.far.due_ms += 1 << WHEEL_BITS;
            break;
        case WAYS:
            small.late.due_ms = wheel->late_due_ms - 1;
            break;
        }
        if (wheel_check(wheel) != (way == 0)) fail_msg("way %u", way);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_broken_wheel_is_found_out),
        cmocka_unit_test(random_histories_agree_with_a_table),
        cmocka_unit_test(borders_are_exact_to_the_millisecond),
        cmocka_unit_test(a_timer_costs_few_wakes),
        cmocka_unit_test(ties_come_out_in_order),
        cmocka_unit_test(a_slot_opens_with_little_to_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
