/* tally_test.c: compares counts and digest, which are updated record by record, with those computed from a table of all
 * rows. Inconsistent records must change nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../random.h"
#include "tally.h"

#define QUEUES 3
#define TASKS 300
#define RECORDS 4000
#define HISTORIES 20

struct fixture {
    struct random random;
    struct tally tally;
    struct queue_tally queues[QUEUE_PLACES + 1];
    /* ---- the model */
    struct row rows[TASKS]; /* table of all rows; id 0: the row is unused */
    uint64_t next_id;
    uint64_t queue_hashes[QUEUES + 1];
    bool producers[8];
    struct queue_tally ended[QUEUES + 1]; /* counters of ended tasks, which only grow */
};

static struct fixture fx;

static void setup(uint64_t seed) {
    memset(&fx, 0, sizeof(fx));
    fx.random.state = seed;
    fx.next_id = 1;
    tally_init(&fx.tally, fx.queues);
}

static bool submit(Tarry__Record__FactCase fact, void *message) {
    Tarry__Record record = TARRY__RECORD__INIT;
    record.fact_case = fact;
    record.put = message; /* all members of the union are pointers */
    return tally_record(&fx.tally, &record);
}

static bool put(Tarry__Cause cause, const struct row *row, const struct row *before) {
    Tarry__Task task = TARRY__TASK__INIT;
    row_to_task(row, &task);
    Tarry__TaskPut message = TARRY__TASK_PUT__INIT;
    message.cause = cause;
    message.task = &task;
    message.fresh = before == NULL;
    if (before != NULL) {
        message.before_hash = row_hash(before);
        message.before_state = (Tarry__Task__State)before->state;
        message.before_time_base = (Tarry__Task__Base)before->base;
        message.before_due_ms = before->due_ms;
    }
    return submit(TARRY__RECORD__FACT_PUT, &message);
}

static bool end(Tarry__Cause cause, const struct row *row) {
    Tarry__Task task = TARRY__TASK__INIT;
    row_to_task(row, &task);
    Tarry__TaskEnd message = TARRY__TASK_END__INIT;
    message.cause = cause;
    message.task = &task;
    return submit(TARRY__RECORD__FACT_END, &message);
}

static bool put_queue(uint32_t number, uint64_t before_hash, bool paused, uint64_t *out_hash) {
    Tarry__QueuePut message = TARRY__QUEUE_PUT__INIT;
    message.number = number;
    message.name = "q";
    message.paused = paused;
    message.before_hash = before_hash;
    *out_hash = queue_hash(&message);
    return submit(TARRY__RECORD__FACT_QUEUE, &message);
}

static bool delete_queue(uint32_t number, uint64_t before_hash, uint64_t *out_hash) {
    Tarry__QueuePut message = TARRY__QUEUE_PUT__INIT;
    message.number = number;
    message.name = "q";
    message.deleted = true;
    message.before_hash = before_hash;
    *out_hash = queue_hash(&message);
    return submit(TARRY__RECORD__FACT_QUEUE, &message);
}

static bool put_producer(uint64_t producer, bool is_end) {
    Tarry__ProducerPut message = TARRY__PRODUCER_PUT__INIT;
    Tarry__ProducerEnd message_end = TARRY__PRODUCER_END__INIT;
    message.producer = message_end.producer = producer;
    return is_end ? submit(TARRY__RECORD__FACT_PRODUCER_END, &message_end)
                  : submit(TARRY__RECORD__FACT_PRODUCER, &message);
}

static bool put_epoch(uint32_t epoch) {
    Tarry__EpochPut message = TARRY__EPOCH_PUT__INIT;
    message.epoch = epoch;
    return submit(TARRY__RECORD__FACT_EPOCH, &message);
}

/* Computes the counts and the digest from the table, and compares them with the tally's. */
static void compare(void) {
    uint64_t digest = 0, live = 0;
    struct queue_tally want[QUEUES + 1];
    memcpy(want, fx.ended, sizeof(want));
    for (int i = 0; i < TASKS; i++) {
        const struct row *row = &fx.rows[i];
        if (row->id == 0) continue;
        digest += row_hash(row);
        live += row->state != ROW_BURIED;
        if (row->state == ROW_WAITING) want[row->queue].waiting[row->base][row->priority]++;
        if (row->state == ROW_LEASED) want[row->queue].in_flight++;
        if (row->state == ROW_BURIED) want[row->queue].dead++;
    }
    for (int i = 1; i <= QUEUES; i++) digest += fx.queue_hashes[i];
    for (uint64_t i = 1; i < 8; i++) digest += fx.producers[i] ? producer_hash(i) : 0;
    assert_int_equal(fx.tally.digest, digest);
    assert_int_equal(fx.tally.live, live);
    assert_int_equal(fx.tally.next_id, fx.next_id);
    for (int i = 1; i <= QUEUES; i++) want[i].number = fx.queue_hashes[i] != 0 ? (uint32_t)i : 0;
    assert_memory_equal(fx.queues, want, sizeof(want));
}

static void schedule(struct row *row) {
    *row = (struct row){
        .id = fx.next_id + random_below(&fx.random, 3),
        .queue = 1 + (uint32_t)random_below(&fx.random, QUEUES),
        .priority = (uint8_t)random_below(&fx.random, PRIORITY_COUNT),
        .base = (uint8_t)random_below(&fx.random, ROW_BASES),
        .due_ms = random_u64(&fx.random),
        .key = "order-1",
        .key_size = (uint8_t)random_below(&fx.random, 8),
    };
    fx.next_id = row->id + 1;
    assert_true(put(TARRY__CAUSE__CAUSE_SCHEDULED, row, NULL));
    fx.ended[row->queue].scheduled++;
}

static void change(struct row *row) {
    struct row before = *row;
    Tarry__Cause cause = TARRY__CAUSE__CAUSE_MOVED + (Tarry__Cause)random_below(&fx.random, 9);
    row->state = (uint8_t)random_below(&fx.random, ROW_STATES);
    row->base = (uint8_t)random_below(&fx.random, ROW_BASES);
    row->due_ms = random_u64(&fx.random);
    row->deliveries++;
    row->reason = "why";
    row->reason_size = (uint8_t)random_below(&fx.random, 4);
    assert_true(put(cause, row, &before));
    fx.ended[row->queue].delivered += cause == TARRY__CAUSE__CAUSE_LEASED;
    if (cause == TARRY__CAUSE__CAUSE_UNSENT && fx.ended[row->queue].delivered > 0) fx.ended[row->queue].delivered--;
    fx.ended[row->queue].retried += cause == TARRY__CAUSE__CAUSE_RETRIED;
}

static void finish(struct row *row) {
    Tarry__Cause cause = TARRY__CAUSE__CAUSE_ACKED + (Tarry__Cause)random_below(&fx.random, 7);
    assert_true(end(cause, row));
    struct queue_tally *ended = &fx.ended[row->queue];
    if (cause == TARRY__CAUSE__CAUSE_ACKED) {
        ended->acked++;
    } else if (cause == TARRY__CAUSE__CAUSE_EXPIRED) {
        ended->expired++;
    } else if (cause == TARRY__CAUSE__CAUSE_DROPPED) {
        ended->dropped++;
    } else {
        ended->cancelled++;
    }
    row->id = 0;
}

static void counts_and_digest_follow_the_records(void **state) { /* LOG-2 */
    (void)state;
    for (uint64_t seed = 1; seed <= HISTORIES; seed++) {
        setup(seed);
        for (uint32_t i = 1; i <= QUEUES; i++) assert_true(put_queue(i, 0, false, &fx.queue_hashes[i]));
        assert_int_equal(fx.tally.next_queue, QUEUES + 1);
        for (int n = 0; n < RECORDS; n++) {
            struct row *row = &fx.rows[random_below(&fx.random, TASKS)];
            uint64_t producer = 1 + random_below(&fx.random, 7);
            uint32_t queue = 1 + (uint32_t)random_below(&fx.random, QUEUES);
            switch (random_below(&fx.random, 8)) {
            case 0:
                assert_true(put_producer(producer, fx.producers[producer]));
                fx.producers[producer] = !fx.producers[producer];
                break;
            case 1:
                assert_true(put_queue(queue, fx.queue_hashes[queue], n % 2 == 0, &fx.queue_hashes[queue]));
                break;
            default:
                if (row->id == 0) {
                    schedule(row);
                } else if (random_below(&fx.random, 3) == 0) {
                    finish(row);
                } else {
                    change(row);
                }
                break;
            }
            if (n % 50 == 0) compare();
        }
        for (int i = 0; i < TASKS; i++)
            if (fx.rows[i].id != 0) finish(&fx.rows[i]);
        compare();
        assert_int_equal(fx.tally.live, 0);
    }
}

/* Checks that the record is refused and changes nothing. */
#define REFUSED(expression)                                                                                            \
    do {                                                                                                               \
        static struct queue_tally queues[QUEUE_PLACES + 1];                                                            \
        struct tally tally = fx.tally;                                                                                 \
        memcpy(queues, fx.queues, sizeof(queues));                                                                     \
        assert_false(expression);                                                                                      \
        assert_memory_equal(&tally, &fx.tally, sizeof(tally));                                                         \
        assert_memory_equal(queues, fx.queues, sizeof(queues));                                                        \
    } while (0)

static void a_put_that_makes_no_sense_is_refused(void **state) {
    (void)state;
    setup(1);
    uint64_t hash;
    assert_true(put_queue(1, 0, false, &hash));
    struct row row = {.id = 5, .queue = 1, .due_ms = 100};
    REFUSED(put(TARRY__CAUSE__CAUSE_MOVED, &row, NULL));
    REFUSED(put(TARRY__CAUSE__CAUSE_MOVED, &row, &row)); /* never scheduled */
    row.state = ROW_LEASED;
    REFUSED(put(TARRY__CAUSE__CAUSE_SCHEDULED, &row, NULL)); /* refused, because a new task cannot be leased */
    row.state = ROW_WAITING;
    assert_true(put(TARRY__CAUSE__CAUSE_SCHEDULED, &row, NULL));
    REFUSED(put(TARRY__CAUSE__CAUSE_SCHEDULED, &row, NULL)); /* scheduled twice */
    REFUSED(put(TARRY__CAUSE__CAUSE_SCHEDULED, &row, &row));
    REFUSED(put(TARRY__CAUSE__CAUSE_NONE, &row, &row));
    REFUSED(put(TARRY__CAUSE__CAUSE_ACKED, &row,
                &row)); /* refused in a record of a live task, because CAUSE_ACKED ends a task */
    struct row bad = row;
    bad.id = UINT64_MAX;
    REFUSED(put(TARRY__CAUSE__CAUSE_SCHEDULED, &bad, NULL)); /* refused, because next_id would overflow */
    bad = row;
    bad.state = ROW_LEASED;
    REFUSED(put(TARRY__CAUSE__CAUSE_MOVED, &row,
                &bad)); /* refused, because the former row says leased, but no task is leased */
    bad = row;
    bad.base = ROW_WALL;
    REFUSED(put(TARRY__CAUSE__CAUSE_MOVED, &row, &bad));
    bad = row;
    bad.priority = 1;
    REFUSED(put(TARRY__CAUSE__CAUSE_MOVED, &bad, &row)); /* refused, because a move must not change the priority */
    bad = row;
    bad.queue = 2;
    REFUSED(put(TARRY__CAUSE__CAUSE_MOVED, &bad, &row)); /* refused, because a move must not change the queue */
    bad = row;
    bad.queue = QUEUE_PLACES + 1;
    REFUSED(put(TARRY__CAUSE__CAUSE_MOVED, &bad, &row));
    Tarry__TaskPut message = TARRY__TASK_PUT__INIT;
    REFUSED(submit(TARRY__RECORD__FACT_PUT, &message)); /* refused, because the record has no task */
    Tarry__Task task = TARRY__TASK__INIT;
    row_to_task(&row, &task);
    message.task = &task;
    message.cause = TARRY__CAUSE__CAUSE_MOVED;
    REFUSED(submit(TARRY__RECORD__FACT_PUT, &message)); /* refused, because before_hash is missing */
    message.before_hash = 1;
    message.before_state = (Tarry__Task__State)3;
    REFUSED(submit(TARRY__RECORD__FACT_PUT, &message));
    message.before_state = TARRY__TASK__STATE__WAITING;
    message.before_time_base = (Tarry__Task__Base)2;
    REFUSED(submit(TARRY__RECORD__FACT_PUT, &message));
}

static void an_end_that_makes_no_sense_is_refused(void **state) {
    (void)state;
    setup(1);
    struct row row = {.id = 5, .queue = 1, .due_ms = 100};
    REFUSED(end(TARRY__CAUSE__CAUSE_ACKED, &row));
    assert_true(put(TARRY__CAUSE__CAUSE_SCHEDULED, &row, NULL));
    REFUSED(end(TARRY__CAUSE__CAUSE_MOVED, &row));
    REFUSED(end(TARRY__CAUSE__CAUSE_NONE, &row));
    REFUSED(end((Tarry__Cause)(TARRY__CAUSE__CAUSE_UNMATCHED + 1), &row));
    struct row bad = row;
    bad.state = ROW_BURIED;
    REFUSED(end(TARRY__CAUSE__CAUSE_DROPPED, &bad)); /* refused, because no task is dead */
    bad = row;
    bad.id = 6;
    REFUSED(end(TARRY__CAUSE__CAUSE_ACKED, &bad));
    Tarry__TaskEnd message = TARRY__TASK_END__INIT;
    REFUSED(submit(TARRY__RECORD__FACT_END, &message));
    assert_true(end(TARRY__CAUSE__CAUSE_CANCELLED, &row));
    assert_int_equal(fx.tally.digest, 0);
    REFUSED(end(TARRY__CAUSE__CAUSE_CANCELLED, &row)); /* refused, because a task ends exactly once (KEEP-1) */
}

static void a_queue_is_deleted_while_nothing_is_in_it(void **state) {
    (void)state;
    setup(1);
    uint64_t hash, gone, again;
    REFUSED(delete_queue(1, 0, &gone)); /* refused, because the queue must exist */
    assert_true(put_queue(1, 0, false, &hash));
    uint64_t *const counts[] = {&fx.queues[1].waiting[1][9], &fx.queues[1].in_flight, &fx.queues[1].dead};
    for (size_t i = 0; i < 3; i++) {
        *counts[i] = 1;
        REFUSED(delete_queue(1, hash, &gone));
        *counts[i] = 0;
    }
    fx.queues[1].scheduled = fx.queues[1].acked = 7;
    assert_true(delete_queue(1, hash, &gone));
    assert_true(gone != hash && fx.tally.digest == gone);
    assert_true(fx.queues[1].scheduled == 0 && fx.queues[1].acked == 0);
    assert_true(put_queue(1, gone, false, &again));
    assert_int_equal(again, hash); /* the recreated queue has the same hash as when it was new */
    assert_int_equal(fx.tally.digest, hash);
}

/* LOG-2: a new queue takes the place of a deleted one. Its number has the next generation, so records of the deleted
 * queue's tasks are refused. */
static void a_place_is_taken_again_under_another_number(void **state) {
    (void)state;
    setup(1);
    const uint32_t next = queue_number(1, 1);
    uint64_t hash, gone, later;
    struct row row = {.id = 1, .queue = 1, .due_ms = 7};
    assert_true(put_queue(1, 0, false, &hash));
    assert_true(put(TARRY__CAUSE__CAUSE_SCHEDULED, &row, NULL));
    REFUSED(put_queue(next, hash, false, &later)); /* refused, because the former queue still has a task */
    assert_true(end(TARRY__CAUSE__CAUSE_CANCELLED, &row));
    assert_true(delete_queue(1, hash, &gone));
    REFUSED(put_queue(queue_number(1, 2), gone, false, &later));
    REFUSED(put_queue(next, 0, false, &later));
    REFUSED(delete_queue(next, gone, &later));
    REFUSED(
        put_queue(queue_number(2, 1), 0, false, &later)); /* refused, because a new place begins with generation 0 */
    assert_true(put_queue(next, gone, false, &later));
    assert_int_equal(fx.tally.next_queue, 2);
    row.id = 2;
    REFUSED(put(TARRY__CAUSE__CAUSE_SCHEDULED, &row, NULL));
    REFUSED(put_queue(1, later, false, &hash));
    row.queue = next;
    assert_true(put(TARRY__CAUSE__CAUSE_SCHEDULED, &row, NULL));
    row.queue = 1;
    REFUSED(end(TARRY__CAUSE__CAUSE_CANCELLED, &row));
    assert_true(put_queue(2, 0, false, &hash));
    assert_int_equal(fx.tally.next_queue, 3);
}

static void other_records_that_make_no_sense_are_refused(void **state) {
    (void)state;
    setup(1);
    uint64_t hash, other;
    REFUSED(put_queue(0, 0, false, &hash));
    REFUSED(put_queue(QUEUE_PLACES + 1, 0, false, &hash));
    REFUSED(put_queue(1, 77, false, &hash)); /* refused, because it would change a queue that does not exist */
    assert_true(put_queue(1, 0, false, &hash));
    REFUSED(put_queue(1, 0, false, &other)); /* refused, because it would make a queue that exists already */
    assert_true(put_queue(QUEUES_MAX, 0, false, &hash));
    REFUSED(put_producer(0, false));
    assert_true(put_epoch(3));
    REFUSED(put_epoch(2));
    REFUSED(put_epoch(0));
    assert_int_equal(fx.tally.epoch, 3);
    Tarry__Record nothing = TARRY__RECORD__INIT;
    REFUSED(tally_record(&fx.tally, &nothing)); /* refused, because only a newer broker knows this kind of record */
    Tarry__JobPut job = TARRY__JOB_PUT__INIT;
    REFUSED(submit(TARRY__RECORD__FACT_JOB, &job));
    job.job = 4096, job.queue = 1;
    uint64_t digest = fx.tally.digest;
    assert_true(submit(TARRY__RECORD__FACT_JOB, &job));
    Tarry__JobEnd job_end = TARRY__JOB_END__INIT;
    REFUSED(submit(TARRY__RECORD__FACT_JOB_END, &job_end));
    job_end.job = 4096;
    assert_true(submit(TARRY__RECORD__FACT_JOB_END, &job_end));
    Tarry__ClockAccepted clock = TARRY__CLOCK_ACCEPTED__INIT;
    assert_true(submit(TARRY__RECORD__FACT_CLOCK, &clock));
    Tarry__SessionPut session = TARRY__SESSION_PUT__INIT;
    Tarry__SessionEnd session_end = TARRY__SESSION_END__INIT;
    Tarry__StopPut stop = TARRY__STOP_PUT__INIT;
    REFUSED(submit(TARRY__RECORD__FACT_SESSION, &session));
    REFUSED(submit(TARRY__RECORD__FACT_SESSION_END, &session_end));
    session.session = session_end.session = 1;
    assert_true(submit(TARRY__RECORD__FACT_SESSION, &session));
    assert_true(submit(TARRY__RECORD__FACT_SESSION_END, &session_end));
    assert_true(submit(TARRY__RECORD__FACT_STOP, &stop));
    Tarry__AccessRefused refused = TARRY__ACCESS_REFUSED__INIT;
    REFUSED(submit(TARRY__RECORD__FACT_REFUSED, &refused));
    refused.count = 1;
    assert_true(submit(TARRY__RECORD__FACT_REFUSED, &refused));
    assert_int_equal(fx.tally.digest, digest); /* jobs, the clock, sessions and stops do not change the digest */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_and_digest_follow_the_records),
        cmocka_unit_test(a_put_that_makes_no_sense_is_refused),
        cmocka_unit_test(an_end_that_makes_no_sense_is_refused),
        cmocka_unit_test(a_place_is_taken_again_under_another_number),
        cmocka_unit_test(other_records_that_make_no_sense_are_refused),
        cmocka_unit_test(a_queue_is_deleted_while_nothing_is_in_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
