/* pair_following_test.c: which requests a follower sends, and when it repeats one. The reply to a repeated request
 * still counts as the newest, even if it is slow (F-16, R8). */
#include "pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define END 4096u
#define EPOCH 2u

static const struct pair_record record = {.epoch = EPOCH, .leader = 0, .in_sync = 1u << 0, .run = 1};

/* Returns the request that the step sends; kind 0: none. */
static struct pair_message step(struct pair *pair, struct pair_event event) {
    struct pair_effects out = {0};
    struct pair_message question = {0};
    pair_step(pair, &event, &out);
    for (size_t i = 0; i < out.count; i++)
        if (out.items[i].kind == PAIR_ASK) question = out.items[i].message;
    return question;
}

static struct pair_message read_record(struct pair *pair, uint64_t version) {
    return step(pair, (struct pair_event){
                          .kind = PAIR_RECORD_READ, .outcome = PAIR_DONE, .version = version, .record = record});
}

static struct pair_message silence(struct pair *pair) {
    return step(pair, (struct pair_event){.kind = PAIR_SILENT});
}

/* Returns node 1, which follows node 0, has promised its epoch, and is not in sync. */
static struct pair following(void) {
    struct pair_hard_state hard_state = {.floor = EPOCH, .recorded = EPOCH};
    struct pair pair = {.self = 1, .other = 0, .run = 1};
    struct pair_effects out = {0};
    pair_start(&pair, &hard_state, END, &out);
    assert_int_equal(read_record(&pair, 5).end, END);
    return pair;
}

static struct pair_message frames(const struct pair *pair, uint64_t stamp) {
    return (struct pair_message){.kind = PAIR_FRAMES, .epoch = EPOCH, .serial = pair->serial, .stamp = stamp};
}

static void who_hears_nothing_asks_the_same_question(void **state) { /* F-16 */
    (void)state;
    struct pair pair = following();
    const uint64_t serial = pair.serial;
    for (uint64_t version = 6; version < 9; version++) {
        assert_int_equal(silence(&pair).serial, serial);
        assert_int_equal(read_record(&pair, version).serial, serial);
    }
    const struct pair_message slow = frames(&pair, 1);
    assert_true(pair_takes(&pair, &slow));
    const struct pair_message next = step(&pair, (struct pair_event){.kind = PAIR_ANSWERED, .message = slow});
    assert_int_equal(next.serial, serial + 1);
    assert_int_equal(next.stamp, 1);
    assert_false(pair_takes(&pair, &slow)); /* the rules ignore a reply to an older request (R8) */
}

static void what_has_changed_here_is_another_question(void **state) { /* F-16, R8 */
    (void)state;
    struct pair pair = following();
    const uint64_t serial = pair.serial;
    step(&pair, (struct pair_event){.kind = PAIR_DURABLE, .end = 2 * END});
    assert_false(pair_asks_the_same(&pair));
    struct pair_message question = silence(&pair);
    assert_int_equal(question.serial, serial + 1);
    assert_int_equal(question.end, 2 * END);
    assert_int_equal(step(&pair, (struct pair_event){.kind = PAIR_TOLD, .word = PAIR_PROMOTE}).serial, serial + 2);
    question = silence(&pair);
    assert_int_equal(question.serial, serial + 2);
    assert_int_equal(question.word, PAIR_PROMOTE);
    const struct pair_message promise = {.kind = PAIR_PROMISE, .epoch = EPOCH + 1, .serial = serial + 2};
    step(&pair, (struct pair_event){.kind = PAIR_ANSWERED, .message = promise});
    assert_int_equal(silence(&pair).kind, 0); /* there is no request while the hard state is being made durable */
    question = step(&pair, (struct pair_event){.kind = PAIR_STATE_WRITTEN, .end = 2 * END});
    assert_int_equal(question.serial, serial + 3);
    assert_int_equal(question.floor, EPOCH + 1);
}

/* The record names this node as the leader, and shows that more was acknowledged than this node's log has. */
static void a_former_leader_that_lacks_what_was_acknowledged_does_not_lead_again(void **state) { /* F-9, R6 */
    (void)state;
    for (unsigned lacks = 0; lacks < 2; lacks++) {
        struct pair_hard_state hard_state = {.floor = EPOCH, .recorded = EPOCH};
        struct pair pair = {.self = 0, .other = 1, .run = 2};
        struct pair_effects out = {0};
        struct pair_event read = {.kind = PAIR_RECORD_READ, .outcome = PAIR_DONE, .version = 5, .record = record};
        read.record.high_water = END + lacks;
        pair_start(&pair, &hard_state, END, &out);
        out.count = 0;
        pair_step(&pair, &read, &out);
        assert_int_equal(out.count, 1);
        assert_int_equal(out.items[0].kind,
                         /* If its log is complete, the node fences the earlier epoch (refuses it from now on). */
                         lacks ? PAIR_END : PAIR_WRITE_STATE);
        assert_int_equal(pair.role, lacks ? PAIR_ENDED : PAIR_FENCING);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_hears_nothing_asks_the_same_question),
        cmocka_unit_test(what_has_changed_here_is_another_question),
        cmocka_unit_test(a_former_leader_that_lacks_what_was_acknowledged_does_not_lead_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
