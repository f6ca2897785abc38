/* pair_record_test.c: a node of a pair always reads the newest record. If a change is reported during a read, the node
 * reads again, because the running read may return the older record. */
#include "pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define END 4096u

static size_t reads(const struct pair_effects *out) {
    size_t count = 0;
    for (size_t i = 0; i < out->count; i++) count += out->items[i].kind == PAIR_READ;
    return count;
}

/* Delivers the record at `version`: node 0 leads, and the nodes `in_sync` are in sync. Returns the number of reads that
 * follow. */
static size_t read_record(struct pair *pair, uint64_t version, uint32_t in_sync) {
    struct pair_effects out = {0};
    struct pair_event event = {.kind = PAIR_RECORD_READ, .outcome = PAIR_DONE, .version = version};
    event.record = (struct pair_record){.epoch = 2, .leader = 0, .in_sync = in_sync, .run = 1};
    pair_step(pair, &event, &out);
    return reads(&out);
}

static size_t record_changes(struct pair *pair) {
    struct pair_effects out = {0};
    struct pair_event event = {.kind = PAIR_CHANGED};
    pair_step(pair, &event, &out);
    return reads(&out);
}

/* Returns node 1, which follows node 0 and was not in sync at its last read. */
static struct pair following(void) {
    struct pair_hard_state hard_state = {.floor = 2, .recorded = 2};
    struct pair pair = {.self = 1, .other = 0, .run = 1};
    struct pair_effects out = {0};
    pair_start(&pair, &hard_state, END, &out);
    assert_int_equal(reads(&out), 1);
    assert_int_equal(read_record(&pair, 5, 1u << 0), 0);
    assert_int_equal(pair.role, PAIR_FOLLOWING);
    return pair;
}

static void a_change_is_read(void **state) {
    struct pair pair = following();
    assert_int_equal(record_changes(&pair), 1);
    assert_int_equal(read_record(&pair, 6, 1u << 0 | 1u << 1), 0);
    assert_true(pair_is_in_sync(&pair));
}

static void a_change_during_a_read_is_read_after_it(void **state) {
    struct pair pair = following();
    assert_int_equal(record_changes(&pair), 1);
    assert_int_equal(record_changes(&pair), 0); /* no second read begins while one is running */
    assert_int_equal(read_record(&pair, 6, 1u << 0), 1);
    assert_int_equal(read_record(&pair, 7, 1u << 0 | 1u << 1), 0);
    assert_true(pair_is_in_sync(&pair));
}

static void it_is_read_once_for_all_that_changed_meanwhile(void **state) {
    struct pair pair = following();
    record_changes(&pair);
    record_changes(&pair);
    record_changes(&pair);
    assert_int_equal(read_record(&pair, 6, 1u << 0), 1);
    assert_int_equal(read_record(&pair, 7, 1u << 0), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_change_is_read),
        cmocka_unit_test(a_change_during_a_read_is_read_after_it),
        cmocka_unit_test(it_is_read_once_for_all_that_changed_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
