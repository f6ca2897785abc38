/* quarantine_erase_test.c: redacted contents are erased from quarantined tails, on a disk that stops and loses unsynced
 * writes. All other contents stay unchanged. */
#include "log_two.h"
#include "quarantine.h"
#include "tarry.pb-c.h"

#include "../must.h"
#include "../random.h"

#define CONTENT_SIZE 200u
#define BLOB_SIZE (BLOB_SALT_SIZE + CONTENT_SIZE)

/* Tasks of the tail, one in each frame. Before the cut, the log created the queue `made-there`. Now the log uses that
 * queue's number for another queue. */
enum { KEYED, PLAIN, OTHER_KEY, OTHER_QUEUE, PLAIN_AGAIN, TASKS };
#define QUEUE 3u
#define QUEUE_MADE_THERE 7u
static const struct {
    uint32_t queue;
    const char *key;
    int same_as; /* index of the task whose content this task has too; the task's own index: a unique content */
} tasks[TASKS] = {
    [KEYED] = {QUEUE, "order-1", KEYED},         [PLAIN] = {QUEUE, "", PLAIN},
    [OTHER_KEY] = {QUEUE, "order-2", OTHER_KEY}, [OTHER_QUEUE] = {QUEUE_MADE_THERE, "order-1", OTHER_QUEUE},
    [PLAIN_AGAIN] = {QUEUE, "", PLAIN},
};

struct life {
    struct one one;
    struct quarantine quarantine;
    struct quarantine_tail tail;
    struct random random;
    uint8_t blobs[TASKS][BLOB_SIZE];
};

static void append(struct life *life, Tarry__Record *record, const uint8_t *blob) {
    Tarry__FrameBody body = TARRY__FRAME_BODY__INIT;
    uint8_t packed[1024];
    body.records = &record;
    body.n_records = 1;
    MUST(tarry__frame_body__get_packed_size(&body) <= sizeof packed);
    struct log_piece piece = {blob, BLOB_SIZE};
    struct log_frame frame = {.type = FRAME_COMMIT,
                              .epoch = 1,
                              .position = log_end(life->one.log),
                              .body = packed,
                              .body_size = (uint32_t)tarry__frame_body__pack(&body, packed),
                              .pieces = &piece,
                              .piece_count = blob != NULL};
    MUST(log_append(life->one.log, &frame) == 0);
}

static void append_queue(struct life *life, uint32_t number, const char *name) {
    Tarry__Record record = TARRY__RECORD__INIT;
    Tarry__QueuePut put = TARRY__QUEUE_PUT__INIT;
    record.fact_case = TARRY__RECORD__FACT_QUEUE;
    record.queue = &put;
    put.number = number;
    put.name = (char *)name;
    append(life, &record, NULL);
}

static void append_task(struct life *life, size_t which) {
    Tarry__Record record = TARRY__RECORD__INIT;
    Tarry__TaskPut put = TARRY__TASK_PUT__INIT;
    Tarry__Task task = TARRY__TASK__INIT;
    record.fact_case = TARRY__RECORD__FACT_PUT;
    record.put = &put;
    put.fresh = true;
    put.task = &task;
    task.id = 100 + which;
    task.queue = tasks[which].queue;
    task.key = (ProtobufCBinaryData){strlen(tasks[which].key), (uint8_t *)tasks[which].key};
    task.blob_at = frame_blob_position(log_end(life->one.log));
    task.blob_size = BLOB_SIZE;
    uint8_t hash[CONTENT_HASH_SIZE];
    content_hash(life->blobs[which], BLOB_SIZE, hash);
    put.content_hash = (ProtobufCBinaryData){sizeof hash, hash};
    task.blob_sum = frame_sum(life->blobs[which], BLOB_SIZE);
    append(life, &record, life->blobs[which]);
}

/* Makes the log. Contents may be equal, but their salts always differ. */
static void life_begin(struct life *life, uint64_t seed) {
    *life = (struct life){.random = {seed}};
    one_make(&life->one, seed);
    one_open(&life->one);
    life->quarantine = (struct quarantine){.disk = &life->one.model->disk, .directory = "/d/quarantine"};
    append_queue(life, QUEUE, "orders");
    MUST(log_sync(life->one.log) == 0);
    uint64_t position = log_end(life->one.log);
    append_queue(life, QUEUE_MADE_THERE, "made-there");
    for (size_t i = 0; i < TASKS; i++) {
        for (size_t j = 0; j < BLOB_SIZE; j++) life->blobs[i][j] = (uint8_t)(1 + random_below(&life->random, 255));
        memcpy(life->blobs[i] + BLOB_SALT_SIZE, life->blobs[tasks[i].same_as] + BLOB_SALT_SIZE, CONTENT_SIZE);
        append_task(life, i);
    }
    MUST(log_sync(life->one.log) == 0);
    MUST(log_cut(life->one.log, position, 0, &life->quarantine, "the leader never had it", &life->tail) == 0);
}

static void life_end(struct life *life) {
    one_free(&life->one);
}

static const struct quarantine_meant meant[] = {
    {.queue = QUEUE, .queue_name = "orders", .key = "order-1", .key_size = 7},
    {.queue = QUEUE_MADE_THERE, .queue_name = "made-here", .key = "order-1", .key_size = 7},
};

static int erase(struct life *life, bool with_content, size_t *out_count) {
    char message[512] = "";
    struct quarantine_meant all[3] = {meant[0], meant[1]};
    all[2] = (struct quarantine_meant){.queue = 1,
                                       .content = life->blobs[PLAIN] + BLOB_SALT_SIZE,
                                       .content_size = CONTENT_SIZE};
    return quarantine_erase(&life->quarantine, all, with_content ? 3 : 2, out_count, message, sizeof message);
}

/* Returns whether the tail's file has the content, in the page cache or on disk. */
static bool tail_has(const struct life *life, size_t which) {
    const uint8_t *content = life->blobs[which] + BLOB_SALT_SIZE;
    const struct model_file *file = model_lookup(life->one.model, life->tail.name);
    return memmem(file->cached, file->cached_size, content, 16) != NULL ||
           memmem(file->durable, file->durable_size, content, 16) != NULL;
}

/* Checks that every frame of the tail is valid, and that each content is unchanged or its frame has the erased flag.
 * Returns the number of erased contents. */
static size_t check(struct life *life) {
    struct log *log;
    struct log_recovery recovery;
    struct log_cursor *cursor;
    struct log_view view;
    char message[512] = "";
    size_t gone = 0;
    if (quarantine_open(&log, &life->quarantine, &life->tail, &recovery, message, sizeof message) != 0)
        fail_msg("%s", message);
    MUST(recovery.end == life->tail.end && log_cursor_open(&cursor, log, recovery.start, true) == 0);
    MUST(log_cursor_next(cursor, recovery.end, &view) == 0); /* reads and ignores the record that creates the queue */
    for (size_t i = 0; i < TASKS; i++) {
        MUST(log_cursor_next(cursor, recovery.end, &view) == 0 && view.header.blob_size == BLOB_SIZE);
        bool is_same = memcmp(view.blob, life->blobs[i], BLOB_SIZE) == 0;
        bool is_meant = i != OTHER_KEY && i != OTHER_QUEUE;
        MUST(is_same || (is_meant && (view.header.flags & FRAME_FLAG_ERASED) != 0));
        gone += content_is_erased(view.blob, BLOB_SIZE);
    }
    MUST(log_cursor_next(cursor, recovery.end, &view) == LOG_END);
    log_cursor_close(cursor);
    log_close(log);
    return gone;
}

static void what_is_meant_goes_and_the_rest_stays(void **state) {
    (void)state;
    struct life life;
    size_t count;
    life_begin(&life, 1);
    assert_int_equal(check(&life), 0);
    assert_int_equal(erase(&life, false, &count), 0);
    assert_int_equal(count, 1);
    assert_int_equal(check(&life), 1);
    assert_false(tail_has(&life, KEYED));
    assert_true(tail_has(&life, PLAIN));
    assert_int_equal(erase(&life, true, &count), 0); /* now with the second redaction, which selects tasks by content */
    assert_int_equal(count, 2);
    assert_int_equal(check(&life), 3);
    assert_false(tail_has(&life, PLAIN));
    assert_true(tail_has(&life, OTHER_KEY));
    assert_true(tail_has(&life, OTHER_QUEUE));
    struct quarantine_meant there = {.queue = 9, .queue_name = "made-there", .key = "order-1", .key_size = 7};
    char message[512];
    assert_int_equal(quarantine_erase(&life.quarantine, &there, 1, &count, message, sizeof message), 0);
    assert_int_equal(
        count,
        1); /* one more is erased: the redaction selects by the queue's name, because the numbers of the queue differ */
    assert_false(tail_has(&life, OTHER_QUEUE));
    life_end(&life);
}

/* The machine stops at each disk call in turn and loses some unsynced writes. Then the erasure is repeated. */
static void it_may_stop_anywhere(void **state) {
    (void)state;
    size_t stopped = 0;
    for (uint64_t seed = 1; seed <= 600; seed++) {
        struct life life;
        size_t count;
        life_begin(&life, seed);
        life.one.model->fail_at = life.one.model->calls + 1 + seed % 12;
        life.one.model->fail_error = -EIO;
        life.one.model->fail_for_ever = true;
        life.one.model->short_io = seed % 3 == 0;
        stopped += erase(&life, true, &count) != 0;
        log_close(life.one.log);
        life.one.log = NULL;
        if (seed % 2)
            model_crash(life.one.model);
        else
            model_kill(life.one.model);
        (void)check(&life);
        MUST(erase(&life, true, &count) == 0);
        MUST(check(&life) == 3);
        MUST(!tail_has(&life, KEYED) && !tail_has(&life, PLAIN) && tail_has(&life, OTHER_KEY));
        life_end(&life);
    }
    assert_true(stopped > 200);
}

static void a_damaged_tail_is_told_and_nothing_of_it_is_written(void **state) {
    (void)state;
    struct life life;
    size_t count;
    char message[512] = "";
    life_begin(&life, 1);
    struct model_file *file = model_lookup(life.one.model, life.tail.name);
    file->cached[4096 + 120] ^= 1;
    uint64_t calls = life.one.model->calls;
    assert_int_equal(quarantine_erase(&life.quarantine, meant, 2, &count, message, sizeof message), LOG_DAMAGED);
    assert_non_null(strstr(message, life.tail.name));
    assert_int_equal(life.one.model->calls, calls);
    life_end(&life);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_meant_goes_and_the_rest_stays),
        cmocka_unit_test(it_may_stop_anywhere),
        cmocka_unit_test(a_damaged_tail_is_told_and_nothing_of_it_is_written),
    };
    return cmocka_run_group_tests_name("quarantine_erase", tests, NULL, NULL);
}
