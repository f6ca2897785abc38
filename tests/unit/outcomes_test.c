/* outcomes_test.c: compares the memory of ended tasks (broker/core/outcomes.c) with a plain list. Remembering a task
 * costs the same whatever ended before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../random.h"
#include "outcomes.h"

static struct outcome ending(uint64_t id, const char *key) {
    return (
        struct outcome){.id = id, .ended_ms = id, .queue = 1, .key = key, .key_size = key ? (uint8_t)strlen(key) : 0};
}

/* Returns this thread's CPU time, so that a busy machine does not change the result. */
static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Long random runs with and without keys, short and long. The task found under a key is the one that ended last, and no
 * outcome since known_since is missing (TRUE-1). */
static void what_is_known_agrees_with_a_list(void **state) {
    (void)state;
    enum { ENDINGS = 4000, KEYS = 50 };
    struct random random = {random_seed(7)};
    struct outcomes *outcomes = outcomes_new(300, UINT64_MAX);
    static uint64_t last[KEYS]; /* for each key: the task that ended last */
    bool with_keys = false;
    for (uint64_t id = 1; id <= ENDINGS; id++) {
        char key[256];
        if (random_below(&random, 200) == 0) with_keys = !with_keys;
        uint64_t name = random_below(&random, KEYS);
        memset(key, 'k', sizeof key);
        snprintf(key + (name % 5) * 40, 16, "-%d", (int)name);
        struct outcome outcome = ending(id, with_keys ? key : NULL);
        outcomes_push(outcomes, &outcome);
        if (with_keys) last[name] = id;
        assert_non_null(outcomes_by_id(outcomes, id));
        uint64_t since = outcomes_known_since(outcomes);
        assert_true(outcomes_count(outcomes) <= 300);
        assert_true(
            since == 0 ||
            !outcomes_by_id(outcomes,
                            since - 1)); /* one task ends in each millisecond, and its id is the time of its end */
        if (since > 0) assert_non_null(outcomes_by_id(outcomes, since));
        if (!with_keys) continue;
        for (name = 0; name < KEYS; name++) {
            memset(key, 'k', sizeof key);
            snprintf(key + (name % 5) * 40, 16, "-%d", (int)name);
            const struct outcome *found = outcomes_by_key(outcomes, 1, key, (uint8_t)strlen(key));
            if (last[name] >= since && last[name] > 0) assert_non_null(found);
            if (found) assert_int_equal(found->id, last[name]);
        }
    }
    outcomes_free(outcomes);
}

/* In an earlier version, each end visited all outcomes without a key, so that 50,000 ends took half a minute. */
static void endings_without_keys_do_not_slow_those_with(void **state) {
    (void)state;
    enum { WITHOUT = 262144, WITH = 50000 };
    struct outcomes *outcomes = outcomes_new(WITHOUT, UINT64_MAX);
    uint64_t id = 0;
    while (id < WITHOUT) {
        struct outcome outcome = ending(++id, NULL);
        outcomes_push(outcomes, &outcome);
    }
    double before_s = now_s();
    for (int i = 0; i < WITH; i++) {
        char key[32];
        snprintf(key, sizeof key, "order-%d", i);
        struct outcome outcome = ending(++id, key);
        outcomes_push(outcomes, &outcome);
    }
    assert_true(now_s() - before_s < 3);
    outcomes_free(outcomes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_known_agrees_with_a_list),
        cmocka_unit_test(endings_without_keys_do_not_slow_those_with),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
