/* index_fault_test.c: for every n, makes the n-th call fail in everything that the index does (F-8, F-11). The caller
 * must get the error or a right answer. Afterwards the index on disk is complete: its position is the one before or
 * after, and its rows add up to the digest. If the map or the disk is full, the caller only has to try again. Built
 * with INDEX_TINY, like index_test.c. */
#include "index_checks.h"

#include <fcntl.h>
#include <lmdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "index_faults.h"
#include "index_parts.h"

/* From this call on, only every STRIDE-th call fails, unless TARRY_SLOW is set. */
#ifdef __SANITIZE_ADDRESS__
#define EXHAUSTIVE_MAX 12
#define STRIDE 149
#else
#define EXHAUSTIVE_MAX 60
#define STRIDE 47
#endif

static bool is_slow;

/* Copies of the files of a closed index. */
struct saved {
    void *data;
    size_t size;
};

static void file_path(const struct fx *f, char path[96]) {
    snprintf(path, 96, "%s/data.mdb", f->directory);
}

static struct saved save(struct fx *f) {
    char path[96];
    struct stat status;
    file_path(f, path);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(file >= 0 && fstat(file, &status) == 0);
    struct saved saved = {malloc((size_t)status.st_size), (size_t)status.st_size};
    CHECK(read(file, saved.data, saved.size) == (ssize_t)saved.size);
    close(file);
    return saved;
}

static void restore(struct fx *f, const struct saved *saved) {
    char path[96];
    file_path(f, path);
    int file = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    CHECK(file >= 0 && write(file, saved->data, saved->size) == (ssize_t)saved->size);
    close(file);
}

/* ---- the operations of the index */

static int do_open(struct fx *f) {
    index_close(f->index);
    int error = fx_try_open(f);
    while (error == 0 && f->is_unread) error = index_read_filters(f->index, &f->is_unread);
    return error;
}

static int do_commit(struct fx *f) {
    for (; f->absorbed < f->world.frame_count; f->absorbed++) {
        int error = world_absorb(&f->world, f->absorbed, f->index);
        if (error != 0) return error;
    }
    return index_commit(f->index);
}

static int do_maintain(struct fx *f) {
    static const uint8_t priorities[] = {0, 5, 9};
    int error = 0;
    for (uint32_t queue = 1; queue <= WORLD_QUEUES; queue++) {
        struct line line = {queue, ROW_STEADY, priorities[queue % 3]};
        index_advise_low(f->index, &line, (struct due){f->world.now_ms + 100000, 0});
    }
    for (bool more = true; more && error == 0;) error = index_maintain(f->index, &more);
    return error;
}

static int do_window(struct fx *f) {
    int error = 0;
    for (unsigned i = 0; i < 8 && error == 0; i++) error = check_window(f);
    return error;
}

static int do_retire(struct fx *f) {
    size_t count = f->world.committed;
    const struct frame_header *last = &f->world.frames[count - 1].header;
    int error = world_retire(&f->world, count, f->index);
    return error != 0 ? error
                      : index_retire_commit(f->index, last->position + frame_size(last->body_size, last->blob_size));
}

struct work {
    const char *name;
    int (*run)(struct fx *f);
    bool writes;
};
/* Operations while a batch is absorbed but not committed. */
static const struct work works_pending[] = {{"open", do_open, true}, {"commit", do_commit, true}};
/* Operations while everything is committed. They compare the index with all tasks of the model (struct world). */
static const struct work works_whole[] = {
    {"maintain", do_maintain, true}, {"window", do_window, true},       {"retire", do_retire, true},
    {"list", check_list, false},     {"scan", check_scan, false},       {"look up", check_lookup, false},
    {"tables", check_tables, false}, {"retired", check_retired, false}, {"verify", check_verify, false},
};

/* ---- allowed results of a fault */

static bool is_expected(enum fault fault, int error) {
    switch (fault) {
    case FAULT_LMDB:
        return error == FAULT_LMDB_ERROR;
    case FAULT_MEMORY:
        return error == -ENOMEM;
    case FAULT_MAP_FULL:
        return error == 0;
    case FAULT_NO_SPACE:
        return error == -ENOSPC;
    default:
        return error == INDEX_DAMAGED || error == INDEX_VERSION || error == INDEX_FOREIGN;
    }
}

/* Checks that the index on disk is complete, and has the position from before or after the failure. */
static void check_disk(struct fx *f, uint64_t before, const char *where) {
    index_close(f->index);
    int error = fx_try_open(f);
    if (error == 0) error = check_verify(f);
    if (error != 0) fail_msg("seed %llu: after %s: %d %s", (unsigned long long)f->seed, where, error, f->message);
    CHECK(index_position(f->index) == before || index_position(f->index) == f->world.position);
}

/* Runs `work` while the n-th call fails. Returns false if there were fewer calls. */
static bool try(struct fx *f, const struct work *work, enum fault fault, uint64_t n, const struct saved *saved) {
    char where[128];
    snprintf(where, sizeof where, "%s, %s at call %llu", work->name, fault_names[fault], (unsigned long long)n);
    uint64_t seed = f->world.seed, before = f->index == NULL ? 0 : index_position(f->index);
    fault_arm(fault, n);
    int error = work->run(f);
    bool met = fault_disarm();
    f->world.seed = seed;
    if (error != 0 && !is_expected(fault, error)) fail_msg("%s: %d", where, error);
    if (!met && error != 0) fail_msg("%s: %d without a fault", where, error);
    if (!work->writes) return met;
    if (error == -ENOSPC && (error = work->run(f)) != 0) fail_msg("%s: %d when there is room again", where, error);
    f->world.seed = seed;
    check_disk(f, before, where);
    index_close(f->index);
    restore(f, saved);
    fx_open(f);
    return met;
}

static void try_works(struct fx *f, enum fault fault, const struct work *works, size_t count) {
    index_close(f->index);
    struct saved saved = save(f);
    fx_open(f);
    for (size_t i = 0; i < count; i++) {
        if (f->world.committed == 0 && works[i].run == do_retire) continue;
        for (uint64_t n = 1; try(f, &works[i], fault, n, &saved);) n += n < EXHAUSTIVE_MAX || is_slow ? 1 : STRIDE;
    }
    free(saved.data);
}

/* Tries a fault at every call of every operation, from the current state of the index. */
static void try_all(struct fx *f, enum fault fault) {
    try_works(f, fault, works_pending, sizeof works_pending / sizeof *works_pending);
    CHECK(do_commit(f) == 0);
    f->world.committed = f->absorbed;
    try_works(f, fault, works_whole, sizeof works_whole / sizeof *works_whole);
}

/* Makes a state with work for every kind of maintenance: key lists to merge, time slots to split, rows of ended tasks
 * to remove. Also makes an uncommitted batch. */
static void grow(struct fx *f, unsigned steps) {
    for (unsigned i = 0; i < steps; i++) {
        world_frame(&f->world, 30, i % 8 < 5 ? 15 : 70);
        if (i + 3 > steps) continue;
        CHECK(do_commit(f) == 0);
        f->world.committed = f->absorbed;
        bool more;
        if (f->seed == 1 && i % 6 == 5) CHECK(index_maintain(f->index, &more) == 0);
    }
}

static void histories(enum fault fault) {
    for (uint64_t seed = 1; seed <= 2; seed++) {
        struct fx *f = fx_new(seed);
        f->outcomes_max = seed == 1 ? 1000 : 20;
        fx_open(f);
        for (unsigned stage = 0; stage < 3; stage++) {
            grow(f, stage * 20);
            try_all(f, fault);
        }
        index_close(f->index);
        fx_free(f);
    }
}

#define FAULT_TEST(name, fault)                                                                                        \
    static void name(void **state) {                                                                                   \
        histories(fault);                                                                                              \
    }

FAULT_TEST(every_failing_call_of_lmdb_is_reported, FAULT_LMDB)
FAULT_TEST(every_failing_allocation_is_reported, FAULT_MEMORY)  /* F-11 */
FAULT_TEST(a_map_that_is_full_at_any_put_grows, FAULT_MAP_FULL) /* F-8 */
FAULT_TEST(a_disk_that_is_full_at_any_commit_costs_a_retry, FAULT_NO_SPACE)
FAULT_TEST(a_flipped_bit_in_any_value_is_damage, FAULT_FLIPPED)
FAULT_TEST(a_value_without_a_seal_is_damage, FAULT_SHORT)
FAULT_TEST(a_value_that_is_too_long_is_damage, FAULT_LONGER)
FAULT_TEST(a_value_that_is_empty_is_damage, FAULT_EMPTY)
FAULT_TEST(a_key_that_is_too_long_is_damage, FAULT_KEY)

int main(void) {
    is_slow = getenv("TARRY_SLOW") != NULL;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_failing_call_of_lmdb_is_reported),
        cmocka_unit_test(every_failing_allocation_is_reported),
        cmocka_unit_test(a_map_that_is_full_at_any_put_grows),
        cmocka_unit_test(a_disk_that_is_full_at_any_commit_costs_a_retry),
        cmocka_unit_test(a_flipped_bit_in_any_value_is_damage),
        cmocka_unit_test(a_value_without_a_seal_is_damage),
        cmocka_unit_test(a_value_that_is_too_long_is_damage),
        cmocka_unit_test(a_value_that_is_empty_is_damage),
        cmocka_unit_test(a_key_that_is_too_long_is_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
