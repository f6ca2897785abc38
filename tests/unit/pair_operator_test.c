/* pair_operator_test.c: a claim without a coordinator waits for as long as it may come to something, and no longer: a
 * node that went on claiming would neither lead nor follow (F-29). */
#include "pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define END 4096u

static struct pair_event answered(const struct pair *pair, enum pair_message_kind kind) {
    return (struct pair_event){.kind = PAIR_ANSWERED, .message = {.kind = kind, .serial = pair->serial}};
}

/* A follower whose operator wants it to lead, whom the other, who does not lead either, was asked to promise it. */
static struct pair claiming(void) {
    struct pair_hard_state hard_state = {.floor = 2, .led = 0, .in_sync = true};
    struct pair pair = {.self = 1, .other = 0, .by_operator = true, .run = 1};
    struct pair_effects out = {0};
    pair_start(&pair, &hard_state, END, &out);
    struct pair_event promote = {.kind = PAIR_TOLD, .word = PAIR_PROMOTE};
    pair_step(&pair, &promote, &out);
    struct pair_event nobody = answered(&pair, PAIR_NOT_LEADING);
    pair_step(&pair, &nobody, &out);
    struct pair_event noted = {.kind = PAIR_STATE_WRITTEN, .end = END};
    pair_step(&pair, &noted, &out);
    assert_int_equal(pair.role, PAIR_CANDIDATE);
    assert_int_equal(pair.epoch, 3); /* odd ones are node 1's, and 2 is promised */
    return pair;
}

static void a_claim_waits_for_who_does_not_lead(void **state) {
    struct pair pair = claiming();
    struct pair_effects out = {0};
    struct pair_event event = answered(&pair, PAIR_NOT_LEADING);
    event.message.floor = 2;
    pair_step(&pair, &event, &out);
    assert_int_equal(pair.role, PAIR_CANDIDATE);
}

static void a_claim_ends_where_somebody_leads(void **state) {
    const enum pair_message_kind of_a_leader[] = {PAIR_PROMISE, PAIR_FRAMES, PAIR_CUT_TO, PAIR_RETIRED};
    for (size_t i = 0; i < sizeof of_a_leader / sizeof *of_a_leader; i++) {
        struct pair pair = claiming();
        struct pair_effects out = {0};
        struct pair_event event = answered(&pair, of_a_leader[i]);
        event.message.epoch = 2;
        pair_step(&pair, &event, &out);
        assert_int_equal(pair.role, PAIR_FOLLOWING);
    }
}

static void a_claim_ends_that_is_never_promised(void **state) {
    for (int why = 0; why < 3; why++) {
        struct pair pair = claiming();
        struct pair_effects out = {0};
        struct pair_event event = answered(&pair, PAIR_NOT_LEADING);
        event.message.alone = why == 0;                      /* it has served alone */
        event.message.floor = why == 1 ? pair.epoch + 1 : 0; /* it has promised a later one */
        event.message.stranger = why == 2;                   /* this disk is another one to it */
        pair_step(&pair, &event, &out);
        assert_int_equal(pair.role, PAIR_FOLLOWING);
    }
}

static void an_answer_to_an_older_question_counts_for_nothing(void **state) {
    struct pair pair = claiming();
    struct pair_effects out = {0};
    struct pair_event event = answered(&pair, PAIR_FRAMES);
    event.message.serial--;
    pair_step(&pair, &event, &out);
    assert_int_equal(pair.role, PAIR_CANDIDATE);
}

/* There is none without a coordinator: a node that took a promise for one would refuse the first record it reads as
 * gone. */
static void a_promise_notes_no_record(void **state) {
    struct pair pair = claiming();
    struct pair_effects out = {0};
    struct pair_event event = answered(&pair, PAIR_PROMISE);
    event.message.epoch = 4;
    pair_step(&pair, &event, &out);
    event.message.serial = pair.serial;
    pair_step(&pair, &event, &out);
    assert_int_equal(pair.hard_state.floor, 4);
    assert_int_equal(pair.hard_state.recorded, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_claim_waits_for_who_does_not_lead),
        cmocka_unit_test(a_claim_ends_where_somebody_leads),
        cmocka_unit_test(a_claim_ends_that_is_never_promised),
        cmocka_unit_test(a_promise_notes_no_record),
        cmocka_unit_test(an_answer_to_an_older_question_counts_for_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
