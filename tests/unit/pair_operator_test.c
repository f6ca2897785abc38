/* pair_operator_test.c: without a coordinator, a claim waits only while it can still succeed. A node that claimed for
 * ever would neither lead nor follow (F-29). */
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

/* Returns a follower that was in sync, and has no answer from a leader yet. */
static struct pair following(void) {
    struct pair_hard_state hard_state = {.floor = 2, .in_sync = true};
    struct pair pair = {.self = 1, .other = 0, .by_operator = true, .run = 1};
    struct pair_effects out = {0};
    pair_start(&pair, &hard_state, END, &out);
    return pair;
}

/* Returns a follower that its operator wants to lead. It has asked the other node, which does not lead either, for a
 * promise. */
static struct pair claiming(void) {
    struct pair pair = following();
    struct pair_effects out = {0};
    struct pair_event promote = {.kind = PAIR_TOLD, .word = PAIR_PROMOTE};
    pair_step(&pair, &promote, &out);
    struct pair_event nobody = answered(&pair, PAIR_NOT_LEADING);
    pair_step(&pair, &nobody, &out);
    struct pair_event noted = {.kind = PAIR_STATE_WRITTEN, .end = END};
    pair_step(&pair, &noted, &out);
    assert_int_equal(pair.role, PAIR_CANDIDATE);
    assert_int_equal(pair.epoch, 3); /* node 1 claims odd epochs only, and epoch 2 is already promised */
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
        event.message.alone = why == 0;                      /* case 0: the other node has served alone */
        event.message.floor = why == 1 ? pair.epoch + 1 : 0; /* case 1: the other node has promised a later epoch */
        event.message.stranger = why == 2;                   /* case 2: the other node does not know this node's disk */
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

/* Without a coordinator there is no record. If the node stored a promised epoch as the record's epoch, it would later
 * refuse the first record that it reads as out of date. */
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

/* Returns a leader of epoch 2, which node 1 has promised. */
static struct pair leading(bool is_alone) {
    struct pair_hard_state hard_state = {.floor = 2, .led = 2, .in_sync = true, .alone = is_alone};
    struct pair pair = {.self = 0, .other = 1, .by_operator = true, .run = 1, .role = PAIR_LEADING, .epoch = 2};
    pair.hard_state = hard_state;
    pair.counted = !is_alone;
    return pair;
}

static const struct pair_effect *find(const struct pair_effects *out, enum pair_effect_kind kind) {
    for (size_t i = 0; i < out->count; i++)
        if (out->items[i].kind == kind) return &out->items[i];
    return NULL;
}

static void a_leader_that_hears_nothing_asks_which_epoch_the_other_leads(void **state) { /* F-26 */
    struct pair pair = leading(false);
    for (int i = 0; i < 2; i++) { /* repeats the same request, because its reply may still be in flight */
        struct pair_effects out = {0};
        pair_step(&pair, &(struct pair_event){.kind = PAIR_SILENT}, &out);
        const struct pair_effect *asks = find(&out, PAIR_ASK);
        assert_non_null(asks);
        assert_int_equal(asks->message.kind, PAIR_PROPOSE);
        assert_int_equal(asks->message.epoch, 2);
        assert_int_equal(asks->message.serial, pair.serial);
        assert_int_equal(pair.serial, 1);
    }
}

/* A leader ends if it learns of a later epoch from another leader. It also ends if a node that does not lead, but has
 * served alone, reports the later epoch. If the leader has served alone itself, it ignores such a node. */
static void a_leader_ends_that_hears_of_a_later_epoch(void **state) { /* F-24 */
    for (int is_alone = 0; is_alone < 2; is_alone++) {
        struct pair pair = leading(is_alone);
        struct pair_effects out = {0};
        struct pair_event leads = answered(&pair, PAIR_PROMISE);
        leads.message.epoch = 3;
        pair_step(&pair, &leads, &out);
        assert_non_null(find(&out, PAIR_END));
        for (int asks = 0; asks < 2; asks++) {
            struct pair asked = leading(is_alone);
            struct pair_effects then = {0};
            struct pair_event question = {
                .kind = PAIR_ASKED, .message = {.kind = asks ? PAIR_FOLLOW : PAIR_PROPOSE, .floor = 3, .alone = true}};
            pair_step(&asked, &question, &then);
            bool ends = find(&then, PAIR_END) != NULL;
            assert_int_equal(ends, !(is_alone && asks));
        }
    }
}

static void a_word_waits_for_the_other_nodes_answer(void **state) { /* F-24 */
    const enum { SAYS_NOTHING, FOLLOWS, LEADS, SERVED_ALONE } answers[] = {SAYS_NOTHING, FOLLOWS, LEADS, SERVED_ALONE};
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        struct pair pair = leading(false);
        struct pair_effects out = {0};
        pair_step(&pair, &(struct pair_event){.kind = PAIR_TOLD, .word = PAIR_SOLO}, &out);
        assert_true(pair.counted);
        assert_int_equal(pair.asserting, PAIR_SOLO);
        assert_non_null(find(&out, PAIR_ASK));
        struct pair_event event = answered(&pair, answers[i] == LEADS ? PAIR_PROMISE : PAIR_NOT_LEADING);
        event.message.epoch = answers[i] == LEADS ? 3 : 0;
        event.message.floor = 2;
        event.message.alone = answers[i] == SERVED_ALONE;
        if (answers[i] == SAYS_NOTHING) event = (struct pair_event){.kind = PAIR_UNANSWERED};
        out = (struct pair_effects){0};
        pair_step(&pair, &event, &out);
        assert_int_equal(pair.asserting, 0);
        bool serves_alone = answers[i] == SAYS_NOTHING || answers[i] == FOLLOWS;
        assert_int_equal(pair.hard_state.alone, serves_alone);
        assert_int_equal(find(&out, PAIR_END) != NULL, answers[i] == LEADS);
        assert_int_equal(find(&out, PAIR_SAY) != NULL, answers[i] == SERVED_ALONE);
    }
}

/* A repeated command keeps its question. With each new question, the shell's timeout would start again. An operator who
 * repeats the command sooner than that would wait for ever (pair history 320044664). */
static void a_repeated_word_keeps_its_question(void **state) { /* F-24 */
    const enum pair_word words[] = {PAIR_ASSERT, PAIR_ASSERT, PAIR_SOLO};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct pair pair = i == 0 ? following() : i == 1 ? claiming() : leading(false);
        struct pair_event told = {.kind = PAIR_TOLD, .word = words[i]};
        struct pair_effects out = {0}, again = {0}, then = {0};
        uint64_t before = pair.serial;
        pair_step(&pair, &told, &out);
        assert_non_null(find(&out, PAIR_ASK));
        assert_int_equal(pair.serial, before + 1);
        pair_step(&pair, &told, &again);
        const struct pair_effect *asks = find(&again, PAIR_ASK);
        assert_non_null(asks); /* asks again, because the first question may have ended without an event */
        assert_int_equal(asks->message.serial, before + 1);
        assert_int_equal(pair.serial, before + 1);
        pair_step(&pair, &(struct pair_event){.kind = PAIR_UNANSWERED}, &then);
        assert_int_equal(pair.asserting, 0);
        assert_true(pair.hard_state.alone);
    }
}

static void a_follower_takes_no_word_against_a_leader_that_answers(void **state) { /* F-24 */
    struct pair pair = following();
    struct pair_effects out = {0};
    pair_step(&pair, &(struct pair_event){.kind = PAIR_TOLD, .word = PAIR_ASSERT}, &out);
    struct pair_event frames = answered(&pair, PAIR_FRAMES);
    frames.message.epoch = 2;
    out = (struct pair_effects){0};
    pair_step(&pair, &frames, &out);
    assert_int_equal(pair.role, PAIR_FOLLOWING);
    const struct pair_effect *says = find(&out, PAIR_SAY);
    assert_non_null(says);
    assert_int_equal(says->epoch, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_leader_that_hears_nothing_asks_which_epoch_the_other_leads),
        cmocka_unit_test(a_leader_ends_that_hears_of_a_later_epoch),
        cmocka_unit_test(a_word_waits_for_the_other_nodes_answer),
        cmocka_unit_test(a_repeated_word_keeps_its_question),
        cmocka_unit_test(a_follower_takes_no_word_against_a_leader_that_answers),
        cmocka_unit_test(a_claim_waits_for_who_does_not_lead),
        cmocka_unit_test(a_claim_ends_where_somebody_leads),
        cmocka_unit_test(a_claim_ends_that_is_never_promised),
        cmocka_unit_test(a_promise_notes_no_record),
        cmocka_unit_test(an_answer_to_an_older_question_counts_for_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
