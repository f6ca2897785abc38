/* index_test.c: the index with its real limits; the property test uses tiny ones. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "index_alone.h"
#include "index_parts.h"
#define NOW_MS 1700000000000ull

struct fx {
    char directory[64];
    struct index_options options;
    struct index *index;
    struct arena arena;
    uint64_t position;
    uint64_t next_id;
};

static void fx_open(struct fx *f) {
    char message[256];
    assert_int_equal(index_open(&f->index, &f->options, message, sizeof message), 0);
}

static int setup(void **state) {
    struct fx *f = calloc(1, sizeof *f);
    strcpy(f->directory, "/tmp/tarry-index-unit-XXXXXX");
    assert_non_null(mkdtemp(f->directory));
    f->options = (struct index_options){.directory = f->directory,
                                        .memory = 16u << 20,
                                        .outcomes_max = 1000,
                                        .outcome_retention_ms = 3600000,
                                        .no_sync = true};
    f->position = LOG_POSITION_FIRST;
    f->next_id = 1;
    arena_init(&f->arena, 256u << 20);
    fx_open(f);
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fx *f = *state;
    char path[96];
    index_close(f->index);
    arena_deinit(&f->arena);
    static const char *const names[] = {"data.mdb", "lock.mdb", "keyring"};
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", f->directory, names[i]);
        unlink(path);
    }
    rmdir(f->directory);
    free(f);
    return 0;
}

static struct row row_of(uint64_t id, uint64_t due_ms, char key[32]) {
    int size = snprintf(key, 32, "order-%llu", (unsigned long long)id);
    return (struct row){.id = id,
                        .due_ms = due_ms,
                        .scheduled_ms = NOW_MS,
                        .queue = 1,
                        .blob_at = 1,
                        .key = key,
                        .key_size = (uint8_t)size};
}

static int absorb(struct fx *f, Tarry__Record *record, uint64_t now_ms) {
    return absorb_record(f->index, &f->position, record, now_ms);
}

static void put(struct fx *f, const struct row *row, Tarry__Cause cause, const struct row *before) {
    Tarry__Record record = TARRY__RECORD__INIT;
    Tarry__TaskPut task_put = TARRY__TASK_PUT__INIT;
    Tarry__Task task = TARRY__TASK__INIT;
    row_to_task(row, &task);
    task_put.task = &task;
    task_put.cause = cause;
    task_put.fresh = before == NULL;
    if (before != NULL) {
        task_put.before_hash = row_hash(before);
        task_put.before_state = (Tarry__Task__State)before->state;
        task_put.before_due_ms = before->due_ms;
    }
    record.fact_case = TARRY__RECORD__FACT_PUT;
    record.put = &task_put;
    assert_int_equal(absorb(f, &record, NOW_MS), 0);
}

static int end_at(struct fx *f, const struct row *row, uint64_t now_ms) {
    return absorb_ended(f->index, &f->position, row, now_ms);
}

/* Schedules a task due at `due_ms`; returns its id. */
static uint64_t schedule(struct fx *f, uint64_t due_ms) {
    char key[32];
    struct row row = row_of(f->next_id, due_ms, key);
    put(f, &row, TARRY__CAUSE__CAUSE_SCHEDULED, NULL);
    return f->next_id++;
}

static void end(struct fx *f, uint64_t id, uint64_t due_ms) {
    char key[32];
    struct row row = row_of(id, due_ms, key);
    assert_int_equal(end_at(f, &row, NOW_MS), 0);
}

static void commit(struct fx *f) {
    assert_int_equal(index_commit(f->index), 0);
    assert_int_equal(index_position(f->index), f->position);
}

static void verify(struct fx *f) {
    struct index_verification found;
    char message[256];
    if (index_verify(f->index, &found, message, sizeof message, NULL, NULL) != 0) fail_msg("%s", message);
}

static size_t settle(struct fx *f) {
    size_t steps = 0;
    for (bool more = true; more; steps++) assert_int_equal(index_maintain(f->index, &more), 0);
    return steps;
}

static void a_new_index_is_empty_and_knows_its_cluster(void **state) { /* F-14 */
    struct fx *f = *state;
    struct index_meta meta;
    struct index *other;
    char message[256];
    index_meta(f->index, &meta);
    assert_int_equal(meta.position, LOG_POSITION_FIRST);
    assert_int_equal(meta.tally.next_id, 1);
    index_close(f->index);
    struct index_options options = f->options;
    options.cluster[3] = 9;
    assert_int_equal(index_open(&other, &options, message, sizeof message), INDEX_FOREIGN);
    assert_non_null(strstr(message, "another cluster"));
    options = f->options;
    options.read_only = true;
    options.directory = "/tmp/tarry-index-nowhere";
    assert_true(index_open(&other, &options, message, sizeof message) < 0);
    options.directory = f->directory;
    assert_int_equal(index_open(&other, &options, message, sizeof message), 0);
    index_close(other);
    fx_open(f);
}

static int spoil_version(void *argument, MDB_txn *txn) {
    struct index *index = argument;
    struct meta_record meta = index->meta;
    meta.format = INDEX_FORMAT_MAX + 1;
    return meta_put(index, txn, &meta);
}

static void another_format_version_is_refused(void **state) { /* F-14 */
    struct fx *f = *state;
    struct index *other;
    char message[256];
    assert_int_equal(db_write(&f->index->db, spoil_version, f->index), 0);
    index_close(f->index);
    assert_int_equal(index_open(&other, &f->options, message, sizeof message), INDEX_VERSION);
    assert_non_null(strstr(message, "version"));
    char path[96];
    snprintf(path, sizeof path, "%s/data.mdb", f->directory);
    unlink(path);
    fx_open(f);
}

static void what_ends_within_a_batch_leaves_only_its_outcome(void **state) {
    struct fx *f = *state;
    for (unsigned i = 0; i < 1000; i++) end(f, schedule(f, NOW_MS + i), NOW_MS + i);
    commit(f);
    struct index_stats stats;
    index_stats(f->index, &stats);
    assert_int_equal(stats.rows, 0);
    assert_int_equal(stats.key_entries, 0);
    assert_int_equal(stats.slot_entries, 0);
    assert_int_equal(f->index->meta.outcomes, 1000);
    /* This task is in the same range of ids. The earlier tasks of the range must stay ended. */
    uint64_t id = schedule(f, NOW_MS);
    commit(f);
    struct want wants[] = {{.id = id}, {.id = id - 1}, {.id = id + 1}};
    struct index_rows rows;
    assert_int_equal(index_lookup(f->index, wants, 3, SIZE_MAX, &f->arena, &rows), 0);
    assert_int_equal(rows.count, 1);
    assert_int_equal(rows.rows[0].id, id);
    verify(f);
}

#define DEAD_LETTERS 40u

/* Makes dead letters that have the same key, and a live task with that key. */
static void one_key(struct fx *f) {
    for (uint64_t id = f->next_id; f->next_id <= id + DEAD_LETTERS; f->next_id++) {
        char key[32];
        struct row row = row_of(f->next_id, NOW_MS, key);
        row.key = "same";
        row.key_size = 4;
        put(f, &row, TARRY__CAUSE__CAUSE_SCHEDULED, NULL);
        commit(f);
        if (f->next_id == id + DEAD_LETTERS) continue;
        struct row dead = row;
        dead.state = ROW_BURIED;
        dead.dead_ms = NOW_MS + f->next_id;
        put(f, &dead, TARRY__CAUSE__CAUSE_BURIED, &row);
        commit(f);
    }
}

static size_t look_up(struct fx *f, bool live_only, size_t size_max, int expected) {
    struct want want = {.queue = 1, .key = "same", .key_size = 4, .live_only = live_only};
    struct index_rows rows = {.count = 0};
    assert_int_equal(index_lookup(f->index, &want, 1, size_max, &f->arena, &rows), expected);
    return rows.count;
}

/* In an earlier version, a schedule with a key that has very many dead letters needlessly read sixteen of them. */
static void dead_letters_of_a_key_are_read_if_they_matter(void **state) { /* CALM-1 */
    struct fx *f = *state;
    one_key(f);
    assert_int_equal(look_up(f, true, SIZE_MAX, 0), 1);
    assert_int_equal(look_up(f, false, SIZE_MAX, 0), 1 + 16);
}

static void reading_stops_at_the_bound(void **state) { /* CALM-1 */
    struct fx *f = *state;
    one_key(f);
    const size_t row = sizeof(struct row);
    assert_int_equal(look_up(f, false, 10 * row, 1), 0);
    assert_int_equal(look_up(f, true, 10 * row, 0), 1);
    size_t used = f->arena.used;
    assert_int_equal(look_up(f, false, SIZE_MAX, 0), 17);
    size_t whole = f->arena.used - used;
    assert_int_equal(look_up(f, false, whole, 0), 17);
    assert_int_equal(look_up(f, false, whole - 16 * ARENA_ALIGN, 1), 0);
}

static void nonsense_is_damage_and_ends_the_index(void **state) {
    struct fx *f = *state;
    char key[32];
    uint64_t id = schedule(f, NOW_MS);
    schedule(f, NOW_MS);
    end(f, id, NOW_MS);
    commit(f);
    struct row row = row_of(id, NOW_MS, key);
    assert_int_equal(end_at(f, &row, NOW_MS), 0); /* ends the task a second time, which the counts cannot reveal */
    assert_int_equal(index_commit(f->index), INDEX_DAMAGED); /* the bitmap reveals the second end (KEEP-1) */
    assert_int_equal(index_commit(f->index), INDEX_DAMAGED);
    bool more;
    assert_int_equal(index_maintain(f->index, &more), INDEX_DAMAGED);
    index_close(f->index);
    fx_open(f);
    verify(f); /* nothing of the refused commit has been written */
}

static void outcomes_are_limited_by_count_and_age(void **state) {
    struct fx *f = *state;
    struct index_meta meta;
    char key[32];
    for (unsigned i = 0; i < 5000; i++) {
        uint64_t id = schedule(f, NOW_MS);
        struct row row = row_of(id, NOW_MS, key);
        assert_int_equal(end_at(f, &row, NOW_MS + i), 0);
        if (i % 700 == 0) commit(f);
    }
    commit(f);
    assert_true(f->index->meta.outcomes >= 1000 && f->index->meta.outcomes < 1100);
    index_meta(f->index, &meta);
    assert_true(meta.known_since_ms >= NOW_MS + 3900 && meta.known_since_ms < NOW_MS + 4000);
    uint64_t id = schedule(f, NOW_MS);
    struct row row = row_of(id, NOW_MS, key);
    assert_int_equal(end_at(f, &row, NOW_MS + 4 * 3600000), 0);
    commit(f);
    assert_int_equal(f->index->meta.outcomes, 1); /* the other outcomes are older than an hour and were deleted */
}

/* F-38: all tasks are due in one millisecond, far more than one read returns. */
static void a_crowd_in_one_millisecond_comes_in_order_and_bounded(void **state) {
    struct fx *f = *state;
    enum {
        COUNT = IS_SLOW_BUILD ? WINDOW_READ_MAX + 4000 : 200000
    }; /* enough entries that a window must first move them to finer time slots (cascade) */
    for (unsigned i = 0; i < COUNT; i++) {
        schedule(f, NOW_MS + 1800000);
        if (i % 30000 == 0) commit(f);
    }
    commit(f);
    struct line line = {.queue = 1};
    struct due after = {0, 0}, through;
    uint64_t next = 1;
    unsigned cascades = 0;
    while (next <= COUNT) {
        struct index_rows rows;
        bool again;
        arena_reset(&f->arena);
        assert_int_equal(index_window(f->index, &line, after, UINT64_MAX, 9000, &f->arena, &rows, &through, &again), 0);
        cascades += again;
        if (again) continue;
        assert_true(rows.count <= 9000);
        assert_true(due_before(after, through));
        for (size_t i = 0; i < rows.count; i++) assert_int_equal(rows.rows[i].id, next++);
        after = through;
    }
    assert_true(cascades > 0);
    assert_int_equal(through.due_ms, UINT64_MAX);
    verify(f);
    /* All tasks end, and their rows, keys and slots must be removed. */
    for (uint64_t id = 1; id <= COUNT; id++) end(f, id, NOW_MS + 1800000);
    commit(f);
    index_advise_low(f->index, &line, (struct due){NOW_MS + 3600000, 0});
    schedule(f, NOW_MS + 7200000);
    commit(f);
    settle(f);
    struct index_stats stats;
    index_stats(f->index, &stats);
    assert_true(stats.rows < 2 * RANGE_IDS);
    assert_int_equal(stats.slot_entries, 1);
    assert_true(stats.key_entries < 2 * KEY_SLACK);
    verify(f);
}

static void an_idle_index_has_nothing_to_do(void **state) {
    struct fx *f = *state;
    for (unsigned i = 0; i < 50000; i++) schedule(f, NOW_MS + i * 1000ull);
    commit(f);
    struct line line = {.queue = 1};
    /* This advice is wrong: it says that no task waits before this time, but all tasks still wait. */
    index_advise_low(f->index, &line, (struct due){NOW_MS + 100000, 0});
    settle(f);
    assert_true(settle(f) == 1);
    verify(f);
}

/* New keys first go to a short list (the tail), and become a run when there are many. Keys of tasks that end early
 * never become a run. */
static void a_tail_of_ended_tasks_stays_a_tail(void **state) {
    struct fx *f = *state;
    for (unsigned round = 0; round < 40; round++) {
        uint64_t first = f->next_id;
        for (unsigned i = 0; i < 1000; i++) schedule(f, NOW_MS + i);
        commit(f);
        for (unsigned i = 0; i < 1000; i++) {
            if (i % 20 != 0) end(f, first + i, NOW_MS + i);
        }
        commit(f);
        struct index_stats stats;
        index_stats(f->index, &stats);
        assert_int_equal(stats.key_runs, 0);
        assert_true(stats.key_entries <= TAIL_KEYS_MAX);
    }
    verify(f);
    struct index_filter *filter = index_filter_hold(f->index);
    for (uint64_t id = 1; id < f->next_id; id += 20) {
        char key[32];
        struct row row = row_of(id, NOW_MS, key);
        struct want want = {.queue = 1, .key = row.key, .key_size = row.key_size};
        struct index_rows rows;
        arena_reset(&f->arena);
        assert_true(index_filter_may_contain(filter, row_key_hash(1, row.key, row.key_size)));
        assert_int_equal(index_lookup(f->index, &want, 1, SIZE_MAX, &f->arena, &rows), 0);
        assert_int_equal(rows.count, 1);
    }
    index_filter_drop(filter);
    index_close(f->index);
    fx_open(f);
    verify(f);
}

/* Moving tasks back and forth leaves stale entries, which are removed before their due time. */
static void moves_far_ahead_do_not_pile_up(void **state) {
    struct fx *f = *state;
    enum { COUNT = 20000 };
    for (unsigned i = 0; i < COUNT; i++) schedule(f, NOW_MS + 1000000000ull);
    commit(f);
    for (uint64_t round = 1; round < 12; round++) {
        for (uint64_t id = 1; id <= COUNT; id++) {
            char key[32];
            struct row before = row_of(id, NOW_MS + (999 + round) * 1000000ull, key);
            struct row row = before;
            row.due_ms += 1000000;
            put(f, &row, TARRY__CAUSE__CAUSE_MOVED, &before);
        }
        commit(f);
        settle(f);
    }
    struct index_stats stats;
    index_stats(f->index, &stats);
    assert_true(stats.slot_entries < 2 * COUNT + SLOT_SLACK + COUNT);
    verify(f);
}

struct reading_thread {
    struct fx *f;
    atomic_ullong committed; /* ids up to this one are on disk, and each of their tasks is live */
    atomic_bool stop;
    atomic_ullong found;
    atomic_bool is_wrong;
};

static void *read_along(void *argument) {
    struct reading_thread *thread = argument;
    struct arena arena;
    arena_init(&arena, 1u << 20);
    uint64_t seed = 1;
    while (!atomic_load(&thread->stop)) {
        uint64_t last = atomic_load(&thread->committed);
        if (last == 0) continue;
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        char key[32];
        struct row row = row_of((seed >> 20) % last + 1, 0, key);
        struct want want = {.queue = 1, .key = row.key, .key_size = row.key_size};
        struct index_filter *filter = index_filter_hold(thread->f->index);
        bool may = index_filter_may_contain(filter, row_key_hash(1, row.key, row.key_size));
        index_filter_drop(filter);
        struct index_rows rows;
        arena_reset(&arena);
        int error = index_lookup(thread->f->index, &want, 1, SIZE_MAX, &arena, &rows);
        if (!may || error != 0 || rows.count != 1 || rows.rows[0].id != row.id) atomic_store(&thread->is_wrong, true);
        atomic_fetch_add(&thread->found, 1);
    }
    arena_deinit(&arena);
    return NULL;
}

/* Other threads read during merges, flushes of the tail, and growth of the map (F-8). */
static void other_threads_find_every_committed_key(void **state) {
    struct fx *f = *state;
    index_close(f->index);
    f->options.map_size = 1u << 20;
    f->options.memory = 4u << 20;
    fx_open(f);
    struct reading_thread thread = {.f = f};
    pthread_t threads[2];
    for (unsigned i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, read_along, &thread), 0);
    for (unsigned round = 0; round < 60; round++) {
        unsigned count = round % 5 == 0 ? 6000 : 1500;
        for (unsigned i = 0; i < count; i++) schedule(f, NOW_MS + (f->next_id * 7919) % 100000000);
        commit(f);
        atomic_store(&thread.committed, f->next_id - 1);
        bool more;
        assert_int_equal(index_maintain(f->index, &more), 0);
    }
    settle(f);
    atomic_store(&thread.stop, true);
    for (unsigned i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    assert_false(thread.is_wrong);
    assert_true(thread.found > 100);
    assert_true(f->index->db.map_size > 1u << 20);
    verify(f);
    index_close(f->index);
    fx_open(f);
    verify(f);
}

/* Reads the waiting tasks (every third id has ended) in the order of their due times. Returns 2 if a task is missing,
 * because it would never be delivered. */
static int read_due(struct fx *f, uint64_t ids) {
    struct line line = {.queue = 1};
    struct due after = {0}, through = {0};
    uint64_t next = 1;
    while (through.due_ms != UINT64_MAX) {
        struct index_rows rows;
        bool again = false;
        arena_reset(&f->arena);
        if (index_window(f->index, &line, after, UINT64_MAX, 9000, &f->arena, &rows, &through, &again) != 0) return 0;
        if (again) continue;
        for (size_t i = 0; i < rows.count; i++) {
            if (rows.rows[i].id != next) return 2;
            next += next % 3 == 1 ? 1 : 2;
        }
        after = through;
    }
    return next > ids ? 0 : 2;
}

/* Reads everything that can be read. Returns 1 as exit status if a row is wrong, or missing without an error. */
static int read_damaged(struct fx *f, uint64_t position, uint64_t ids) {
    char message[256];
    struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    if (freopen("/dev/null", "w", stderr) == NULL) return 0;
    if (index_open(&f->index, &f->options, message, sizeof message) != 0) return 0;
    /* LMDB has used its older meta page, so the log would be replayed from that older position. */
    if (index_position(f->index) != position) return 0;
    for (uint64_t id = 1; id <= ids; id++) {
        char key[32];
        struct row row = row_of(id, NOW_MS + id * 1000, key);
        struct want by_id = {.id = id}, by_key = {.queue = 1, .key = row.key, .key_size = row.key_size};
        struct index_rows rows;
        bool ended = id % 3 == 0;
        arena_reset(&f->arena);
        int error = index_lookup(f->index, &by_id, 1, SIZE_MAX, &f->arena, &rows);
        if (error == 0 && rows.count != !ended) return 1;
        if (error == 0 && !ended && row_hash(&rows.rows[0]) != row_hash(&row)) return 1;
        error = index_lookup(f->index, &by_key, 1, SIZE_MAX, &f->arena, &rows);
        if (error == 0 && rows.count > 0 && (ended || row_hash(&rows.rows[0]) != row_hash(&row))) return 1;
    }
    return read_due(f, ids);
}

/* Reads in a child process, because LMDB may end the process by a signal or an assertion. That is allowed. */
static int status_of_damaged(struct fx *f, uint64_t ids) {
    static const int deadly[] = {
        SIGSEGV, SIGBUS, SIGABRT, SIGFPE,
        SIGILL}; /* back to the default, because cmocka's handler would continue with the next test */
    pid_t child = fork();
    if (child == 0) {
        for (size_t i = 0; i < sizeof deadly / sizeof deadly[0]; i++) signal(deadly[i], SIG_DFL);
        alarm(10);
        _exit(read_damaged(f, f->position, ids));
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    return WIFEXITED(result) ? WEXITSTATUS(result) : 0;
}

/* F-8: flips bits in every page of a small index, half of them in the page's header and table of nodes. LMDB may crash,
 * but must never return a wrong row. One case cannot be excluded, because LMDB has no checksum over its own structures:
 * a flipped pointer may lead to an old version of a row, or past a row. Such cases are counted, and must be rare. */
static void a_flipped_bit_is_never_a_wrong_row(void **state) {
    struct fx *f = *state;
    enum { IDS = 1200, ROUNDS = 6, POINTERS_END = 64 };
    for (uint64_t i = 1; i <= IDS; i++) schedule(f, NOW_MS + i * 1000);
    commit(f);
    for (uint64_t id = 3; id <= IDS; id += 3) end(f, id, NOW_MS + id * 1000);
    commit(f);
    index_close(f->index);
    char path[96];
    snprintf(path, sizeof path, "%s/data.mdb", f->directory);
    int file = open(path, O_RDWR);
    assert_true(file >= 0);
    struct stat status;
    assert_int_equal(fstat(file, &status), 0);
    size_t size = (size_t)status.st_size;
    uint8_t *image = malloc(size);
    assert_int_equal(pread(file, image, size, 0), size);
    uint64_t seed = 7, misled = 0, flips = 0;
    for (size_t page = 0; page < size; page += (IS_SLOW_BUILD ? 4 : 1) * 4096ul) {
        for (unsigned round = 0; round < ROUNDS; round++) {
            seed = seed * 6364136223846793005ull + 1442695040888963407ull;
            size_t at = page + (seed >> 33) % (round % 2 ? POINTERS_END : 4096);
            uint8_t mask = (uint8_t)(1u << (seed >> 20 & 7));
            image[at] ^= mask;
            /* Restores the file's size, because the reads may have written to it. */
            assert_int_equal(ftruncate(file, status.st_size), 0);
            assert_int_equal(pwrite(file, image, size, 0), size);
            image[at] ^= mask;
            flips++;
            int wrong = status_of_damaged(f, IDS);
            if (wrong == 1 && at % 4096 >= POINTERS_END)
                fail_msg("page %zu byte %zu: a wrong row", page / 4096, at % 4096);
            misled += wrong != 0;
        }
    }
    print_message("# of %d flips %d misled LMDB without an error\n", (int)flips, (int)misled);
    assert_true(misled * 100 <= flips);
    assert_int_equal(pwrite(file, image, size, 0), size);
    free(image);
    close(file);
    fx_open(f);
    verify(f);
}

/* Runs in its own mount namespace, on a disk of 24 MiB. Returns 2 if the process may not create a mount namespace. */
static int fill_a_disk(struct fx *f) {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) return 2;
    if (mount("tmpfs", f->directory, "tmpfs", 0, "size=24m") != 0) return 2;
    char path[96], message[256];
    static char block[14 << 20];
    snprintf(path, sizeof path, "%s/filler", f->directory);
    int filler = open(path, O_CREAT | O_WRONLY, 0600), error = 0;
    f->options.no_sync = false;
    assert_true(filler >= 0);
    assert_int_equal(write(filler, block, sizeof block), sizeof block);
    assert_int_equal(index_open(&f->index, &f->options, message, sizeof message), 0);
    for (bool more; error == 0;) {
        for (unsigned i = 0; i < 5000; i++) schedule(f, NOW_MS + i * 977ull);
        for (unsigned i = 0; i < 2000; i++) end(f, f->next_id - 5000 + i, NOW_MS + i * 977ull);
        error = index_commit(f->index);
        if (error == 0) error = index_maintain(f->index, &more);
    }
    bool is_made = ftruncate(filler, 0) == 0;
    close(filler);
    if (error != -ENOSPC || !is_made) return 1;
    if (index_commit(f->index) != 0 || index_position(f->index) != f->position) return 1;
    settle(f);
    verify(f);
    index_close(f->index);
    fx_open(f);
    verify(f);
    index_close(f->index);
    return 0;
}

/* F-4. */
static void a_full_disk_is_not_the_end(void **state) {
    struct fx *f = *state;
    index_close(f->index);
    pid_t child = fork();
    if (child == 0) _exit(fill_a_disk(f));
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    fx_open(f);
    assert_true(WIFEXITED(result));
    if (WEXITSTATUS(result) == 2) skip();
    assert_int_equal(WEXITSTATUS(result), 0);
}

#define INDEX_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        INDEX_TEST(a_new_index_is_empty_and_knows_its_cluster),
        INDEX_TEST(another_format_version_is_refused),
        INDEX_TEST(what_ends_within_a_batch_leaves_only_its_outcome),
        INDEX_TEST(dead_letters_of_a_key_are_read_if_they_matter),
        INDEX_TEST(reading_stops_at_the_bound),
        INDEX_TEST(nonsense_is_damage_and_ends_the_index),
        INDEX_TEST(outcomes_are_limited_by_count_and_age),
        INDEX_TEST(a_crowd_in_one_millisecond_comes_in_order_and_bounded),
        INDEX_TEST(an_idle_index_has_nothing_to_do),
        INDEX_TEST(a_tail_of_ended_tasks_stays_a_tail),
        INDEX_TEST(moves_far_ahead_do_not_pile_up),
        INDEX_TEST(other_threads_find_every_committed_key),
        INDEX_TEST(a_full_disk_is_not_the_end),
        INDEX_TEST(a_flipped_bit_is_never_a_wrong_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
