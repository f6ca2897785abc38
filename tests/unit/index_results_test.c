/* index_results_test.c: which commits the index remembers, so that clients may repeat them (ONCE-1), up to the highest
 * sequence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "index_parts.h"

#define PRODUCER 7u
#define MANY 6000u

struct fx {
    char directory[64];
    struct index *index;
    uint64_t producer, floor; /* producer of the next frames, and its floor */
    uint64_t position;
    uint32_t queues;
};

static int setup(void **state) {
    struct fx *f = calloc(1, sizeof *f);
    char message[256];
    strcpy(f->directory, "/tmp/tarry-index-results-XXXXXX");
    assert_non_null(mkdtemp(f->directory));
    struct index_options options = {.directory = f->directory,
                                    .memory = 16u << 20,
                                    .outcomes_max = 1000,
                                    .outcome_retention_ms = 3600000,
                                    .no_sync = true};
    f->position = LOG_POSITION_FIRST;
    f->producer = PRODUCER;
    f->floor = 1;
    assert_int_equal(index_open(&f->index, &options, message, sizeof message), 0);
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fx *f = *state;
    char path[96];
    static const char *const names[] = {"data.mdb", "lock.mdb", "keyring"};
    index_close(f->index);
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", f->directory, names[i]);
        unlink(path);
    }
    rmdir(f->directory);
    free(f);
    return 0;
}

/* Absorbs a frame with one record (NULL: none). If there is a sequence, the frame is a commit of the producer. */
static void absorb(struct fx *f, Tarry__Record *record, uint64_t sequence) {
    Tarry__FrameBody body = TARRY__FRAME_BODY__INIT;
    struct frame_header header = {.type = FRAME_COMMIT, .position = f->position, .body_size = 100};
    body.records = &record;
    body.n_records = record != NULL;
    body.producer = sequence != 0 ? f->producer : 0;
    body.sequence = sequence;
    body.oldest_unanswered = sequence != 0 ? f->floor : 0;
    assert_int_equal(index_absorb(f->index, &header, &body), 0);
    f->position += frame_size(100, 0);
}

static void producer_comes(struct fx *f) {
    Tarry__Record record = TARRY__RECORD__INIT;
    Tarry__ProducerPut put = TARRY__PRODUCER_PUT__INIT;
    put.producer = f->producer;
    record.fact_case = TARRY__RECORD__FACT_PRODUCER;
    record.producer = &put;
    absorb(f, &record, 0);
}

static void producer_goes(struct fx *f) {
    Tarry__Record record = TARRY__RECORD__INIT;
    Tarry__ProducerEnd end = TARRY__PRODUCER_END__INIT;
    end.producer = f->producer;
    record.fact_case = TARRY__RECORD__FACT_PRODUCER_END;
    record.producer_end = &end;
    absorb(f, &record, 0);
}

/* Absorbs a commit whose record makes a queue with this filter. */
static void commits_filter(struct fx *f, uint64_t sequence, char *filter) {
    Tarry__Record record = TARRY__RECORD__INIT;
    Tarry__QueuePut put = TARRY__QUEUE_PUT__INIT;
    Tarry__Policy policy = TARRY__POLICY__INIT;
    char name[] = "q0";
    name[1] += (char)f->queues;
    put.number = ++f->queues;
    put.name = name;
    put.policy = &policy;
    policy.filter = filter;
    record.fact_case = TARRY__RECORD__FACT_QUEUE;
    record.queue = &put;
    absorb(f, &record, sequence);
}

static void commits(struct fx *f, uint64_t sequence) {
    commits_filter(f, sequence, "");
}

static int count_result(void *argument, uint64_t producer, uint64_t sequence, uint64_t position) {
    ++*(uint64_t *)argument;
    return 0;
}

static uint64_t results(struct fx *f) {
    uint64_t count = 0;
    assert_int_equal(index_commit(f->index), 0);
    assert_int_equal(index_each_result(f->index, count_result, &count), 0);
    return count;
}

/* A start refuses an index that has a reply without its producer. So when a producer has ended, none of its replies may
 * remain, or the broker could not start any more. */
static void nothing_is_left_of_a_producer_that_has_ended(void **state) { /* F-20, ONCE-1 */
    struct fx *f = *state;
    producer_comes(f);
    commits(f, 1);
    commits(f, UINT64_MAX);
    assert_int_equal(results(f), 2);
    producer_goes(f);
    assert_int_equal(results(f), 0);
}

static int note_result(void *argument, uint64_t producer, uint64_t sequence, uint64_t position) {
    uint8_t *kept = argument;
    assert_in_range(sequence, 1, 2);
    kept[producer] |= (uint8_t)(1u << sequence);
    return 0;
}

/* A batch keeps the changes of each producer apart, and finds them by a hash table. The end or the floor of one
 * producer must not change another producer. */
static void a_batch_keeps_many_producers_apart(void **state) { /* ONCE-1 */
    struct fx *f = *state;
    static uint8_t kept[MANY + 1];
    for (f->producer = 1; f->producer <= MANY; f->producer++) {
        producer_comes(f);
        absorb(f, NULL, 1);
        if (f->producer % 2 == 0) absorb(f, NULL, 2);
    }
    assert_int_equal(f->index->batch.producers.count, MANY);
    assert_int_equal(index_commit(f->index), 0);
    f->floor = 2;
    for (f->producer = MANY; f->producer > 0; f->producer--) {
        if (f->producer % 2 == 0) absorb(f, NULL, 2); /* the client has got the reply to its first commit */
        if (f->producer % 3 == 0) producer_goes(f);
    }
    assert_int_equal(f->index->batch.producers.count, MANY / 2 + MANY / 3 - MANY / 6);
    assert_int_equal(index_commit(f->index), 0);
    assert_int_equal(index_each_result(f->index, note_result, kept), 0);
    for (uint64_t i = 1; i <= MANY; i++) assert_int_equal(kept[i], i % 3 == 0 ? 0 : i % 2 == 0 ? 1 << 2 : 1 << 1);
}

/* An index with groups has another format version, so that a program that does not know groups refuses the directory.
 */
static void an_index_with_groups_has_its_own_version(void **state) { /* F-14 */
    struct fx *f = *state;
    producer_comes(f);
    commits(f, 1);
    assert_int_equal(results(f), 1);
    assert_int_equal(f->index->meta.format, FORMAT_VERSION);
    commits_filter(f, 2, "*");
    assert_int_equal(results(f), 2);
    assert_int_equal(f->index->meta.format, INDEX_FORMAT_GROUPS);
    commits(f, 3); /* the version does not go back, because segments of the log may contain groups */
    assert_int_equal(results(f), 3);
    assert_int_equal(f->index->meta.format, INDEX_FORMAT_GROUPS);
}

/* Absorbs a commit of a new task with these attempts of its own, and this spread. */
static void commits_task(struct fx *f, uint64_t sequence, uint32_t max_attempts, uint64_t spread_ms) {
    Tarry__Record record = TARRY__RECORD__INIT;
    Tarry__TaskPut put = TARRY__TASK_PUT__INIT;
    Tarry__Task task = TARRY__TASK__INIT;
    task.id = sequence;
    task.queue = 1;
    task.max_attempts = max_attempts;
    task.spread_ms = spread_ms;
    put.task = &task;
    put.fresh = true;
    put.cause = TARRY__CAUSE__CAUSE_SCHEDULED;
    record.fact_case = TARRY__RECORD__FACT_PUT;
    record.put = &put;
    absorb(f, &record, sequence);
}

/* An index with a task's own settings has another format version, so that a program that does not know them refuses the
 * directory (OWN-1). */
static void an_index_with_a_tasks_own_settings_has_its_own_version(void **state) { /* F-14 */
    struct fx *f = *state;
    producer_comes(f);
    commits(f, 100);
    commits_task(f, 1, 0, 0);
    assert_int_equal(results(f), 2);
    assert_int_equal(f->index->meta.format, FORMAT_VERSION);
    commits_task(f, 2, 0, 5);
    assert_int_equal(results(f), 3);
    assert_int_equal(f->index->meta.format, INDEX_FORMAT_GROUPS);
    commits_task(f, 3, 3, 0);
    assert_int_equal(results(f), 4);
    assert_int_equal(f->index->meta.format, INDEX_FORMAT_OWN);
}

static int forget_producer(void *argument, MDB_txn *txn) {
    struct index *index = argument;
    uint64_t producer = PRODUCER;
    return db_del(&index->db, txn, DB_PRODUCERS, &producer, sizeof producer);
}

static void a_result_of_nobodys_is_found(void **state) {
    struct fx *f = *state;
    struct index_verification found;
    char message[256] = "";
    producer_comes(f);
    commits(f, 1);
    assert_int_equal(results(f), 1);
    if (index_verify(f->index, &found, message, sizeof message, NULL, NULL) != 0) fail_msg("%s", message);
    assert_int_equal(db_write(&f->index->db, forget_producer, f->index), 0);
    assert_int_not_equal(index_verify(f->index, &found, message, sizeof message, NULL, NULL), 0);
    assert_string_equal(message, "index: a result belongs to producer 7, which has ended");
}

#define RESULTS_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        RESULTS_TEST(nothing_is_left_of_a_producer_that_has_ended),
        RESULTS_TEST(a_batch_keeps_many_producers_apart),
        RESULTS_TEST(an_index_with_groups_has_its_own_version),
        RESULTS_TEST(an_index_with_a_tasks_own_settings_has_its_own_version),
        RESULTS_TEST(a_result_of_nobodys_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
