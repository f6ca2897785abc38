/* record_reads_test.c: when a node of a pair reads the coordinator's record again (F-30, F-31b), and that it recognizes
 * a copy of itself (F-29). */
#include "record_reads.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MS UINT64_C(1000000)

static struct pair_event read_of(enum pair_outcome outcome, uint64_t version, uint8_t leader, uint32_t epoch) {
    return (struct pair_event){.kind = PAIR_RECORD_READ,
                               .outcome = outcome,
                               .version = version,
                               .record = {.leader = leader, .epoch = epoch}};
}

static void a_record_that_was_read_is_read_again_at_once(void **state) {
    struct pair pair = {.role = PAIR_FOLLOWING};
    struct pair_event event = read_of(PAIR_DONE, 4, 0, 3);
    struct record_reads reads;
    record_reads_init(&reads);
    assert_true(record_reads_ask(&reads, true, MS));
    assert_false(record_reads_took(&reads, &pair, &event));
    assert_true(record_reads_ask(&reads, false, 2 * MS));
    assert_false(record_reads_due(&reads, 9000 * MS));
}

static void a_coordinator_that_does_not_answer_is_asked_after_a_while(void **state) { /* F-30 */
    struct pair pair = {.role = PAIR_FOLLOWING};
    struct pair_event unknown = read_of(PAIR_UNKNOWN, 0, 0, 0), known = read_of(PAIR_DONE, 4, 0, 3);
    struct record_reads reads;
    record_reads_init(&reads);
    assert_true(record_reads_took(&reads, &pair, &unknown));
    assert_false(record_reads_ask(&reads, true, MS));
    assert_false(record_reads_due(&reads, 200 * MS));
    assert_true(record_reads_due(&reads, 201 * MS));
    assert_true(reads.presence);
    assert_false(record_reads_due(&reads, 202 * MS)); /* a read is due only once, so the second call returns false */
    assert_false(record_reads_took(&reads, &pair, &known));
    assert_true(record_reads_ask(&reads, true, 203 * MS));
}

static void a_record_that_is_lost_is_asked_for_after_a_while(void **state) { /* F-31b */
    struct pair pair = {.role = PAIR_FOLLOWING, .hard_state = {.recorded = 3}};
    struct pair_event gone = read_of(PAIR_DONE, 0, 0, 0);
    struct record_reads reads;
    record_reads_init(&reads);
    /* The read succeeded, but the node does not trust the result. */
    assert_false(record_reads_took(&reads, &pair, &gone));
    assert_false(record_reads_ask(&reads, false, MS));
    assert_false(reads.presence);
}

static void an_unknown_swap_is_not_a_read_that_failed(void **state) {
    struct pair pair = {.role = PAIR_LEADING};
    struct pair_event swapped = {.kind = PAIR_RECORD_SWAPPED, .outcome = PAIR_UNKNOWN};
    struct record_reads reads;
    record_reads_init(&reads);
    assert_false(record_reads_took(&reads, &pair, &swapped));
    assert_true(record_reads_ask(&reads, false, MS));
}

static void only_a_copy_claims_as_this_node_while_it_leads(void **state) { /* F-29 */
    struct pair pair = {.self = 1, .role = PAIR_LEADING, .epoch = 3};
    struct pair_event later = read_of(PAIR_DONE, 4, 1, 4);
    assert_true(record_reads_is_copied(&pair, &later));
    for (int what = 0; what < 6; what++) {
        struct pair_event event = later;
        pair.role = what == 0 ? PAIR_CANDIDATE : PAIR_LEADING;
        if (what == 1) event.record.epoch = 3;
        if (what == 2) event.record.leader = 0;
        if (what == 3) event.version = 0;
        if (what == 4) event.outcome = PAIR_UNKNOWN;
        if (what == 5) event.kind = PAIR_RECORD_SWAPPED;
        assert_false(record_reads_is_copied(&pair, &event));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_that_was_read_is_read_again_at_once),
        cmocka_unit_test(a_coordinator_that_does_not_answer_is_asked_after_a_while),
        cmocka_unit_test(a_record_that_is_lost_is_asked_for_after_a_while),
        cmocka_unit_test(an_unknown_swap_is_not_a_read_that_failed),
        cmocka_unit_test(only_a_copy_claims_as_this_node_while_it_leads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
