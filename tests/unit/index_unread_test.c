/* index_unread_test.c: an index that was opened without its key filters gives exact answers, before and after the
 * filters are read. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "index_alone.h"
#include "index_parts.h"

#define NOW_MS 1700000000000ull
/* Number of keys of a run. The filter and the `fences` (first hash of each chunk) of a run of this size have several
 * chunks. */
#define RUN_KEYS 20000u
#define SAMPLE 97u

struct fx {
    char directory[64];
    struct index_options options;
    struct index *index;
    struct arena arena;
    uint64_t position;
    uint64_t next_id;
};

static int try_open(struct fx *f, bool later) {
    char message[256];
    f->options.filters_later = later;
    return index_open(&f->index, &f->options, message, sizeof message);
}

static void reopen(struct fx *f) {
    index_close(f->index);
    assert_int_equal(try_open(f, true), 0);
}

static int setup(void **state) {
    struct fx *f = calloc(1, sizeof *f);
    strcpy(f->directory, "/tmp/tarry-index-unread-XXXXXX");
    assert_non_null(mkdtemp(f->directory));
    f->options = (struct index_options){.directory = f->directory,
                                        .memory = 16u << 20,
                                        .outcomes_max = 1000,
                                        .outcome_retention_ms = 3600000,
                                        .no_sync = true};
    f->position = LOG_POSITION_FIRST;
    f->next_id = 1;
    arena_init(&f->arena, 16u << 20);
    assert_int_equal(try_open(f, false), 0);
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fx *f = *state;
    char command[128];
    index_close(f->index);
    arena_deinit(&f->arena);
    snprintf(command, sizeof command, "rm -r %s", f->directory);
    assert_int_equal(system(command), 0);
    free(f);
    return 0;
}

static struct row row_of(uint64_t id, char key[32]) {
    int size = snprintf(key, 32, "order-%llu", (unsigned long long)id);
    return (struct row){.id = id,
                        .due_ms = NOW_MS + 1000000,
                        .scheduled_ms = NOW_MS,
                        .queue = 1,
                        .blob_at = 1,
                        .key = key,
                        .key_size = (uint8_t)size};
}

/* Schedules the next ids. Every third task ends at once, in the same batch or in one of its own. */
static void schedule(struct fx *f, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        char key[32];
        struct row row = row_of(f->next_id++, key);
        assert_int_equal(absorb_scheduled(f->index, &f->position, &row), 0);
    }
    assert_int_equal(index_commit(f->index), 0);
}

static bool has_ended(uint64_t id) {
    return id % 3 == 0;
}

static void end_thirds(struct fx *f, uint64_t from) {
    for (uint64_t id = from; id < f->next_id; id++) {
        if (!has_ended(id)) continue;
        char key[32];
        struct row row = row_of(id, key);
        Tarry__Record record = TARRY__RECORD__INIT;
        Tarry__TaskEnd end = TARRY__TASK_END__INIT;
        Tarry__Task task = TARRY__TASK__INIT;
        row_to_task(&row, &task);
        end.task = &task;
        end.cause = TARRY__CAUSE__CAUSE_CANCELLED;
        record.fact_case = TARRY__RECORD__FACT_END;
        record.end = &end;
        assert_int_equal(absorb_record(f->index, &f->position, &record, NOW_MS), 0);
    }
    assert_int_equal(index_commit(f->index), 0);
}

static void grow(struct fx *f, unsigned count) {
    uint64_t from = f->next_id;
    schedule(f, count);
    end_thirds(f, from);
}

/* Makes two runs (sorted lists of keys on the disk), and some newer keys that are in no run. */
static void fill(struct fx *f) {
    grow(f, RUN_KEYS);
    grow(f, RUN_KEYS / 2);
    grow(f, 100);
    assert_int_equal(f->index->runs.list.count, 2);
    assert_true(run_bloom_chunks(f->index->runs.list.items[0]) > 1);
}

static size_t found(struct index *index, struct arena *arena, uint64_t id) {
    char key[32];
    struct row row = row_of(id, key);
    struct want want = {.queue = 1, .key = row.key, .key_size = row.key_size};
    struct index_rows rows;
    arena_reset(arena);
    assert_int_equal(index_lookup(index, &want, 1, SIZE_MAX, arena, &rows), 0);
    assert_true(rows.count == 0 || rows.rows[0].id == id);
    return rows.count;
}

/* Checks that existing keys are found, that ended and unknown ones are not, and that no filter excludes an existing
 * key. */
static void check_keys(struct fx *f) {
    struct index_filter *filter = index_filter_hold(f->index);
    for (uint64_t id = 1; id < f->next_id + 3 * SAMPLE; id += SAMPLE) {
        char key[32];
        bool is_there = id < f->next_id && !has_ended(id);
        struct row row = row_of(id, key);
        assert_int_equal(found(f->index, &f->arena, id), is_there);
        if (is_there) assert_true(index_filter_may_contain(filter, row_key_hash(1, row.key, row.key_size)));
    }
    index_filter_drop(filter);
}

/* Returns how many of 1,000 unused keys the filters report as possibly present. */
static unsigned taken(struct fx *f) {
    unsigned count = 0;
    struct index_filter *filter = index_filter_hold(f->index);
    for (uint64_t i = 0; i < 1000; i++) {
        char key[32];
        int size = snprintf(key, sizeof key, "nobody-%llu", (unsigned long long)i);
        count += index_filter_may_contain(filter, row_key_hash(1, key, (size_t)size));
    }
    index_filter_drop(filter);
    return count;
}

static size_t unread(const struct fx *f) {
    size_t count = 0;
    for (size_t i = 0; i < f->index->runs.list.count; i++) count += !run_is_read(f->index->runs.list.items[i]);
    return count;
}

static void verify(struct fx *f) {
    struct index_verification verification;
    char message[256];
    if (index_verify(f->index, &verification, message, sizeof message, NULL, NULL) != 0) fail_msg("%s", message);
}

static void keys_are_looked_for_on_the_disk_until_the_filters_are_read(void **state) { /* LOG-3 */
    struct fx *f = *state;
    fill(f);
    assert_true(taken(f) < 100);
    reopen(f);
    assert_int_equal(unread(f), 2);
    size_t pieces = 0;
    for (bool more = true; more; pieces++) {
        check_keys(f);
        verify(f);
        assert_true(unread(f) == 0 ? taken(f) < 100 : taken(f) == 1000);
        assert_int_equal(index_read_filters(f->index, &more), 0);
    }
    assert_true(pieces > 4); /* each run has a filter and `fences` (first hash of each chunk), in several chunks */
    assert_int_equal(unread(f), 0);
    assert_true(taken(f) < 100);
    check_keys(f);
    verify(f);
}

/* Commits, merges and the deletion of merged runs do not wait for filters. */
static void the_index_goes_on_without_them(void **state) {
    struct fx *f = *state;
    fill(f);
    reopen(f);
    bool more = true;
    assert_int_equal(index_read_filters(f->index, &more), 0); /* reads a part of the filter of the first run */
    grow(f, RUN_KEYS / 4);
    assert_int_equal(unread(f), 2); /* a new run has its filter in memory */
    check_keys(f);
    for (unsigned i = 0; i < 8; i++) {
        grow(f, RUN_KEYS / 4);
        if (i % 3 == 1) reopen(f);
    }
    check_keys(f);
    size_t runs = f->index->runs.list.count;
    assert_true(unread(f) > 2);
    for (more = true; more;) assert_int_equal(index_maintain(f->index, &more), 0);
    assert_true(f->index->runs.list.count <
                runs); /* runs that were merged before their filters were read do not need these filters any more */
    check_keys(f);
    for (more = true; more;) assert_int_equal(index_read_filters(f->index, &more), 0);
    assert_int_equal(unread(f), 0);
    check_keys(f);
    verify(f);
}

struct damage {
    struct index *index;
    enum run_kind kind;
};

static int lose_chunk(void *argument, MDB_txn *txn) {
    struct damage *damage = argument;
    uint8_t key[RUN_KEY_SIZE];
    run_key(key, damage->index->runs.list.items[0]->number, damage->kind, 0);
    return db_del(&damage->index->db, txn, DB_KEYS, key, sizeof key);
}

static int read_all(struct fx *f) {
    int error = 0;
    for (bool more = true; more && error == 0;) error = index_read_filters(f->index, &more);
    return error;
}

static void damage_is_found_when_they_are_read(void **state) { /* F-8 */
    struct fx *f = *state;
    const enum run_kind kinds[] = {RUN_FENCES, RUN_BLOOM};
    fill(f);
    for (size_t i = 0; i < 2; i++) {
        struct damage damage = {f->index, kinds[i]};
        assert_int_equal(index_write(f->index, lose_chunk, &damage), 0);
        index_close(f->index);
        assert_int_equal(try_open(f, false), INDEX_DAMAGED);
        assert_int_equal(try_open(f, true), 0);
        assert_int_equal(read_all(f), INDEX_DAMAGED);
    }
    /* A chunk of a run's filter is damaged. A lookup that needs this chunk must report an error too, and not that the
     * key is missing. */
    unsigned damaged = 0;
    for (uint64_t id = 1; id < 200; id++) {
        char key[32];
        struct row row = row_of(id, key);
        struct want want = {.queue = 1, .key = row.key, .key_size = row.key_size};
        struct index_rows rows = {0};
        arena_reset(&f->arena);
        int error = index_lookup(f->index, &want, 1, SIZE_MAX, &f->arena, &rows);
        assert_true(error == INDEX_DAMAGED || (error == 0 && rows.count == !has_ended(id)));
        damaged += error == INDEX_DAMAGED;
    }
    assert_true(damaged > 0);
}

struct looker {
    struct fx *f;
    atomic_bool stop;
    atomic_bool is_wrong;
    atomic_uint looks;
};

static void *look(void *argument) {
    struct looker *looker = argument;
    struct arena arena;
    arena_init(&arena, 1u << 20);
    for (uint64_t i = 0; !atomic_load(&looker->stop); i++) {
        uint64_t id = 1 + i * 7919 % RUN_KEYS;
        char key[32];
        struct row row = row_of(id, key);
        struct index_filter *filter = index_filter_hold(looker->f->index);
        bool may = index_filter_may_contain(filter, row_key_hash(1, row.key, row.key_size));
        index_filter_drop(filter);
        bool is_wrong = found(looker->f->index, &arena, id) != !has_ended(id) || (!may && !has_ended(id));
        if (is_wrong) atomic_store(&looker->is_wrong, true);
        atomic_fetch_add(&looker->looks, 1);
    }
    arena_deinit(&arena);
    return NULL;
}

static void others_look_while_they_are_read(void **state) {
    struct fx *f = *state;
    fill(f);
    for (unsigned round = 0; round < 5; round++) {
        reopen(f);
        struct looker looker = {.f = f};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, look, &looker), 0);
        bool more = true;
        while (more || atomic_load(&looker.looks) < 500) {
            unsigned looks = atomic_load(&looker.looks);
            while (atomic_load(&looker.looks) < looks + 20) usleep(100);
            assert_int_equal(index_read_filters(f->index, &more), 0);
        }
        atomic_store(&looker.stop, true);
        pthread_join(thread, NULL);
        assert_false(looker.is_wrong);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(keys_are_looked_for_on_the_disk_until_the_filters_are_read, setup, teardown),
        cmocka_unit_test_setup_teardown(the_index_goes_on_without_them, setup, teardown),
        cmocka_unit_test_setup_teardown(damage_is_found_when_they_are_read, setup, teardown),
        cmocka_unit_test_setup_teardown(others_look_while_they_are_read, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
