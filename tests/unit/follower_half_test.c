/* follower_half_test.c: decisions of a follower that are not in the pair's rules: when it sends a request, the meaning
 * of a reply, and the order in which a reply's parts are handled (R2, R8, TIME-1, LOG-3). */
#include "follower_half.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MS PAIR_NS_PER_MS

struct fx {
    struct follower_half half;
    struct pair pair;
    struct pair_message frames; /* reply to the newest request */
};

/* Begins with a follower of epoch 3 that has everything up to 900, and knows that everything below 500 is committed. */
static int begin(void **state) {
    static struct fx fx;
    const struct pair_times times = {.failover_after_ms = 300, .solo_after_ms = 600};
    fx = (struct fx){.pair = {.role = PAIR_FOLLOWING,
                              .epoch = 3,
                              .hard_state = {.floor = 3},
                              .serial = 7,
                              .durable = 900,
                              .committed = 500},
                     .frames = {.kind = PAIR_FRAMES, .epoch = 3, .serial = 7}};
    follower_half_init(&fx.half, &times);
    *state = &fx;
    return 0;
}

/* Returns the steps of handling the reply, one letter for each step (see `letters`). */
static const char *steps_of(struct fx *fx, const struct pair_message *answer, bool has_frames, bool is_newest,
                            bool is_unfit) {
    static const char letters[] = {
        [FOLLOWER_CLOCK] = 'c',  [FOLLOWER_COPY] = 'f',     [FOLLOWER_SYNC] = 's',  [FOLLOWER_DURABLE] = 'd',
        [FOLLOWER_LEADER] = 'l', [FOLLOWER_ANSWERED] = 'a', [FOLLOWER_HEARD] = 'h', [FOLLOWER_APPLY] = 'y'};
    static char word[16];
    size_t count = 0;
    struct follower_take take = follower_take_begin(&fx->pair, answer, has_frames, is_newest);
    while (follower_take_next(&take, &fx->pair, 400) != FOLLOWER_DONE) {
        word[count++] = letters[take.step];
        if (take.step == FOLLOWER_COPY && is_unfit) follower_take_unfit(&take);
    }
    assert_int_equal(follower_take_next(&take, &fx->pair, 400), FOLLOWER_DONE);
    word[count] = '\0';
    return word;
}

static void frames_are_synced_before_they_are_told(void **state) { /* R2, TIME-1 */
    struct fx *fx = *state;
    assert_string_equal(steps_of(fx, &fx->frames, true, true, false), "cfsdlahy");
}

static void frames_that_do_not_fit_are_told_to_nobody(void **state) { /* R2 */
    struct fx *fx = *state;
    assert_string_equal(steps_of(fx, &fx->frames, true, true, true), "cfl");
}

static void an_answer_without_frames_is_a_sign_of_life(void **state) {
    struct fx *fx = *state;
    assert_string_equal(steps_of(fx, &fx->frames, false, true, false), "clahy");
    struct pair_message promise = {.kind = PAIR_PROMISE, .epoch = 4, .serial = 7};
    assert_string_equal(steps_of(fx, &promise, false, true, false), "clahy");
}

static void a_node_that_does_not_lead_gives_no_sign_and_no_time(void **state) { /* TIME-1 */
    struct fx *fx = *state;
    struct pair_message nobody = {.kind = PAIR_NOT_LEADING, .serial = 7};
    assert_string_equal(steps_of(fx, &nobody, false, true, false), "ay");
}

static void what_an_older_question_is_answered_is_no_sign_of_life(void **state) { /* R8, F-16 */
    struct fx *fx = *state;
    fx->frames.serial = 6;
    assert_string_equal(steps_of(fx, &fx->frames, true, false, false), "lay");
}

static void only_what_is_committed_is_applied(void **state) { /* LOG-3 */
    struct fx *fx = *state;
    assert_int_equal(follower_may_apply(&fx->pair), 500);
    fx->pair.committed = 400;
    assert_string_equal(steps_of(fx, &fx->frames, false, true, false), "clah");
    fx->pair.role = PAIR_FENCING;
    assert_int_equal(follower_may_apply(&fx->pair), 0);
}

static void what_is_committed_or_vouched_for_is_never_cut(void **state) { /* R8, LOG-3 */
    struct fx *fx = *state;
    assert_int_equal(follower_keeps(&fx->pair, 0), 500);
    assert_int_equal(follower_keeps(&fx->pair, 700), 700);
}

static void a_question_that_came_to_nothing_is_asked_again(void **state) { /* F-16 */
    struct fx *fx = *state;
    const struct pair_message question = {.kind = PAIR_FOLLOW, .serial = 8};
    assert_true(follower_half_ask(&fx->half, &question));
    assert_int_equal(fx->half.question.serial, 8);
    follower_half_sent(&fx->half, true, MS);
    follower_half_settle(&fx->half, &fx->pair, MS);
    assert_int_equal(fx->half.again_ns, UINT64_MAX); /* a request is in flight, so no new one is planned */
    fx->half.asking = false;
    fx->pair.writing_state = true;
    follower_half_settle(&fx->half, &fx->pair, MS);
    /* No request is planned here, because the pair's rules send one when the hard state has been written. */
    assert_int_equal(fx->half.again_ns, UINT64_MAX);
    fx->pair.writing_state = false;
    follower_half_settle(&fx->half, &fx->pair, MS);
    assert_int_equal(fx->half.again_ns, 51 * MS);
    assert_int_equal(follower_half_due(&fx->half, &fx->pair, 50 * MS), FOLLOWER_DUE_NOTHING);
    assert_int_equal(follower_half_due(&fx->half, &fx->pair, 51 * MS), FOLLOWER_DUE_ASK);
    /* A request is due only once. */
    assert_int_equal(follower_half_due(&fx->half, &fx->pair, 99 * MS), FOLLOWER_DUE_NOTHING);
    follower_half_sent(&fx->half, false, 100 * MS); /* the request was not sent, for want of memory */
    assert_int_equal(follower_half_due(&fx->half, &fx->pair, 150 * MS), FOLLOWER_DUE_ASK);
    fx->pair.role = PAIR_FENCING;
    follower_half_settle(&fx->half, &fx->pair, 200 * MS);
    assert_int_equal(fx->half.again_ns, UINT64_MAX);
}

/* This node's log may have retired the position that the follower's request names. */
static void a_node_that_leads_repeats_no_question_of_a_follower(void **state) { /* R7 */
    struct fx *fx = *state;
    const struct pair_message question = {.kind = PAIR_FOLLOW, .serial = 8}, proposal = {.kind = PAIR_PROPOSE};
    (void)follower_half_ask(&fx->half, &question);
    assert_true(follower_half_listens(&fx->half, &fx->pair));
    fx->pair.role = PAIR_LEADING;
    assert_false(follower_half_listens(&fx->half, &fx->pair));
    (void)follower_half_ask(&fx->half, &proposal);
    assert_true(follower_half_listens(&fx->half, &fx->pair));
    fx->pair.role = PAIR_CANDIDATE;
    assert_true(follower_half_listens(&fx->half, &fx->pair));
}

static void a_question_is_not_sent_again_while_its_answer_may_come(void **state) { /* F-16 */
    struct fx *fx = *state;
    const struct pair_message question = {.kind = PAIR_FOLLOW, .serial = 8}, newer = {.kind = PAIR_FOLLOW, .serial = 9};
    assert_true(follower_half_ask(&fx->half, &question));
    follower_half_sent(&fx->half, true, MS);
    assert_false(follower_half_ask(&fx->half, &question));
    assert_true(follower_half_ask(&fx->half, &newer));
    follower_half_sent(&fx->half, false, MS); /* the request was not sent, for want of memory */
    assert_true(follower_half_ask(&fx->half, &newer));
    follower_half_sent(&fx->half, true, MS);
    fx->half.asking = false; /* the request has been answered or has timed out */
    assert_true(follower_half_ask(&fx->half, &newer));
}

static void a_refusal_is_asked_again_after_a_while(void **state) {
    struct fx *fx = *state;
    follower_half_refused(&fx->half, MS);
    follower_half_settle(&fx->half, &fx->pair, MS); /* the planned time must not become earlier */
    assert_int_equal(fx->half.again_ns, 1001 * MS);
    follower_half_ask_again(&fx->half, MS);
    assert_int_equal(fx->half.again_ns, 51 * MS);
}

/* The other node was restarted twice. After that, a different process listens at its address. */
static void who_proves_nothing_is_asked_at_once_then_soon_then_as_one_who_refuses(void **state) { /* F-29 */
    struct fx *fx = *state;
    fx->half.again_ns = UINT64_MAX;
    assert_int_equal(follower_half_unproved(&fx->half, true, MS), FOLLOWER_ASKS_NOW);
    assert_true(fx->half.again_ns == UINT64_MAX); /* there is no timer, because the caller sends the request at once */
    for (int i = 2; i <= FOLLOWER_CHALLENGES_MAX; i++) {
        assert_int_equal(follower_half_unproved(&fx->half, true, MS), FOLLOWER_ASKS_SOON);
        assert_int_equal(fx->half.again_ns, 51 * MS);
    }
    assert_int_equal(follower_half_unproved(&fx->half, true, MS), FOLLOWER_REFUSED);
    assert_int_equal(fx->half.again_ns, 1001 * MS);
    follower_half_proved(&fx->half);
    assert_int_equal(follower_half_unproved(&fx->half, false, 2 * MS),
                     FOLLOWER_REFUSED); /* the reply has no challenge, or one that is known already */
    assert_int_equal(fx->half.again_ns, 1002 * MS);
    assert_int_equal(follower_half_unproved(&fx->half, true, MS), FOLLOWER_ASKS_NOW);
}

static void a_cut_that_must_wait_is_tried_again(void **state) { /* R8 */
    struct fx *fx = *state;
    fx->pair.cutting = true;
    follower_half_put_off_cut(&fx->half, 600, MS);
    assert_int_equal(follower_half_due(&fx->half, &fx->pair, 1000 * MS), FOLLOWER_DUE_NOTHING);
    assert_int_equal(follower_half_due(&fx->half, &fx->pair, 1001 * MS), FOLLOWER_DUE_CUT);
    assert_int_equal(fx->half.cut_end, 600);
}

static void a_goodbye_is_the_last_word(void **state) {
    struct fx *fx = *state;
    const struct pair_message question = {.kind = PAIR_FOLLOW, .serial = 8};
    fx->pair.epoch = 0; /* without a leader, no message counts as a sign of life */
    assert_false(follower_half_leave(&fx->half, &fx->pair));
    fx->pair.epoch = 3;
    fx->pair.cutting = true;
    assert_false(follower_half_leave(&fx->half, &fx->pair));
    fx->pair.cutting = false;
    fx->half.again_ns = 5 * MS;
    assert_true(follower_half_leave(&fx->half, &fx->pair));
    assert_false(follower_half_leave(&fx->half, &fx->pair));
    assert_false(follower_half_ask(&fx->half, &question));
    assert_int_equal(follower_half_due(&fx->half, &fx->pair, 9 * MS), FOLLOWER_DUE_NOTHING);
    fx->half.again_ns = 5 * MS;
    assert_int_equal(follower_half_due(&fx->half, &fx->pair, 9 * MS), FOLLOWER_DUE_NOTHING);
}

static void a_question_waits_for_less_than_the_leader_may_be_silent(void **state) {
    struct fx *fx = *state;
    assert_int_equal(follower_half_wait_ms(&fx->half), 100);
    assert_int_equal(follower_half_patience_ms(&fx->half), 1100);
    fx->half.times.failover_after_ms = 60000;
    assert_int_equal(follower_half_wait_ms(&fx->half), 200);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(frames_are_synced_before_they_are_told, begin),
        cmocka_unit_test_setup(frames_that_do_not_fit_are_told_to_nobody, begin),
        cmocka_unit_test_setup(an_answer_without_frames_is_a_sign_of_life, begin),
        cmocka_unit_test_setup(a_node_that_does_not_lead_gives_no_sign_and_no_time, begin),
        cmocka_unit_test_setup(what_an_older_question_is_answered_is_no_sign_of_life, begin),
        cmocka_unit_test_setup(only_what_is_committed_is_applied, begin),
        cmocka_unit_test_setup(what_is_committed_or_vouched_for_is_never_cut, begin),
        cmocka_unit_test_setup(a_question_that_came_to_nothing_is_asked_again, begin),
        cmocka_unit_test_setup(a_question_is_not_sent_again_while_its_answer_may_come, begin),
        cmocka_unit_test_setup(a_node_that_leads_repeats_no_question_of_a_follower, begin),
        cmocka_unit_test_setup(a_refusal_is_asked_again_after_a_while, begin),
        cmocka_unit_test_setup(who_proves_nothing_is_asked_at_once_then_soon_then_as_one_who_refuses, begin),
        cmocka_unit_test_setup(a_cut_that_must_wait_is_tried_again, begin),
        cmocka_unit_test_setup(a_goodbye_is_the_last_word, begin),
        cmocka_unit_test_setup(a_question_waits_for_less_than_the_leader_may_be_silent, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
