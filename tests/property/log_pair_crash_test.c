/* log_pair_crash_test.c: seeded histories of a log that copies another log, sometimes leads, and must then cut its
 * tail off again, on a disk that loses unsynced writes (R2, R8, LOG-5, F-25 … F-28).
 *
 * The leader's disk is sound. The follower has a few lives; each ends during a call to its disk or to the disk of
 * its quarantine, by a crash, a SIGKILL, or in order. After each life its log must open and contain every confirmed
 * frame, and no frame that neither node wrote; frames that were cut off must be in the quarantine. In the end the
 * follower copies everything, and both logs are equal frame by frame.
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
#include "log_copy.h"
#include "log_serve.h"
#include "quarantine.h"

#define FRAMES_MAX 4096

/* A frame that one of the nodes wrote. Every copy is complete, except for erased contents. */
struct written {
    uint64_t position;
    uint64_t size;
    uint32_t epoch;
    uint32_t blob_size;
    uint8_t chain[FRAME_CHAIN_SIZE];
};

struct history {
    uint64_t seed;
    struct model_disk *leader_disk, *disk, *aside_disk;
    struct log *leader, *log;
    struct log_options leader_options, options;
    struct quarantine quarantine;
    struct written frames[FRAMES_MAX]; /* frames of both nodes */
    size_t frame_count;
    /* Numbers of the frames in the follower's log, in order. The first own_durable of them must be there, and the
     * others up to own_count may be. */
    size_t own[FRAMES_MAX];
    size_t own_count;
    size_t own_durable; /* number of confirmed frames in `own` */
    uint64_t kept_min;  /* position of the follower's index, below which nothing is ever cut */
    uint32_t epoch;     /* the last epoch in which a node led */
    uint32_t leader_epoch;
    uint64_t time_ns;
    struct log_bytes bytes;
    struct { /* a cut whose result is not known */
        bool is_under_way;
        uint64_t position;
        size_t before; /* value of own_durable before that cut */
    } cut;
};

#define CHECK(history, condition)                                                                                      \
    do {                                                                                                               \
        if (!(condition)) fail_msg("seed %" PRIu64 ": %s", (history)->seed, #condition);                               \
    } while (0)

static uint64_t draw(struct history *history, uint64_t below) {
    return model_random(history->disk) % below;
}

static uint64_t end_of(const struct written *frame) {
    return frame->position + frame->size;
}

/* ---- writing */

static int append(struct history *history, struct log *log, uint32_t epoch) {
    static uint8_t bytes[8192];
    bool seal = draw(history, 6) == 0;
    uint32_t body_size = seal ? 0 : 1 + (uint32_t)draw(history, draw(history, 4) ? 200 : 2500);
    uint32_t blob_size = seal || draw(history, 2) ? 0 : 1 + (uint32_t)draw(history, draw(history, 20) ? 300 : 4000);
    for (size_t i = 0; i < (size_t)body_size + blob_size; i++) bytes[i] = (uint8_t)(1 + history->time_ns * 13 + i * 7);
    struct log_piece piece = {bytes, blob_size};
    struct log_frame frame = {.type = seal ? FRAME_SEAL : FRAME_COMMIT,
                              .epoch = epoch,
                              .position = log_end(log),
                              .steady_ns = ++history->time_ns,
                              .wall_ns = history->time_ns,
                              .body = bytes + blob_size,
                              .body_size = body_size,
                              .pieces = &piece,
                              .piece_count = 1};
    int result = log_append(log, &frame);
    if (result < 0) return result;
    CHECK(history, history->frame_count < FRAMES_MAX);
    struct written *written = &history->frames[history->frame_count++];
    *written = (struct written){.position = frame.position,
                                .size = frame_size(body_size, blob_size),
                                .epoch = epoch,
                                .blob_size = blob_size};
    log_chain(log, written->chain);
    return 0;
}

static void leader_lives(struct history *history) {
    uint64_t count = draw(history, 6);
    if (draw(history, 12) == 0) history->leader_epoch = ++history->epoch;
    for (uint64_t i = 0; i < count; i++) {
        CHECK(history, append(history, history->leader, history->leader_epoch) == 0);
        if (draw(history, 3) == 0) CHECK(history, log_sync(history->leader) == 0);
    }
    CHECK(history, (draw(history, 2) ? log_sync(history->leader) : log_write(history->leader)) == 0);
    if (draw(history, 4)) return;
    /* Redacts a random frame. */
    for (size_t i = 0; i < history->frame_count; i++) {
        const struct written *frame = &history->frames[i];
        struct log_point point;
        if (frame->blob_size == 0 || end_of(frame) > log_durable(history->leader) || draw(history, 8)) continue;
        if (log_point(history->leader, end_of(frame), &point) != 0) continue;
        if (memcmp(point.chain, frame->chain, FRAME_CHAIN_SIZE) != 0)
            continue; /* the leader's log does not have this frame */
        struct log_content content = {frame->position, frame->position + FRAME_HEADER_SIZE, frame->blob_size / 2};
        CHECK(history, log_erase_begin(history->leader));
        CHECK(history, log_erase(history->leader, &content, 1) == 0);
        log_erase_end(history->leader);
    }
}

/* ---- the follower */

/* Adds to `own` the frames that the follower has just written or copied, up to log_end. */
static void take_own(struct history *history, struct log *log) {
    uint64_t at =
        history->own_count ? end_of(&history->frames[history->own[history->own_count - 1]]) : LOG_POSITION_FIRST;
    struct log_cursor *cursor;
    struct log_view view;
    if (log_end(log) == at || log_cursor_open(&cursor, log, at, false) != 0) return;
    while (log_cursor_next(cursor, UINT64_MAX, &view) == 0) {
        size_t i = 0;
        while (i < history->frame_count && memcmp(history->frames[i].chain, view.header.chain, FRAME_CHAIN_SIZE) != 0)
            i++;
        CHECK(history, i < history->frame_count); /* one of the two nodes wrote the frame */
        CHECK(history, history->frames[i].position == view.header.position);
        history->own[history->own_count++] = i;
    }
    log_cursor_close(cursor);
}

static void note_durable(struct history *history) {
    while (history->own_durable < history->own_count &&
           end_of(&history->frames[history->own[history->own_durable]]) <= log_durable(history->log))
        history->own_durable++;
}

static int common_point(struct history *history, uint64_t *out) {
    struct log_epochs mine, theirs;
    struct log_point a, b;
    int result = log_write(history->log);
    if (result < 0) return result;
    CHECK(history, log_epochs_read(history->log, &mine) == 0);
    CHECK(history, log_epochs_read(history->leader, &theirs) == 0);
    *out = log_epochs_common(&mine, &theirs);
    log_epochs_deinit(&mine);
    log_epochs_deinit(&theirs);
    CHECK(history, log_point(history->log, *out, &a) == 0 && log_point(history->leader, *out, &b) == 0);
    CHECK(history, memcmp(a.chain, b.chain, FRAME_CHAIN_SIZE) == 0);
    return 0;
}

/* Checks that the frames that were cut at `position` are in the quarantine. */
static void must_be_aside(struct history *history, uint64_t position, size_t from, size_t to) {
    struct quarantine_tail *tails;
    size_t count, found = from;
    CHECK(history, quarantine_list(&history->quarantine, &tails, &count) == 0);
    for (size_t i = 0; i < count && found < to; i++) {
        struct log *log;
        struct log_recovery recovery;
        struct log_point point;
        char message[512] = "";
        if (tails[i].base != position) continue;
        int result = quarantine_open(&log, &history->quarantine, &tails[i], &recovery, message, sizeof(message));
        if (result != 0) fail_msg("seed %" PRIu64 ": %s", history->seed, message);
        CHECK(history, recovery.end == tails[i].end);
        size_t k = from;
        while (k < to && log_point(log, end_of(&history->frames[history->own[k]]), &point) == 0 &&
               memcmp(point.chain, history->frames[history->own[k]].chain, FRAME_CHAIN_SIZE) == 0)
            k++;
        if (k > found) found = k;
        log_close(log);
    }
    free(tails);
    CHECK(history, found == to);
}

static size_t count_up_to(const struct history *history, uint64_t position) {
    size_t count = 0;
    while (count < history->own_count && end_of(&history->frames[history->own[count]]) <= position) count++;
    return count;
}

static int cut(struct history *history) {
    struct quarantine_tail tail;
    uint64_t position;
    int result = common_point(history, &position);
    if (result < 0) return result;
    CHECK(history, position >= history->kept_min);
    take_own(history, history->log);
    history->cut.is_under_way = true;
    history->cut.position = position;
    /* The first step of a cut is a sync; from then on all frames are durable, until they are in the quarantine. */
    history->cut.before = history->own_durable;
    result = log_cut(history->log, position, history->kept_min, &history->quarantine, "a test", &tail);
    if (result < 0) return result;
    history->cut.is_under_way = false;
    size_t kept = count_up_to(history, position);
    CHECK(history, log_end(history->log) == position && log_durable(history->log) == position);
    if (kept < history->own_count) {
        CHECK(history,
              tail.base == position && tail.end == end_of(&history->frames[history->own[history->own_count - 1]]));
        must_be_aside(history, position, kept, history->own_count);
    }
    history->own_count = history->own_durable = kept;
    return 0;
}

/* Copies the frames of the leader. If they do not fit, because the follower has led meanwhile, it cuts its tail. */
static int follow(struct history *history) {
    const char *problem;
    uint64_t at;
    size_t size_max = draw(history, 4) ? 1 + draw(history, 3000) : 1 << 16;
    int result = log_serve(history->leader, log_end(history->log), UINT64_MAX, size_max, &history->bytes);
    if (result == LOG_DAMAGED)
        return cut(history); /* the logs differ, because no frame of the leader begins at that position */
    if (result == LOG_END) {
        uint64_t position;
        result = common_point(history, &position);
        return result < 0 || position == log_end(history->log) ? result : cut(history);
    }
    CHECK(history, result == 0);
    result = log_copy(history->log, history->bytes.data, history->bytes.size, UINT32_MAX, &at, &problem);
    if (result == LOG_UNFIT) return cut(history);
    take_own(history, history->log);
    return result;
}

static int lead(struct history *history) {
    uint32_t epoch = ++history->epoch;
    int result = 0;
    for (uint64_t count = 1 + draw(history, 6); count > 0 && result == 0; count--) {
        result = append(history, history->log, epoch);
        if (result == 0 && draw(history, 3) == 0) result = log_sync(history->log);
    }
    if (result == 0) result = log_write(history->log);
    take_own(history, history->log);
    return result;
}

static void live(struct history *history) {
    for (uint64_t steps = draw(history, 30); steps > 0; steps--) {
        int result = 0;
        uint64_t what = draw(history, 20);
        if (what < 4)
            leader_lives(history);
        else if (what < 12)
            result = follow(history);
        else if (what < 16)
            result = log_sync(history->log);
        else if (what < 17)
            result = log_mark(history->log);
        else if (what < 18)
            result = lead(history);
        else if (what < 19)
            result = cut(history);
        else if (draw(history, 4) == 0) { /* the index absorbs frames that both logs have */
            uint64_t position;
            result = common_point(history, &position);
            if (result == 0 && position <= log_durable(history->log)) history->kept_min = position;
        }
        if (result < 0) {
            CHECK(history, result == history->disk->fail_error || result == history->aside_disk->fail_error);
            note_durable(history);
            return;
        }
        if (log_durable(history->log) > LOG_POSITION_FIRST) note_durable(history);
    }
}

/* Checks the recovered log: it has every confirmed frame, unless it is in the quarantine, and no unknown frame. */
static void compare(struct history *history, const struct log_recovery *recovery) {
    /* A write that failed may have written everything. */
    if (count_up_to(history, recovery->end) == history->own_count) take_own(history, history->log);
    size_t kept = count_up_to(history, recovery->end);
    struct log_point point;
    if (history->cut.is_under_way && kept < history->own_durable) {
        size_t from = count_up_to(history, history->cut.position);
        CHECK(history, recovery->end >= history->cut.position);
        must_be_aside(history, history->cut.position, from, history->own_durable);
    } else {
        CHECK(history, kept >= history->own_durable);
    }
    CHECK(history, recovery->end == (kept ? end_of(&history->frames[history->own[kept - 1]]) : LOG_POSITION_FIRST));
    for (size_t i = 0; i < kept; i++) {
        const struct written *frame = &history->frames[history->own[i]];
        CHECK(history, log_point(history->log, end_of(frame), &point) == 0);
        CHECK(history, memcmp(point.chain, frame->chain, FRAME_CHAIN_SIZE) == 0);
    }
    history->own_count = history->own_durable = kept;
    history->cut.is_under_way = false;
}

static bool open_log(struct history *history) {
    char message[512] = "";
    struct log_recovery recovery;
    uint64_t scan_from = draw(history, 2) ? history->kept_min : 0;
    int result = log_open(&history->log, &history->options, scan_from, &recovery, message, sizeof(message));
    if (result < 0) {
        history->log = NULL;
        if (history->disk->fail_at == 0 || result != history->disk->fail_error)
            fail_msg("seed %" PRIu64 ": log_open said %d: %s", history->seed, result, message);
        return false;
    }
    compare(history, &recovery);
    return true;
}

/* Compares all bytes except contents that were erased after the copy. */
static void must_be_same(struct history *history) {
    struct log_bytes other = {0};
    uint64_t end = log_end(history->leader);
    CHECK(history, log_end(history->log) == end && log_durable(history->log) == end);
    for (uint64_t at = LOG_POSITION_FIRST; at < end; at = other.end.position) {
        struct frame_header a, b;
        CHECK(history, log_serve(history->leader, at, UINT64_MAX, 0, &history->bytes) == 0);
        CHECK(history, log_serve(history->log, at, UINT64_MAX, 0, &other) == 0);
        CHECK(history, frame_header_decode(history->bytes.data, &a) && frame_header_decode(other.data, &b));
        CHECK(history, history->bytes.size == other.size && memcmp(a.chain, b.chain, FRAME_CHAIN_SIZE) == 0);
        if (a.flags == b.flags)
            CHECK(history, memcmp(history->bytes.data, other.data, other.size) == 0 || a.flags != 0);
        CHECK(history, (b.flags & ~a.flags) == 0);
    }
    log_bytes_deinit(&other);
}

static void arm(struct history *history, struct model_disk *model, uint64_t calls) {
    model->fail_at = model->calls + 1 + draw(history, calls);
    model->fail_error = draw(history, 4) ? -EIO : -ENOSPC;
    model->fail_for_ever = draw(history, 2);
}

static void play(uint64_t seed) {
    static struct history history;
    memset(&history, 0, sizeof(history));
    history.seed = seed;
    history.disk = model_new(seed);
    history.leader_disk = model_new(seed + 1000000007);
    history.aside_disk = model_new(seed + 2000000011);
    history.disk->directory_exists = history.leader_disk->directory_exists = true;
    history.disk->short_io = draw(&history, 2);
    history.aside_disk->short_io = draw(&history, 2);
    history.leader_options = (struct log_options){.directory = "/d/log",
                                                  .disk = &history.leader_disk->disk,
                                                  .segment_size = 1024u << draw(&history, 4)};
    history.options = (struct log_options){.directory = "/d/log",
                                           .disk = &history.disk->disk,
                                           .segment_size = 1024u << draw(&history, 4)};
    history.quarantine = (struct quarantine){.disk = &history.aside_disk->disk, .directory = "/d/quarantine"};
    history.leader_epoch = history.epoch = 1;
    struct log_recovery ignored;
    char message[512];
    CHECK(&history, log_open(&history.leader, &history.leader_options, 0, &ignored, message, sizeof(message)) == 0);
    for (uint64_t lives = 1 + draw(&history, 6); lives > 0; lives--) {
        if (draw(&history, 4)) arm(&history, history.disk, 60);
        if (draw(&history, 4) == 0) arm(&history, history.aside_disk, 8);
        if (open_log(&history)) live(&history);
        log_close(history.log);
        history.log = NULL;
        bool is_crash = draw(&history, 4) != 0;
        (is_crash ? model_crash : model_kill)(history.disk);
        (is_crash ? model_crash : model_kill)(history.aside_disk);
    }
    CHECK(&history, open_log(&history));
    CHECK(&history, log_sync(history.leader) == 0);
    while (log_end(history.log) != log_end(history.leader) || log_durable(history.log) != log_end(history.log)) {
        CHECK(&history, follow(&history) == 0);
        CHECK(&history, log_sync(history.log) == 0);
    }
    CHECK(&history,
          cut(&history) == 0); /* the cut is needed even if both logs have the same length, because they may differ */
    while (log_end(history.log) != log_end(history.leader)) CHECK(&history, follow(&history) == 0);
    CHECK(&history, log_sync(history.log) == 0);
    must_be_same(&history);
    log_close(history.log);
    log_close(history.leader);
    log_bytes_deinit(&history.bytes);
    model_free(history.disk);
    model_free(history.leader_disk);
    model_free(history.aside_disk);
}

/* Proves R2, R8, LOG-1, LOG-5, F-25, F-26 and F-28. */
static void a_follower_loses_nothing_that_it_confirmed(void **state) {
    const char *seed = getenv("TARRY_SEED"), *count = getenv("TARRY_HISTORIES");
    uint64_t first = seed ? strtoull(seed, NULL, 0) : 1;
    uint64_t histories = count ? strtoull(count, NULL, 0) : 3000;
    for (uint64_t i = 0; i < histories; i++) {
        if (getenv("TARRY_VERBOSE")) (void)fprintf(stderr, "seed %" PRIu64 "\n", first + i);
        play(first + i);
    }
}

int main(void) {
    if (sodium_init() < 0) return 1; /* selects the fast implementation of BLAKE2b */
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_follower_loses_nothing_that_it_confirmed)};
    return cmocka_run_group_tests_name("log_pair_crash", tests, NULL, NULL);
}
