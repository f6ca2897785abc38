/* log_test.c: the log on a real directory: frames can be read back unchanged, in order, by any thread, and disk space
 * is freed. log_fault_test.c tests a failing disk. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "log.h"
#include "log_directory.h"
#include "tarry.pb-c.h"
#include "tarry_limits.h"

struct fixture {
    struct log_directory directory;
    struct log *log;
    struct log_options options;
    struct log_recovery recovery;
    char message[512];
    uint64_t frames; /* number of appended frames */
    uint64_t time_ns;
};

static int set_up(void **state) {
    struct fixture *f = calloc(1, sizeof(*f));
    if (!f) return -1;
    if (!log_directory_make(&f->directory)) {
        free(f);
        return -1;
    }
    f->options = (struct log_options){.directory = f->directory.path, .disk = &disk_posix, .segment_size = 8192};
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

static int try_open(struct fixture *f, uint64_t scan_from) {
    f->message[0] = 0;
    return log_open(&f->log, &f->options, scan_from, &f->recovery, f->message, sizeof(f->message));
}

static void open_log(struct fixture *f, uint64_t scan_from) {
    if (try_open(f, scan_from) != 0) fail_msg("%s", f->message);
}

static void close_log(struct fixture *f) {
    log_close(f->log);
    f->log = NULL;
}

/* Fills `out` with the bytes of contents and bodies, which depend on the seed. */
static void fill(uint64_t seed, uint8_t *out, size_t size) {
    for (size_t i = 0; i < size; i++) out[i] = (uint8_t)((seed * 2654435761u + i * 40503u) >> 7);
}

/* Appends a frame. Returns its position. */
static uint64_t append(struct fixture *f, uint32_t body_size, uint32_t blob_size) {
    uint64_t position = log_end(f->log);
    uint8_t *bytes = malloc((size_t)body_size + blob_size + 1);
    fill(position, bytes, (size_t)body_size + blob_size);
    struct log_piece pieces[] = {{bytes, blob_size / 2}, {NULL, 0}, {bytes + blob_size / 2, blob_size - blob_size / 2}};
    f->frames++;
    f->time_ns++;
    int result = log_append(f->log, &(struct log_frame){.type = FRAME_COMMIT,
                                                        .epoch = 3,
                                                        .position = position,
                                                        .steady_ns = f->time_ns,
                                                        .wall_ns = 1000 + f->time_ns,
                                                        .body = bytes + blob_size,
                                                        .body_size = body_size,
                                                        .pieces = pieces,
                                                        .piece_count = 3});
    free(bytes);
    assert_int_equal(result, 0);
    return position;
}

static void seal(struct fixture *f) {
    assert_int_equal(log_append(f->log, &(struct log_frame){.type = FRAME_SEAL,
                                                            .epoch = 3,
                                                            .position = log_end(f->log),
                                                            .steady_ns = f->time_ns,
                                                            .wall_ns = 1000 + f->time_ns}),
                     0);
    assert_int_equal(log_sync(f->log), 0);
}

static void check_view(const struct log_view *view) {
    size_t size = (size_t)view->header.body_size + view->header.blob_size;
    uint8_t *bytes = malloc(size + 1);
    fill(view->header.position, bytes, size);
    assert_memory_equal(view->body, bytes + view->header.blob_size, view->header.body_size);
    if (view->blob) assert_memory_equal(view->blob, bytes, view->header.blob_size);
    free(bytes);
}

/* Reads everything from `from` on; returns the number of frames. */
static uint64_t read_all(struct fixture *f, uint64_t from, bool with_blobs) {
    struct log_cursor *cursor;
    assert_int_equal(log_cursor_open(&cursor, f->log, from, with_blobs), 0);
    struct log_view view;
    uint64_t count = 0;
    int result;
    while ((result = log_cursor_next(cursor, UINT64_MAX, &view)) == 0) {
        assert_int_equal(view.blob != NULL, with_blobs);
        check_view(&view);
        count++;
    }
    assert_int_equal(result, LOG_END);
    assert_int_equal(log_cursor_position(cursor), log_durable(f->log));
    log_cursor_close(cursor);
    return count;
}

static void a_new_log_is_empty(void **state) {
    struct fixture *f = *state;
    open_log(f, 0);
    assert_int_equal(f->recovery.start, LOG_POSITION_FIRST);
    assert_int_equal(f->recovery.end, LOG_POSITION_FIRST);
    assert_int_equal(f->recovery.epoch, 0);
    assert_true(f->recovery.sealed);
    assert_int_equal(log_end(f->log), LOG_POSITION_FIRST);
    assert_int_equal(read_all(f, LOG_POSITION_FIRST, true), 0);
    struct stat status;
    assert_int_equal(stat(f->directory.path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0700);
}

static void what_goes_in_comes_out(void **state) {
    struct fixture *f = *state;
    open_log(f, 0);
    uint64_t first = append(f, 10, 0);
    uint64_t second = append(f, 0, 300);
    uint8_t byte;
    assert_int_equal(log_read(f->log, first, &byte, 1),
                     LOG_END); /* the frame was appended, but it is not written yet */
    assert_int_equal(log_write(f->log), 0);
    assert_int_equal(log_durable(f->log), LOG_POSITION_FIRST);
    uint8_t blob[300], expected[300];
    fill(second, expected, sizeof(expected));
    assert_int_equal(log_read(f->log, frame_blob_position(second), blob, sizeof(blob)), 0);
    assert_memory_equal(blob, expected, sizeof(blob));
    assert_int_equal(log_sync(f->log), 0);
    assert_int_equal(log_durable(f->log), log_end(f->log));
    assert_int_equal(read_all(f, first, true), 2);
    assert_int_equal(read_all(f, second, false), 1);
    uint8_t chain[FRAME_CHAIN_SIZE], zero_chain[FRAME_CHAIN_SIZE] = {0};
    log_chain(f->log, chain);
    uint64_t end = log_end(f->log);
    close_log(f);
    open_log(f, second);
    assert_int_equal(f->recovery.end, end);
    assert_memory_equal(f->recovery.chain, chain, sizeof(chain));
    assert_memory_not_equal(f->recovery.scan_chain, chain, sizeof(chain));
    assert_memory_not_equal(f->recovery.scan_chain, zero_chain, sizeof(chain));
    assert_int_equal(f->recovery.epoch, 3);
    assert_int_equal(f->recovery.steady_ns, 2);
    assert_int_equal(f->recovery.wall_ns, 1002);
    assert_false(f->recovery.sealed);
    seal(f);
    close_log(f);
    open_log(f, 0);
    assert_true(f->recovery.sealed);
    assert_int_equal(read_all(f, first, true), 3);
}

static void a_cursor_stops_at_its_limit(void **state) {
    struct fixture *f = *state;
    open_log(f, 0);
    append(f, 10, 0);
    uint64_t second = append(f, 20, 0);
    assert_int_equal(log_write(f->log), 0);
    struct log_cursor *cursor;
    struct log_view view;
    assert_int_equal(log_cursor_open(&cursor, f->log, LOG_POSITION_FIRST, true), 0);
    assert_int_equal(log_cursor_next(cursor, LOG_POSITION_FIRST, &view), LOG_END);
    assert_int_equal(log_cursor_next(cursor, second - 1, &view), LOG_END);
    assert_int_equal(log_cursor_next(cursor, second, &view), 0);
    assert_int_equal(log_cursor_next(cursor, second, &view), LOG_END);
    assert_int_equal(log_cursor_next(cursor, log_end(f->log), &view), 0);
    append(f, 30, 0);
    assert_int_equal(log_cursor_next(cursor, UINT64_MAX, &view), LOG_END);
    assert_int_equal(log_write(f->log), 0);
    assert_int_equal(log_cursor_next(cursor, UINT64_MAX, &view), 0);
    check_view(&view);
    log_cursor_close(cursor);
}

static void segments_follow_one_another(void **state) {
    struct fixture *f = *state;
    open_log(f, 0);
    for (int i = 0; i < 200; i++) append(f, 500 + i, i);
    assert_int_equal(log_sync(f->log), 0);
    struct log_stats stats;
    log_stats(f->log, &stats);
    assert_true(stats.segments > 10);
    assert_int_equal(stats.bytes, stats.segments * (4096 + 8192));
    assert_int_equal(read_all(f, LOG_POSITION_FIRST, true), 200);
    uint64_t end = log_end(f->log);
    close_log(f);
    for (uint64_t scan_from = 0; scan_from <= end; scan_from += end) {
        open_log(f, scan_from);
        assert_int_equal(f->recovery.end, end);
        assert_int_equal(f->recovery.segments, stats.segments);
        assert_int_equal(read_all(f, LOG_POSITION_FIRST, false), 200);
        close_log(f);
    }
}

static void a_large_frame_gets_a_segment_of_its_own(void **state) {
    struct fixture *f = *state;
    open_log(f, 0);
    append(f, 100000, 50000); /* the frame does not fit into the empty first segment, so a larger segment replaces it */
    append(f, 10, 0);
    append(f, FRAME_BODY_SIZE_MAX, FRAME_BLOB_SIZE_MAX);
    append(f, 10, 0);
    assert_int_equal(log_sync(f->log), 0);
    assert_int_equal(read_all(f, LOG_POSITION_FIRST, true), 4);
    assert_int_equal(read_all(f, LOG_POSITION_FIRST, false), 4);
    close_log(f);
    open_log(f, 0);
    assert_int_equal(f->recovery.segments, 4);
    assert_int_equal(read_all(f, LOG_POSITION_FIRST, true), 4);
}

static void an_empty_last_segment_knows_the_past(void **state) {
    struct fixture *f = *state;
    open_log(f, 0);
    append(f, 7000, 0);
    append(f, 7000, 0); /* the log rolls, so the first frame is durable and this one is not even written */
    uint64_t end = log_durable(f->log);
    assert_true(end > LOG_POSITION_FIRST);
    close_log(f);
    open_log(f, end);
    assert_int_equal(f->recovery.end, end);
    assert_int_equal(f->recovery.segments, 2);
    assert_int_equal(f->recovery.epoch, 3);
    assert_int_equal(f->recovery.steady_ns, 1);
    assert_true(f->recovery.sealed);
    assert_memory_equal(f->recovery.chain, f->recovery.scan_chain, FRAME_CHAIN_SIZE);
    append(f, 10, 10);
    assert_int_equal(log_sync(f->log), 0);
    assert_int_equal(read_all(f, LOG_POSITION_FIRST, true), 2);
}

static void what_is_retired_is_gone(void **state) {
    struct fixture *f = *state;
    open_log(f, 0);
    uint64_t positions[40];
    for (int i = 0; i < 40; i++) positions[i] = append(f, 1000, 0);
    assert_int_equal(log_sync(f->log), 0);
    struct log_segment oldest;
    assert_false(log_oldest(f->log, positions[7] - 1,
                            &oldest)); /* the segment stays, because one of its 7 frames is still needed */
    assert_true(log_oldest(f->log, positions[7], &oldest));
    assert_int_equal(oldest.base, LOG_POSITION_FIRST);
    assert_int_equal(oldest.end, positions[7]);
    assert_int_equal(oldest.wall_ns, 1007);
    struct log_cursor *behind;
    assert_int_equal(log_cursor_open(&behind, f->log, positions[0], true), 0);
    assert_int_equal(log_retire(f->log, oldest.base), 0);
    assert_int_equal(log_start(f->log), positions[7]);
    uint8_t byte;
    struct log_view view;
    assert_int_equal(log_read(f->log, positions[6], &byte, 1), LOG_RETIRED);
    assert_int_equal(log_cursor_next(behind, UINT64_MAX, &view), LOG_RETIRED);
    log_cursor_close(behind);
    assert_int_equal(log_cursor_open(&behind, f->log, positions[6], true), LOG_RETIRED);
    assert_int_equal(log_read(f->log, positions[7], &byte, 1), 0);
    while (log_oldest(f->log, log_durable(f->log), &oldest)) assert_int_equal(log_retire(f->log, oldest.base), 0);
    struct log_stats stats;
    log_stats(f->log, &stats);
    assert_int_equal(stats.segments, 1); /* the current segment is never retired */
    uint64_t start = log_start(f->log);
    close_log(f);
    open_log(f, 0);
    assert_int_equal(f->recovery.start, start);
    assert_int_equal(f->recovery.segments, 1);
    assert_int_equal(read_all(f, start, true), 5);
}

static int each_name_count(void *argument, const char *name) {
    ++*(int *)argument;
    return 0;
}

static void more_segments_than_descriptors_are_no_matter(void **state) {
    struct fixture *f = *state;
    f->options.segment_size = 1024;
    open_log(f, 0);
    uint64_t positions[300];
    for (int i = 0; i < 300; i++) positions[i] = append(f, 800, 0);
    assert_int_equal(log_sync(f->log), 0);
    for (int round = 0; round < 600; round++) {
        uint64_t position = positions[round * 7 % 300];
        uint8_t got[800], expected[800];
        fill(position, expected, sizeof(expected));
        assert_int_equal(log_read(f->log, frame_body_position(position, 0), got, sizeof(got)), 0);
        assert_memory_equal(got, expected, sizeof(got));
    }
    int count = 0;
    assert_int_equal(disk_posix.list(NULL, "/proc/self/fd", each_name_count, &count), 0);
    assert_true(count < 100);
}

struct trailing {
    struct fixture *f;
    _Atomic bool done;
    _Atomic uint64_t lowest; /* position of the slowest reader */
    bool with_blobs;
    uint64_t count;
};

static void *trail(void *argument) {
    struct trailing *trailing = argument;
    struct log *log = trailing->f->log;
    struct log_cursor *cursor;
    assert_int_equal(log_cursor_open(&cursor, log, LOG_POSITION_FIRST, trailing->with_blobs), 0);
    for (;;) {
        bool done = atomic_load(&trailing->done);
        struct log_view view;
        int result = log_cursor_next(cursor, log_durable(log), &view);
        if (result == LOG_END && done) break;
        if (result == LOG_END) continue;
        assert_int_equal(result, 0);
        check_view(&view);
        trailing->count++;
        atomic_store(&trailing->lowest, log_cursor_position(cursor));
    }
    log_cursor_close(cursor);
    return NULL;
}

/* Reads anywhere between start and durable end. LOG_RETIRED is allowed, a wrong byte is not. */
static void *peek(void *argument) {
    struct trailing *trailing = argument;
    struct log *log = trailing->f->log;
    uint64_t seed = 1;
    while (!atomic_load(&trailing->done)) {
        uint64_t start = log_start(log), durable = log_durable(log);
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint64_t position = start + (seed >> 33) % (durable - start + 1) / 8 * 8;
        uint8_t bytes[8];
        int result = log_read(log, position, bytes, sizeof(bytes));
        assert_true(result == 0 || result == LOG_RETIRED || result == LOG_END);
        trailing->count++;
    }
    return NULL;
}

/* Waits until the slower of the two readers is near the end, because otherwise nothing could be retired. Returns its
 * position. */
static uint64_t lowest_of_two(const struct fixture *f, struct trailing *trailing) {
    for (uint64_t end = log_durable(f->log);; sched_yield()) {
        uint64_t one = atomic_load(&trailing[0].lowest), two = atomic_load(&trailing[1].lowest);
        uint64_t lowest = one < two ? one : two;
        if (end - lowest <= 4 * f->options.segment_size) return lowest;
    }
}

static void readers_trail_the_writer_while_segments_come_and_go(void **state) {
    struct fixture *f = *state;
    f->options.segment_size = 256 << 10;
    f->options.prepare_ahead = true;
    open_log(f, 0);
    struct trailing trailing[3] = {{.f = f, .with_blobs = true}, {.f = f}, {.f = f}};
    pthread_t threads[3];
    for (int i = 0; i < 2; i++) {
        atomic_store(&trailing[i].lowest, LOG_POSITION_FIRST);
        pthread_create(&threads[i], NULL, trail, &trailing[i]);
    }
    pthread_create(&threads[2], NULL, peek, &trailing[2]);
    uint64_t segments = 0;
    for (int i = 0; i < 20000; i++) {
        append(f, (uint32_t)(i * 37 % 400), i % 1000 ? (uint32_t)(i * 11 % 500) : 300000);
        if (i % 50 != 0) continue;
        assert_int_equal(log_sync(f->log), 0);
        uint64_t below = lowest_of_two(f, trailing);
        struct log_segment oldest;
        while (log_oldest(f->log, below, &oldest)) {
            assert_int_equal(log_retire(f->log, oldest.base), 0);
            segments++;
        }
    }
    assert_int_equal(log_sync(f->log), 0);
    for (int i = 0; i < 3; i++) atomic_store(&trailing[i].done, true);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    assert_int_equal(trailing[0].count, 20000);
    assert_int_equal(trailing[1].count, 20000);
    assert_true(trailing[2].count > 0);
    assert_true(segments > 10);
    uint64_t end = log_end(f->log);
    close_log(f);
    open_log(f, 0);
    assert_int_equal(f->recovery.end, end);
}

static int each_temporary_count(void *argument, const char *name) {
    int *temporary = argument;
    if (strstr(name, ".tmp")) ++*temporary;
    return 0;
}

enum { PREPARING_POLL_US = 5000, PREPARING_POLLS = 6000 };

static void the_next_segment_is_ready_before_it_is_needed(void **state) {
    struct fixture *f = *state;
    f->options.segment_size = 64 << 10;
    f->options.prepare_ahead = true;
    open_log(f, 0);
    struct log_stats stats;
    append(f, 20000, 0);
    assert_int_equal(log_sync(f->log), 0);
    log_stats(f->log, &stats);
    assert_true(stats.reserved < 64 << 10); /* few reserved bytes, because a small log prepares no second segment */
    append(f, 20000, 0);
    assert_int_equal(log_sync(f->log), 0);
    for (int i = 0; i < PREPARING_POLLS && stats.reserved < 64 << 10; i++) {
        usleep(PREPARING_POLL_US);
        log_stats(f->log, &stats);
    }
    assert_true(stats.reserved >= 64 << 10);
    assert_int_equal(stats.prepare_error, 0);
    int temporary = 0;
    assert_int_equal(disk_posix.list(NULL, f->directory.path, each_temporary_count, &temporary), 0);
    assert_int_equal(temporary, 1);
    for (int i = 0; i < 3; i++) append(f, 20000, 0);
    assert_int_equal(log_sync(f->log), 0);
    assert_int_equal(read_all(f, LOG_POSITION_FIRST, true), 5);
    close_log(f);
    temporary = 0;
    assert_int_equal(disk_posix.list(NULL, f->directory.path, each_temporary_count, &temporary), 0);
    assert_int_equal(temporary, 0);
}

static _Atomic int allocations_to_fail;
static _Atomic uint64_t pause_ms; /* longest time in ms for which the preparing thread began to wait */

int __real_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until);
int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until);
int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t ms = (until->tv_sec - now.tv_sec) * 1000 + (until->tv_nsec - now.tv_nsec) / 1000000;
    if (ms > 0 && (uint64_t)ms > pause_ms) pause_ms = (uint64_t)ms;
    return __real_pthread_cond_timedwait(condition, mutex, until);
}

static int allocate_or_fail(void *context, int handle, uint64_t size) {
    if (atomic_fetch_sub(&allocations_to_fail, 1) > 0) return -ENOSPC;
    return disk_posix.allocate(context, handle, size);
}

/* F-4: if the disk is full, the preparation of a segment is reported and tried again. Nothing fails before the segment
 * is needed. */
static void preparing_is_tried_again(void **state) {
    struct fixture *f = *state;
    struct disk disk = disk_posix;
    disk.allocate = allocate_or_fail;
    f->options.disk = &disk;
    f->options.segment_size = 64 << 10;
    f->options.prepare_ahead = true;
    atomic_store(&allocations_to_fail, 0);
    open_log(f, 0);
    pause_ms = 0;
    atomic_store(&allocations_to_fail, 1000);
    append(f, 40000, 0);
    assert_int_equal(log_sync(f->log), 0);
    struct log_stats stats;
    do log_stats(f->log, &stats);
    while (stats.prepare_error == 0);
    assert_int_equal(stats.prepare_error, -ENOSPC);
    for (int i = 0; i < PREPARING_POLLS && pause_ms == 0; i++) usleep(PREPARING_POLL_US);
    assert_in_range(pause_ms, 1, 250); /* F-4: new tasks are refused meanwhile */
    atomic_store(&allocations_to_fail, 0);
    assert_true(stats.reserved < 64 << 10);
    for (int i = 0; i < PREPARING_POLLS && stats.reserved < 64 << 10; i++) {
        usleep(PREPARING_POLL_US);
        log_stats(f->log, &stats);
    }
    assert_int_equal(stats.prepare_error, 0);
    atomic_store(&allocations_to_fail, 1000);
    append(f, 40000, 0); /* fills the prepared segment, so that the next one is needed */
    assert_int_equal(log_sync(f->log), 0);
    do log_stats(f->log, &stats);
    while (stats.prepare_error == 0);
    /* The segment is needed now and does not exist. So the writer makes it itself, and only the writer's result counts.
     */
    uint8_t body[40000] = {0};
    struct log_frame frame = {
        .type = FRAME_COMMIT, .epoch = 3, .position = log_end(f->log), .body = body, .body_size = sizeof(body)};
    assert_int_equal(log_append(f->log, &frame), -ENOSPC);
    assert_int_equal(log_sync(f->log), -ENOSPC);
    assert_int_equal(read_all(f, LOG_POSITION_FIRST, true), 2);
    close_log(f);
    f->options.disk = &disk_posix;
}

static _Atomic bool allocation_waits;

static int allocate_or_wait(void *context, int handle, uint64_t size) {
    while (atomic_load(&allocation_waits)) usleep(1000);
    return allocate_or_fail(context, handle, size);
}

static void *end_wait(void *argument) {
    usleep(20000);
    atomic_store(&allocation_waits, false);
    return argument;
}

/* F-4: a promise that data fits must not depend on how long the disk takes to report that it is full. */
static void what_fits_is_known_before_it_is_needed(void **state) {
    enum { SEGMENT = 64 << 10 };
    struct fixture *f = *state;
    struct disk disk = disk_posix;
    disk.allocate = allocate_or_wait;
    f->options.disk = &disk;
    f->options.segment_size = SEGMENT;
    f->options.prepare_ahead = true;
    atomic_store(&allocations_to_fail, 0);
    atomic_store(&allocation_waits, false);
    open_log(f, 0);
    uint64_t base = log_end(f->log);
    append(f, 1000, 0);
    assert_int_equal(log_fits(f->log, log_end(f->log), base + SEGMENT - log_end(f->log)), 0);
    /* One byte more needs the next segment, which is made on request. No caller waits for it. */
    atomic_store(&allocation_waits, true);
    atomic_store(&allocations_to_fail, 1);
    assert_int_equal(log_fits(f->log, log_end(f->log), base + SEGMENT - log_end(f->log) + 1), -EINPROGRESS);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, end_wait, NULL), 0);
    int error;
    while ((error = log_fits(f->log, base + SEGMENT, 1)) != -ENOSPC) assert_int_equal(error, -EINPROGRESS);
    assert_int_equal(pthread_join(thread, NULL), 0);
    while ((error = log_fits(f->log, base + SEGMENT, 1)) != 0)
        assert_int_equal(error, -ENOSPC); /* each further request fails with -ENOSPC until the next attempt; there are
                                             five attempts a second */
    assert_int_equal(log_fits(f->log, base + SEGMENT, SEGMENT), 0);
    /* The data have more bytes than the next segment. */
    assert_int_equal(log_fits(f->log, base + SEGMENT, SEGMENT + 1), -EAGAIN);
    close_log(f);
    f->options.disk = &disk_posix;
}

static void a_body_can_be_read_by_hand(void **state) {
    struct fixture *f = *state;
    if (system("protoc --version > /dev/null 2>&1") != 0) skip();
    open_log(f, 0);
    Tarry__FrameBody body = TARRY__FRAME_BODY__INIT;
    body.producer = 4711;
    body.client = (char *)"by-hand";
    uint8_t packed[64];
    size_t size = tarry__frame_body__pack(&body, packed);
    append(f, 30, 10);
    uint64_t position = log_end(f->log);
    struct log_piece blob = {"a blob of 16 b..", 16};
    assert_int_equal(log_append(f->log, &(struct log_frame){.type = FRAME_COMMIT,
                                                            .epoch = 3,
                                                            .position = position,
                                                            .body = packed,
                                                            .body_size = (uint32_t)size,
                                                            .pieces = &blob,
                                                            .piece_count = 1}),
                     0);
    assert_int_equal(log_sync(f->log), 0);
    /* Decodes the body of a frame by the commands in storage/FORMAT.md. */
    char command[1024];
    snprintf(
        command, sizeof(command),
        "F=%s/0000000000001000.seg; OFFSET=$((4096 + %" PRIu64 " - 4096));"
        "BODY_SIZE=$(od -An -tu4 -j $((OFFSET + 12)) -N 4 $F); BLOB_SIZE=$(od -An -tu4 -j $((OFFSET + 16)) -N 4 $F);"
        "dd if=$F iflag=skip_bytes,count_bytes status=none skip=$((OFFSET + 112 + BLOB_SIZE)) count=$((BODY_SIZE))"
        " | protoc -I %s --decode tarry.FrameBody tarry.proto",
        f->directory.path, position, PROTO_DIRECTORY);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    char output[256] = "";
    size_t count = fread(output, 1, sizeof(output) - 1, pipe);
    output[count] = 0;
    assert_int_equal(pclose(pipe), 0);
    assert_string_equal(output, "producer: 4711\nclient: \"by-hand\"\n");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_new_log_is_empty),
        TEST(what_goes_in_comes_out),
        TEST(a_cursor_stops_at_its_limit),
        TEST(segments_follow_one_another),
        TEST(a_large_frame_gets_a_segment_of_its_own),
        TEST(an_empty_last_segment_knows_the_past),
        TEST(what_is_retired_is_gone),
        TEST(more_segments_than_descriptors_are_no_matter),
        TEST(readers_trail_the_writer_while_segments_come_and_go),
        TEST(the_next_segment_is_ready_before_it_is_needed),
        TEST(preparing_is_tried_again),
        TEST(what_fits_is_known_before_it_is_needed),
        TEST(a_body_can_be_read_by_hand),
    };
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
