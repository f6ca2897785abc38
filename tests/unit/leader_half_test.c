/* leader_half_test.c: decisions of a leader that are not in the pair's rules: which node may follow, what may leave
 * (R3), when a request is answered, and when a follower is given up (F-28). */
#include "leader_half.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "admission.h"
#include "tarry_limits.h"

#define MS PAIR_NS_PER_MS
#define SOLO_AFTER_MS 600
#define END 4096u

struct fx {
    struct leader_half half;
    struct pair pair;
    Tarry__Follow follow;
    uint8_t cluster[CLUSTER_ID_SIZE], other_cluster[CLUSTER_ID_SIZE];
    uint8_t self[MEMBER_ID_SIZE], other[MEMBER_ID_SIZE], third[MEMBER_ID_SIZE];
    struct hard_state hard_state;
};

static ProtobufCBinaryData bytes_of(uint8_t *data) {
    return (ProtobufCBinaryData){MEMBER_ID_SIZE, data};
}

/* Begins with a leader of epoch 3. Its follower is in sync and has every frame. */
static int begin(void **state) {
    static struct fx fx;
    fx = (struct fx){.pair = {.self = 0, .other = 1, .role = PAIR_LEADING, .epoch = 3, .counted = true, .stamp = 5}};
    const struct pair_times times = {.failover_after_ms = 300, .solo_after_ms = SOLO_AFTER_MS, .keep_ms = 50};
    leader_half_init(&fx.half, &times);
    leader_half_begin(&fx.half, END);
    fx.half.began = true;
    fx.pair.durable = fx.pair.committed = fx.pair.acked = END;
    fx.pair.record.in_sync = 3;
    memset(fx.cluster, 7, sizeof fx.cluster);
    memset(fx.other_cluster, 8, sizeof fx.other_cluster);
    memset(fx.self, 1, sizeof fx.self);
    memset(fx.other, 2, sizeof fx.other);
    memset(fx.third, 3, sizeof fx.third);
    memcpy(fx.hard_state.peer, fx.other, MEMBER_ID_SIZE);
    tarry__follow__init(&fx.follow);
    fx.follow.cluster = (ProtobufCBinaryData){CLUSTER_ID_SIZE, fx.cluster};
    fx.follow.member = bytes_of(fx.other);
    fx.follow.node = 1;
    fx.follow.log_version = FORMAT_VERSION;
    fx.follow.coordinated = true;
    fx.follow.end = END;
    fx.follow.stamp = 5;
    fx.follow.wait_ms = 200;
    *state = &fx;
    return 0;
}

/* The follower sends a request at `now_ns`; the reply will contain frames. */
static bool ask(struct fx *fx, uint64_t now_ns) {
    const struct pair_message frames = {.kind = PAIR_FRAMES, .epoch = fx->pair.epoch};
    leader_half_hear(&fx->half, &fx->pair, &fx->follow, now_ns);
    (void)leader_half_release(&fx->half);
    return leader_half_take(&fx->half, &fx->follow, fx, &frames, fx->pair.committed, now_ns);
}

static bool must_answer(struct fx *fx, uint64_t now_ns) {
    return leader_half_must_answer(&fx->half, &fx->pair, false, now_ns);
}

static bool is_near(struct fx *fx, uint64_t end, uint64_t now_ms) {
    return leader_half_is_near(&fx->half, end, now_ms * MS);
}

/* ---- admission */

static struct admission admit(struct fx *fx) {
    const struct admission_self self = {.cluster = fx->cluster, .member = fx->self, .hard_state = &fx->hard_state};
    return admission_of(&fx->pair, &self, &fx->follow);
}

static void the_other_node_of_the_pair_is_the_rules_to_answer(void **state) {
    struct fx *fx = *state;
    assert_int_equal(admit(fx).kind, ADMISSION_RULES);
    fx->follow.probes = true;
    assert_int_equal(admit(fx).kind, ADMISSION_PROBE);
    fx->follow.cluster.len = 0;
    assert_int_equal(admit(fx).kind, ADMISSION_JOIN);
}

static void a_stranger_is_refused_for_good(void **state) { /* F-29 */
    for (int what = 0; what < 6; what++) {
        (void)begin(state);
        struct fx *fx = *state;
        if (what == 0) fx->follow.cluster.data = fx->other_cluster;
        if (what == 1) fx->follow.log_version++;
        if (what == 2) fx->follow.coordinated = false;
        if (what == 3) fx->follow.node = 0;
        if (what == 4) fx->follow.member.len--;
        if (what == 5) fx->follow.member = bytes_of(fx->self);
        fx->follow.probes =
            true; /* even a probe from an unknown node is refused, and is no sign of the follower's life */
        struct admission admission = admit(fx);
        assert_int_equal(admission.kind, ADMISSION_REFUSE);
        assert_non_null(admission.sentence);
        assert_false(admission.is_early);
    }
}

static void another_cluster_is_refused_for_good_by_a_leader_only(void **state) { /* F-29 */
    struct fx *fx = *state;
    fx->follow.cluster.data = fx->other_cluster;
    fx->pair.role = PAIR_FOLLOWING;
    assert_true(admit(fx).is_early);
}

static void a_new_disk_is_refused_while_the_former_one_counts(void **state) { /* F-29 */
    struct fx *fx = *state;
    fx->follow.member = bytes_of(fx->third);
    assert_int_equal(admit(fx).kind, ADMISSION_REFUSE);
    assert_true(admit(fx).is_early);
    fx->pair.counted = false;
    assert_int_equal(admit(fx).kind, ADMISSION_RULES);
}

/* ---- what leaves */

static void a_question_is_confirmed_while_the_follower_counts(void **state) { /* R3, F-24 */
    struct fx *fx = *state;
    fx->pair.seen = 5;
    assert_int_equal(pair_confirmed(&fx->pair), 5);
    assert_false(pair_may_answer(&fx->pair, 6));
    assert_true(pair_may_answer(&fx->pair, 5));
    fx->pair.role = PAIR_YIELDING;
    assert_false(pair_may_answer(&fx->pair, 5)); /* a leader that was deposed answers no query */
    fx->pair.role = PAIR_LEADING;
    fx->pair.counted = false;
    assert_int_equal(pair_confirmed(&fx->pair), UINT64_MAX);
    assert_true(pair_may_answer(&fx->pair, 6));
}

static void what_goes_on_does_not_stall(void **state) { /* CALM-1 */
    struct fx *fx = *state;
    for (uint64_t ms = 0; ms <= 5000; ms += 500) { /* clients get replies all the time, and some replies always wait */
        leader_half_released(&fx->half, true, true, ms * MS);
        assert_false(leader_half_look(&fx->half, ms * MS));
    }
    for (uint64_t ms = 5250; ms <= 6000; ms += 250) { /* the leader checks when its timer says so */
        assert_int_equal(leader_half_timer(&fx->half), ms * MS);
        leader_half_released(&fx->half, false, true, ms * MS);
        assert_false(leader_half_look(&fx->half, ms * MS));
    }
    assert_int_equal(leader_half_timer(&fx->half), 6000 * MS + 1);
    assert_true(leader_half_look(&fx->half, 6000 * MS + 1)); /* the leader has sent no reply in the last second */
    assert_true(fx->half.stalled_ns != 0);
    assert_false(leader_half_look(&fx->half, 7000 * MS));
    leader_half_released(&fx->half, true, false, 7000 * MS);
    assert_true(leader_half_look(&fx->half, 7000 * MS));
    assert_int_equal(fx->half.stalled_ns, 0);
}

/* The leader was stopped, and the follower's message is still in a socket. */
static void what_a_leader_stood_still_for_is_no_stall_of_its_follower(void **state) { /* F-13 */
    struct fx *fx = *state;
    leader_half_released(&fx->half, false, true, 1000 * MS);
    assert_false(leader_half_look(&fx->half, 1000 * MS));
    leader_half_released(&fx->half, false, true, 9000 * MS);
    assert_false(leader_half_look(&fx->half, 9000 * MS));
    leader_half_released(&fx->half, true, true, 9001 * MS);
    assert_false(leader_half_look(&fx->half, 9001 * MS));
    uint64_t now_ns = 9001 * MS;
    while (!leader_half_look(&fx->half, now_ns)) now_ns = leader_half_timer(&fx->half);
    assert_int_equal(now_ns, 10001 * MS + 1);
}

/* ---- when a question is answered */

static void an_idle_follower_is_answered_when_its_time_is_over(void **state) {
    struct fx *fx = *state;
    assert_true(ask(fx, 1000 * MS));
    fx->half.told = fx->pair.committed;
    assert_false(must_answer(fx, 1000 * MS));
    assert_int_equal(leader_half_timer(&fx->half), 1200 * MS);
    assert_false(must_answer(fx, 1199 * MS));
    assert_true(must_answer(fx, 1200 * MS));
    fx->follow.wait_ms = 5000; /* ms; the leader answers earlier, so that the follower does not count it as silent */
    assert_true(ask(fx, 2000 * MS));
    assert_true(must_answer(fx, 2000 * MS + SOLO_AFTER_MS / 3 * MS));
}

static void news_are_told_at_once_and_what_is_committed_a_little_later(void **state) {
    struct fx *fx = *state;
    assert_true(ask(fx, 1000 * MS));
    /* No reply is due yet: a follower need not learn of a commit at once, because the timer or the next frames tell it
     * soon. */
    assert_false(must_answer(fx, 1002 * MS));
    assert_int_equal(leader_half_timer(&fx->half), 1003 * MS);
    assert_true(must_answer(fx, 1003 * MS));
    fx->half.told = fx->pair.committed;
    assert_false(must_answer(fx, 1003 * MS));
    /* The follower confirms frames (R3), so it gets a reply at once. */
    assert_true(leader_half_must_answer(&fx->half, &fx->pair, true, 1003 * MS));
    leader_half_written(&fx->half, END + 100);
    assert_true(must_answer(fx, 1003 * MS)); /* frames */
    fx->half.written = END;
    fx->half.held_stamp = 0;
    assert_true(
        must_answer(fx, 1003 * MS)); /* the leader must answer, because the follower does not know its leader yet */
    assert_ptr_equal(leader_half_release(&fx->half), fx);
    assert_false(must_answer(fx, 9000 * MS));
    assert_int_equal(leader_half_timer(&fx->half), UINT64_MAX);
    leader_half_look_at_disk(&fx->half, 8999 * MS, 9000 * MS);
    assert_int_equal(leader_half_timer(&fx->half), (9000 + HUNG_DISK_LOOK_MS) * MS);
}

static void only_frames_are_waited_for(void **state) {
    struct fx *fx = *state;
    const struct pair_message promise = {.kind = PAIR_PROMISE};
    assert_false(leader_half_take(&fx->half, &fx->follow, fx, &promise, END, MS));
    assert_null(leader_half_release(&fx->half));
}

static void what_is_committed_is_told_once_the_core_leads(void **state) {
    struct fx *fx = *state;
    struct pair_message answer = {.kind = PAIR_FRAMES, .committed = END};
    fx->half.began = false;
    leader_half_answer(&fx->half, &fx->pair, &answer);
    assert_int_equal(answer.committed, 0);
    answer.committed = END;
    fx->half.began = true;
    leader_half_answer(&fx->half, &fx->pair, &answer);
    assert_int_equal(answer.committed, END);
    assert_int_equal(fx->half.told, END);
}

/* Simulates a disk that hangs for `ms`. The leader checks the disk each time its timer fires. */
static void disk_hangs_for(struct fx *fx, uint64_t ms) {
    fx->half.disk = (struct hung_disk){0};
    leader_half_look_at_disk(&fx->half, 1000 * MS, 1001 * MS);
    while (hung_disk_ms(&fx->half.disk) < ms) {
        uint64_t next_ns = hung_disk_timer(&fx->half.disk), end_ns = (1000 + ms) * MS;
        leader_half_look_at_disk(&fx->half, 1000 * MS, next_ns < end_ns ? next_ns : end_ns);
    }
}

static void a_leader_whose_disk_hangs_has_its_follower_lead(void **state) { /* F-31a */
    struct fx *fx = *state;
    struct pair_message answer = {.kind = PAIR_FRAMES, .committed = END};
    assert_true(ask(fx, 1000 * MS));
    fx->half.told = END;
    disk_hangs_for(fx, LEADER_DISK_HUNG_MS - 1);
    assert_false(must_answer(fx, 1000 * MS));
    assert_true(leader_half_declares(&fx->half, &fx->pair));
    disk_hangs_for(fx, LEADER_DISK_HUNG_MS);
    assert_true(must_answer(fx, 1000 * MS));
    assert_false(leader_half_declares(&fx->half, &fx->pair));
    leader_half_answer(&fx->half, &fx->pair, &answer);
    assert_int_equal(answer.kind, PAIR_TAKE_OVER);
    fx->pair.record.in_sync = 1; /* the follower is not in sync, so it may lack acknowledged frames */
    assert_false(leader_half_is_hung(&fx->half, &fx->pair));
    fx->pair.record.in_sync = 3;
    fx->pair.by_operator = true;
    assert_false(leader_half_is_hung(&fx->half, &fx->pair));
}

/* ---- the follower */

/* F-28. */
static void a_follower_that_asks_and_stores_nothing_is_given_up(void **state) {
    struct fx *fx = *state;
    assert_true(ask(fx, 1000 * MS));
    /* UINT64_MAX: no reply waits for the follower. */
    assert_int_equal(leader_half_stuck_ns(&fx->half, &fx->pair), UINT64_MAX);
    leader_half_released(&fx->half, false, true, 2000 * MS);
    assert_int_equal(leader_half_stuck_ns(&fx->half, &fx->pair), (2000 + SOLO_AFTER_MS) * MS);
    leader_half_written(&fx->half, END + 200);
    fx->follow.end = END + 100;
    assert_true(ask(fx, 2300 * MS));
    assert_int_equal(leader_half_stuck_ns(&fx->half, &fx->pair), (2300 + SOLO_AFTER_MS) * MS);
    assert_true(ask(fx, 2600 * MS)); /* the follower has not stored any more frames since its last request */
    assert_int_equal(leader_half_stuck_ns(&fx->half, &fx->pair), (2300 + SOLO_AFTER_MS) * MS);
    leader_half_overslept(&fx->half, 2700 * MS);
    assert_int_equal(leader_half_stuck_ns(&fx->half, &fx->pair), (2700 + SOLO_AFTER_MS) * MS);
    assert_true(is_near(fx, END + 100, 2700));
    assert_true(leader_half_give_up(&fx->half));
    assert_false(leader_half_give_up(&fx->half)); /* reported once */
    assert_false(is_near(fx, END + 100, 2700));
    assert_true(is_near(fx, END + 101, 2700)); /* the follower has stored more frames */
    fx->follow.end = fx->half.written;
    assert_true(ask(fx, 2800 * MS)); /* the follower has every frame now, so it is waited for again at once */
    assert_false(leader_half_give_up(&fx->half));
    assert_true(is_near(fx, fx->half.written, 2800));
    fx->pair.counted = false;
    assert_int_equal(leader_half_stuck_ns(&fx->half, &fx->pair), UINT64_MAX);
}

static void a_strict_leader_gives_nobody_up(void **state) {
    struct fx *fx = *state;
    fx->half.times.solo_after_ms = PAIR_TIME_NEVER;
    leader_half_released(&fx->half, false, true, 2000 * MS);
    assert_int_equal(leader_half_stuck_ns(&fx->half, &fx->pair), UINT64_MAX);
    assert_true(ask(fx, 2000 * MS));
    assert_int_equal(fx->half.until_ns, 2200 * MS);
}

static void a_follower_that_is_far_behind_is_not_waited_for(void **state) { /* R5 */
    struct fx *fx = *state;
    leader_half_written(&fx->half, END + FOLLOW_NEAR_BYTES + 1);
    assert_false(is_near(fx, END, 1000));
    assert_true(is_near(fx, END + 1, 1000));
}

/* A sync of the leader makes the follower sync too, and all clients wait for that (CALM-1). */
static void a_follower_that_must_sync_often_is_waited_for_once_it_has_come_nearer(void **state) { /* R5 */
    struct fx *fx = *state;
    for (unsigned i = 1; i <= LEADER_NEAR_SYNCS + 1; i++) leader_half_written(&fx->half, END + i);
    leader_half_written(&fx->half, END + LEADER_NEAR_SYNCS + 1); /* nothing new */
    assert_false(is_near(fx, END, 1000));
    assert_true(is_near(fx, END + 1, 1001));
}

static void a_follower_that_comes_no_nearer_is_waited_for_in_the_end(void **state) { /* R5 */
    struct fx *fx = *state;
    for (unsigned i = 1; i <= 4 * LEADER_NEAR_SYNCS; i++) leader_half_written(&fx->half, END + i);
    assert_false(is_near(fx, END, 1000));
    assert_false(is_near(fx, END, 1000 + 2 * LEADER_NEAR_PATIENCE_MS - 1));
    assert_true(is_near(fx, END, 1000 + 2 * LEADER_NEAR_PATIENCE_MS));
    assert_false(
        is_near(fx, END, 1000 + 2 * LEADER_NEAR_PATIENCE_MS)); /* when the time limit has passed once, a new one begins,
                                                                  twice as long as the wait so far */
    assert_true(is_near(fx, END, 1000 + 4 * LEADER_NEAR_PATIENCE_MS));
}

static void more_syncs_than_are_known_are_waited_for_last(void **state) { /* R5 */
    struct fx *fx = *state;
    for (unsigned i = 1; i <= LEADER_SYNCS_KNOWN + 1; i++) leader_half_written(&fx->half, END + i);
    uint64_t doublings = 1;
    while (LEADER_NEAR_SYNCS << (doublings - 1) < LEADER_SYNCS_KNOWN) doublings++;
    assert_false(
        is_near(fx, END, 1000)); /* the leader remembers only LEADER_SYNCS_KNOWN syncs, so the oldest is missing */
    assert_false(is_near(fx, END, 1000 + doublings * LEADER_NEAR_PATIENCE_MS - 1));
    assert_true(is_near(fx, END, 1000 + doublings * LEADER_NEAR_PATIENCE_MS));
}

static void a_follower_that_was_gone_has_all_its_time_to_come_nearer(void **state) { /* R5 */
    struct fx *fx = *state;
    for (unsigned i = 1; i <= 2 * LEADER_NEAR_SYNCS; i++) leader_half_written(&fx->half, END + i);
    assert_true(ask(fx, 1000 * MS));
    assert_false(is_near(fx, END, 1000));
    assert_true(ask(fx, (1001 + LEADER_NEAR_PATIENCE_MS) * MS));
    assert_false(is_near(fx, END, 1001 + LEADER_NEAR_PATIENCE_MS));
}

static void the_log_is_kept_for_a_follower_that_comes(void **state) { /* F-27 */
    struct fx *fx = *state;
    assert_int_equal(fx->half.kept_from, UINT64_MAX);
    assert_true(ask(fx, 1000 * MS));
    assert_int_equal(fx->half.kept_from, END);
    leader_half_forget_needs(&fx->half, false, 1050 * MS);
    assert_int_equal(fx->half.kept_from, END);
    /* The node copies a snapshot. It becomes a follower when it has the whole snapshot. */
    leader_half_forget_needs(&fx->half, true, 1060 * MS);
    leader_half_forget_needs(&fx->half, false, 1110 * MS);
    assert_int_equal(fx->half.kept_from, END);
    leader_half_forget_needs(&fx->half, false, 1111 * MS);
    assert_int_equal(fx->half.kept_from, UINT64_MAX);
    const struct pair_message retired = {.kind = PAIR_RETIRED};
    assert_false(leader_half_take(&fx->half, &fx->follow, fx, &retired, END + 50, 2000 * MS));
    assert_int_equal(
        fx->half.kept_from,
        END + 50); /* the log is kept from the position that is committed now, where the snapshot continues */
}

static void nothing_is_kept_for_one_that_never_follows(void **state) {
    struct fx *fx = *state;
    fx->pair.by_operator = true;
    fx->follow.alone = true;
    leader_half_hear(&fx->half, &fx->pair, &fx->follow, 1000 * MS);
    assert_int_equal(fx->half.kept_from, UINT64_MAX);
    fx->follow.alone = false;
    fx->pair.role = PAIR_FOLLOWING;
    leader_half_hear(&fx->half, &fx->pair, &fx->follow, 1000 * MS);
    assert_int_equal(fx->half.kept_from, UINT64_MAX);
}

/* A new leader has everything that was acknowledged before, but may not have committed it yet. */
static void a_leader_tells_of_what_was_acknowledged_before_it_led(void **state) {
    struct pair pair = {.role = PAIR_LEADING, .begun = 5000, .committed = 3000};
    assert_int_equal(leader_half_known(&pair), 5000);
    pair.committed = 6000;
    assert_int_equal(leader_half_known(&pair), 6000);
    pair.role = PAIR_FOLLOWING;
    assert_int_equal(leader_half_known(&pair), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_leader_tells_of_what_was_acknowledged_before_it_led),
        cmocka_unit_test_setup(the_other_node_of_the_pair_is_the_rules_to_answer, begin),
        cmocka_unit_test_setup(a_stranger_is_refused_for_good, begin),
        cmocka_unit_test_setup(another_cluster_is_refused_for_good_by_a_leader_only, begin),
        cmocka_unit_test_setup(a_new_disk_is_refused_while_the_former_one_counts, begin),
        cmocka_unit_test_setup(a_question_is_confirmed_while_the_follower_counts, begin),
        cmocka_unit_test_setup(what_goes_on_does_not_stall, begin),
        cmocka_unit_test_setup(what_a_leader_stood_still_for_is_no_stall_of_its_follower, begin),
        cmocka_unit_test_setup(an_idle_follower_is_answered_when_its_time_is_over, begin),
        cmocka_unit_test_setup(news_are_told_at_once_and_what_is_committed_a_little_later, begin),
        cmocka_unit_test_setup(only_frames_are_waited_for, begin),
        cmocka_unit_test_setup(what_is_committed_is_told_once_the_core_leads, begin),
        cmocka_unit_test_setup(a_leader_whose_disk_hangs_has_its_follower_lead, begin),
        cmocka_unit_test_setup(a_follower_that_asks_and_stores_nothing_is_given_up, begin),
        cmocka_unit_test_setup(a_strict_leader_gives_nobody_up, begin),
        cmocka_unit_test_setup(a_follower_that_is_far_behind_is_not_waited_for, begin),
        cmocka_unit_test_setup(a_follower_that_must_sync_often_is_waited_for_once_it_has_come_nearer, begin),
        cmocka_unit_test_setup(a_follower_that_comes_no_nearer_is_waited_for_in_the_end, begin),
        cmocka_unit_test_setup(more_syncs_than_are_known_are_waited_for_last, begin),
        cmocka_unit_test_setup(a_follower_that_was_gone_has_all_its_time_to_come_nearer, begin),
        cmocka_unit_test_setup(the_log_is_kept_for_a_follower_that_comes, begin),
        cmocka_unit_test_setup(nothing_is_kept_for_one_that_never_follows, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
