/* pair_leading_test.c: a leader reads another record than it expected. */
#include "pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define END 4096u
#define EPOCH 2u

static const struct pair_record alone = {.epoch = EPOCH, .leader = 0, .in_sync = 1u << 0, .run = 1};

/* Returns the effect of that kind; kind 0: there was no such effect. */
static struct pair_effect step(struct pair *pair, struct pair_event event, enum pair_effect_kind kind) {
    struct pair_effects out = {0};
    struct pair_effect found = {0};
    pair_step(pair, &event, &out);
    for (size_t i = 0; i < out.count; i++)
        if (out.items[i].kind == kind) found = out.items[i];
    return found;
}

/* Returns node 0, which leads in asynchronous mode, and whose follower has everything. */
static struct pair leading(void) {
    return (struct pair){.self = 0,
                         .other = 1,
                         .may_lead_alone = true,
                         .is_async = true,
                         .run = 1,
                         .role = PAIR_LEADING,
                         .epoch = EPOCH,
                         .version = 7,
                         .record = alone,
                         .hard_state = {.floor = EPOCH, .recorded = EPOCH},
                         .durable = END,
                         .committed = END,
                         .begun = END,
                         .acked = END};
}

/* An operator has written the record again (`tarry pair record --write`). So the record does not list the follower as
 * in sync at first. */
/* Proves F-31. Pair history 3028166 of the simulator found the fault. */
static void an_asynchronous_hand_over_goes_on_when_the_record_was_another(void **state) {
    (void)state;
    struct pair pair = leading();
    const struct pair_event word = {.kind = PAIR_TOLD, .word = PAIR_HAND_OVER};
    const struct pair_event stopped = {.kind = PAIR_STOPPED, .end = END};
    const struct pair_event refused = {.kind = PAIR_RECORD_SWAPPED, .outcome = PAIR_REFUSED};
    const struct pair_event read = {.kind = PAIR_RECORD_READ, .outcome = PAIR_DONE, .version = 8, .record = alone};
    assert_int_equal(step(&pair, word, PAIR_STOP_WRITES).kind, PAIR_STOP_WRITES);
    assert_int_equal(step(&pair, stopped, PAIR_SWAP).version, 7);
    assert_int_equal(step(&pair, refused, PAIR_READ).kind, PAIR_READ);
    const struct pair_effect again = step(&pair, read, PAIR_SWAP);
    assert_int_equal(again.kind, PAIR_SWAP);
    assert_int_equal(again.version, 8);
    assert_int_equal(again.record.in_sync, 1u << 0 | 1u << 1);
    const struct pair_event done = {.kind = PAIR_RECORD_SWAPPED,
                                    .outcome = PAIR_DONE,
                                    .version = 9,
                                    .record = again.record};
    step(&pair, done, PAIR_SWAP);
    const struct pair_event asked = {.kind = PAIR_ASKED,
                                     .fits = true,
                                     .message = {.kind = PAIR_FOLLOW, .floor = EPOCH, .serial = 1, .end = END}};
    assert_int_equal(step(&pair, asked, PAIR_ANSWER).message.kind, PAIR_TAKE_OVER);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_asynchronous_hand_over_goes_on_when_the_record_was_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
