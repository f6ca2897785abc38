/* log_crash_test.c: seeded histories of a log on a disk that loses unsynced writes (LOG-1, LOG-4, LOG-5, F-3 … F-7).
 *
 * Each history has a few lives: open, append, write, sync, retire, until the machine stops during a call to the
 * disk. Then comes a crash, a SIGKILL, or an orderly end. After each life the log must open and contain everything
 * that was durable, and only a prefix of the appended frames.
 *
 * TARRY_SEED=n TARRY_HISTORIES=1 replays one history; TARRY_HISTORIES=n runs n histories. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <sodium.h>
#include <stdio.h>

#include "../model_disk.h"
#include "log.h"

#define FRAMES_MAX 2048

struct written { /* a frame that was appended and has not been cut off since */
    uint64_t position;
    uint64_t size;
    uint64_t content; /* seed of the frame's bytes */
    uint16_t type;
    uint32_t body_size;
    uint32_t blob_size;
};

struct history {
    uint64_t seed;
    struct model_disk *model;
    struct log *log;
    struct log_options options;
    struct written frames[FRAMES_MAX];
    size_t frame_count;
    uint64_t end;
    uint64_t durable; /* the largest value that log_durable() ever returned */
    uint64_t start;
    uint64_t start_durable; /* start of the log after the last confirmed retirement */
    int retire_error;       /* error of a retirement in this life */
    /* True: a recovery was interrupted, so the disk may still have bytes that the page cache shows as zeros. They are
     * stray bytes, never frames of this log. */
    bool recovery_failed;
    uint32_t epoch;
    uint64_t time_ns;
};

#define CHECK(history, condition)                                                                                      \
    do {                                                                                                               \
        if (!(condition)) fail_msg("seed %" PRIu64 ": %s", (history)->seed, #condition);                               \
    } while (0)

static uint64_t draw(struct history *history, uint64_t below) {
    return model_random(history->model) % below;
}

static void fill(uint64_t content, uint8_t *out, size_t size) {
    for (size_t i = 0; i < size; i++) {
        content = content * 6364136223846793005u + 1442695040888963407u;
        /* Many bytes are zeros, so that losing data that reads as zeros is noticed too. */
        out[i] = content >> 62 ? (uint8_t)(content >> 40) : 0;
    }
}

static int append(struct history *history) {
    static uint8_t bytes[16384];
    CHECK(history, history->frame_count < FRAMES_MAX);
    struct written *frame = &history->frames[history->frame_count];
    bool seal = draw(history, 5) == 0;
    frame->position = history->end;
    frame->type = seal ? FRAME_SEAL : FRAME_COMMIT;
    frame->content = model_random(history->model);
    frame->body_size = seal ? 0 : (uint32_t)draw(history, draw(history, 4) ? 200 : 3000);
    frame->blob_size = seal || draw(history, 2) ? 0 : (uint32_t)draw(history, draw(history, 20) ? 300 : 9000);
    frame->size = frame_size(frame->body_size, frame->blob_size);
    fill(frame->content, bytes, frame->body_size + frame->blob_size);
    struct log_piece pieces[2] = {{bytes, frame->blob_size / 3},
                                  {bytes + frame->blob_size / 3, frame->blob_size - frame->blob_size / 3}};
    int result = log_append(history->log, &(struct log_frame){.type = frame->type,
                                                              .epoch = history->epoch,
                                                              .position = frame->position,
                                                              .steady_ns = history->time_ns,
                                                              .wall_ns = ++history->time_ns,
                                                              .body = bytes + frame->blob_size,
                                                              .body_size = frame->body_size,
                                                              .pieces = pieces,
                                                              .piece_count = 2});
    /* A roll of the segment may have made earlier frames durable, even if the append failed. */
    if (log_durable(history->log) > history->durable) history->durable = log_durable(history->log);
    if (result < 0) return result;
    history->frame_count++;
    history->end += frame->size;
    CHECK(history, log_end(history->log) == history->end);
    return 0;
}

static int retire(struct history *history) {
    struct log_segment oldest;
    if (!log_oldest(history->log, log_durable(history->log), &oldest)) return 0;
    CHECK(history, oldest.base == history->start);
    if (history->retire_error) {
        CHECK(history, log_retire(history->log, oldest.base) == history->retire_error);
        return history->retire_error;
    }
    int result = log_retire(history->log, oldest.base);
    CHECK(history, log_start(history->log) == oldest.end);
    history->start = oldest.end;
    if (result == 0) history->start_durable = oldest.end;
    history->retire_error = result;
    return result;
}

/* Uses the log for one life after its opening. Ends at random, or when the disk fails. */
static void live(struct history *history) {
    uint64_t steps = draw(history, 40);
    for (uint64_t step = 0; step < steps; step++) {
        int result;
        uint64_t what = draw(history, 20);
        uint64_t durable_before = log_durable(history->log);
        if (what < 13)
            result = append(history);
        else if (what < 14)
            result = log_write(history->log);
        else if (what < 19)
            result = log_sync(history->log);
        else
            result = retire(history);
        if (what >= 14 && what < 19 && result == 0) CHECK(history, log_durable(history->log) == history->end);
        if (log_durable(history->log) > history->durable) history->durable = log_durable(history->log);
        if (result == 0) continue;
        CHECK(history, result == history->model->fail_error);
        if (what == 19) continue; /* the writer may continue if the retirement failed */
        /* LOG-4: after a failure, every call fails and nothing more becomes durable, even if the disk works again. */
        CHECK(history, log_durable(history->log) >= durable_before);
        durable_before = log_durable(history->log);
        uint64_t calls = history->model->datasyncs + history->model->syncs;
        CHECK(history, log_sync(history->log) == result && log_write(history->log) == result);
        CHECK(history, append(history) == result);
        CHECK(history, log_durable(history->log) == durable_before);
        CHECK(history, history->model->datasyncs + history->model->syncs == calls);
        return;
    }
}

/* Compares the log from its start to its end with the appended frames. */
static void compare(struct history *history, const struct log_recovery *recovery) {
    static uint8_t bytes[16384];
    struct log_cursor *cursor;
    size_t next = 0;
    uint8_t chain[FRAME_CHAIN_SIZE] = {0};
    while (next < history->frame_count && history->frames[next].position < recovery->start) next++;
    CHECK(history, log_cursor_open(&cursor, history->log, recovery->start, true) == 0);
    struct log_view view;
    int result;
    while ((result = log_cursor_next(cursor, UINT64_MAX, &view)) == 0) {
        CHECK(history, next < history->frame_count);
        const struct written *frame = &history->frames[next++];
        CHECK(history, view.header.position == frame->position && view.header.type == frame->type);
        CHECK(history, view.header.body_size == frame->body_size && view.header.blob_size == frame->blob_size);
        fill(frame->content, bytes, frame->body_size + frame->blob_size);
        CHECK(history, memcmp(view.blob, bytes, frame->blob_size) == 0);
        CHECK(history, memcmp(view.body, bytes + frame->blob_size, frame->body_size) == 0);
        memcpy(chain, view.header.chain, sizeof(chain));
    }
    CHECK(history, result == LOG_END);
    CHECK(history, log_cursor_position(cursor) == recovery->end);
    log_cursor_close(cursor);
    if (recovery->end > recovery->start) CHECK(history, memcmp(chain, recovery->chain, sizeof(chain)) == 0);
    CHECK(history, next == 0 || recovery->end == recovery->start ||
                       history->frames[next - 1].position + history->frames[next - 1].size == recovery->end);
    /* Frames that were cut off count as never appended. */
    while (history->frame_count > 0 && history->frames[history->frame_count - 1].position >= recovery->end)
        history->frame_count--;
    history->end = recovery->end;
}

/* Opens the log. Returns false if the disk failed meanwhile. */
static bool open_log(struct history *history) {
    char message[512] = "";
    struct log_recovery recovery;
    uint64_t scan_from = 0;
    if (draw(history, 2)) {
        /* Chooses the position of a durable frame, as if an index had absorbed the log up to this position. */
        for (size_t i = 0; i < history->frame_count; i++)
            if (history->frames[i].position <= history->durable && draw(history, 8) == 0)
                scan_from = history->frames[i].position;
        if (draw(history, 4) == 0) scan_from = history->durable;
    }
    history->options.durable_min = draw(history, 2) ? history->durable : 0;
    int result = log_open(&history->log, &history->options, scan_from, &recovery, message, sizeof(message));
    if (result < 0) {
        if (history->model->fail_at == 0 || result != history->model->fail_error)
            fail_msg("seed %" PRIu64 ": log_open said %d: %s", history->seed, result, message);
        history->recovery_failed = true;
        return false;
    }
    CHECK(history, recovery.end >= history->durable);
    CHECK(history, recovery.end <= history->end || history->end == 0);
    CHECK(history, recovery.start <= history->start && recovery.start >= history->start_durable);
    CHECK(history, recovery.stray_bytes == 0 || history->recovery_failed);
    CHECK(history, log_durable(history->log) == recovery.end);
    history->start = history->start_durable = recovery.start;
    history->retire_error = 0;
    compare(history, &recovery);
    history->durable =
        recovery.end; /* recovery has synced everything that it reported, so it must never be lost again */
    history->epoch = recovery.epoch + (uint32_t)draw(history, 2);
    return true;
}

static void play(uint64_t seed) {
    static struct history history;
    memset(&history, 0, sizeof(history));
    history.seed = seed;
    history.model = model_new(seed);
    history.model->directory_exists = draw(&history, 2);
    history.model->short_io = draw(&history, 2);
    history.options = (struct log_options){.directory = "/d/log", .disk = &history.model->disk};
    history.options.segment_size = 1024 << draw(&history, 4);
    history.end = history.start = history.start_durable = history.durable = LOG_POSITION_FIRST;
    uint64_t lives = 1 + draw(&history, 5);
    for (uint64_t life = 0; life < lives; life++) {
        if (draw(&history, 4)) {
            history.model->fail_at = history.model->calls + 1 + draw(&history, 40);
            history.model->fail_error = draw(&history, 4) ? -EIO : -ENOSPC;
            history.model->fail_for_ever = draw(&history, 2);
        }
        if (open_log(&history)) {
            live(&history);
            log_close(history.log);
        }
        if (draw(&history, 4))
            model_crash(history.model);
        else
            model_kill(history.model);
    }
    CHECK(&history, open_log(&history));
    log_close(history.log);
    model_free(history.model);
}

/* Proves F-3, F-4, F-5, F-6, LOG-1, LOG-4 and LOG-5. */
static void what_was_durable_survives_every_crash(void **state) {
    const char *seed = getenv("TARRY_SEED"), *count = getenv("TARRY_HISTORIES");
    uint64_t first = seed ? strtoull(seed, NULL, 0) : 1;
    uint64_t histories = count ? strtoull(count, NULL, 0) : 10000;
    for (uint64_t i = 0; i < histories; i++) {
        if (getenv("TARRY_VERBOSE")) (void)fprintf(stderr, "seed %" PRIu64 "\n", first + i);
        play(first + i);
    }
}

int main(void) {
    if (sodium_init() < 0) return 1; /* selects the fast implementation of BLAKE2b */
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_was_durable_survives_every_crash)};
    return cmocka_run_group_tests_name("log_crash", tests, NULL, NULL);
}
