/* outgoing_read_test.c: contents that are read before a delivery or reply leaves (engine/outgoing_read.h), from a log
 * of two segments. The first segment is retired, so its contents are in the index. */
#include "outgoing_read.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "frame.h"
#include "log.h"

enum {
    RETIRED_BELOW = 4096,
    SECOND_SEGMENT = 6400, /* position at which the second segment begins; no read crosses it */
    LOG_SIZE = 8192,
    AFTER = 7000,
    BLOB_SIZE = BLOB_SALT_SIZE + 8,
    PRODUCER = 5,
    SEQUENCE = 9
};

struct fx {
    struct arena arena;
    uint8_t *log;            /* LOG_SIZE bytes */
    uint8_t blob[BLOB_SIZE]; /* a content that is in the index */
    bool index_is_cold;
    bool index_forgot;
    bool stops; /* true: the awaited position is never reached */
    uint64_t waited_for;
    size_t waits;
    uint64_t erasures;
    uint64_t erase_at; /* position of a content that is erased during the first wait for durability; 0: none */
    size_t reads;      /* number of reads of the log */
    size_t bytes;      /* number of bytes read */
    uint64_t expected; /* id of the task that must be prefetched next */
    size_t prefetches;
    struct outgoing_source source;
};

static int read_log(void *context, uint64_t position, void *out, size_t size) {
    struct fx *f = context;
    if (position < RETIRED_BELOW) return LOG_RETIRED;
    assert_true(position < LOG_SIZE && size <= LOG_SIZE - position);
    if (position < SECOND_SEGMENT && size > SECOND_SEGMENT - position) return LOG_END;
    f->reads++;
    f->bytes += size;
    memcpy(out, f->log + position, size);
    return 0;
}

/* Reads the test's log, extended by OUTGOING_SPAN_MAX bytes. */
static int read_long_log(void *context, uint64_t position, void *out, size_t size) {
    struct fx *f = context;
    assert_true(position + size <= LOG_SIZE + OUTGOING_SPAN_MAX && size <= OUTGOING_SPAN_MAX);
    f->reads++;
    memcpy(out, f->log + position, size);
    return 0;
}

static int read_result(void *context, const struct core_reply *reply, struct arena *arena, void **out,
                       size_t *out_size) {
    const struct fx *f = context;
    if (f->index_is_cold) return -EAGAIN;
    if (f->index_forgot) return 1;
    assert_int_equal(reply->repeat_sequence, SEQUENCE);
    *out = (void *)"kept";
    *out_size = 4;
    return 0;
}

static int read_blob(void *context, const struct row *row, struct arena *arena, void **out, size_t *out_size) {
    struct fx *f = context;
    if (f->index_is_cold) return -EAGAIN;
    *out = f->blob;
    *out_size = row->blob_size;
    return 0;
}

static void prefetch(void *context, const struct core_delivered *tasks, size_t count) {
    struct fx *f = context;
    assert_true(count > 0 && count <= OUTGOING_PREFETCH_MAX);
    for (size_t i = 0; i < count; i++) assert_int_equal(tasks[i].row.id, f->expected++);
    f->prefetches++;
}

static uint64_t erasures(void *context) {
    const struct fx *f = context;
    return f->erasures;
}

static bool wait_durable(void *context, uint64_t after) {
    struct fx *f = context;
    f->waited_for = after;
    f->waits++;
    if (f->erase_at == 0) return !f->stops;
    memset(f->log + f->erase_at, 0, BLOB_SIZE);
    f->erase_at = 0;
    f->erasures++;
    return !f->stops;
}

static void begin(struct fx *f) {
    *f = (struct fx){.log = calloc(1, LOG_SIZE)};
    assert_non_null(f->log);
    f->source = (struct outgoing_source){.context = f,
                                         .read_log = read_log,
                                         .read_result = read_result,
                                         .read_blob = read_blob,
                                         .erasures = erasures,
                                         .wait = wait_durable};
    arena_init(&f->arena, 1 << 20);
}

static void end(struct fx *f) {
    arena_deinit(&f->arena);
    free(f->log);
}

/* Makes a task whose content, eight times `letter`, is at `position`. Its lease ends at 1,000 ms. */
static struct core_delivered task_at(struct fx *f, uint64_t id, uint64_t position, char letter) {
    uint8_t *blob = position < RETIRED_BELOW ? f->blob : f->log + position;
    memset(blob, letter, BLOB_SIZE);
    struct core_delivered task = {.row = {.id = id, .blob_at = position, .lease_deadline_ms = 1000}};
    task.row.blob_size = BLOB_SIZE;
    task.row.blob_sum = frame_sum(blob, BLOB_SIZE);
    return task;
}

static int deliver(struct fx *f, const struct core_delivered *tasks, size_t count, struct outgoing_contents *out) {
    struct core_delivery delivery = {.after = AFTER, .tasks = tasks, .count = count};
    return outgoing_read_delivery(&f->source, &f->arena, &delivery, out);
}

static void a_content_comes_from_wherever_it_lies(void **state) {
    struct fx f;
    struct outgoing_contents contents;
    begin(&f);
    const struct core_delivered tasks[] = {task_at(&f, 1, 5000, 'a'), task_at(&f, 2, 1000, 'b'), {.row = {.id = 3}}};
    assert_int_equal(deliver(&f, tasks, 3, &contents), 0);
    assert_int_equal(contents.count, 3);
    assert_int_equal(contents.gone, 0);
    assert_memory_equal(contents.contents[0].data, "aaaaaaaa", 8);
    assert_memory_equal(contents.contents[1].data, "bbbbbbbb", 8);
    assert_int_equal(contents.contents[0].len, 8);
    assert_int_equal(contents.contents[2].len, 0);
    assert_int_equal(f.waited_for, AFTER); /* LOG-1 */
    end(&f);
}

static void all_contents_are_prefetched_once(void **state) {
    static const size_t counts[] = {0, 1, OUTGOING_PREFETCH_MAX, OUTGOING_PREFETCH_MAX + 1, 3 * OUTGOING_PREFETCH_MAX};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        static struct core_delivered tasks[3 * OUTGOING_PREFETCH_MAX];
        struct fx f;
        struct outgoing_contents contents;
        begin(&f);
        f.source.prefetch = prefetch;
        for (uint64_t k = 0; k < counts[i]; k++) tasks[k] = task_at(&f, k, 1000, 'b');
        assert_int_equal(deliver(&f, tasks, counts[i], &contents), 0);
        assert_int_equal(contents.count, counts[i]);
        assert_int_equal(f.expected, counts[i]);
        assert_int_equal(f.prefetches, (counts[i] + OUTGOING_PREFETCH_MAX - 1) / OUTGOING_PREFETCH_MAX);
        end(&f);
    }
}

static void what_rotted_does_not_leave(void **state) { /* LOG-5 */
    struct fx f;
    struct outgoing_contents contents;
    begin(&f);
    struct core_delivered tasks[] = {task_at(&f, 1, 5000, 'a'), task_at(&f, 2, 1000, 'b')};
    f.log[5000 + BLOB_SALT_SIZE + 3] ^= 4;
    assert_int_equal(deliver(&f, tasks, 2, &contents), LOG_DAMAGED);
    f.log[5000 + BLOB_SALT_SIZE + 3] ^= 4;
    f.blob[1] ^= 1;
    assert_int_equal(deliver(&f, tasks, 2, &contents), LOG_DAMAGED);
    assert_int_equal(f.waits, 0);
    end(&f);
}

/* The same deliveries are tried with a little more memory each time, until the memory is enough. */
static void what_there_is_no_memory_for_does_not_leave(void **state) {
    for (uint64_t count = 1; count <= 2; count++) {
        int error = -ENOMEM;
        for (size_t room = 0; error != 0; room += ARENA_ALIGN) {
            struct fx f;
            struct outgoing_contents contents;
            begin(&f);
            arena_init(&f.arena, room);
            const struct core_delivered tasks[] = {task_at(&f, 1, 5000, 'a'), task_at(&f, 2, 5000 + BLOB_SIZE, 'b')};
            error = deliver(&f, tasks, count, &contents);
            assert_true(error == -ENOMEM || (error == 0 && room > count * BLOB_SIZE));
            assert_int_equal(f.waits, error == 0);
            end(&f);
        }
    }
}

static void what_was_redacted_is_left_out(void **state) {
    struct fx f;
    struct outgoing_contents contents;
    begin(&f);
    const struct core_delivered tasks[] = {task_at(&f, 1, 5000, 'a'), task_at(&f, 2, 6000, 'b')};
    memset(f.log + 5000, 0, BLOB_SIZE);
    assert_int_equal(deliver(&f, tasks, 2, &contents), 0);
    assert_int_equal(contents.count, 1);
    assert_int_equal(contents.tasks[0]->row.id, 2);
    assert_int_equal(contents.gone, 1);
    assert_int_equal(contents.gone_id, 1);
    end(&f);
}

static void what_is_redacted_after_it_was_read_is_left_out(void **state) {
    struct fx f;
    struct outgoing_contents contents;
    begin(&f);
    const struct core_delivered tasks[] = {task_at(&f, 1, 5000, 'a'), task_at(&f, 2, 6000, 'b')};
    f.erase_at = 6000;
    assert_int_equal(deliver(&f, tasks, 2, &contents), 0);
    assert_int_equal(f.waits, 2);
    assert_int_equal(contents.count, 1);
    assert_int_equal(contents.tasks[0]->row.id, 1);
    /* The content of a reply is handled like that of a delivery. */
    const struct core_delivered asked = task_at(&f, 3, 6000, 'c');
    const struct core_reply reply = {.after = AFTER, .content = &asked.row};
    ProtobufCBinaryData content;
    f.erase_at = 6000;
    assert_int_equal(outgoing_read_content(&f.source, &f.arena, &reply, &content), 1);
    assert_int_equal(content.len, 0);
    end(&f);
}

/* An empty content also has a salt on disk, so it may be redacted too. */
static void an_empty_content_is_looked_at_once_something_was_erased(void **state) {
    struct fx f;
    struct outgoing_contents contents;
    begin(&f);
    struct core_delivered task = task_at(&f, 1, 5000, 'a');
    task.row.blob_size = BLOB_SALT_SIZE;
    task.row.blob_sum = frame_sum(f.log + 5000, BLOB_SALT_SIZE);
    f.erase_at = 5000;
    assert_int_equal(deliver(&f, &task, 1, &contents), 0);
    assert_int_equal(contents.count, 0);
    assert_int_equal(contents.gone, 1);
    end(&f);
}

static void what_is_not_in_memory_is_said(void **state) {
    struct fx f;
    struct outgoing_contents contents;
    begin(&f);
    f.index_is_cold = true;
    const struct core_delivered tasks[] = {task_at(&f, 1, 5000, 'a'), task_at(&f, 2, 1000, 'b')};
    assert_int_equal(deliver(&f, tasks, 2, &contents), -EAGAIN);
    assert_int_equal(f.waits, 0);
    end(&f);
}

static void a_task_whose_lease_is_over_is_left_out(void **state) { /* TIME-2 */
    struct fx f;
    struct outgoing_contents contents;
    begin(&f);
    struct core_delivered tasks[] = {task_at(&f, 1, 5000, 'a'), task_at(&f, 2, 6000, 'b')};
    tasks[1].row.lease_deadline_ms = 1001;
    assert_int_equal(deliver(&f, tasks, 2, &contents), 0);
    assert_int_equal(outgoing_drop_overdue(&contents, 999), 0);
    assert_int_equal(outgoing_drop_overdue(&contents, 1000), 1);
    assert_int_equal(contents.count, 1);
    assert_int_equal(contents.tasks[0]->row.id, 2);
    assert_memory_equal(contents.contents[0].data, "bbbbbbbb", 8);
    assert_int_equal(outgoing_drop_overdue(&contents, 1001), 1);
    assert_int_equal(contents.count, 0);
    end(&f);
}

/* ---- many contents at once */

static void what_lies_together_is_read_at_once(void **state) {
    struct fx f;
    struct outgoing_contents contents;
    struct core_delivered tasks[8];
    begin(&f);
    for (uint64_t i = 0; i < 8; i++) tasks[i] = task_at(&f, i + 1, 5000 + i * BLOB_SIZE, (char)('a' + i));
    assert_int_equal(deliver(&f, tasks, 8, &contents), 0);
    assert_int_equal(contents.count, 8);
    assert_int_equal(f.reads, 1);
    for (size_t i = 0; i < 8; i++) assert_int_equal(contents.contents[i].data[0], 'a' + i);
    f.log[5000 + 3 * BLOB_SIZE + BLOB_SALT_SIZE] ^= 1; /* LOG-5: one of the contents is damaged */
    assert_int_equal(deliver(&f, tasks, 8, &contents), LOG_DAMAGED);
    /* A gap between two contents does not divide the read if it is small enough. Each content has its own memory. */
    for (uint64_t more = 0; more < 2; more++) {
        const uint64_t first = 4200, second = first + BLOB_SIZE + OUTGOING_GAP_MAX + more;
        const struct core_delivered apart[] = {task_at(&f, 1, first, 'a'), task_at(&f, 2, second, 'b'),
                                               task_at(&f, 3, second + BLOB_SIZE, 'c')};
        f.reads = 0;
        assert_int_equal(deliver(&f, apart, 3, &contents), 0);
        assert_int_equal(f.reads, 1 + more);
        for (size_t i = 0; i < 3; i++) assert_int_equal(contents.contents[i].data[0], 'a' + i);
    }
    /* Contents before and after the end of a segment, or of the retired part, are read separately. */
    const uint64_t edges[] = {SECOND_SEGMENT, RETIRED_BELOW};
    for (size_t i = 0; i < 2; i++) {
        const struct core_delivered edge[] = {task_at(&f, 1, edges[i] - BLOB_SIZE, 'c'), task_at(&f, 2, edges[i], 'd')};
        assert_int_equal(deliver(&f, edge, 2, &contents), 0);
        assert_int_equal(contents.count, 2);
        assert_int_equal(contents.contents[0].data[0], 'c');
        assert_int_equal(contents.contents[1].data[0], 'd');
    }
    end(&f);
}

/* One read returns at most OUTGOING_SPAN_MAX bytes. Both contents together have this size, or a byte more. */
static void what_is_too_large_together_is_read_alone(void **state) {
    for (uint32_t more = 0; more < 2; more++) {
        struct fx f;
        struct outgoing_contents contents;
        struct core_delivered tasks[2];
        const uint32_t size = OUTGOING_SPAN_MAX - BLOB_SIZE + more;
        begin(&f);
        free(f.log);
        f.log = calloc(1, LOG_SIZE + OUTGOING_SPAN_MAX);
        assert_non_null(f.log);
        f.source.read_log = read_long_log;
        tasks[0] = task_at(&f, 1, SECOND_SEGMENT, 'a');
        tasks[1] = task_at(&f, 2, SECOND_SEGMENT + BLOB_SIZE, 'b');
        tasks[1].row.blob_size = size;
        tasks[1].row.blob_sum = frame_sum(f.log + SECOND_SEGMENT + BLOB_SIZE, size);
        assert_int_equal(deliver(&f, tasks, 2, &contents), 0);
        assert_int_equal(contents.count, 2);
        assert_int_equal(f.reads, 1 + more);
        assert_int_equal(contents.contents[1].len, size - BLOB_SALT_SIZE);
        end(&f);
    }
}

static uint32_t draw(uint32_t *random, uint32_t below) {
    *random = *random * 1664525u + 1013904223u;
    return (*random >> 8) % below;
}

/* Many contents, in and out of order, with gaps, across the end of a segment, empty or erased, give the same result as
 * single reads, and hardly more bytes are read. */
static void many_at_once_are_what_they_are_one_by_one(void **state) {
    enum { TASKS = 24 };
    uint32_t random = 1;
    for (int round = 0; round < 400; round++) {
        struct fx f;
        struct outgoing_contents all, alone;
        struct core_delivered tasks[TASKS];
        begin(&f);
        f.erasures = draw(&random, 2);
        uint64_t at = RETIRED_BELOW + draw(&random, 2400);
        size_t wanted = 0;
        for (uint64_t i = 0; i < TASKS; i++) {
            uint32_t where = draw(&random, 8);
            if (where == 0) at = RETIRED_BELOW + draw(&random, 2400);
            if (where == 1) at += draw(&random, 3 * BLOB_SIZE);
            if (at < SECOND_SEGMENT && at + BLOB_SIZE > SECOND_SEGMENT) at = SECOND_SEGMENT;
            tasks[i] = task_at(&f, i + 1, at, (char)('a' + i));
            if (draw(&random, 6) == 0) tasks[i].row.blob_size = draw(&random, 2) * BLOB_SALT_SIZE;
            at += tasks[i].row.blob_size;
            wanted += tasks[i].row.blob_size;
        }
        for (size_t i = 0; i < TASKS; i++)
            if (draw(&random, 12) == 0) memset(f.log + tasks[i].row.blob_at, 0, tasks[i].row.blob_size);
        for (size_t i = 0; i < TASKS; i++) /* contents may overlap with others, which must not damage them */
            tasks[i].row.blob_sum = frame_sum(f.log + tasks[i].row.blob_at, tasks[i].row.blob_size);
        assert_int_equal(deliver(&f, tasks, TASKS, &all), 0);
        assert_true(f.bytes <= wanted + TASKS * OUTGOING_GAP_MAX);
        size_t count = 0;
        for (size_t i = 0; i < TASKS; i++) {
            assert_int_equal(deliver(&f, &tasks[i], 1, &alone), 0);
            if (alone.count == 0) continue;
            assert_true(count < all.count && all.tasks[count] == &tasks[i]);
            assert_int_equal(all.contents[count].len, alone.contents[0].len);
            if (alone.contents[0].len > 0)
                assert_memory_equal(all.contents[count].data, alone.contents[0].data, alone.contents[0].len);
            count++;
        }
        assert_int_equal(count, all.count);
        assert_int_equal(all.gone, TASKS - count);
        end(&f);
    }
}

/* ---- replies that were recorded */

/* Puts a frame with the recorded reply "given" at `position`. */
static struct core_reply recorded_at(struct fx *f, uint64_t position) {
    Tarry__FrameBody body = TARRY__FRAME_BODY__INIT;
    body.producer = PRODUCER;
    body.sequence = SEQUENCE;
    body.reply = (ProtobufCBinaryData){.data = (uint8_t *)"given", .len = 5};
    struct frame_header header = {.type = FRAME_COMMIT, .position = position};
    header.body_size = (uint32_t)tarry__frame_body__pack(&body, f->log + frame_body_position(position, 0));
    header.body_sum = frame_sum(f->log + frame_body_position(position, 0), header.body_size);
    header.blob_sum = frame_sum("", 0);
    frame_header_encode(&header, f->log + position);
    return (struct core_reply){.after = AFTER,
                               .repeat_position = position,
                               .repeat_producer = PRODUCER,
                               .repeat_sequence = SEQUENCE};
}

static void a_recorded_answer_is_given_again(void **state) { /* ONCE-1 */
    struct fx f;
    ProtobufCBinaryData answer;
    begin(&f);
    struct core_reply reply = recorded_at(&f, 5000);
    assert_int_equal(outgoing_read_repeat(&f.source, &f.arena, &reply, &answer), 0);
    assert_int_equal(answer.len, 5);
    assert_memory_equal(answer.data, "given", 5);
    assert_int_equal(f.waited_for, AFTER);
    reply.repeat_position = 1000; /* retired */
    assert_int_equal(outgoing_read_repeat(&f.source, &f.arena, &reply, &answer), 0);
    assert_memory_equal(answer.data, "kept", 4);
    f.index_forgot = true;
    assert_int_equal(outgoing_read_repeat(&f.source, &f.arena, &reply, &answer), 1);
    assert_int_equal(f.waits, 3);
    f.index_is_cold = true;
    assert_int_equal(outgoing_read_repeat(&f.source, &f.arena, &reply, &answer), -EAGAIN);
    assert_int_equal(f.waits, 3);
    end(&f);
}

static void a_recorded_answer_that_rotted_is_not_given(void **state) {
    struct fx f;
    ProtobufCBinaryData answer;
    begin(&f);
    struct core_reply reply = recorded_at(&f, 5000);
    uint64_t body = frame_body_position(5000, 0);
    uint8_t *letter = memchr(f.log + body, 'g', 64);
    assert_non_null(letter);
    *letter = 'G';
    assert_int_equal(outgoing_read_repeat(&f.source, &f.arena, &reply, &answer), LOG_DAMAGED);
    *letter = 'g';
    f.log[5000] ^= 1;
    assert_int_equal(outgoing_read_repeat(&f.source, &f.arena, &reply, &answer), LOG_DAMAGED);
    end(&f);
}

/* The in-sync follower has not confirmed the position when the broker stops, so nothing may leave (LOG-1). */
static void what_is_never_confirmed_does_not_leave(void **state) {
    struct fx f;
    begin(&f);
    f.stops = true;
    struct core_delivered task = task_at(&f, 1, RETIRED_BELOW, 'a');
    struct outgoing_contents out;
    assert_int_equal(deliver(&f, &task, 1, &out), -ECANCELED);
    struct core_reply reply = {.content = &task.row, .after = AFTER};
    ProtobufCBinaryData content = {0};
    assert_int_equal(outgoing_read_content(&f.source, &f.arena, &reply, &content), -ECANCELED);
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_content_comes_from_wherever_it_lies),
        cmocka_unit_test(all_contents_are_prefetched_once),
        cmocka_unit_test(what_rotted_does_not_leave),
        cmocka_unit_test(what_is_never_confirmed_does_not_leave),
        cmocka_unit_test(what_there_is_no_memory_for_does_not_leave),
        cmocka_unit_test(what_was_redacted_is_left_out),
        cmocka_unit_test(what_is_redacted_after_it_was_read_is_left_out),
        cmocka_unit_test(an_empty_content_is_looked_at_once_something_was_erased),
        cmocka_unit_test(what_is_not_in_memory_is_said),
        cmocka_unit_test(a_task_whose_lease_is_over_is_left_out),
        cmocka_unit_test(what_lies_together_is_read_at_once),
        cmocka_unit_test(what_is_too_large_together_is_read_alone),
        cmocka_unit_test(many_at_once_are_what_they_are_one_by_one),
        cmocka_unit_test(a_recorded_answer_is_given_again),
        cmocka_unit_test(a_recorded_answer_that_rotted_is_not_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
