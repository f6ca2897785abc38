/* replay_parts_test.c: single parts of tarry replay: reading contents that a record names, and the consumers of a dry
 * run. The linker's --wrap replaces reads of the log, of which everything is retired. */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "content.h"
#include "frame.h"
#include "output.h"
#include "plan.h"
#include "policy.h"
#include "say.h"
#include "stage.h"

#define BLOB_SIZE 100u
#define FRAME 4096u

int __wrap_log_read(struct log *log, uint64_t position, void *out, size_t size);
int __wrap_log_read(struct log *log, uint64_t position, void *out, size_t size) {
    return LOG_RETIRED;
}

/* ---- functions of the program `tarry` that are not reached here */

int tool_usage(const struct args *args, const char *format, ...) {
    abort();
}

void tool_say(const char *format, ...) {
    abort();
}

int output_flush(struct text *text, int status) {
    abort();
}

int policy_field(const struct args *args, const char *text, struct tarry_policy *policy, uint32_t *fields) {
    abort();
}

/* ---- contents */

/* A damaged record may name any position. A content that is not inside of the record's frame is not read. */
static void a_content_lies_in_its_frame(void **state) {
    static const struct {
        uint64_t offset, size;
        int result; /* expected result; 1: the content was read and differs from the record */
    } cases[] = {{0, BLOB_SIZE, 1},
                 {BLOB_SIZE - 1, 1, 1},
                 {1, BLOB_SIZE, LOG_DAMAGED},
                 {BLOB_SIZE, 1, LOG_DAMAGED},
                 {BLOB_SIZE + 1, 1, LOG_DAMAGED},
                 {UINT64_MAX, 1, LOG_DAMAGED},
                 {0, FRAME_BLOB_SIZE_MAX + 1, LOG_DAMAGED}};
    uint8_t *blob = malloc(
        BLOB_SIZE); /* the content is read into a block of its own, so that a sanitizer detects a write past its end */
    struct store store = {0};
    struct content content;
    assert_non_null(blob);
    memset(blob, 'x', BLOB_SIZE);
    content_init(&content);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Tarry__Task task = TARRY__TASK__INIT;
        task.blob_at = frame_blob_position(FRAME) + cases[i].offset;
        task.blob_size = (uint32_t)cases[i].size;
        content.archived = (struct archive_cursor *)blob; /* pretends that the frame in `view` was read already */
        content.view.header = (struct frame_header){.position = FRAME, .blob_size = BLOB_SIZE};
        content.view.body = content.view.blob = blob;
        assert_int_equal(content_read(&content, &store, FRAME, &task), cases[i].result);
        assert_null(content.payload);
    }
    content.archived = NULL;
    content_deinit(&content);
    free(blob);
}

/* ---- consumers */

/* A consumer that has just subscribed counts as alive, so it does not subscribe again for the next task. */
static void consumers_of_a_dry_run_subscribe_once(void **state) {
    struct stage stage;
    struct plan plan = {.name = (char *)"q"};
    assert_true(stage_init(&stage, 1, 10, (struct logical_time){3600000000000u, 1800000000000000000u}));
    struct workers *workers = workers_new(&stage, &plan);
    workers_grant(workers);
    assert_null(stage.problem);
    const uint64_t session = workers->session;
    assert_int_not_equal(session, 0);
    for (int i = 0; i < 3; i++) workers_grant(workers);
    assert_int_equal(workers->session, session);
    stage.now.steady_ns += workers->silence_ns; /* pretends that the consumer was silent for that time */
    workers_grant(workers);
    assert_int_not_equal(workers->session, session);
    assert_null(stage.problem);
    free(workers);
    stage_deinit(&stage);
}

/* ---- the dry run's core */

static void no_twin(void *argument, struct twin *twin, Tarry__Cause cause) {}

/* Schedules `count` tasks, purges them, and runs the purge to its end. */
static void purge_of(struct stage *stage, struct life *lives, size_t count) {
    Tarry__When hour = TARRY__WHEN__INIT;
    Tarry__Schedule schedule = TARRY__SCHEDULE__INIT;
    Tarry__QueuePurge purge = TARRY__QUEUE_PURGE__INIT;
    Tarry__Op op = TARRY__OP__INIT, *ops[] = {&op};
    hour.ms = 3600000;
    schedule.queue = purge.queue = (char *)"q";
    schedule.when = &hour;
    op.op_case = TARRY__OP__OP_SCHEDULE;
    op.schedule = &schedule;
    for (size_t i = 0; i < count; i++) {
        struct life *life = &lives[i];
        stage_commit(stage, ops, 1, false, &life);
        assert_non_null(life->twin);
    }
    struct life *none = NULL;
    op.op_case = TARRY__OP__OP_QUEUE_PURGE;
    op.queue_purge = &purge;
    stage_commit(stage, ops, 1, false, &none);
    while (stage_pages(stage)) continue;
    for (size_t i = 0; i < count; i++) assert_true(lives[i].twin->ended);
}

/* This test is not built with sanitizers: their allocator has no counter, and they find leaks by themselves. */
static void what_a_purge_has_looked_at_is_given_back(void **state) {
    enum { TASKS = 3000 };
    struct life *lives = calloc(TASKS, sizeof *lives);
    size_t kept = 0;
    assert_non_null(lives);
    for (int round = 0; round < 3; round++) { /* in the first round, the libraries allocate memory that they keep */
        struct stage stage;
        if (round == 1) kept = mallinfo2().uordblks;
        assert_true(stage_init(&stage, 1, TASKS, (struct logical_time){3600000000000u, 1800000000000000000u}));
        stage.on_twin = no_twin;
        purge_of(&stage, lives, TASKS);
        stage_deinit(&stage);
    }
    assert_true(mallinfo2().uordblks < kept + TASKS * sizeof(struct row) / 2);
    free(lives);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_content_lies_in_its_frame),
        cmocka_unit_test(what_a_purge_has_looked_at_is_given_back),
        cmocka_unit_test(consumers_of_a_dry_run_subscribe_once),
    };
    return cmocka_run_group_tests_name("replay_parts", tests, NULL, NULL);
}
