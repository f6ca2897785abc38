/* pending_erasures_test.c: the list of pending erasures is read exactly as it was written, or is refused
 * (broker/shell/process/pending_erasures.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "log.h"
#include "pending_erasures.h"

static char directory[] = "/tmp/pending-erasures-test-XXXXXX", path[128];

static int set_up(void **state) {
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/" UNERASED_NAME, directory);
    return 0;
}

static int tear_down(void **state) {
    unlink(path);
    return rmdir(directory);
}

static void write_all(Tarry__Record__FactCase fact) {
    Tarry__Redaction redaction = TARRY__REDACTION__INIT;
    Tarry__Record record = TARRY__RECORD__INIT, *records[] = {&record, &record};
    Tarry__QueuePut queue = TARRY__QUEUE_PUT__INIT;
    Tarry__FrameBody body = TARRY__FRAME_BODY__INIT;
    record.fact_case = fact;
    redaction.frame = 4711;
    if (fact == TARRY__RECORD__FACT_REDACTION) record.redaction = &redaction;
    if (fact == TARRY__RECORD__FACT_QUEUE) record.queue = &queue;
    body.n_records = 2;
    body.records = records;
    assert_int_equal(pending_erasures_write(directory, &body), 0);
}

/* Reads the file. *out: number of its entries. Returns the error of pending_erasures_read. */
static int read_count(size_t *out) {
    Tarry__FrameBody *body;
    int error = pending_erasures_read(directory, &body);
    *out = body != NULL ? body->n_records : 0;
    for (size_t i = 0; i < *out; i++) assert_int_equal(body->records[i]->redaction->frame, 4711);
    if (body != NULL) tarry__frame_body__free_unpacked(body, NULL);
    return error;
}

static void what_was_written_is_read_until_it_has_ended(void **state) {
    size_t count;
    assert_int_equal(read_count(&count), 0);
    assert_int_equal(count, 0);
    write_all(TARRY__RECORD__FACT_REDACTION);
    assert_int_equal(read_count(&count), 0);
    assert_int_equal(count, 2);
    assert_int_equal(pending_erasures_end(directory), 0);
    assert_int_equal(read_count(&count), 0);
    assert_int_equal(count, 0);
}

static void what_is_cut_or_flipped_is_damage(void **state) {
    uint8_t bytes[256];
    size_t count;
    write_all(TARRY__RECORD__FACT_REDACTION);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    for (size_t i = 0; i < 2 * size; i++) {
        size_t length = i < size ? i : size; /* first the file is truncated, then it has a flipped bit */
        if (i >= size) bytes[i - size] ^= 1;
        file = fopen(path, "w");
        assert_int_equal(fwrite(bytes, 1, length, file), length);
        assert_int_equal(fclose(file), 0);
        assert_int_equal(read_count(&count), LOG_DAMAGED);
        if (i >= size) bytes[i - size] ^= 1;
    }
}

static void nothing_but_redactions_is_in_it(void **state) {
    size_t count;
    write_all(TARRY__RECORD__FACT_QUEUE);
    assert_int_equal(read_count(&count), LOG_DAMAGED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read_until_it_has_ended),
        cmocka_unit_test(what_is_cut_or_flipped_is_damage),
        cmocka_unit_test(nothing_but_redactions_is_in_it),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
