/* group_commit_test.c: which batches are written together, and in which order (engine/group_commit.h). */
#include "group_commit.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "log.h"

#define END 8192u

static void expect_steps(struct group_commit *group, const enum group_step *steps, size_t count) {
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(group->step, steps[i]);
        group_commit_done(group, 0);
    }
    assert_int_equal(group->step, GROUP_IDLE);
}

static void a_group_is_synced_before_it_is_released(void **state) { /* LOG-1 */
    static const enum group_step steps[] = {GROUP_APPEND, GROUP_READ, GROUP_SYNC, GROUP_RELEASE};
    struct group_commit group = {0};
    for (size_t frames = 1; frames <= 3; frames++) {
        group_commit_begin(&group, frames, END, false);
        assert_int_equal(group.end, END);
        expect_steps(&group, steps, 4);
    }
}

static void answers_alone_cost_no_sync(void **state) {
    static const enum group_step steps[] = {GROUP_READ, GROUP_RELEASE};
    struct group_commit group = {0};
    group_commit_begin(&group, 0, END, false);
    expect_steps(&group, steps, 2);
}

static void a_failed_write_is_neither_synced_nor_released(void **state) { /* LOG-4 */
    struct group_commit group = {0};
    group_commit_begin(&group, 1, END, false);
    group_commit_done(&group, -ENOSPC);
    assert_int_equal(group.step, GROUP_FAILED);
    assert_int_equal(group.failed, GROUP_APPEND);
    assert_int_equal(group.error, -ENOSPC);
    assert_true(group_commit_is_writing(&group)); /* the group is still being written, so no further group begins */
}

static void a_failed_sync_is_not_released(void **state) { /* LOG-4 */
    struct group_commit group = {0};
    group_commit_begin(&group, 1, END, true);
    group_commit_done(&group, 0);
    group_commit_done(&group, 0);
    assert_int_equal(group.step, GROUP_SYNC);
    group_commit_done(&group, -EIO);
    assert_int_equal(group.step, GROUP_FAILED);
    assert_int_equal(group.failed, GROUP_SYNC);
    assert_int_equal(group.error, -EIO);
}

static void what_comes_while_it_is_written_waits(void **state) {
    struct group_commit group = {0};
    assert_false(group_commit_is_writing(&group));
    group_commit_begin(&group, 1, END, false);
    for (int i = 0; i < 3; i++) {
        assert_true(group_commit_is_writing(&group));
        group_commit_done(&group, 0);
    }
    assert_int_equal(group.step, GROUP_RELEASE);
    assert_false(group_commit_is_writing(&group));
}

static void contents_are_read_while_the_sync_runs(void **state) { /* R3 */
    struct group_commit group = {0};
    group_commit_begin(&group, 1, END, false);
    assert_true(group_commit_reads(&group, 0));
    assert_true(group_commit_reads(&group, 1));
    group = (struct group_commit){0};
    group_commit_begin(&group, 1, END, true);
    assert_true(group_commit_reads(&group, 1));
    assert_false(group_commit_reads(
        &group, 0)); /* not read during the sync: a batch without frames may also need the other node's confirmation */
}

static void a_frame_is_what_the_core_wants_appended(void **state) {
    struct core_content content = {.data = (const uint8_t *)"0123456789abcdefpayload", .size = 23};
    const struct core_content *contents[] = {&content};
    const struct core_append append = {.type = FRAME_COMMIT,
                                       .epoch = 3,
                                       .position = END,
                                       .now = {.steady_ns = 5, .wall_ns = 6},
                                       .body = (const uint8_t *)"body",
                                       .body_size = 4,
                                       .contents = contents,
                                       .content_count = 1};
    struct log_piece pieces[1];
    struct log_frame frame;
    group_commit_frame(&append, pieces, &frame);
    assert_int_equal(frame.type, FRAME_COMMIT);
    assert_int_equal(frame.epoch, 3);
    assert_int_equal(frame.position, END);
    assert_int_equal(frame.steady_ns, 5);
    assert_int_equal(frame.wall_ns, 6);
    assert_ptr_equal(frame.body, append.body);
    assert_int_equal(frame.body_size, 4);
    assert_int_equal(frame.piece_count, 1);
    assert_ptr_equal(frame.pieces[0].data, content.data);
    assert_int_equal(frame.pieces[0].size, 23);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_is_synced_before_it_is_released),
        cmocka_unit_test(answers_alone_cost_no_sync),
        cmocka_unit_test(a_failed_write_is_neither_synced_nor_released),
        cmocka_unit_test(a_failed_sync_is_not_released),
        cmocka_unit_test(what_comes_while_it_is_written_waits),
        cmocka_unit_test(contents_are_read_while_the_sync_runs),
        cmocka_unit_test(a_frame_is_what_the_core_wants_appended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
