/* history_test.c: a question to the log gets the same answer with summaries, without them, and with damaged ones; with
 * them it reads next to nothing. */
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../random.h"
#include "history.h"
#include "log_directory.h"
#include "row.h"

#define FRAMES 400u
#define TASKS 2000u
#define NS_PER_FRAME 1000000u

struct fixture {
    struct log_directory directory;
    struct log *log;
    struct log_options options;
    uint64_t named[2 * FRAMES]; /* the task that the frame is about */
    uint64_t frames;
};

static void open_log(struct fixture *f) {
    struct log_recovery recovery;
    char message[512] = "";
    if (log_open(&f->log, &f->options, 0, &recovery, message, sizeof message) != 0) fail_msg("%s", message);
}

static void append(struct fixture *f, uint64_t id) {
    uint8_t bytes[512];
    char key[32];
    Tarry__FrameBody body = TARRY__FRAME_BODY__INIT;
    Tarry__Record record = TARRY__RECORD__INIT, *records = &record;
    Tarry__TaskPut put = TARRY__TASK_PUT__INIT;
    Tarry__Task task = TARRY__TASK__INIT;
    task.id = id;
    task.queue = 7;
    task.key.data = (uint8_t *)key;
    task.key.len = (size_t)snprintf(key, sizeof key, "order-%" PRIu64, id);
    put.task = &task;
    record.fact_case = TARRY__RECORD__FACT_PUT;
    record.put = &put;
    body.n_records = 1;
    body.records = &records;
    struct log_frame frame = {.type = FRAME_COMMIT,
                              .epoch = 1,
                              .position = log_end(f->log),
                              .steady_ns = f->frames * NS_PER_FRAME,
                              .wall_ns = f->frames * NS_PER_FRAME,
                              .body = bytes,
                              .body_size = (uint32_t)tarry__frame_body__pack(&body, bytes)};
    assert_int_equal(log_append(f->log, &frame), 0);
    f->named[f->frames++] = id;
}

/* Some 25 segments of a few frames each; every task has few records in all. */
static int set_up(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    struct random random = {.state = 1};
    if (!f) return -1;
    if (!log_directory_make(&f->directory)) abort();
    f->options = (struct log_options){.directory = f->directory.path, .disk = &disk_posix, .segment_size = 4096};
    open_log(f);
    while (f->frames < FRAMES) append(f, 1 + random_below(&random, TASKS));
    assert_int_equal(log_sync(f->log), 0);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *f = *state;
    log_close(f->log);
    log_directory_remove(&f->directory);
    free(f);
    return 0;
}

/* Asks, and counts the frames that are about `id` (0: any). */
static size_t ask(struct fixture *f, const struct history_question *question, uint64_t id,
                  struct history_stats *stats) {
    struct history *history = NULL;
    struct log_view view;
    const Tarry__FrameBody *body;
    size_t count = 0;
    assert_int_equal(history_open(&history, f->log, question), 0);
    int error;
    while ((error = history_next(history, log_durable(f->log), &view, &body)) == 0)
        count += body != NULL && (id == 0 || body->records[0]->put->task->id == id);
    assert_int_equal(error, LOG_END);
    assert_int_equal(history_position(history), log_durable(f->log));
    history_stats(history, stats);
    history_close(history);
    return count;
}

static size_t truth(const struct fixture *f, uint64_t id) {
    size_t count = 0;
    for (uint64_t i = 0; i < f->frames; i++) count += f->named[i] == id;
    return count;
}

/* Without summaries everything is read; then each closed segment gets one. */
static void summarise(struct fixture *f) {
    struct history_stats stats;
    ask(f, &(struct history_question){0}, 0, &stats);
    assert_int_equal(stats.segments_skipped, 0);
    struct log_segment segment = {.end = log_start(f->log)};
    while (log_segment_at(f->log, segment.end, &segment) && segment.end != 0) {
        struct summary *summary = summary_new(segment.base, segment.bytes);
        struct log_cursor *cursor = NULL;
        struct log_view view;
        assert_int_equal(log_cursor_open(&cursor, f->log, segment.base, false), 0);
        while (log_cursor_next(cursor, segment.end, &view) == 0) {
            Tarry__FrameBody *body = tarry__frame_body__unpack(NULL, view.header.body_size, view.body);
            assert_int_equal(log_cursor_segment(cursor), segment.base);
            summary_add(summary, &view.header, body);
            tarry__frame_body__free_unpacked(body, NULL);
        }
        log_cursor_close(cursor);
        assert_int_equal(summary_write(summary, f->log), 0);
        summary_free(summary);
    }
}

static void every_question_is_answered_alike(struct fixture *f, struct history_stats *sum) {
    *sum = (struct history_stats){0};
    for (uint64_t id = 1; id <= TASKS; id += 13) {
        struct history_stats stats;
        char key[32];
        size_t size = (size_t)snprintf(key, sizeof key, "order-%" PRIu64, id);
        struct history_question by_id = {.hash = summary_task_hash(id)};
        struct history_question by_key = {.hash = summary_key_hash(7, key, size)};
        assert_int_equal(ask(f, &by_id, id, &stats), truth(f, id));
        assert_int_equal(ask(f, &by_key, id, &stats), truth(f, id));
        sum->segments_read += stats.segments_read;
        sum->segments_skipped += stats.segments_skipped;
    }
}

static void without_summaries_everything_is_read(void **state) {
    struct history_stats sum;
    every_question_is_answered_alike(*state, &sum);
    assert_int_equal(sum.segments_skipped, 0);
}

static void with_summaries_little_is_read(void **state) {
    struct history_stats sum;
    summarise(*state);
    every_question_is_answered_alike(*state, &sum);
    assert_true(sum.segments_skipped > 5 * sum.segments_read);
}

static void the_same_after_opening_again(void **state) {
    struct fixture *f = *state;
    struct history_stats sum;
    summarise(f);
    log_close(f->log);
    f->options.read_only = true;
    open_log(f);
    every_question_is_answered_alike(f, &sum);
    assert_true(sum.segments_skipped > 5 * sum.segments_read);
}

static void a_question_about_a_time_reads_that_time(void **state) {
    struct fixture *f = *state;
    struct history_stats stats;
    summarise(f);
    for (uint64_t from = 0; from < FRAMES; from += 37) {
        struct history_question question = {.from_ns = from * NS_PER_FRAME, .to_ns = (from + 20) * NS_PER_FRAME};
        assert_int_equal(ask(f, &question, 0, &stats), from + 20 < FRAMES ? 20 : FRAMES - from);
        assert_true(stats.segments_read < 6);
    }
}

struct spoiling {
    struct fixture *f;
    uint64_t at; /* the byte that is flipped */
    size_t spoilt;
};

static int spoil(void *argument, const char *name) {
    struct spoiling *spoiling = argument;
    char path[512];
    uint8_t byte;
    if (!strstr(name, ".sum")) return 0;
    snprintf(path, sizeof path, "%s/%s", spoiling->f->directory.path, name);
    int fd = open(path, O_RDWR);
    assert_int_equal(pread(fd, &byte, 1, (off_t)spoiling->at), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)spoiling->at), 1);
    close(fd);
    spoiling->spoilt++;
    return 0;
}

/* F-2, of what is derived: a flipped bit anywhere costs time, never an answer. */
static void a_damaged_summary_is_not_believed(void **state) {
    struct fixture *f = *state;
    struct history_stats sum;
    for (uint64_t at = 0; at < 320; at += 29) {
        summarise(f);
        struct spoiling spoiling = {.f = f, .at = at};
        disk_posix.list(NULL, f->directory.path, spoil, &spoiling);
        assert_true(spoiling.spoilt > 10);
        every_question_is_answered_alike(f, &sum);
        assert_int_equal(sum.segments_skipped, 0);
    }
}

/* One that does not reach to its segment's end knows nothing of the rest. */
static void an_unfinished_summary_is_not_believed(void **state) {
    struct fixture *f = *state;
    struct history_stats sum;
    struct log_segment segment = {.end = log_start(f->log)};
    while (log_segment_at(f->log, segment.end, &segment) && segment.end != 0) {
        struct summary *summary = summary_new(segment.base, segment.bytes);
        assert_int_equal(summary_write(summary, f->log), 0);
        summary_free(summary);
    }
    every_question_is_answered_alike(f, &sum);
    assert_int_equal(sum.segments_skipped, 0);
}

static void a_reader_trails_the_writer(void **state) {
    struct fixture *f = *state;
    struct history *history = NULL;
    struct log_view view;
    const Tarry__FrameBody *body;
    uint64_t seen = 0;
    assert_int_equal(history_open(&history, f->log, &(struct history_question){0}), 0);
    for (uint64_t id = 1; id <= 200; id++) {
        while (history_next(history, log_durable(f->log), &view, &body) == 0) seen++;
        assert_int_equal(seen, f->frames);
        append(f, id);
        assert_int_equal(history_next(history, log_durable(f->log), &view, &body), LOG_END); /* not synced yet */
        assert_int_equal(log_sync(f->log), 0);
    }
    history_close(history);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_summaries_everything_is_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(with_summaries_little_is_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_same_after_opening_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_question_about_a_time_reads_that_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_damaged_summary_is_not_believed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_unfinished_summary_is_not_believed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_reader_trails_the_writer, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("history", tests, NULL, NULL);
}
