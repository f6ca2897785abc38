/* history_test.c: a query of the log gives the same result with summaries, without them, and with damaged ones; with
 * summaries it reads very little. */
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "../past.h"
#include "bytes.h"
#include "history.h"
#include "log_directory.h"
#include "row.h"

#define FRAMES 400u
#define FRAMES_OF_PARTS 6000u
#define TASKS 2000u

struct fixture {
    struct past past;
    struct log_directory directory;
    struct log *log;                 /* past.log */
    uint64_t named[FRAMES_OF_PARTS]; /* the task that each frame concerns */
};

static void open_log(struct fixture *f) {
    past_open(&f->past);
    f->log = f->past.log;
}

static void append(struct fixture *f, uint64_t id) {
    f->named[f->past.frames] = id;
    assert_int_equal(past_append(&f->past, id), 0);
}

static int set_up_with(void **state, uint64_t segment_size, size_t blob_bytes, uint64_t frames) {
    struct fixture *f = calloc(1, sizeof *f);
    struct random random = {.state = 1};
    if (!f) return -1;
    if (!log_directory_make(&f->directory)) abort();
    f->past.options =
        (struct log_options){.directory = f->directory.path, .disk = &disk_posix, .segment_size = segment_size};
    f->past.random.state = 1;
    f->past.blob_bytes = blob_bytes;
    open_log(f);
    while (f->past.frames < frames) append(f, 1 + random_below(&random, TASKS));
    assert_int_equal(log_sync(f->log), 0);
    *state = f;
    return 0;
}

/* Makes some 25 segments of a few frames each. Every task has few records. */
static int set_up(void **state) {
    return set_up_with(state, 4096, 0, FRAMES);
}

/* Makes two segments of a few parts each, and the beginning of a third one. */
static int set_up_parts(void **state) {
    return set_up_with(state, 5 * SUMMARY_PART_SIZE / 2, PAST_BLOB_MAX, FRAMES_OF_PARTS);
}

static int tear_down(void **state) {
    struct fixture *f = *state;
    log_close(f->log);
    log_directory_remove(&f->directory);
    free(f);
    return 0;
}

/* Runs the query, and counts the frames about the task `id` (0: of any task). */
static size_t ask(struct fixture *f, const struct history_question *question, uint64_t id,
                  struct history_stats *stats) {
    struct history *history = NULL;
    struct log_view view;
    const Tarry__FrameBody *body;
    size_t count = 0;
    assert_int_equal(history_open(&history, f->log, NULL, question), 0);
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
    for (uint64_t i = 0; i < f->past.frames; i++) count += f->named[i] == id;
    return count;
}

/* Makes the summaries of all closed segments. */
static void summarise(struct fixture *f) {
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
        struct history_question by_id = {.task = {.id = id}};
        struct history_question by_key = {.task = {.queue = PAST_QUEUE, .key = key, .key_size = size}};
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
    f->past.options.read_only = true;
    open_log(f);
    every_question_is_answered_alike(f, &sum);
    assert_true(sum.segments_skipped > 5 * sum.segments_read);
}

static void a_question_about_a_time_reads_that_time(void **state) {
    struct fixture *f = *state;
    struct history_stats stats;
    summarise(f);
    for (uint64_t from = 0; from < FRAMES; from += 37) {
        struct history_question question = {.from_ns = from * PAST_NS_PER_FRAME,
                                            .to_ns = (from + 20) * PAST_NS_PER_FRAME};
        assert_int_equal(ask(f, &question, 0, &stats), from + 20 < FRAMES ? 20 : FRAMES - from);
        assert_true(stats.segments_read < 6);
    }
}

struct spoiling {
    struct fixture *f;
    uint64_t at; /* position of the flipped byte */
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

static void of_other_parts_nothing_is_read(void **state) {
    struct fixture *f = *state;
    uint64_t asked = 0, read = 0, own = 0;
    summarise(f);
    struct log_segment last;
    assert_true(log_segment_at(f->log, log_durable(f->log) - 1, &last));
    assert_int_equal(last.end, 0);
    for (uint64_t id = 1; id <= TASKS; id += 13) {
        struct history_stats stats, of_last;
        struct history_question question = {.task = {.id = id}}, about_last = {.position = last.base};
        assert_int_equal(ask(f, &question, id, &stats), truth(f, id));
        ask(f, &about_last, 0, &of_last); /* reads the last segment, which has no summary */
        asked++;
        read += stats.frames_read - of_last.frames_read;
        own += truth(f, id);
    }
    /* The closed segments have some 4,500 frames in 6 parts. A task has 3 frames on average, in two or three parts. A
     * query that read whole segments would read 3,000 frames. */
    assert_in_range(own, 2 * asked, 4 * asked);
    assert_in_range(read, asked, asked * 2300);
}

/* Another reader may continue a query from any position that the first one reached. */
static void a_question_goes_on_from_any_frame(void **state) {
    struct fixture *f = *state;
    summarise(f);
    for (uint64_t id = 1; id <= TASKS; id += 41) {
        struct history *history = NULL;
        struct history_question question = {.task = {.id = id}};
        struct log_view view;
        const Tarry__FrameBody *body;
        size_t count = 0;
        do {
            assert_int_equal(history_open(&history, f->log, NULL, &question), 0);
            int error = history_next(history, log_durable(f->log), &view, &body);
            assert_true(error == 0 || error == LOG_END);
            count += error == 0 && body->records[0]->put->task->id == id;
            assert_true(history_position(history) > question.position);
            question.position = history_position(history);
            history_close(history);
        } while (question.position < log_durable(f->log));
        assert_int_equal(count, truth(f, id));
    }
}

/* A limit that grows step by step, and cuts through frames and ranges, does not change the result. */
static void a_growing_limit_gives_the_same(void **state) {
    struct fixture *f = *state;
    summarise(f);
    for (uint64_t id = 1; id <= TASKS; id += 173) {
        struct history *history = NULL;
        struct history_question question = {.task = {.id = id}};
        struct log_view view;
        const Tarry__FrameBody *body;
        size_t count = 0;
        assert_int_equal(history_open(&history, f->log, NULL, &question), 0);
        for (uint64_t limit = 0; limit < log_durable(f->log) + 70001; limit += 70001) {
            uint64_t below = limit < log_durable(f->log) ? limit : log_durable(f->log);
            int error;
            while ((error = history_next(history, below, &view, &body)) == 0)
                count += body->records[0]->put->task->id == id;
            assert_int_equal(error, LOG_END);
        }
        assert_int_equal(history_position(history), log_durable(f->log));
        assert_int_equal(count, truth(f, id));
        history_close(history);
    }
}

/* A summary of version 1, as older brokers made it, has correct checksums and says that there are no frames. It must be
 * ignored. */
static void a_summary_of_another_version_does_not_count(void **state) {
    struct fixture *f = *state;
    struct history_stats sum;
    struct log_segment segment = {.end = log_start(f->log)};
    while (log_segment_at(f->log, segment.end, &segment) && segment.end != 0) {
        char path[512];
        uint8_t bytes[8192] = "TARRYSUM";
        put_u32(bytes + 8, 1);
        put_u64(bytes + 16, segment.base);
        put_u64(bytes + 24, segment.end);
        put_u64(bytes + 40, UINT64_MAX);
        put_u64(bytes + 56, 1);
        put_u64(bytes + 64, frame_sum(bytes + 128, 64));
        put_u64(bytes + 120, frame_sum(bytes, 120));
        snprintf(path, sizeof path, "%s/%016" PRIx64 ".sum", f->directory.path, segment.base);
        int fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
        assert_int_equal(pwrite(fd, bytes, sizeof bytes, 0), sizeof bytes);
        close(fd);
    }
    every_question_is_answered_alike(f, &sum);
    assert_int_equal(sum.segments_skipped, 0);
}

/* A query for a task also finds the redactions that name the task, by its id or by its key. */
static void redactions_are_found(void **state) {
    struct fixture *f = *state;
    static char key[] = "a-key-that-no-task-has";
    uint8_t bytes[256];
    Tarry__FrameBody body = TARRY__FRAME_BODY__INIT;
    Tarry__Record record = TARRY__RECORD__INIT, *records = &record;
    Tarry__Redaction redaction = TARRY__REDACTION__INIT;
    redaction.id = 123456789012345;
    redaction.queue = PAST_QUEUE;
    redaction.key = (ProtobufCBinaryData){.data = (uint8_t *)key, .len = strlen(key)};
    record.fact_case = TARRY__RECORD__FACT_REDACTION;
    record.redaction = &redaction;
    body.n_records = 1;
    body.records = &records;
    struct log_frame frame = {.type = FRAME_COMMIT,
                              .epoch = 1,
                              .position = log_end(f->log),
                              .steady_ns = FRAMES * (uint64_t)PAST_NS_PER_FRAME,
                              .body = bytes,
                              .body_size = (uint32_t)tarry__frame_body__pack(&body, bytes)};
    assert_int_equal(log_append(f->log, &frame), 0);
    f->past.frames++;
    for (uint64_t i = 0; i < FRAMES / 2; i++) append(f, 1 + i); /* the task's segment is closed */
    assert_int_equal(log_sync(f->log), 0);
    for (int with_summaries = 0; with_summaries < 2; with_summaries++) {
        struct history_question questions[] = {
            {.task = {.id = redaction.id}},
            {.task = {.queue = PAST_QUEUE, .key = key, .key_size = strlen(key)}},
        };
        for (size_t i = 0; i < 2; i++) {
            struct history *history = NULL;
            struct log_view view;
            const Tarry__FrameBody *found;
            assert_int_equal(history_open(&history, f->log, NULL, &questions[i]), 0);
            assert_int_equal(history_next(history, log_durable(f->log), &view, &found), 0);
            assert_int_equal(found->records[0]->fact_case, TARRY__RECORD__FACT_REDACTION);
            assert_int_equal(history_next(history, log_durable(f->log), &view, &found), LOG_END);
            history_close(history);
        }
        if (with_summaries == 0) summarise(f);
    }
}

/* F-2, for derived data: a flipped bit anywhere costs time, but never changes a result. */
static void a_damaged_summary_is_not_believed(void **state) {
    struct fixture *f = *state;
    struct history_stats sum;
    for (uint64_t at = 0; at < 8192;
         at +=
         331) { /* damages one byte at a time; the bytes are on two pages of the file, in its head and its filter */
        summarise(f);
        struct spoiling spoiling = {.f = f, .at = at};
        disk_posix.list(NULL, f->directory.path, spoil, &spoiling);
        assert_true(spoiling.spoilt > 10);
        every_question_is_answered_alike(f, &sum);
        assert_int_equal(sum.segments_skipped, 0);
    }
}

/* A summary that does not reach the end of its segment says nothing about the missing part. */
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

/* A filter page has 63 blocks of 64 bytes, and there is one more page than needed. The head comes before them
 * (FORMAT.md). */
static void a_filter_is_a_32nd_of_its_segment(void **state) {
    struct fixture *f = *state;
    const uint64_t base = 1ull << 40, pages = 100;
    struct summary *summary = summary_new(base, pages * 32 * 63 * 64);
    char path[256];
    struct stat status;
    assert_non_null(summary);
    assert_int_equal(summary_write(summary, f->log), 0);
    summary_free(summary);
    snprintf(path, sizeof path, "%s/%016" PRIx64 ".sum", f->directory.path, base);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_size, (1 + pages + 1) * 4096);
    summary_delete(f->log, base);
    assert_int_equal(stat(path, &status), -1);
}

static void a_reader_trails_the_writer(void **state) {
    struct fixture *f = *state;
    struct history *history = NULL;
    struct log_view view;
    const Tarry__FrameBody *body;
    uint64_t seen = 0;
    assert_int_equal(history_open(&history, f->log, NULL, &(struct history_question){0}), 0);
    for (uint64_t id = 1; id <= 200; id++) {
        while (history_next(history, log_durable(f->log), &view, &body) == 0) seen++;
        assert_int_equal(seen, f->past.frames);
        append(f, id);
        /* The reader does not return the frame, because the frame is not synced yet. */
        assert_int_equal(history_next(history, log_durable(f->log), &view, &body), LOG_END);
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
        cmocka_unit_test_setup_teardown(of_other_parts_nothing_is_read, set_up_parts, tear_down),
        cmocka_unit_test_setup_teardown(a_question_goes_on_from_any_frame, set_up_parts, tear_down),
        cmocka_unit_test_setup_teardown(a_growing_limit_gives_the_same, set_up_parts, tear_down),
        cmocka_unit_test_setup_teardown(a_summary_of_another_version_does_not_count, set_up, tear_down),
        cmocka_unit_test_setup_teardown(redactions_are_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_damaged_summary_is_not_believed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_unfinished_summary_is_not_believed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_filter_is_a_32nd_of_its_segment, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_reader_trails_the_writer, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("history", tests, NULL, NULL);
}
