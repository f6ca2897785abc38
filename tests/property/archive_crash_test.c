/* archive_crash_test.c: seeded histories of a log that is archived and retired. Log and archive are on two disks
 * that lose unsynced writes. Both disks stop at once, during any call to either, by a power failure or a SIGKILL.
 * Afterwards log and archive together have every durable frame from the first position on, and every archive file
 * under its final name is complete (LOG-1, F-6).
 *
 * TARRY_SEED=n TARRY_HISTORIES=1 replays one history; TARRY_HISTORIES=n runs n histories. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <sodium.h>

#include "../model_disk.h"
#include "../past.h"
#include "archive.h"
#include "history.h"

#define HISTORIES 120
#define LIVES 5
#define STEPS 60

struct world {
    uint64_t seed;
    struct past past;
    struct model_disk *log_disk;
    struct model_disk *archive_disk;
    struct archive archive;
    uint64_t durable; /* number of synced frames, which can never be lost */
};

#define CHECK(world, condition)                                                                                        \
    do {                                                                                                               \
        if (!(condition)) fail_msg("seed %" PRIu64 ": %s", (world)->seed, #condition);                                 \
    } while (0)

static uint64_t draw(struct world *world, uint64_t below) {
    return random_below(&world->past.random, below);
}

/* Checks that all frames are there from the first position on, without a gap. Frames that recovery cut off are no
 * longer expected. */
static void tell_all(struct world *world) {
    struct history *history;
    struct log_view view;
    const Tarry__FrameBody *body;
    uint64_t frames = 0;
    int error;
    CHECK(world, history_open(&history, world->past.log, &world->archive, &(struct history_question){0}) == 0);
    CHECK(world, history_start(history) == LOG_POSITION_FIRST);
    while ((error = history_next(history, log_durable(world->past.log), &view, &body)) == 0) {
        CHECK(world, view.header.steady_ns == frames * PAST_NS_PER_FRAME);
        frames++;
    }
    CHECK(world, error == LOG_END);
    CHECK(world, history_position(history) == log_durable(world->past.log));
    CHECK(world, frames >= world->durable);
    history_close(history);
    world->past.frames = world->durable = frames;
}

static void every_file_is_whole(struct world *world) {
    uint64_t *bases = NULL, at;
    size_t count = 0;
    const char *problem;
    CHECK(world, archive_list(&world->archive, &bases, &count) == 0);
    for (size_t i = 0; i < count; i++)
        CHECK(world, archive_verify(&world->archive, bases[i], NULL, &at, &problem) == 0);
    free(bases);
}

/* Does one random step. Returns non-zero if a disk has stopped. */
static int step(struct world *world) {
    struct log *log = world->past.log;
    struct archive_info info;
    struct log_segment oldest;
    const char *problem;
    int error = 0;
    for (uint64_t i = draw(world, 6); i > 0 && error == 0; i--) error = past_append(&world->past, 1 + draw(world, 50));
    if (error == 0) error = log_sync(log);
    if (error != 0) return error;
    world->durable = world->past.frames;
    if (draw(world, 3) != 0 || !log_oldest(log, log_durable(log), &oldest)) return 0;
    error = archive_store(&world->archive, log, oldest.base, 1, &info, &problem);
    if (error != 0 && draw(world, 2)) return error;
    /* The disk may have failed only once, so try again. */
    if (error != 0) error = archive_store(&world->archive, log, oldest.base, 1, &info, &problem);
    if (error != 0) return error;
    CHECK(world, info.base == oldest.base && info.end == oldest.end);
    return log_retire(log, oldest.base);
}

static void arm(struct world *world, struct model_disk *disk) {
    disk->short_io = draw(world, 2);
    disk->fail_at = 0;
    if (draw(world, 2) == 0) return;
    disk->fail_at = disk->calls + 1 + draw(world, 300);
    disk->fail_error = draw(world, 2) ? -EIO : -ENOSPC;
    disk->fail_for_ever = draw(world, 4) != 0;
}

static void end_life(struct world *world) {
    bool power = draw(world, 4) != 0;
    log_close(world->past.log);
    world->log_disk->fail_at = world->archive_disk->fail_at = 0;
    (power ? model_crash : model_kill)(world->log_disk);
    (power ? model_crash : model_kill)(world->archive_disk);
}

static void play(uint64_t seed) {
    struct world world = {.seed = seed, .log_disk = model_new(seed), .archive_disk = model_new(seed + 1)};
    world.past = (struct past){.random = {.state = seed}, .tasks = 50, .blob_bytes = 300};
    world.past.options = (struct log_options){.directory = "/log", .disk = &world.log_disk->disk, .segment_size = 2048};
    world.archive = (struct archive){.disk = &world.archive_disk->disk, .directory = "/archive"};
    world.archive_disk->directory_exists = true;
    for (int life = 0; life < LIVES; life++) {
        past_open(&world.past);
        tell_all(&world);
        every_file_is_whole(&world);
        arm(&world, world.log_disk);
        arm(&world, world.archive_disk);
        for (int i = 0; i < STEPS && step(&world) == 0; i++) {
        }
        end_life(&world);
    }
    past_open(&world.past);
    tell_all(&world);
    every_file_is_whole(&world);
    log_close(world.past.log);
    model_free(world.log_disk);
    model_free(world.archive_disk);
}

/* F-6. */
static void nothing_durable_is_lost(void **state) {
    uint64_t seed = random_seed(1);
    const char *text = getenv("TARRY_HISTORIES");
    uint64_t histories = text ? strtoull(text, NULL, 0) : HISTORIES;
    assert_true(sodium_init() >= 0);
    for (uint64_t i = 0; i < histories; i++) play(seed + i);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_durable_is_lost)};
    return cmocka_run_group_tests_name("archive_crash", tests, NULL, NULL);
}
