/* last_shutdown_test.c: the record of the last stop is found in the last segment or in an earlier one, or it no longer
 * exists. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "last_shutdown.h"

#define SEGMENT_SIZE 4096u

struct fixture {
    char root[64];
    char directory[96];
    struct log *log;
    struct log_options options;
    struct log_recovery found;
};

static void open_log(struct fixture *f, uint64_t scan_from) {
    char message[512] = "";
    if (log_open(&f->log, &f->options, scan_from, &f->found, message, sizeof message) != 0) fail_msg("%s", message);
}

static int set_up(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    if (!f) return -1;
    strcpy(f->root, "/tmp/tarry-last-shutdown-test-XXXXXX");
    if (!mkdtemp(f->root)) abort();
    snprintf(f->directory, sizeof f->directory, "%s/log", f->root);
    f->options = (struct log_options){.directory = f->directory, .disk = &disk_posix, .segment_size = SEGMENT_SIZE};
    open_log(f, 0);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *f = *state;
    char command[128];
    log_close(f->log);
    snprintf(command, sizeof command, "rm -r %s", f->root);
    int status = system(command);
    free(f);
    return status;
}

static void append(struct fixture *f, uint16_t type, const void *body, uint32_t size) {
    struct log_frame frame = {.type = type, .epoch = 1, .position = log_end(f->log), .body = body, .body_size = size};
    assert_int_equal(log_append(f->log, &frame), 0);
    assert_int_equal(log_sync(f->log), 0);
}

/* Appends a frame of one record. The client name makes the frame as large as needed. */
static void append_fact(struct fixture *f, Tarry__Record__FactCase fact, size_t name_size) {
    static char name[SEGMENT_SIZE];
    static uint8_t bytes[2 * SEGMENT_SIZE];
    Tarry__StopPut stop = TARRY__STOP_PUT__INIT;
    Tarry__ProducerEnd goodbye = TARRY__PRODUCER_END__INIT;
    Tarry__Record record = TARRY__RECORD__INIT, *records = &record;
    Tarry__FrameBody body = TARRY__FRAME_BODY__INIT;
    goodbye.producer = 1;
    record.fact_case = fact;
    if (fact == TARRY__RECORD__FACT_STOP)
        record.stop = &stop;
    else
        record.producer_end = &goodbye;
    memset(name, 'x', name_size);
    name[name_size] = '\0';
    body.client = name;
    body.n_records = 1;
    body.records = &records;
    append(f, FRAME_COMMIT, bytes, (uint32_t)tarry__frame_body__pack(&body, bytes));
}

/* Returns what a start learns about the last stop if the index is at the position `scan_from`. */
static Tarry__EpochPut__Before before(struct fixture *f, uint64_t scan_from) {
    Tarry__EpochPut__Before out = 99;
    log_close(f->log);
    open_log(f, scan_from);
    assert_int_equal(last_shutdown(f->log, &f->found, &out), 0);
    return out;
}

static void a_new_log_had_nothing_before(void **state) {
    assert_int_equal(before(*state, 0), TARRY__EPOCH_PUT__BEFORE__NOTHING);
}

static void a_stop_and_its_seal(void **state) {
    struct fixture *f = *state;
    append_fact(f, TARRY__RECORD__FACT_PRODUCER_END, 1);
    assert_int_equal(before(f, 0), TARRY__EPOCH_PUT__BEFORE__BROKEN_OFF);
    append_fact(f, TARRY__RECORD__FACT_STOP, 1);
    append(f, FRAME_SEAL, NULL, 0);
    assert_int_equal(before(f, 0), TARRY__EPOCH_PUT__BEFORE__STOPPED);
    assert_int_equal(before(f, log_end(f->log)),
                     TARRY__EPOCH_PUT__BEFORE__STOPPED); /* the record of the last stop is found in the log, although
                                                            the index has absorbed all frames */
    append_fact(f, TARRY__RECORD__FACT_PRODUCER_END, 1);
    append(f, FRAME_SEAL, NULL, 0);
    assert_int_equal(before(f, 0), TARRY__EPOCH_PUT__BEFORE__BROKEN_OFF);
}

/* The stop record fills the segment, so the seal begins a new segment. */
static void a_seal_alone_in_the_last_segment(void **state) {
    struct fixture *f = *state;
    append_fact(f, TARRY__RECORD__FACT_PRODUCER_END, 1);
    append_fact(f, TARRY__RECORD__FACT_STOP, SEGMENT_SIZE - 280);
    append(f, FRAME_SEAL, NULL, 0);
    struct log_segment segment;
    assert_true(log_segment_at(f->log, log_end(f->log) - 1, &segment));
    assert_int_equal(segment.base, log_end(f->log) - FRAME_HEADER_SIZE);
    assert_int_equal(before(f, log_end(f->log)), TARRY__EPOCH_PUT__BEFORE__STOPPED);
    assert_int_equal(
        f->found.last_commit,
        0); /* recovery has not scanned the frame with the stop record, so it does not know the last commit */
    assert_int_equal(log_retire(f->log, f->found.start), 0);
    assert_int_equal(before(f, log_end(f->log)), TARRY__EPOCH_PUT__BEFORE__NOT_SAID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_new_log_had_nothing_before, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_stop_and_its_seal, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_seal_alone_in_the_last_segment, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
