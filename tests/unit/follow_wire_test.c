/* follow_wire_test.c: the leader compares a follower's log with those frames of its own log that are not retired (R8).
 */
#include "follow_wire.h"
#include "log_two.h"

/* Returns the follower's first request, which lists its epochs. */
static Tarry__Follow question_of(struct two *two, uint32_t epochs[FOLLOW_EPOCHS_MAX],
                                 uint64_t starts[FOLLOW_EPOCHS_MAX], struct log_point *end) {
    Tarry__Follow follow = TARRY__FOLLOW__INIT;
    struct log_epochs known;
    assert_int_equal(log_epochs_read(two->follower.log, &known), 0);
    assert_true(known.count <= FOLLOW_EPOCHS_MAX);
    for (size_t i = 0; i < known.count; i++) {
        epochs[i] = known.items[i].epoch;
        starts[i] = known.items[i].start;
    }
    follow.epochs = epochs;
    follow.epoch_starts = starts;
    follow.n_epochs = follow.n_epoch_starts = known.count;
    log_epochs_deinit(&known);
    assert_int_equal(log_point(two->follower.log, log_end(two->follower.log), end), 0);
    follow.end = end->position;
    follow.chain = (ProtobufCBinaryData){FRAME_CHAIN_SIZE, end->chain};
    follow.last_epoch = end->epoch;
    return follow;
}

static struct pair_event compare(struct two *two) {
    uint32_t epochs[FOLLOW_EPOCHS_MAX];
    uint64_t starts[FOLLOW_EPOCHS_MAX];
    struct log_point end;
    struct pair_event event = {.kind = PAIR_ASKED};
    Tarry__Follow follow = question_of(two, epochs, starts, &end);
    assert_int_equal(follow_wire_compare(two->leader.log, &follow, &event), 0);
    return event;
}

static bool retire_one(struct two *two) {
    struct log_segment oldest;
    if (!log_oldest(two->leader.log, UINT64_MAX, &oldest)) return false;
    assert_int_equal(log_retire(two->leader.log, oldest.base), 0);
    return true;
}

static void a_beginning_of_the_log_fits_as_long_as_its_end_is_there(void **state) {
    struct two *two = *state;
    two_fill(two, &two->leader, 30);
    two_follow(two);
    two_fill(two, &two->leader, 60);
    bool is_there;
    do {
        struct pair_event event = compare(two);
        is_there = log_start(two->leader.log) <= log_end(two->follower.log);
        assert_int_equal(event.fits, is_there);
        assert_int_equal(event.retired, !is_there);
    } while (retire_one(two));
    assert_false(is_there);
}

/* Both nodes have led since their logs diverged at `common`. The leader's oldest segments are retired one after
 * another. */
static void part(struct two *two, size_t common, size_t apart) {
    uint64_t parted = two_diverge(two, common, apart);
    two_fill(two, &two->leader, 20);
    do {
        struct pair_event event = compare(two);
        uint64_t start = log_start(two->leader.log);
        assert_false(event.fits);
        assert_int_equal(event.retired, start > parted);
        assert_int_equal(event.end, event.retired ? start : parted);
    } while (retire_one(two));
    assert_true(log_start(two->leader.log) > parted);
}

static void where_two_logs_parted_is_found_as_long_as_it_is_there(void **state) { /* F-25, F-26 */
    for (size_t common = 0; common < 40; common++) {
        if (common > 0) two_set_up(state);
        part(*state, common, 1 + common * 7 % 30);
        two_tear_down(state);
    }
    two_set_up(state);
}

/* Makes two logs in which both nodes led the same epoch: `common` equal frames, and then different ones. `goes_on`: the
 * leader also has a frame of a later epoch. Returns whether the follower notices the difference at the position to
 * which the leader asks it to cut its log. */
static bool lead_twice(struct two *two, size_t common, size_t leaders, size_t followers, bool goes_on,
                       struct pair_event *out) {
    uint32_t epochs[FOLLOW_EPOCHS_MAX];
    uint64_t starts[FOLLOW_EPOCHS_MAX];
    uint8_t chain[FRAME_CHAIN_SIZE];
    struct log_point end;
    Tarry__FollowReply reply = TARRY__FOLLOW_REPLY__INIT;
    two_fill(two, &two->leader, common);
    two_follow(two);
    two->epoch++;
    for (size_t i = 0; i < leaders; i++) two_append(two, &two->leader, 100, 0);
    for (size_t i = 0; i < followers; i++) two_append(two, &two->follower, 141, 0);
    if (goes_on) two->epoch++;
    if (goes_on) two_append(two, &two->leader, 100, 0);
    assert_int_equal(log_sync(two->leader.log), 0);
    assert_int_equal(log_sync(two->follower.log), 0);
    Tarry__Follow follow = question_of(two, epochs, starts, &end);
    *out = (struct pair_event){.kind = PAIR_ASKED};
    assert_int_equal(follow_wire_compare(two->leader.log, &follow, out), 0);
    assert_false(out->fits || out->retired);
    struct pair_message answer = {.kind = PAIR_CUT_TO, .end = out->end};
    follow_wire_answer(&answer, &reply);
    assert_int_equal(follow_wire_tell_chain(two->leader.log, &follow, chain, &reply), 0);
    return follow_wire_differs(two->follower.log, &reply);
}

static void an_epoch_that_was_led_twice_is_found_where_the_two_would_be_cut(void **state) { /* F-31d */
    for (size_t i = 0; i < 64; i++) {
        struct pair_event event;
        if (i > 0) two_set_up(state);
        struct two *two = *state;
        bool differs = lead_twice(two, i % 8, 1 + i / 8 % 4, 1 + i / 2 % 5, i % 2 == 0, &event);
        /* The follower refuses a cut at which its log differs, as the pair's rules do. A cut that removes no frame is
         * harmless. */
        bool cuts_nothing = event.end == log_end(two->follower.log);
        assert_true(differs || cuts_nothing);
        two_tear_down(state);
    }
    two_set_up(state);
}

/* F-31d: the follower cuts its log only where that is correct. */
static void where_two_logs_parted_they_are_the_same(void **state) {
    struct two *two = *state;
    uint32_t epochs[FOLLOW_EPOCHS_MAX];
    uint64_t starts[FOLLOW_EPOCHS_MAX];
    uint8_t chain[FRAME_CHAIN_SIZE];
    struct log_point end;
    struct pair_event event = {.kind = PAIR_ASKED};
    Tarry__FollowReply reply = TARRY__FOLLOW_REPLY__INIT;
    uint64_t parted = two_diverge(two, 20, 9);
    Tarry__Follow follow = question_of(two, epochs, starts, &end);
    assert_int_equal(follow_wire_compare(two->leader.log, &follow, &event), 0);
    struct pair_message answer = {.kind = PAIR_CUT_TO, .end = event.end};
    follow_wire_answer(&answer, &reply);
    assert_int_equal(follow_wire_tell_chain(two->leader.log, &follow, chain, &reply), 0);
    assert_int_equal(reply.cut, parted);
    assert_int_equal(reply.chain.len, FRAME_CHAIN_SIZE);
    assert_false(follow_wire_differs(two->follower.log, &reply));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_beginning_of_the_log_fits_as_long_as_its_end_is_there, two_set_up,
                                        two_tear_down),
        cmocka_unit_test_setup_teardown(where_two_logs_parted_is_found_as_long_as_it_is_there, two_set_up,
                                        two_tear_down),
        cmocka_unit_test_setup_teardown(an_epoch_that_was_led_twice_is_found_where_the_two_would_be_cut, two_set_up,
                                        two_tear_down),
        cmocka_unit_test_setup_teardown(where_two_logs_parted_they_are_the_same, two_set_up, two_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
