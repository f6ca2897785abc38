/* erase_test.c: erasing redacted contents in the log, on a disk that stops and loses unsynced writes. Also: telling
 * erased contents from zeros that a failed write left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "../model_disk.h"
#include "../must.h"
#include "../random.h"
#include "erasures.h"
#include "log.h"
#include "tarry.pb-c.h"

/* ---- the log */

#define FRAMES 12
#define CONTENTS 3 /* a frame */
#define CONTENT_SIZE 200u
#define FRAME_BYTES ((uint32_t)(CONTENTS * CONTENT_SIZE))

struct life {
    struct model_disk *model;
    struct log_options options;
    struct log *log;
    struct log_recovery recovery;
    char message[512];
    struct random random;
    uint64_t frame[FRAMES];
    uint8_t blob[FRAMES][FRAME_BYTES];
};

static int life_open(struct life *life) {
    life->message[0] = 0;
    life->log = NULL;
    return log_open(&life->log, &life->options, 0, &life->recovery, life->message, sizeof life->message);
}

/* Makes a durable log with three frames per segment; the last segment is not full. */
static void life_begin(struct life *life, uint64_t seed) {
    *life = (struct life){.model = model_new(seed), .random = {seed}};
    life->model->directory_exists = true;
    life->options = (struct log_options){.directory = "/d/log", .disk = &life->model->disk, .segment_size = 3000};
    MUST(life_open(life) == 0);
    for (size_t i = 0; i < FRAMES; i++) {
        for (size_t j = 0; j < FRAME_BYTES; j++) life->blob[i][j] = (uint8_t)(1 + random_below(&life->random, 255));
        struct log_piece piece = {life->blob[i], FRAME_BYTES};
        life->frame[i] = log_end(life->log);
        struct log_frame frame = {.type = FRAME_COMMIT,
                                  .epoch = 1,
                                  .position = life->frame[i],
                                  .body = "body",
                                  .body_size = 4,
                                  .pieces = &piece,
                                  .piece_count = 1};
        /* The log rolls before a frame that does not fit. */
        MUST(log_append(life->log, &frame) == 0 && log_sync(life->log) == 0);
    }
    life->options.durable_min = log_end(life->log);
}

static void life_end(struct life *life) {
    log_close(life->log);
    model_free(life->model);
}

static struct log_content content_at(const struct life *life, size_t frame, size_t content) {
    return (struct log_content){life->frame[frame], frame_blob_position(life->frame[frame]) + content * CONTENT_SIZE,
                                CONTENT_SIZE};
}

/* Returns contents in random order from several segments, including the last one. Two belong to the same frame, and one
 * is listed twice. */
static size_t some_contents(const struct life *life, struct log_content out[6]) {
    out[0] = content_at(life, FRAMES - 1, 0);
    out[1] = content_at(life, 4, 2);
    out[2] = content_at(life, 0, 1);
    out[3] = content_at(life, 4, 0);
    out[4] = content_at(life, 7, 1);
    out[5] = out[3];
    return 6;
}

static bool is_among(const struct log_content *contents, size_t count, uint64_t at) {
    for (size_t i = 0; i < count; i++)
        if (contents[i].at == at) return true;
    return false;
}

/* Checks that every frame can be read. Contents that were not to be erased must be unchanged. A content to be erased
 * must be complete, or its frame must have the erased flag. Returns the number of erased contents. */
static size_t check_life(struct life *life, const struct log_content *contents, size_t count) {
    struct log_cursor *cursor;
    struct log_view view;
    size_t gone = 0;
    MUST(log_cursor_open(&cursor, life->log, LOG_POSITION_FIRST, true) == 0);
    for (size_t i = 0; i < FRAMES; i++) {
        MUST(log_cursor_next(cursor, life->options.durable_min, &view) == 0);
        MUST(view.header.position == life->frame[i]);
        for (size_t j = 0; j < CONTENTS; j++) {
            uint64_t at = content_at(life, i, j).at;
            const uint8_t *is = view.blob + j * CONTENT_SIZE, *was = life->blob[i] + j * CONTENT_SIZE;
            bool is_same = memcmp(is, was, CONTENT_SIZE) == 0;
            MUST(is_same || (is_among(contents, count, at) && (view.header.flags & FRAME_FLAG_ERASED)));
            gone += content_is_erased(is, CONTENT_SIZE);
        }
    }
    MUST(log_cursor_next(cursor, life->options.durable_min, &view) == LOG_END);
    log_cursor_close(cursor);
    return gone;
}

static bool disk_has(const struct life *life, const struct log_content *content) {
    size_t frame = 0;
    while (life->frame[frame] != content->frame) frame++;
    const uint8_t *was = life->blob[frame] + (content->at - frame_blob_position(content->frame));
    for (int i = 0; i < life->model->file_count; i++) {
        const struct model_file *file = &life->model->files[i];
        if (memmem(file->cached, file->cached_size, was, 16) || memmem(file->durable, file->durable_size, was, 16))
            return true;
    }
    return false;
}

static void erased_contents_leave_the_rest_as_it_was(void **state) {
    (void)state;
    struct life life;
    struct log_content contents[6];
    life_begin(&life, 1);
    size_t count = some_contents(&life, contents);
    for (size_t i = 0; i < count; i++) assert_true(disk_has(&life, &contents[i]));
    assert_int_equal(log_erase(life.log, contents, count), 0);
    for (size_t i = 0; i < count; i++) assert_false(disk_has(&life, &contents[i]));
    assert_int_equal(check_life(&life, contents, count), 5);
    uint8_t bytes[CONTENT_SIZE];
    assert_int_equal(log_read(life.log, contents[0].at, bytes, sizeof bytes), 0);
    assert_true(content_is_erased(bytes, sizeof bytes));
    assert_int_equal(log_erase(life.log, contents, count), 0); /* erases the contents a second time */
    assert_int_equal(check_life(&life, contents, count), 5);
    life_end(&life);
}

/* A reader that read ahead before the erasure gets zeros and the flag afterwards, never a wrong frame. */
static void a_reader_ahead_of_an_erasure_is_put_right(void **state) {
    (void)state;
    struct life life;
    struct log_cursor *cursor;
    struct log_view view;
    life_begin(&life, 2);
    assert_int_equal(log_cursor_open(&cursor, life.log, LOG_POSITION_FIRST, true), 0);
    /* This read also buffers the following contents. */
    assert_int_equal(log_cursor_next(cursor, UINT64_MAX, &view), 0);
    struct log_content content = content_at(&life, 1, 1);
    assert_int_equal(log_erase(life.log, &content, 1), 0);
    assert_int_equal(log_cursor_next(cursor, UINT64_MAX, &view), 0);
    bool is_new = (view.header.flags & FRAME_FLAG_ERASED) != 0;
    assert_int_equal(content_is_erased(view.blob + CONTENT_SIZE, CONTENT_SIZE), is_new);
    log_cursor_close(cursor);
    life_end(&life);
}

/* The machine stops at each disk call in turn and loses some unsynced writes. Then the erasure is repeated. */
static void an_erasure_may_stop_anywhere(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 1500; seed++) {
        struct life life;
        struct log_content contents[6];
        life_begin(&life, seed);
        size_t count = some_contents(&life, contents);
        life.model->fail_at = life.model->calls + 1 + seed % 40;
        life.model->fail_error = -EIO;
        life.model->fail_for_ever = true;
        life.model->short_io = seed % 3 == 0;
        (void)log_erase(life.log, contents, count);
        log_close(life.log);
        if (seed % 2)
            model_crash(life.model);
        else
            model_kill(life.model);
        if (life_open(&life) != 0) fail_msg("seed %llu: %s", (unsigned long long)seed, life.message);
        (void)check_life(&life, contents, count);
        MUST(log_erase(life.log, contents, count) == 0);
        MUST(check_life(&life, contents, count) == 5);
        for (size_t i = 0; i < count; i++) MUST(!disk_has(&life, &contents[i]));
        life_end(&life);
    }
}

/* In a frame that the index has not absorbed, zeros are a failed write: the broker erases a content only after the
 * index has absorbed its redaction (LOG-5). */
static void a_flag_beyond_what_the_index_knows_is_no_erasure(void **state) {
    (void)state;
    struct life life;
    struct log_content content;
    life_begin(&life, 3);
    content = content_at(&life, FRAMES - 1, 0);
    assert_int_equal(log_erase(life.log, &content, 1), 0);
    log_close(life.log);
    model_kill(life.model);
    life.options.durable_min = life.frame[FRAMES - 1]; /* the index has not absorbed that frame */
    assert_int_equal(life_open(&life), 0);
    assert_int_equal(life.recovery.cut_at, life.frame[FRAMES - 1]);
    life_end(&life);
}

static void nonsense_changes_nothing(void **state) {
    (void)state;
    struct life life;
    life_begin(&life, 4);
    struct log_content good = content_at(&life, 4, 1), wrong[2] = {good, good};
    wrong[1].frame += 8;
    assert_int_equal(log_erase(life.log, wrong, 2), LOG_DAMAGED);
    wrong[1] = good;
    wrong[1].at = frame_blob_position(good.frame) - 1;
    assert_int_equal(log_erase(life.log, wrong, 2), LOG_DAMAGED);
    wrong[1] = good;
    wrong[1].size = FRAME_BYTES;
    assert_int_equal(log_erase(life.log, wrong, 2), LOG_DAMAGED);
    wrong[1] = good;
    wrong[1].frame = wrong[1].at = log_end(life.log) + 4096;
    assert_int_equal(log_erase(life.log, &wrong[1], 1), LOG_DAMAGED);
    assert_int_equal(check_life(&life, NULL, 0), 0);
    life_end(&life);
}

static void what_is_retired_is_left_out(void **state) {
    (void)state;
    struct life life;
    struct log_content contents[6];
    life_begin(&life, 5);
    size_t count = some_contents(&life, contents);
    assert_int_equal(log_retire(life.log, LOG_POSITION_FIRST), 0);
    assert_int_equal(log_erase(life.log, contents, count), 0);
    assert_true(log_start(life.log) > contents[2].at);
    life_end(&life);
}

/* ---- were the bytes rightly erased? */

static void a_task_without_content_has_none_that_could_be_wrong(void **state) {
    (void)state;
    const struct frame_header header = {.position = 4096};
    const uint8_t blob[1] = {0};
    Tarry__Task task = TARRY__TASK__INIT;
    Tarry__TaskPut put = TARRY__TASK_PUT__INIT;
    put.task = &task;
    put.fresh = true;
    assert_int_equal(content_state(&header, blob, &put), CONTENT_RIGHT);
    task.blob_size = 1; /* the frame has fewer bytes than the record says */
    assert_int_equal(content_state(&header, blob, &put), CONTENT_DAMAGED);
}

static void an_erasure_needs_its_redaction(void **state) {
    (void)state;
    struct erasures erasures = {0};
    uint8_t hash[CONTENT_HASH_SIZE] = {7};
    Tarry__Task task = TARRY__TASK__INIT;
    Tarry__TaskPut put = TARRY__TASK_PUT__INIT;
    Tarry__Redaction redaction = TARRY__REDACTION__INIT, other;
    put.task = &task;
    put.fresh = true;
    redaction.content_hash = put.content_hash = (ProtobufCBinaryData){sizeof hash, hash};
    redaction.blob_size = task.blob_size = 100;
    redaction.frame = 4096;
    for (uint64_t id = 1; id <= 500; id++) {
        task.id = id;
        task.blob_at = 4096 + 112 + id * 100;
        assert_int_equal(erasures_note(&erasures, &put, id == 3 ? CONTENT_PARTLY : CONTENT_ERASED), 0);
        redaction.id = id;
        redaction.blob_at = task.blob_at;
        if (id > 3) erasures_explain(&erasures, &redaction, false);
    }
    redaction.id = 1;
    redaction.blob_at = 4096 + 112 + 100;
    uint8_t wrong_hash[CONTENT_HASH_SIZE] = {8};
    other = redaction, other.id = 2;
    erasures_explain(&erasures, &other, false);
    other = redaction, other.blob_size = 99;
    erasures_explain(&erasures, &other, false);
    other = redaction, other.content_hash.data = wrong_hash;
    erasures_explain(&erasures, &other, false);
    other = redaction, other.frame = 0;
    erasures_explain(&erasures, &other, false);
    assert_non_null(erasures_unexplained(&erasures));
    assert_int_equal(erasures_unexplained(&erasures)->id, 1);
    erasures_explain(&erasures, &redaction, false);
    assert_int_equal(erasures_unexplained(&erasures)->id, 2);
    for (uint64_t id = 2; id <= 3; id++) {
        redaction.id = id;
        redaction.blob_at = 4096 + 112 + id * 100;
        erasures_explain(&erasures, &redaction, false);
    }
    /* A partly erased content is allowed only while an erasure is running. */
    assert_int_equal(erasures_unexplained(&erasures)->id, 3);
    erasures_explain(&erasures, &redaction, true);
    assert_null(erasures_unexplained(&erasures));
    erasures_deinit(&erasures);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(erased_contents_leave_the_rest_as_it_was),
        cmocka_unit_test(a_reader_ahead_of_an_erasure_is_put_right),
        cmocka_unit_test(an_erasure_may_stop_anywhere),
        cmocka_unit_test(a_flag_beyond_what_the_index_knows_is_no_erasure),
        cmocka_unit_test(nonsense_changes_nothing),
        cmocka_unit_test(what_is_retired_is_left_out),
        cmocka_unit_test(a_task_without_content_has_none_that_could_be_wrong),
        cmocka_unit_test(an_erasure_needs_its_redaction),
    };
    return cmocka_run_group_tests_name("erase", tests, NULL, NULL);
}
