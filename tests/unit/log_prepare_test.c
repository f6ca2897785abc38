/* log_prepare_test.c: which thread opens the next segment, and when; which segments cannot be retired because they are
 * pinned; which descriptors stay open after a start. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "log.h"
#include "log_directory.h"

#define SEGMENT_SIZE (64u << 10)
#define FRAME_SIZE 40000u /* size at which two frames do not fit into one segment */
#define RENAME_LASTS_MS 50
#define ROLL_WAIT_MS 10000

struct fixture {
    struct log_directory directory;
    struct log *log;
};

static int set_up(void **state) {
    struct fixture *f = calloc(1, sizeof(*f));
    if (!f) return -1;
    *state = f;
    if (!log_directory_make(&f->directory)) return -1;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *f = *state;
    log_close(f->log);
    log_directory_remove(&f->directory);
    free(f);
    return 0;
}

static void open_log(struct fixture *f, const struct disk *disk) {
    struct log_options options = {.directory = f->directory.path,
                                  .disk = disk,
                                  .segment_size = SEGMENT_SIZE,
                                  .prepare_ahead = true};
    struct log_recovery recovery;
    char message[512];
    if (log_open(&f->log, &options, 0, &recovery, message, sizeof(message)) != 0) fail_msg("%s", message);
}

static void append_sized(struct fixture *f, uint32_t size) {
    static uint8_t body[FRAME_SIZE];
    struct log_frame frame = {
        .type = FRAME_COMMIT, .epoch = 1, .position = log_end(f->log), .body = body, .body_size = size};
    assert_int_equal(log_append(f->log, &frame), 0);
    assert_int_equal(log_sync(f->log), 0);
}

static void append(struct fixture *f) {
    append_sized(f, FRAME_SIZE);
}

static void read_frames(struct fixture *f, int count) {
    struct log_cursor *cursor;
    struct log_view view;
    assert_int_equal(log_cursor_open(&cursor, f->log, log_start(f->log), true), 0);
    for (int i = 0; i < count; i++) assert_int_equal(log_cursor_next(cursor, UINT64_MAX, &view), 0);
    assert_int_equal(log_cursor_next(cursor, UINT64_MAX, &view), LOG_END);
    log_cursor_close(cursor);
}

static _Atomic bool opened_next; /* true: a thread has opened the file of the next segment */
static struct log *log_renaming;

static int open_and_note(void *context, const char *path, int flags, int mode) {
    if (strstr(path, "next.tmp")) atomic_store(&opened_next, true);
    return disk_posix.open(context, path, flags, mode);
}

/* While a segment is being renamed, another thread requests the next one. */
static int rename_and_ask(void *context, const char *from, const char *to) {
    if (log_renaming && strstr(from, "next.tmp")) {
        atomic_store(&opened_next, false);
        assert_int_equal(log_fits(log_renaming, log_end(log_renaming), 1 << 20), -EINPROGRESS);
        for (int i = 0; i < RENAME_LASTS_MS && !atomic_load(&opened_next); i++) usleep(1000);
        /* No thread may open the next segment's file yet, or the preparer would empty the segment that the writer uses.
         */
        assert_false(atomic_load(&opened_next));
    }
    return disk_posix.rename(context, from, to);
}

static void nobody_touches_a_segment_that_gets_its_name(void **state) {
    struct fixture *f = *state;
    struct disk disk = disk_posix;
    disk.open = open_and_note;
    disk.rename = rename_and_ask;
    open_log(f, &disk);
    log_renaming = f->log;
    for (int i = 0; i < 4; i++) append(f);
    log_renaming = NULL;
    read_frames(f, 4);
    /* The segment that was requested meanwhile is made after the rename. */
    int error;
    while ((error = log_fits(f->log, log_end(f->log), SEGMENT_SIZE)) != 0) assert_int_equal(error, -EINPROGRESS);
    log_close(f->log);
    f->log = NULL;
}

/* The next segment is prepared early, so the disk has as much time for it as the current segment lasts. */
static void the_next_segment_is_made_right_after_the_roll(void **state) {
    struct fixture *f = *state;
    struct log_stats stats;
    open_log(f, &disk_posix);
    append(f);
    append_sized(f, SEGMENT_SIZE - FRAME_SIZE); /* the second segment is less than half full */
    uint64_t left = SEGMENT_SIZE - (log_end(f->log) - LOG_POSITION_FIRST - SEGMENT_SIZE);
    int waited_ms = 0;
    do {
        assert_true(waited_ms++ < ROLL_WAIT_MS);
        usleep(1000);
        log_stats(f->log, &stats);
    } while (stats.reserved <= left);
    assert_true(stats.reserved >= SEGMENT_SIZE);
}

static void what_is_pinned_is_not_retired(void **state) {
    struct fixture *f = *state;
    struct log_segment oldest, again;
    open_log(f, &disk_posix);
    for (int i = 0; i < 4; i++) append(f);
    assert_true(log_oldest(f->log, log_end(f->log), &oldest));
    assert_int_equal(log_pin(f->log), oldest.base);
    assert_int_equal(log_pin(f->log), oldest.base);
    assert_false(log_oldest(f->log, log_end(f->log), &again));
    assert_int_equal(log_retire(f->log, oldest.base),
                     LOG_PINNED); /* a thread that chose the segment before it was pinned may still try to retire it */
    log_unpin(f->log);
    assert_int_equal(log_retire(f->log, oldest.base), LOG_PINNED);
    assert_int_equal(log_start(f->log), oldest.base);
    log_unpin(f->log);
    assert_true(log_oldest(f->log, log_end(f->log), &again));
    assert_int_equal(log_retire(f->log, again.base), 0);
    read_frames(f, 3);
}

static int count_name(void *argument, const char *name) {
    (void)name;
    ++*(int *)argument;
    return 0;
}

/* A start may close the descriptor of each segment that it has checked. */
static void a_start_leaves_few_segments_open(void **state) {
    struct fixture *f = *state;
    int count = 0;
    open_log(f, &disk_posix);
    for (int i = 0; i < 150; i++) append(f);
    log_close(f->log);
    open_log(f, &disk_posix);
    assert_int_equal(disk_posix.list(NULL, "/proc/self/fd", count_name, &count), 0);
    assert_in_range(count, 1, 100);
    read_frames(f, 150);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(nobody_touches_a_segment_that_gets_its_name),
        TEST(the_next_segment_is_made_right_after_the_roll),
        TEST(what_is_pinned_is_not_retired),
        TEST(a_start_leaves_few_segments_open),
    };
    return cmocka_run_group_tests_name("log_prepare", tests, NULL, NULL);
}
