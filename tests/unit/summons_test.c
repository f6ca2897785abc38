/* summons_test.c: a follower sends a question to a silent leader through the coordinator, if the leader is present
 * there (F-10, F-31c). */
#include "summons.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MS PAIR_NS_PER_MS
#define START (1000 * MS)
#define WAIT_MS (SUMMONS_WAIT_NS / MS)

static struct pair follower(void) {
    return (struct pair){.role = PAIR_FOLLOWING, .self = 1, .version = 4, .record = {.in_sync = 3}};
}

/* Returns a question of run 7, asked at START, which reaches the coordinator after `took_ms`. */
static struct summons asked(const struct pair *pair, uint64_t took_ms) {
    struct summons summons;
    summons_init(&summons, 7);
    assert_int_equal(summons_asks(&summons, pair), 0);
    summons_ask(&summons, pair, START);
    summons_stands(&summons, START + took_ms * MS);
    return summons;
}

static bool is_present(struct summons *summons, uint64_t read_ms, uint64_t heard) {
    summons_reads(summons, START + read_ms * MS);
    return summons_is_present(summons, true, heard);
}

static void a_leader_that_does_not_answer_at_the_coordinator_is_absent(void **state) { /* F-10 */
    struct pair pair = follower();
    struct summons summons = asked(&pair, 20);
    assert_int_equal(summons_asks(&summons, &pair), (UINT64_C(7) << 32) + 1);
    assert_int_equal(summons_due_ns(&summons), START + (20 + WAIT_MS) * MS);
    assert_true(is_present(&summons, 20 + WAIT_MS - 1, 0));
    assert_false(is_present(&summons, 20 + WAIT_MS, 0));
    /* A question with this number belongs to another run of the follower. */
    assert_false(is_present(&summons, 20 + WAIT_MS, (UINT64_C(6) << 32) + 1));
    assert_true(is_present(&summons, 20 + WAIT_MS, (UINT64_C(7) << 32) + 1));
}

static void an_answer_is_good_for_a_while(void **state) { /* F-31c */
    struct pair pair = follower();
    struct summons summons = asked(&pair, 20);
    uint64_t number = summons_asks(&summons, &pair);
    assert_true(is_present(&summons, 100, number));
    assert_int_equal(summons_due_ns(&summons), UINT64_MAX);
    summons_ask(&summons, &pair, START + (100 + WAIT_MS - 1) * MS);
    assert_int_equal(summons_asks(&summons, &pair), number);
    assert_true(is_present(&summons, 5000, number)); /* the leader is asked under the same number as before */
    summons_ask(&summons, &pair, START + 5000 * MS);
    assert_int_equal(summons_asks(&summons, &pair), number + 1);
    assert_true(is_present(&summons, 5001, number)); /* the leader still has time to answer */
    summons_stands(&summons, START + 5010 * MS);
    assert_true(is_present(&summons, 5010 + WAIT_MS - 1, number));
    assert_false(is_present(&summons, 5010 + WAIT_MS, number));
}

/* The coordinator accepts changes slowly or not at all. An answer of the leader is such a change too. */
static void a_slow_coordinator_deposes_nobody(void **state) { /* F-31c */
    struct pair pair = follower();
    struct summons never;
    summons_init(&never, 7);
    summons_ask(&never, &pair, START);
    assert_true(is_present(&never, 60000, 0));
    assert_int_equal(summons_due_ns(&never), UINT64_MAX);
    struct summons slow = asked(&pair, 2000);
    assert_true(is_present(&slow, 3999, 0));
    assert_false(is_present(&slow, 4000, 0));
    slow = asked(&pair, 2000);
    summons_stands(&slow, START + 1 * MS); /* the time of the first answer counts, so this later one is ignored */
    assert_true(is_present(&slow, 3999, 0));
}

/* F-13: when the leader is heard again, or after a pause of the process, the question is dropped. A new question gets
 * the whole time limit. */
static void who_is_heard_is_not_asked(void **state) {
    struct pair pair = follower();
    struct summons summons = asked(&pair, 20);
    summons_end(&summons);
    assert_int_equal(summons_asks(&summons, &pair), 0);
    summons_stands(&summons, START);
    assert_true(is_present(&summons, 60000, 0));
    summons_ask(&summons, &pair, START + 60000 * MS);
    assert_int_equal(summons_asks(&summons, &pair), (UINT64_C(7) << 32) + 2);
    assert_true(is_present(&summons, 60001, 0));
}

static void only_who_could_take_over_asks(void **state) {
    for (int what = 0; what < 4; what++) {
        struct pair pair = follower();
        struct summons summons;
        if (what == 0) pair.record.in_sync = 1;
        if (what == 1) pair.role = PAIR_LEADING;
        if (what == 2) pair.by_operator = true;
        if (what == 3) pair.version = 0; /* the pair's record is not known */
        summons_init(&summons, 7);
        summons_ask(&summons, &pair, START);
        assert_int_equal(summons_asks(&summons, &pair), 0);
        assert_true(is_present(&summons, 60000, 0));
    }
}

static void who_is_not_there_is_not_present(void **state) {
    struct pair pair = follower();
    struct summons summons = asked(&pair, 20);
    summons_reads(&summons, START + 30 * MS);
    assert_false(summons_is_present(&summons, false, summons_asks(&summons, &pair)));
    summons_end(&summons);
    assert_false(summons_is_present(&summons, false, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_leader_that_does_not_answer_at_the_coordinator_is_absent),
        cmocka_unit_test(an_answer_is_good_for_a_while),
        cmocka_unit_test(a_slow_coordinator_deposes_nobody),
        cmocka_unit_test(who_is_heard_is_not_asked),
        cmocka_unit_test(only_who_could_take_over_asks),
        cmocka_unit_test(who_is_not_there_is_not_present),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
