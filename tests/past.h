/* past.h: makes a log with frames for tests that read the history. The tasks are small, with keys and contents. Each
 * frame has one record, and its time is its number. Header only. */
#ifndef TARRY_TESTS_PAST_H
#define TARRY_TESTS_PAST_H

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "log.h"
#include "must.h"
#include "random.h"
#include "tarry.pb-c.h"

#define PAST_QUEUE 7u
#define PAST_NS_PER_FRAME 1000000u
#define PAST_BLOB_MAX 2000u

struct past {
    struct log *log;
    struct log_options options;
    struct random random;
    uint64_t frames;
    uint64_t tasks;    /* task ids are from 1 to this number */
    size_t blob_bytes; /* maximal size of each frame's content; 0: no contents. The bytes are random, so they do not
                          compress */
};

static inline void past_open(struct past *past) {
    struct log_recovery recovery;
    char message[512] = "";
    if (log_open(&past->log, &past->options, 0, &recovery, message, sizeof message) != 0) {
        (void)fprintf(stderr, "%s\n", message);
        MUST(!"the log opens");
    }
}

/* Appends a frame about a task, without a sync. Returns 0 or the log's error. */
static inline int past_append(struct past *past, uint64_t id) {
    uint8_t bytes[512], blob[PAST_BLOB_MAX];
    char key[32];
    Tarry__FrameBody body = TARRY__FRAME_BODY__INIT;
    Tarry__Record record = TARRY__RECORD__INIT, *records = &record;
    Tarry__TaskPut put = TARRY__TASK_PUT__INIT;
    Tarry__Task task = TARRY__TASK__INIT;
    struct log_piece piece = {blob, past->blob_bytes ? 16 + random_below(&past->random, past->blob_bytes - 16) : 0};
    for (size_t i = 0; i < piece.size; i++) blob[i] = (uint8_t)random_u64(&past->random);
    task.id = id;
    task.queue = PAST_QUEUE;
    task.key.data = (uint8_t *)key;
    task.key.len = (size_t)snprintf(key, sizeof key, "order-%" PRIu64, id);
    task.blob_at = frame_blob_position(log_end(past->log));
    task.blob_size = (uint32_t)piece.size;
    put.task = &task;
    record.fact_case = TARRY__RECORD__FACT_PUT;
    record.put = &put;
    body.n_records = 1;
    body.records = &records;
    struct log_frame frame = {.type = FRAME_COMMIT,
                              .epoch = 1,
                              .position = log_end(past->log),
                              .steady_ns = past->frames * PAST_NS_PER_FRAME,
                              .wall_ns = past->frames * PAST_NS_PER_FRAME,
                              .body = bytes,
                              .body_size = (uint32_t)tarry__frame_body__pack(&body, bytes),
                              .pieces = &piece,
                              .piece_count = piece.size > 0};
    past->frames++;
    return log_append(past->log, &frame);
}

/* Appends frames about random tasks, and syncs them. */
static inline void past_go_on(struct past *past, uint64_t frames) {
    while (frames-- > 0) MUST(past_append(past, 1 + random_below(&past->random, past->tasks)) == 0);
    MUST(log_sync(past->log) == 0);
}

#endif
