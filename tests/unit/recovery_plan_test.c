/* recovery_plan_test.c: the order of the recovery's steps, and its refusals (engine/recovery_plan.h). */
#include "recovery_plan.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* ---- the core is a fake that accepts frames */

static struct {
    int error;
    unsigned frames;
} core;

int core_replay(struct core *of, const struct frame_header *header, const Tarry__FrameBody *body) {
    core.frames += core.error == 0;
    return core.error;
}

#define INDEXED 10000u

static const uint8_t chain[FRAME_CHAIN_SIZE] = {7};
static const uint8_t other_chain[FRAME_CHAIN_SIZE] = {8};

static struct recovery_plan begin(struct recovery_options options) {
    struct recovery_plan plan;
    memset(&core, 0, sizeof core);
    recovery_begin(&plan, &options);
    assert_int_equal(plan.effect, RECOVERY_OPEN_INDEX);
    struct recovery_index index = {
        .position = INDEXED, .log_start = 5000, .steady_ns = 300, .wall_ns = 400, .epoch = 6, .chain = {7}};
    recovery_index_opened(&plan, &index);
    assert_int_equal(plan.effect, RECOVERY_OPEN_LOG);
    return plan;
}

static struct log_recovery sound_log(void) {
    return (struct log_recovery){
        .start = 5000, .end = INDEXED + 2 * 512, .epoch = 7, .steady_ns = 500, .wall_ns = 350, .scan_chain = {7}};
}

static struct recovery_plan opened(struct recovery_options options) {
    struct recovery_plan plan = begin(options);
    struct log_recovery log = sound_log();
    recovery_log_opened(&plan, &log);
    assert_int_equal(plan.effect, RECOVERY_MAKE_CORE);
    return plan;
}

static struct recovery_plan restored(struct recovery_options options) {
    struct recovery_plan plan = opened(options);
    recovery_executed(&plan, 0);
    for (enum recovery_part part = RECOVERY_BASE; part < RECOVERY_PARTS; part++) {
        assert_int_equal(plan.effect, RECOVERY_RESTORE);
        assert_int_equal(plan.part, part);
        recovery_executed(&plan, 0);
    }
    return plan;
}

static void read_frame(struct recovery_plan *plan, uint64_t position) {
    struct frame_header header = {.position = position, .body_size = 512 - FRAME_HEADER_SIZE};
    Tarry__FrameBody body = TARRY__FRAME_BODY__INIT;
    assert_int_equal(frame_size(header.body_size, 0), 512);
    recovery_frame_read(plan, NULL, 0, &header, &body);
}

static struct recovery_plan replayed(void) {
    struct recovery_plan plan = restored((struct recovery_options){0});
    read_frame(&plan, INDEXED);
    read_frame(&plan, INDEXED + 512);
    recovery_frame_read(&plan, NULL, LOG_END, NULL, NULL);
    return plan;
}

static void the_tail_is_replayed_on_what_the_index_restored(void **state) { /* LOG-2, LOG-3 */
    struct recovery_plan plan = replayed();
    assert_int_equal(core.frames, 2);
    assert_int_equal(plan.effect, RECOVERY_FIND_LAST_STOP);
    recovery_executed(&plan, 0);
    assert_int_equal(plan.effect, RECOVERY_START_CLOCK);
    recovery_executed(&plan, 0);
    assert_int_equal(plan.effect, RECOVERY_DONE);
    assert_int_equal(plan.begins, CORE_START);
    assert_int_equal(plan.epoch, 8);
}

static void time_goes_on_from_the_later_of_log_and_index(void **state) { /* TIME-2 */
    struct recovery_plan plan = replayed();
    recovery_executed(&plan, 0);
    assert_int_equal(plan.last.steady_ns, 500);
    assert_int_equal(plan.last.wall_ns, 400);
}

static void a_copy_begins_with_an_epoch_of_its_own(void **state) { /* FENCE-1 */
    struct recovery_plan plan = restored((struct recovery_options){.epoch_min = 4000});
    plan.replay_to = INDEXED;
    recovery_frame_read(&plan, NULL, LOG_END, NULL, NULL);
    recovery_executed(&plan, 0);
    recovery_executed(&plan, 0);
    assert_int_equal(plan.epoch, 4000);
}

static void a_node_of_a_pair_replays_nothing(void **state) { /* LOG-3 */
    struct recovery_plan plan = restored((struct recovery_options){.is_pair = true});
    assert_int_equal(plan.effect, RECOVERY_START_CLOCK);
    recovery_executed(&plan, 0);
    assert_int_equal(plan.begins, CORE_FOLLOW);
    assert_int_equal(plan.epoch, 7);
}

static void an_inspection_stops_the_clock_and_begins_no_epoch(void **state) { /* TIME-2 */
    struct recovery_plan plan = restored((struct recovery_options){.inspects = true});
    plan.replay_to = INDEXED;
    recovery_frame_read(&plan, NULL, LOG_END, NULL, NULL);
    recovery_executed(&plan, 0);
    assert_int_equal(plan.effect, RECOVERY_STOP_CLOCK);
    recovery_executed(&plan, 0);
    assert_int_equal(plan.begins, CORE_INSPECT);
    assert_int_equal(plan.epoch, 7);
}

static void the_log_is_durable_as_far_as_anybody_remembers(void **state) { /* LOG-5 */
    struct recovery_plan plan = begin((struct recovery_options){0});
    assert_int_equal(plan.durable_min, INDEXED);
    plan = begin((struct recovery_options){.signed_position = INDEXED + 1, .signed_chain = chain});
    assert_int_equal(plan.durable_min, INDEXED + 1);
}

/* ---- refusals */

static void assert_refused(const struct log_recovery *log, enum recovery_refusal refusal) {
    struct recovery_plan plan = begin((struct recovery_options){0});
    recovery_log_opened(&plan, log);
    assert_int_equal(plan.effect, RECOVERY_REFUSED);
    assert_int_equal(plan.refusal, refusal);
}

static void what_does_not_fit_together_is_refused(void **state) { /* LOG-3 */
    struct log_recovery log = sound_log();
    log.end = INDEXED - 1;
    assert_refused(&log, RECOVERY_INDEX_AHEAD);
    log = sound_log();
    log.start = 5001;
    assert_refused(&log, RECOVERY_CONTENTS_MISSING);
    log = sound_log();
    log.scan_chain[0]++;
    assert_refused(&log, RECOVERY_HISTORIES_DIFFER);
}

static void a_log_that_begins_behind_the_index_is_refused(void **state) { /* LOG-3 */
    struct recovery_plan plan = begin((struct recovery_options){0});
    struct log_recovery log = sound_log();
    plan.index.log_start = log.start = INDEXED + 1;
    recovery_log_opened(&plan, &log);
    assert_int_equal(plan.refusal, RECOVERY_FRAMES_MISSING);
}

static void a_chain_that_is_not_the_signed_one_is_refused(void **state) { /* LOG-5 */
    struct recovery_plan plan =
        begin((struct recovery_options){.signed_position = INDEXED, .signed_chain = other_chain});
    struct log_recovery log = sound_log();
    recovery_log_opened(&plan, &log);
    assert_int_equal(plan.effect, RECOVERY_REFUSED);
    assert_int_equal(plan.refusal, RECOVERY_HEAD_DIFFERS);
    (void)opened((struct recovery_options){.signed_position = INDEXED, .signed_chain = chain});
    (void)opened((struct recovery_options){.signed_position = INDEXED + 1, .signed_chain = other_chain});
}

static void what_does_not_fit_into_memory_is_refused(void **state) { /* CALM-1 */
    struct recovery_plan plan = opened((struct recovery_options){0});
    recovery_executed(&plan, -ENOMEM);
    assert_int_equal(plan.refusal, RECOVERY_CORE_TOO_LARGE);
    plan = opened((struct recovery_options){0});
    recovery_executed(&plan, 0);
    recovery_executed(&plan, CORE_NO_MEMORY);
    assert_int_equal(plan.effect, RECOVERY_REFUSED);
    assert_int_equal(plan.refusal, RECOVERY_INDEX_TOO_LARGE);
    plan = restored((struct recovery_options){0});
    core.error = CORE_NO_MEMORY;
    read_frame(&plan, INDEXED);
    assert_int_equal(plan.refusal, RECOVERY_REPLAY_TOO_LARGE);
}

static void what_makes_no_sense_is_refused_with_its_place(void **state) { /* LOG-3, LOG-5 */
    struct recovery_plan plan = opened((struct recovery_options){0});
    recovery_executed(&plan, 0);
    recovery_executed(&plan, CORE_NONSENSE);
    assert_int_equal(plan.refusal, RECOVERY_INDEX_SENSELESS);
    plan = restored((struct recovery_options){0});
    read_frame(&plan, INDEXED);
    core.error = CORE_NONSENSE;
    read_frame(&plan, INDEXED + 512);
    assert_int_equal(plan.refusal, RECOVERY_REPLAY_IMPOSSIBLE);
    assert_int_equal(plan.error, LOG_DAMAGED);
    assert_int_equal(plan.replayed, INDEXED + 512);
    plan = restored((struct recovery_options){0});
    struct frame_header header = {.position = INDEXED, .body_size = 8};
    recovery_frame_read(&plan, NULL, 0, &header, NULL); /* the frame cannot be unpacked */
    assert_int_equal(plan.error, LOG_DAMAGED);
    plan = restored((struct recovery_options){0});
    recovery_frame_read(&plan, NULL, LOG_END, NULL, NULL); /* the log ends before the replay has reached its target */
    assert_int_equal(plan.refusal, RECOVERY_REPLAY_IMPOSSIBLE);
    plan = replayed();
    recovery_executed(&plan, -EIO);
    assert_int_equal(plan.refusal, RECOVERY_LAST_STOP_UNREADABLE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tail_is_replayed_on_what_the_index_restored),
        cmocka_unit_test(time_goes_on_from_the_later_of_log_and_index),
        cmocka_unit_test(a_copy_begins_with_an_epoch_of_its_own),
        cmocka_unit_test(a_node_of_a_pair_replays_nothing),
        cmocka_unit_test(an_inspection_stops_the_clock_and_begins_no_epoch),
        cmocka_unit_test(the_log_is_durable_as_far_as_anybody_remembers),
        cmocka_unit_test(what_does_not_fit_together_is_refused),
        cmocka_unit_test(a_log_that_begins_behind_the_index_is_refused),
        cmocka_unit_test(a_chain_that_is_not_the_signed_one_is_refused),
        cmocka_unit_test(what_does_not_fit_into_memory_is_refused),
        cmocka_unit_test(what_makes_no_sense_is_refused_with_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
