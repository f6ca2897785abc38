/* index_test.c: compares the index with a naive model, over random histories. Usage: index_test [first seed] [seeds].
 * The test is built with INDEX_TINY, which makes all units of the index's structures small (8 entries, 64 ids, a dozen
 * keys). So a few hundred tasks reach every boundary. After a commit, all answers of the index are compared. At random
 * moments the index is closed and opened again: with absorbed, uncommitted frames, and in the middle of merges and
 * sweeps. */
#include "index_checks.h"

#include <limits.h>
#include <stdlib.h>

#define RESTED_MS 86400000u

static uint64_t seed_first = 1, seed_count = 40;

static void advise(struct fx *f) {
    struct world *w = &f->world;
    static const uint8_t priorities[] = {0, 5, 9};
    for (uint32_t place = 1; place <= WORLD_QUEUES; place++) {
        struct line line = {w->numbers[place], (uint8_t)world_random(w, 2), priorities[world_random(w, 3)]};
        /* `low` is only a hint and often wrong here, because the index must check it */
        struct due low = {w->now_ms + world_random(w, 1000), 0};
        index_advise_low(f->index, &line, low);
    }
}

static void maintain(struct fx *f, unsigned calls_max) {
    bool more = true;
    for (unsigned i = 0; i < calls_max && more; i++) {
        int error = index_maintain(f->index, &more);
        if (error != 0) fail_msg("seed %llu: maintain: %d", (unsigned long long)f->seed, error);
    }
}

/* Reads a few of the key filters that index_open left unread on the disk, between the other steps. */
static void read_filters(struct fx *f, unsigned pieces_max) {
    for (unsigned i = 0; i < pieces_max && f->is_unread; i++) CHECK(index_read_filters(f->index, &f->is_unread) == 0);
}

static void commit(struct fx *f) {
    for (; f->absorbed < f->world.frame_count; f->absorbed++) {
        CHECK(world_absorb(&f->world, f->absorbed, f->index) == 0);
    }
    CHECK(index_commit(f->index) == 0);
    CHECK(index_position(f->index) == f->world.position);
    f->world.committed = f->absorbed;
}

static void step(struct fx *f, size_t records_max, unsigned endings) {
    struct world *w = &f->world;
    for (uint64_t frames = 1 + world_random(w, 6); frames > 0; frames--) {
        world_frame(w, records_max, endings);
        if (world_random(w, 2)) CHECK(world_absorb(w, f->absorbed++, f->index) == 0);
        if (f->absorbed < w->frame_count && world_random(w, 2)) {
            while (f->absorbed < w->frame_count) CHECK(world_absorb(w, f->absorbed++, f->index) == 0);
        }
    }
    if (world_random(w, 3) == 0) maintain(f, (unsigned)world_random(w, 4)); /* here a batch is partly absorbed */
    if (world_random(w, 8) == 0) { /* the process is killed before the commit */
        index_close(f->index);
        fx_open(f);
    }
    commit(f);
    if (world_random(w, 4) == 0) check_all(f);
    if (world_random(w, 3) == 0) advise(f);
    maintain(f, (unsigned)world_random(w, 6));
    if (f->is_unread && world_random(w, 3) == 0) read_filters(f, (unsigned)world_random(w, 4));
    if (f->retiring == 0 && w->committed > 0 && world_random(w, 5) == 0) {
        f->retiring = 1 + world_random(w, w->committed);
        CHECK(world_retire(w, f->retiring, f->index) == 0);
    } else if (f->retiring > 0 && world_random(w, 2) == 0) {
        CHECK(world_retired(w, f->retiring, f->index) == 0);
        f->absorbed -= f->retiring;
        f->retiring = 0;
    }
    if (world_random(w, 10) == 0) { /* the process is killed in the middle of a merge or a sweep */
        index_close(f->index);
        if (world_random(w, 3) == 0) fx_forget_calendar(f);
        fx_open(f);
        check_all(f);
    }
}

/* Checks that ended tasks do not take space for ever. A range of rows is cleaned once three quarters of its tasks have
 * ended. Keys of ended tasks disappear when files of keys are merged. */
static void check_growth(struct fx *f) {
    struct index_stats stats;
    uint64_t here = 0;
    for (uint64_t id = 1; id < f->world.next_id; id++) here += f->world.tasks[id].state == WORLD_HERE;
    index_stats(f->index, &stats);
    CHECK(stats.rows >= here && stats.rows <= 4 * here + 64);
    CHECK(stats.key_entries <= 3 * here + 100);
    CHECK(stats.slot_entries <= 5 * here + 100); /* a slot entry may be there twice */
}

static void history(uint64_t seed) {
    struct fx *f = fx_new(seed);
    fx_open(f);
    size_t records_max = 1 + world_random(&f->world, seed % 2 == 0 ? 60 : 4);
    for (unsigned i = 0; i < (seed % 2 == 0 ? 60 : 400); i++) {
        /* In some periods the index grows, in others most tasks end. */
        step(f, records_max, (unsigned)(i / 15 % 2 == 0 ? 10 : 85));
    }
    for (unsigned i = 0; i < 60; i++) step(f, records_max, 95);
    f->world.now_ms += RESTED_MS; /* every range that waits for its sweep may now be swept */
    step(f, 1, 0);
    maintain(f, 100000);
    check_all(f);
    read_filters(f, UINT_MAX);
    check_all(f);
    CHECK(!f->is_counting);
    check_growth(f);
    index_close(f->index);
    fx_free(f);
}

static void index_agrees_with_the_model(void **state) { /* F-8, LOG-3 */
    for (uint64_t seed = seed_first; seed < seed_first + seed_count; seed++) {
        if (getenv("TARRY_VERBOSE")) (void)fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
        history(seed);
    }
}

int main(int argc, char **argv) {
    if (argc > 1) seed_first = strtoull(argv[1], NULL, 10);
    if (argc > 2) seed_count = strtoull(argv[2], NULL, 10);
    const struct CMUnitTest tests[] = {cmocka_unit_test(index_agrees_with_the_model)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
