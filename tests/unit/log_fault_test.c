/* log_fault_test.c: the log's reactions when the disk fails, is full, or has wrong contents (F-3 … F-9, F-14). Uses the
 * model disk, of which every call can be made to fail. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "../model_disk.h"
#include "log.h"
#include "tarry_limits.h"

struct fixture {
    struct model_disk *model;
    struct log_options options;
    struct log *log;
    struct log_recovery recovery;
    char message[512];
};

static int set_up(void **state) {
    struct fixture *f = calloc(1, sizeof(*f));
    f->model = model_new(1);
    f->model->directory_exists = true;
    f->options = (struct log_options){.directory = "/d/log", .disk = &f->model->disk, .segment_size = 4096};
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *f = *state;
    log_close(f->log);
    model_free(f->model);
    free(f);
    return 0;
}

static int try_open(struct fixture *f, uint64_t scan_from) {
    f->message[0] = 0;
    return log_open(&f->log, &f->options, scan_from, &f->recovery, f->message, sizeof(f->message));
}

static void open_log(struct fixture *f) {
    if (try_open(f, 0) != 0) fail_msg("%s", f->message);
}

static void close_log(struct fixture *f) {
    log_close(f->log);
    f->log = NULL;
    model_kill(f->model);
}

static int append_typed(struct fixture *f, uint16_t type, uint32_t size) {
    static uint8_t body[1 << 21];
    memset(body, 0x5a, size);
    return log_append(f->log, &(struct log_frame){.type = type,
                                                  .epoch = 1,
                                                  .position = log_end(f->log),
                                                  .steady_ns = 1,
                                                  .wall_ns = 1,
                                                  .body = body,
                                                  .body_size = size});
}

static int append(struct fixture *f, uint32_t size) {
    return append_typed(f, FRAME_COMMIT, size);
}

/* Checks that opening fails with `code` and a sentence that contains `words`. */
static void refused(struct fixture *f, uint64_t scan_from, int code, const char *words) {
    assert_int_equal(try_open(f, scan_from), code);
    assert_null(f->log);
    if (!strstr(f->message, words)) fail_msg("\"%s\" does not say \"%s\"", f->message, words);
    model_kill(f->model);
}

static struct model_file *file_of(struct fixture *f, uint64_t base) {
    char name[32];
    snprintf(name, sizeof(name), "%016" PRIx64 ".seg", base);
    struct model_file *file = model_lookup(f->model, name);
    assert_non_null(file);
    return file;
}

/* Makes a log of three segments, synced, sealed and closed. Returns the bases of the segments. */
static void three_segments(struct fixture *f, uint64_t bases[3]) {
    open_log(f);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(append(f, 3000), 0);
        bases[i] = i == 0 ? LOG_POSITION_FIRST : log_end(f->log) - frame_size(3000, 0);
    }
    assert_int_equal(log_sync(f->log), 0);
    assert_int_equal(append_typed(f, FRAME_SEAL, 0), 0);
    assert_int_equal(log_sync(f->log), 0);
    close_log(f);
}

static void poisoned(struct fixture *f, int error) {
    uint64_t durable = log_durable(f->log), calls = f->model->calls;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(log_sync(f->log), error);
        assert_int_equal(log_write(f->log), error);
        assert_int_equal(append(f, 10), error);
    }
    assert_int_equal(log_durable(f->log), durable);
    assert_int_equal(f->model->calls, calls); /* the log does not use the disk again */
}

static void a_failed_sync_is_never_tried_again(void **state) { /* LOG-4, F-5 */
    struct fixture *f = *state;
    open_log(f);
    assert_int_equal(append(f, 100), 0);
    assert_int_equal(log_sync(f->log), 0);
    uint64_t durable = log_durable(f->log);
    assert_int_equal(append(f, 100), 0);
    assert_int_equal(log_write(f->log), 0);
    f->model->fail_at = f->model->calls + 1;
    f->model->fail_error = -EIO;
    assert_int_equal(log_sync(f->log), -EIO);
    assert_int_equal(log_durable(f->log), durable);
    poisoned(f, -EIO);
    uint8_t byte;
    assert_int_equal(log_read(f->log, LOG_POSITION_FIRST, &byte, 1), 0); /* readers continue */
}

static void a_failed_write_poisons_the_batch(void **state) { /* F-3 */
    struct fixture *f = *state;
    open_log(f);
    assert_int_equal(append(f, 100), 0);
    assert_int_equal(append(f, 100), 0);
    f->model->fail_at = f->model->calls + 1;
    f->model->fail_error = -ENOSPC;
    assert_int_equal(log_write(f->log), -ENOSPC);
    poisoned(f, -ENOSPC);
    close_log(f);
    open_log(f); /* the log opens, because the written part of the segment was never acknowledged */
    assert_true(f->recovery.end >= LOG_POSITION_FIRST);
}

static void short_writes_and_reads_are_finished(void **state) { /* F-3 */
    struct fixture *f = *state;
    f->model->short_io = true;
    open_log(f);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(append(f, 900), 0);
        assert_int_equal(log_sync(f->log), 0);
    }
    uint64_t end = log_end(f->log);
    close_log(f);
    open_log(f);
    assert_int_equal(f->recovery.end, end);
}

static void a_full_disk_stops_a_roll_and_nothing_before(void **state) { /* F-4 */
    struct fixture *f = *state;
    f->model->room = 2 * (4096 + 4096) + 100;
    open_log(f);
    assert_int_equal(append(f, 3000), 0);
    assert_int_equal(append(f, 3000), 0);
    struct log_stats stats;
    assert_int_equal(log_sync(f->log), 0);
    log_stats(f->log, &stats);
    assert_int_equal(stats.segments, 2);
    assert_int_equal(stats.reserved, 4096 - frame_size(3000, 0));
    uint64_t end = log_end(f->log);
    /* The reserved space can still be used for frames. */
    assert_int_equal(append(f, (uint32_t)stats.reserved - FRAME_HEADER_SIZE), 0);
    assert_int_equal(log_sync(f->log), 0);
    assert_int_equal(append(f, 10), -ENOSPC);
    poisoned(f, -ENOSPC);
    end += stats.reserved;
    assert_int_equal(log_durable(f->log), end);
    close_log(f);
    open_log(f);
    assert_int_equal(f->recovery.end, end);
    assert_null(model_lookup(f->model, "next.tmp"));
}

static void opening_says_why_it_cannot(void **state) { /* F-14 */
    struct fixture *f = *state;
    f->model->fail_error = -EACCES;
    f->model->fail_at = 1;
    refused(f, 0, -EACCES, "cannot sync /d: Permission denied");
    f->model->fail_at = f->model->calls + 2;
    refused(f, 0, -EACCES, "cannot create a segment in /d/log: Permission denied");
    f->model->room = 5000;
    refused(f, 0, -ENOSPC, "No space left on device");
    f->model->room = 0;
    f->options.read_only = true;
    f->model->directory_exists = false;
    refused(f, 0, -ENOENT, "cannot list /d/log: No such file or directory");
}

static void every_failing_call_while_opening_is_reported(void **state) { /* F-14 */
    for (uint64_t n = 1;; n++) {
        struct fixture *f;
        assert_int_equal(set_up((void **)&f), 0);
        uint64_t bases[3];
        three_segments(f, bases);
        /* Makes a torn tail, so that opening must repair it, and a file that is not needed. */
        file_of(f, bases[2])->cached[4096 + 3600] = 1;
        f->model->disk.close(f->model, f->model->disk.open(f->model, "/d/log/next.tmp", O_CREAT | O_RDWR, 0600));
        f->model->fail_at = f->model->calls + n;
        f->model->fail_error = -EIO;
        int result = try_open(f, 0);
        if (result == 0) {
            assert_int_equal(f->recovery.end, bases[2] + frame_size(3000, 0) + FRAME_HEADER_SIZE);
            tear_down((void **)&f);
            assert_int_equal(n, 6); /* five calls can fail: deletion, write of zeros, write of the contents, sync of the
                                       file, sync of the directory */
            return;
        }
        assert_int_equal(result, -EIO);
        assert_non_null(strstr(f->message, "Input/output error"));
        tear_down((void **)&f);
    }
}

static void another_version_is_refused(void **state) { /* F-14 */
    struct fixture *f = *state;
    open_log(f);
    close_log(f);
    uint8_t *header = file_of(f, LOG_POSITION_FIRST)->cached;
    header[8] = FORMAT_VERSION + 1;
    /* A flipped bit in the version gives a wrong checksum, not an unknown version. */
    refused(f, 0, LOG_DAMAGED, "checksum");
    uint64_t sum = frame_sum(header, 112);
    memcpy(header + 112, &sum, sizeof(sum));
    refused(f, 0, LOG_VERSION, "format version 2");
}

static void another_cluster_is_refused(void **state) { /* F-14 */
    struct fixture *f = *state;
    open_log(f);
    close_log(f);
    f->options.cluster[15] = 1;
    refused(f, 0, LOG_FOREIGN, "another cluster");
}

static void a_missing_segment_is_noticed(void **state) { /* F-9 */
    struct fixture *f = *state;
    uint64_t bases[3];
    three_segments(f, bases);
    char name[32];
    snprintf(name, sizeof(name), "%016" PRIx64 ".seg", bases[1]);
    model_find(f->model, f->model->cached, name)->name[0] = 0;
    refused(f, bases[2], LOG_DAMAGED, "the segment before it is missing");
}

static void a_segment_under_a_wrong_name_is_noticed(void **state) {
    struct fixture *f = *state;
    uint64_t bases[3];
    three_segments(f, bases);
    char name[32];
    snprintf(name, sizeof(name), "%016" PRIx64 ".seg", bases[2]);
    struct model_entry *entry = model_find(f->model, f->model->cached, name);
    snprintf(entry->name, sizeof(entry->name), "%016" PRIx64 ".seg", bases[2] + 8);
    refused(f, 0, LOG_DAMAGED, "by its name at");
}

static void a_closed_segment_cut_short_is_noticed(void **state) { /* F-9 */
    struct fixture *f = *state;
    uint64_t bases[3];
    three_segments(f, bases);
    file_of(f, bases[0])->cached_size = 4096 + 1000;
    refused(f, bases[2], LOG_DAMAGED, "the file is truncated");
}

static void a_lost_tail_is_noticed(void **state) { /* F-7, F-9 */
    struct fixture *f = *state;
    uint64_t bases[3];
    three_segments(f, bases);
    open_log(f);
    uint64_t end = f->recovery.end;
    close_log(f);
    refused(f, end + 8, LOG_DAMAGED, "the end of the log is lost");
    f->options.durable_min = end + 8;
    refused(f, 0, LOG_DAMAGED, "the end of the log is lost");
    f->options.durable_min = end;
    open_log(f);
    close_log(f);
    memset(f->model->cached, 0, sizeof(f->model->cached)); /* simulates that all files were deleted */
    refused(f, 0, LOG_DAMAGED, "the directory has no segment");
    f->options.durable_min = 0;
    refused(f, end, LOG_DAMAGED, "the log is lost");
}

static void a_position_within_a_frame_is_refused(void **state) {
    struct fixture *f = *state;
    uint64_t bases[3];
    three_segments(f, bases);
    refused(f, bases[2] + 8, LOG_DAMAGED, "is inside a frame");
}

static void damage_in_a_closed_segment_is_refused_with_its_place(void **state) { /* LOG-5, F-2 */
    struct fixture *f = *state;
    uint64_t bases[3];
    three_segments(f, bases);
    uint8_t *byte = &file_of(f, bases[1])->cached[4096 + 500];
    *byte ^= 1;
    char words[128];
    snprintf(words, sizeof(words),
             "%016" PRIx64 ".seg, offset 4096 (position %" PRIu64 "): the frame's body does not match", bases[1],
             bases[1]);
    refused(f, 0, LOG_DAMAGED, words);
    refused(f, bases[1], LOG_DAMAGED, "by the next segment the log was durable up to");
    /* Opening does not scan this segment, but a later read detects the damage by the checksum. */
    assert_int_equal(try_open(f, bases[2]), 0);
    close_log(f);
    *byte ^= 1;
    open_log(f);
    struct log_cursor *cursor;
    struct log_view view;
    assert_int_equal(log_cursor_open(&cursor, f->log, bases[1], true), 0);
    file_of(f, bases[1])->cached[4096 + 500] ^= 1;
    assert_int_equal(log_cursor_next(cursor, UINT64_MAX, &view), LOG_DAMAGED);
    log_cursor_close(cursor);
}

/* Each of the segments is correct by itself, but the second one does not continue the first. */
static void a_segment_of_another_history_is_refused(void **state) { /* F-14 */
    struct fixture *f = *state;
    uint64_t bases[3];
    three_segments(f, bases);
    struct fixture *other;
    assert_int_equal(set_up((void **)&other), 0);
    open_log(other);
    assert_int_equal(append(other, 2999),
                     0); /* the frame has the same size as in the other log, because of the padding */
    assert_int_equal(append(other, 3000), 0);
    assert_int_equal(log_sync(other->log), 0);
    close_log(other);
    struct model_file *from = file_of(other, bases[1]), *to = file_of(f, bases[1]);
    memcpy(to->cached, from->cached, to->cached_size);
    refused(f, 0, LOG_DAMAGED, "the segment does not continue the segment before it");
    tear_down((void **)&other);
}

/* The later header that proves the damage may lie anywhere, also across the boundary of two read blocks. */
static void a_claim_is_found_wherever_it_lies(void **state) { /* LOG-5, F-1 */
    for (uint32_t shift = 0; shift < 2 * FRAME_HEADER_SIZE; shift += 8) {
        struct fixture *f;
        assert_int_equal(set_up((void **)&f), 0);
        f->options.segment_size = 3 << 20;
        open_log(f);
        assert_int_equal(append(f, 1000), 0);
        /* The search starts at the first frame and reads 1 MiB at a time. */
        assert_int_equal(append(f, (1 << 20) - 1112 - FRAME_HEADER_SIZE - 2 * FRAME_HEADER_SIZE + shift), 0);
        assert_int_equal(log_sync(f->log), 0);
        assert_int_equal(append_typed(f, FRAME_SEAL, 0), 0);
        assert_int_equal(log_sync(f->log), 0);
        close_log(f);
        file_of(f, LOG_POSITION_FIRST)->cached[4096] ^= 1;
        refused(f, 0, LOG_DAMAGED, "the log was durable up to");
        tear_down((void **)&f);
    }
}

/* A client's payload may look like a frame. If it is inside a torn frame with a valid header, the log must not take the
 * payload for a frame. */
static void a_payload_that_looks_like_a_frame_proves_nothing(void **state) { /* F-1 */
    struct fixture *f = *state;
    open_log(f);
    assert_int_equal(append(f, 100), 0);
    assert_int_equal(log_sync(f->log), 0);
    uint64_t end = log_end(f->log);
    uint8_t forged[512];
    struct frame_header header = {.type = FRAME_SEAL, .position = end + FRAME_HEADER_SIZE, .synced_to = end + 8};
    memset(forged, 1, sizeof(forged));
    frame_header_encode(&header, forged);
    assert_int_equal(log_append(f->log, &(struct log_frame){.type = FRAME_COMMIT,
                                                            .epoch = 1,
                                                            .position = end,
                                                            .body = forged,
                                                            .body_size = sizeof(forged)}),
                     0);
    assert_int_equal(log_write(f->log), 0);
    close_log(f);
    memset(file_of(f, LOG_POSITION_FIRST)->cached + 4096 + (end - LOG_POSITION_FIRST) + 400, 0, 200);
    open_log(f);
    assert_int_equal(f->recovery.end, end);
    assert_int_equal(f->recovery.cut_at, end);
    assert_int_equal(f->recovery.cut_bytes, frame_size(sizeof(forged), 0));
}

static void reading_only_changes_nothing(void **state) {
    struct fixture *f = *state;
    uint64_t bases[3];
    three_segments(f, bases);
    struct model_file *last = file_of(f, bases[2]);
    last->cached[4096 + 3500] = 1;
    f->model->disk.close(f->model, f->model->disk.open(f->model, "/d/log/next.tmp", O_CREAT | O_RDWR, 0600));
    uint64_t calls = f->model->calls;
    f->options.read_only = true;
    open_log(f);
    uint64_t end = bases[2] + frame_size(3000, 0) + FRAME_HEADER_SIZE;
    assert_int_equal(f->recovery.end, end);
    assert_int_equal(f->recovery.cut_at, end);
    assert_int_equal(f->recovery.cut_bytes, bases[2] + 3500 + 1 - end);
    struct log_cursor *cursor;
    struct log_view view;
    assert_int_equal(log_cursor_open(&cursor, f->log, LOG_POSITION_FIRST, true), 0);
    for (int i = 0; i < 4; i++) assert_int_equal(log_cursor_next(cursor, UINT64_MAX, &view), 0);
    assert_int_equal(log_cursor_next(cursor, UINT64_MAX, &view), LOG_END);
    log_cursor_close(cursor);
    close_log(f);
    assert_int_equal(f->model->calls, calls);
    assert_int_equal(last->cached[4096 + 3500], 1);
    assert_non_null(model_lookup(f->model, "next.tmp"));
    f->options.read_only = false;
    open_log(f);
    assert_null(model_lookup(f->model, "next.tmp"));
    assert_int_equal(last->cached[4096 + 3500], 0);
}

static void an_empty_directory_can_be_read_only(void **state) {
    struct fixture *f = *state;
    f->options.read_only = true;
    open_log(f);
    assert_int_equal(f->recovery.segments, 0);
    assert_int_equal(f->recovery.end, LOG_POSITION_FIRST);
    uint8_t byte;
    assert_int_equal(log_read(f->log, LOG_POSITION_FIRST, &byte, 1), LOG_END);
    struct log_segment oldest;
    assert_false(log_oldest(f->log, UINT64_MAX, &oldest));
    assert_int_equal(f->model->calls, 0);
}

static void a_failing_read_is_reported_and_may_be_tried_again(void **state) {
    struct fixture *f = *state;
    uint64_t bases[3];
    three_segments(f, bases);
    f->model->read_error = -EIO;
    refused(f, 0, -EIO, "cannot read /d/log/0000000000001000.seg: Input/output error");
    f->model->read_error = 0;
    open_log(f);
    struct log_cursor *cursor;
    struct log_view view;
    uint8_t byte;
    assert_int_equal(log_cursor_open(&cursor, f->log, bases[1], true), 0);
    f->model->read_error = -EIO;
    assert_int_equal(log_cursor_next(cursor, UINT64_MAX, &view), -EIO);
    assert_int_equal(log_read(f->log, bases[1], &byte, 1), -EIO);
    f->model->read_error = 0;
    assert_int_equal(log_cursor_next(cursor, UINT64_MAX, &view), 0);
    assert_int_equal(view.header.position, bases[1]);
    assert_int_equal(log_read(f->log, bases[1], &byte, 1), 0);
    assert_int_equal(append(f, 10), 0); /* a failed read affects only its reader, so the writer continues */
    assert_int_equal(log_sync(f->log), 0);
    uint8_t two[2];
    /* A read does not cross the end of a segment. */
    assert_int_equal(log_read(f->log, bases[1] - 1, two, 2), LOG_END);
    log_cursor_close(cursor);
}

/* Data that exceeds the buffer is written before log_write, but is not durable before log_sync. */
static void a_batch_may_be_larger_than_the_buffer(void **state) {
    struct fixture *f = *state;
    f->options.segment_size = 32 << 20;
    open_log(f);
    for (int i = 0; i < 12; i++) assert_int_equal(append(f, 1 << 20), 0);
    assert_int_equal(log_durable(f->log), LOG_POSITION_FIRST);
    assert_int_equal(f->model->datasyncs, 1); /* one sync is left: that of the segment's header */
    assert_int_equal(log_sync(f->log), 0);
    assert_int_equal(f->model->datasyncs, 2);
    uint64_t end = log_end(f->log);
    close_log(f);
    open_log(f);
    assert_int_equal(f->recovery.end, end);
    /* If that early write fails, the append fails and the log cannot be used any more. */
    f->model->fail_at = f->model->calls + 1;
    f->model->fail_error = -EIO;
    int result = 0;
    for (int i = 0; i < 12 && result == 0; i++) result = append(f, 1 << 20);
    assert_int_equal(result, -EIO);
    poisoned(f, -EIO);
}

/* Files that are no segments stay unchanged. */
static void strangers_in_the_directory_are_left_alone(void **state) { /* F-14 */
    struct fixture *f = *state;
    open_log(f);
    close_log(f);
    const char *names[] = {"/d/log/lost+found", "/d/log/0000000000001000.seg.bak", "/d/log/000000000000100G.seg",
                           "/d/log/00000000000A0000.seg"};
    for (int i = 0; i < 4; i++)
        f->model->disk.close(f->model, f->model->disk.open(f->model, names[i], O_CREAT | O_RDWR, 0600));
    open_log(f);
    assert_int_equal(f->recovery.segments, 1);
    for (int i = 0; i < 4; i++) assert_non_null(model_lookup(f->model, model_name(names[i])));
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_failed_sync_is_never_tried_again),
        TEST(a_failed_write_poisons_the_batch),
        TEST(short_writes_and_reads_are_finished),
        TEST(a_full_disk_stops_a_roll_and_nothing_before),
        TEST(opening_says_why_it_cannot),
        cmocka_unit_test(every_failing_call_while_opening_is_reported),
        TEST(another_version_is_refused),
        TEST(another_cluster_is_refused),
        TEST(a_missing_segment_is_noticed),
        TEST(a_segment_under_a_wrong_name_is_noticed),
        TEST(a_closed_segment_cut_short_is_noticed),
        TEST(a_lost_tail_is_noticed),
        TEST(a_position_within_a_frame_is_refused),
        TEST(damage_in_a_closed_segment_is_refused_with_its_place),
        TEST(a_segment_of_another_history_is_refused),
        cmocka_unit_test(a_claim_is_found_wherever_it_lies),
        TEST(a_payload_that_looks_like_a_frame_proves_nothing),
        TEST(reading_only_changes_nothing),
        TEST(an_empty_directory_can_be_read_only),
        TEST(a_failing_read_is_reported_and_may_be_tried_again),
        TEST(a_batch_may_be_larger_than_the_buffer),
        TEST(strangers_in_the_directory_are_left_alone),
    };
    return cmocka_run_group_tests_name("log_fault", tests, NULL, NULL);
}
