/* log_two.h: two logs on disks in memory; one is a copy of the other. */
#ifndef TARRY_TESTS_LOG_TWO_H
#define TARRY_TESTS_LOG_TWO_H

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "../model_disk.h"
#include "log.h"
#include "log_copy.h"
#include "log_serve.h"

#define SEGMENT_SIZE 4096u
#define CHUNK_SIZE 1500u

struct one {
    struct model_disk *model;
    struct log_options options;
    struct log *log;
    struct log_recovery recovery;
    char message[512];
};

struct two {
    struct one leader, follower;
    struct log_bytes bytes;
    uint32_t epoch;
    uint64_t time_ns;
};

static inline void one_make(struct one *one, uint64_t seed) {
    one->model = model_new(seed);
    one->model->directory_exists = true;
    one->options = (struct log_options){.directory = "/d/log", .disk = &one->model->disk, .segment_size = SEGMENT_SIZE};
}

static inline int one_try(struct one *one, uint64_t scan_from) {
    one->message[0] = 0;
    return log_open(&one->log, &one->options, scan_from, &one->recovery, one->message, sizeof(one->message));
}

static inline void one_open(struct one *one) {
    if (one_try(one, 0) != 0) fail_msg("%s", one->message);
}

/* Simulates that the process of this log is killed. */
static inline void one_kill(struct one *one) {
    log_close(one->log);
    one->log = NULL;
    model_kill(one->model);
}

static inline void one_free(struct one *one) {
    log_close(one->log);
    model_free(one->model);
}

static inline int two_set_up(void **state) {
    struct two *two = calloc(1, sizeof(*two));
    one_make(&two->leader, 1);
    one_make(&two->follower, 2);
    two->epoch = 1;
    one_open(&two->leader);
    one_open(&two->follower);
    *state = two;
    return 0;
}

static inline int two_tear_down(void **state) {
    struct two *two = *state;
    one_free(&two->leader);
    one_free(&two->follower);
    log_bytes_deinit(&two->bytes);
    free(two);
    return 0;
}

/* Appends a frame whose contents depend on position and epoch; body_size 0: a seal. Returns its position. */
static inline uint64_t two_append(struct two *two, struct one *one, uint32_t body_size, uint32_t blob_size) {
    uint8_t *bytes = malloc((size_t)body_size + blob_size + 1);
    uint64_t position = log_end(one->log);
    for (size_t i = 0; i < (size_t)body_size + blob_size; i++)
        bytes[i] = (uint8_t)(position / 8 + two->epoch * 31 + i * 7);
    struct log_piece piece = {bytes, blob_size};
    struct log_frame frame = {.type = body_size == 0 ? FRAME_SEAL : FRAME_COMMIT,
                              .epoch = two->epoch,
                              .position = position,
                              .steady_ns = ++two->time_ns,
                              .wall_ns = two->time_ns,
                              .body = bytes + blob_size,
                              .body_size = body_size,
                              .pieces = &piece,
                              .piece_count = blob_size == 0 ? 0 : 1};
    assert_int_equal(log_append(one->log, &frame), 0);
    free(bytes);
    return position;
}

/* Appends small and large frames in groups, and between them seals and new epochs. */
static inline void two_fill(struct two *two, struct one *one, size_t frames) {
    for (size_t i = 0; i < frames; i++) {
        if (i % 13 == 12) two->epoch++;
        if (i % 7 == 6)
            two_append(two, one, 0, 0);
        else
            two_append(two, one, 1 + (uint32_t)(i * 37 % 300), i % 3 == 0 ? (uint32_t)(i * 53 % 400) : 0);
        if (i % 17 == 16) two_append(two, one, 40, 6000); /* a frame larger than a segment */
        if (i % 4 == 3) assert_int_equal(log_sync(one->log), 0);
    }
    assert_int_equal(log_sync(one->log), 0);
}

/* Copies the frames of one reply to the follower. Returns the result of log_serve (LOG_END: the follower has
 * everything) or of log_copy. */
static inline int two_follow_once(struct two *two, uint32_t epoch_max) {
    const char *problem;
    uint64_t at;
    int result = log_serve(two->leader.log, log_end(two->follower.log), UINT64_MAX, CHUNK_SIZE, &two->bytes);
    if (result < 0) return result;
    return log_copy(two->follower.log, two->bytes.data, two->bytes.size, epoch_max, &at, &problem);
}

static inline void two_follow(struct two *two) {
    int result;
    while ((result = two_follow_once(two, UINT32_MAX)) == 0) assert_int_equal(log_sync(two->follower.log), 0);
    assert_int_equal(result, LOG_END);
}

/* Makes a follower and a leader that have both led since their logs were equal. Returns the position where the
 * follower's own frames begin. */
static inline uint64_t two_diverge(struct two *two, size_t common, size_t apart) {
    two_fill(two, &two->leader, common);
    two_follow(two);
    uint64_t position = log_end(two->leader.log);
    two->epoch++;
    two_fill(two, &two->follower, apart);
    two->epoch++;
    two_fill(two, &two->leader, apart);
    return position;
}

/* Returns all frames of `log` from `position` to `end` in one block, which the caller frees with free(). */
static inline uint8_t *two_read(struct log *log, uint64_t position, uint64_t end) {
    uint8_t *bytes = malloc((size_t)(end - position) + 1);
    struct log_bytes some = {0};
    for (uint64_t at = position; at < end; at = some.end.position) {
        assert_int_equal(log_serve(log, at, end, CHUNK_SIZE, &some), 0);
        memcpy(bytes + (at - position), some.data, some.size);
    }
    log_bytes_deinit(&some);
    return bytes;
}

static inline void two_must_be_same(struct two *two, uint64_t from) {
    uint64_t end = log_end(two->leader.log);
    uint8_t chains[2][FRAME_CHAIN_SIZE];
    assert_int_equal(log_end(two->follower.log), end);
    uint8_t *a = two_read(two->leader.log, from, end), *b = two_read(two->follower.log, from, end);
    assert_memory_equal(a, b, end - from);
    free(a);
    free(b);
    log_chain(two->leader.log, chains[0]);
    log_chain(two->follower.log, chains[1]);
    assert_memory_equal(chains[0], chains[1], FRAME_CHAIN_SIZE);
}

#endif
