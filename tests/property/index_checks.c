/* index_checks.c: see index_checks.h. */
#include "index_checks.h"

#include "content_cache.h"
#include "index_calendar.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int fx_try_open(struct fx *f) {
    struct index_options options = {.directory = f->directory,
                                    .memory = 1u << 20,
                                    .contents_memory = f->seed % 2 != 0 ? 4 * CONTENT_CACHE_MEMORY_MIN : 0,
                                    .map_size = 1u << 20, /* small, so that the map must grow (F-8) */
                                    .outcomes_max = f->outcomes_max,
                                    .outcome_retention_ms = 1ull << 40,
                                    .filters_later = f->seed % 3 != 0,
                                    .no_sync = true};
    f->is_unread = options.filters_later;
    f->absorbed = f->world.committed;
    f->retiring = 0;
    f->index = NULL;
    f->message[0] = 0;
    return index_open(&f->index, &options, f->message, sizeof f->message);
}

void fx_open(struct fx *f) {
    int error = fx_try_open(f);
    if (error != 0) fail_msg("seed %llu: open: %d %s", (unsigned long long)f->seed, error, f->message);
}

struct fx *fx_new(uint64_t seed) {
    struct fx *f = calloc(1, sizeof *f);
    f->seed = seed;
    world_init(&f->world, seed);
    strcpy(f->directory, "/tmp/tarry-index-test-XXXXXX");
    CHECK(mkdtemp(f->directory) != NULL);
    arena_init(&f->arena, 64u << 20);
    f->outcomes_max = 1 + (uint32_t)world_random(&f->world, 200);
    return f;
}

void fx_free(struct fx *f) {
    char path[96];
    snprintf(path, sizeof path, "%s/data.mdb", f->directory);
    unlink(path);
    snprintf(path, sizeof path, "%s/lock.mdb", f->directory);
    unlink(path);
    snprintf(path, sizeof path, "%s/keyring", f->directory);
    unlink(path);
    rmdir(f->directory);
    arena_deinit(&f->arena);
    world_deinit(&f->world);
    free(f);
}

/* Damages the calendar, as if an older program without a calendar had changed the index in between. */
struct forgetting {
    struct fx *f;
    struct db db;
};

static int forget(void *argument, MDB_txn *txn) {
    struct forgetting *forgetting = argument;
    struct fx *f = forgetting->f;
    struct db *db = &forgetting->db;
    static const struct calendar_state older = {.version = CALENDAR_VERSION, .position = 1, .counted = UINT64_MAX};
    switch (world_random(&f->world, 3)) {
    case 0:
        return db_negative(mdb_drop(txn, db->table[DB_CALENDAR], 1));
    case 1:
        (void)db_del(db, txn, DB_CALENDAR, "state",
                     5); /* the error is ignored, because the state may be missing already */
        return 0;
    default:
        return db_put(db, txn, DB_CALENDAR, "state", 5, &older, sizeof older, 0);
    }
}

void fx_forget_calendar(struct fx *f) {
    struct forgetting forgetting = {.f = f};
    CHECK(db_open(&forgetting.db, f->directory, 64u << 20, false, true) == 0);
    CHECK(db_write(&forgetting.db, forget, &forgetting) == 0);
    db_close(&forgetting.db);
    f->is_counting = true;
}

/* ---- the model's answers */

struct pick {
    uint32_t queue;
    uint32_t states;
    int base, priority; /* -1: any */
    const char *prefix;
    uint64_t from_ms, to_ms; /* `to_ms` is exclusive */
    struct due after;
};

static bool picked(const struct row *row, const void *argument) {
    const struct pick *pick = argument;
    struct due due = {row->due_ms, row->id};
    if (row->queue != pick->queue || !(pick->states >> row->state & 1)) return false;
    if (pick->base >= 0 && (row->base != pick->base || row->priority != pick->priority)) return false;
    size_t size = pick->prefix != NULL ? strlen(pick->prefix) : 0;
    if (row->key_size < size || (size > 0 && memcmp(row->key, pick->prefix, size) != 0)) return false;
    return row->due_ms >= pick->from_ms && row->due_ms < pick->to_ms && due_before(pick->after, due);
}

/* ---- comparisons */

/* Checks that the rows of one call are the first of `ids`, and include all ids up to the position `through`. Returns
 * the number of rows. */
static size_t check_rows(struct fx *f, const struct index_rows *rows, const uint64_t *ids, size_t count,
                         struct due through) {
    CHECK(rows->position == index_position(f->index));
    CHECK(rows->count <= count);
    for (size_t i = 0; i < rows->count; i++) {
        CHECK(rows->rows[i].id == ids[i]);
        CHECK(world_same(&f->world, &rows->rows[i]));
    }
    if (rows->count < count) {
        const struct row *next = &f->world.tasks[ids[rows->count]].row;
        CHECK(due_before(through, (struct due){next->due_ms, next->id}));
    }
    return rows->count;
}

int check_window(struct fx *f) {
    struct world *w = &f->world;
    static const uint8_t priorities[] = {0, 5, 9};
    struct line line = {world_queue(w), (uint8_t)world_random(w, 2), priorities[world_random(w, 3)]};
    struct due after = {0, 0};
    if (world_random(w, 2) == 0) after = (struct due){w->now_ms - 1000 + world_random(w, 5000), world_random(w, 100)};
    if (f->walked.queue != 0 && world_random(w, 2) == 0) {
        line = f->walked;
        after = f->stopped;
    }
    uint64_t until_ms = world_random(w, 2) ? UINT64_MAX : w->now_ms + world_random(w, 1000000);
    size_t count_max = 1 + world_random(w, 20);
    struct pick pick = {line.queue, 1u << ROW_WAITING, line.base, line.priority, NULL, 0, until_ms, after};
    if (until_ms < UINT64_MAX) pick.to_ms++;
    size_t count, done = 0;
    struct due last_through = {0, 0};
    uint64_t *ids = world_sorted(w, picked, &pick, &count);
    for (unsigned calls = 0;; calls++) {
        struct index_rows rows;
        struct due through;
        bool again;
        CHECK(calls < 100000);
        arena_reset(&f->arena);
        int error = index_window(f->index, &line, after, until_ms, count_max, &f->arena, &rows, &through, &again);
        if (error != 0) return error;
        if (again) {
            CHECK(rows.count == 0);
            continue;
        }
        CHECK(rows.count <= count_max);
        done += check_rows(f, &rows, ids + done, count - done, through);
        last_through = through;
        if (through.due_ms == UINT64_MAX || through.due_ms > until_ms) break;
        if (through.due_ms == until_ms && through.id == UINT64_MAX) break;
        CHECK(due_before(after, through) || after.due_ms > until_ms);
        if (after.due_ms > until_ms) break;
        after = through;
        if (world_random(w, 6) != 0) continue;
        f->walked = line;
        f->stopped = after;
        return 0;
    }
    CHECK(done == count);
    /* Checks that no task waits between `until` and `through`. */
    pick.to_ms = UINT64_MAX;
    pick.after = after;
    ids = world_sorted(w, picked, &pick, &count);
    for (size_t i = 0; i < count; i++) {
        const struct row *row = &w->tasks[ids[i]].row;
        if (row->due_ms > until_ms) CHECK(due_before(last_through, (struct due){row->due_ms, row->id}));
    }
    return 0;
}

int check_list(struct fx *f) {
    struct world *w = &f->world;
    static const char *prefixes[] = {"", "", "k1", "k2-3", "none"};
    struct index_query query = {.queue = world_queue(w),
                                .states = 1 + (uint32_t)world_random(w, 7),
                                .due_to_ms = UINT64_MAX,
                                .prefix = prefixes[world_random(w, 5)],
                                .count_max = 1 + world_random(w, 20)};
    query.prefix_size = strlen(query.prefix);
    if (world_random(w, 2)) query.due_from_ms = w->now_ms - 100 + world_random(w, 1000);
    if (world_random(w, 2)) query.due_to_ms = w->now_ms + world_random(w, 1000000);
    /* Exactly when a task is due. Chosen by the time, because another random number would change all that follow. */
    if (w->next_id > 1 && w->now_ms % 4 == 0) {
        const uint64_t due_ms = w->tasks[1 + w->now_ms / 4 % (w->next_id - 1)].row.due_ms;
        if (due_ms > query.due_from_ms) query.due_to_ms = due_ms;
    }
    struct pick pick = {query.queue, query.states, -1, -1, query.prefix, query.due_from_ms, query.due_to_ms, {0, 0}};
    size_t count, done = 0;
    uint64_t *ids = world_sorted(w, picked, &pick, &count);
    for (unsigned calls = 0;; calls++) {
        struct index_rows rows;
        struct due through;
        CHECK(calls < 100000);
        arena_reset(&f->arena);
        int error = index_list(f->index, &query, &f->arena, &rows, &through);
        if (error != 0) return error;
        CHECK(rows.count <= query.count_max);
        done += check_rows(f, &rows, ids + done, count - done, through);
        if (through.due_ms == UINT64_MAX) break;
        CHECK(due_before(query.after, through));
        query.after = through;
    }
    CHECK(done == count);
    return 0;
}

int check_scan(struct fx *f) {
    struct world *w = &f->world;
    uint32_t queue = world_queue(w);
    uint64_t after = world_random(w, w->next_id), end = after + 1 + world_random(w, 500), expected = after;
    uint64_t first = after;
    while (after != UINT64_MAX) {
        struct index_rows rows;
        arena_reset(&f->arena);
        int error = index_scan(f->index, queue, after, end, 1 + world_random(w, 10), 1 + world_random(w, 20), &f->arena,
                               &rows, &after);
        if (error != 0) return error;
        for (size_t i = 0; i < rows.count; i++) {
            for (expected++; expected < rows.rows[i].id; expected++) {
                CHECK(w->tasks[expected].state != WORLD_HERE || w->tasks[expected].row.queue != queue);
            }
            CHECK(expected == rows.rows[i].id && expected < end && expected > first);
            CHECK(rows.rows[i].queue == queue && world_same(w, &rows.rows[i]));
        }
    }
    for (expected++; expected < end && expected < w->next_id; expected++) {
        CHECK(w->tasks[expected].state != WORLD_HERE || w->tasks[expected].row.queue != queue);
    }
    return 0;
}

/* ---- the calendar */

static void ask_calendar(struct world *w, struct index_calendar_query *out, uint32_t queues[WORLD_QUEUES]) {
    static const uint64_t steps_ms[] = {CALENDAR_MINUTE_MS, 7 * CALENDAR_MINUTE_MS, CALENDAR_HOUR_MS,
                                        24 * CALENDAR_HOUR_MS, 25 * CALENDAR_HOUR_MS - CALENDAR_MINUTE_MS};
    uint64_t unit_ms = world_random(w, 2) ? CALENDAR_MINUTE_MS : CALENDAR_HOUR_MS;
    uint64_t from_ms = w->now_ms - 80000000 + world_random(w, 90000000);
    *out = (struct index_calendar_query){.from_ms = from_ms / unit_ms * unit_ms,
                                         .step_ms = steps_ms[world_random(w, 5)],
                                         .span_count = 1 + (uint32_t)world_random(w, 200),
                                         .of_all = world_random(w, 2),
                                         .by_queue = world_random(w, 2),
                                         .queues = queues};
    for (uint32_t place = 1; place <= WORLD_QUEUES; place++)
        if (world_random(w, 2)) queues[out->queue_count++] = w->numbers[place];
}

/* Subtracts one waiting task from the expected counts. */
static void take_off(struct fx *f, const struct index_calendar_query *query, const struct row *row,
                     struct index_calendar *left) {
    uint64_t to_ms = query->from_ms + query->step_ms * query->span_count;
    bool is_named = false, is_within = row->due_ms >= query->from_ms && row->due_ms < to_ms;
    for (size_t i = 0; i < query->queue_count; i++) {
        if (query->queues[i] != row->queue) continue;
        is_named = true;
        if (query->by_queue && is_within) CHECK(left->by_queue[i]-- > 0);
    }
    if (!is_named && !query->of_all) return;
    if (is_within)
        CHECK(left->counts[(row->due_ms - query->from_ms) / query->step_ms]-- > 0);
    else
        CHECK((row->due_ms < query->from_ms ? left->before-- : left->after--) > 0);
}

int check_calendar(struct fx *f) {
    struct world *w = &f->world;
    for (unsigned round = 0; round < 4; round++) {
        struct index_calendar_query query;
        struct index_calendar found;
        uint32_t queues[WORLD_QUEUES];
        ask_calendar(w, &query, queues);
        arena_reset(&f->arena);
        int error = index_calendar(f->index, &query, &f->arena, &found);
        if (error < 0) return error;
        CHECK(found.position == w->position);
        CHECK(found.next_id == w->next_id && (error == 0 || f->is_counting));
        f->is_counting = error == 1;
        if (error == 1) continue;
        for (uint64_t id = 1; id < w->next_id; id++) {
            const struct world_task *task = &w->tasks[id];
            if (task->state == WORLD_HERE && task->row.state == ROW_WAITING) take_off(f, &query, &task->row, &found);
        }
        CHECK(found.before == 0 && found.after == 0);
        for (size_t i = 0; i < query.span_count; i++) CHECK(found.counts[i] == 0);
        for (size_t i = 0; i < query.queue_count; i++) CHECK(found.by_queue[i] == 0);
    }
    return 0;
}

static int check_lookups(struct fx *f, const struct index_filter *filter) {
    struct world *w = &f->world;
    for (unsigned round = 0; round < 40; round++) {
        uint64_t id = 1 + world_random(w, w->next_id + 5);
        const struct world_task *task = &w->tasks[id];
        bool here = id < w->next_id && task->state == WORLD_HERE;
        struct want wants[2] = {{.id = id},
                                {.queue = task->row.queue, .key_size = task->row.key_size, .key = task->key}};
        bool by_key = id < w->next_id && task->state != WORLD_ABSENT && task->row.key_size > 0;
        struct index_rows rows;
        arena_reset(&f->arena);
        int error = index_lookup(f->index, wants, 1, SIZE_MAX, &f->arena, &rows);
        if (error != 0) return error;
        CHECK(rows.count == here);
        if (here) CHECK(rows.rows[0].id == id && world_same(w, &rows.rows[0]));
        if (!by_key) continue;
        size_t expected = 0;
        for (uint64_t other = 1; other < w->next_id; other++) {
            const struct world_task *twin = &w->tasks[other];
            expected += twin->state == WORLD_HERE && twin->row.queue == task->row.queue &&
                        twin->row.key_size == task->row.key_size &&
                        memcmp(twin->key, task->key, task->row.key_size) == 0;
        }
        if (expected > 16) expected = 16;
        error = index_lookup(f->index, wants + 1, 1, SIZE_MAX, &f->arena, &rows);
        if (error != 0) return error;
        CHECK(rows.count == expected);
        for (size_t i = 0; i < rows.count; i++) CHECK(world_same(w, &rows.rows[i]));
        if (expected > 0) {
            CHECK(index_filter_may_contain(filter, row_key_hash(task->row.queue, task->key, task->row.key_size)));
        }
    }
    return 0;
}

int check_lookup(struct fx *f) {
    struct index_filter *filter = index_filter_hold(f->index);
    int error = check_lookups(f, filter);
    index_filter_drop(filter);
    return error;
}

static int count_lease(void *argument, const struct row *row) {
    struct fx *f = argument;
    CHECK(row->state == ROW_LEASED && world_same(&f->world, row));
    f->world.counted++;
    return 0;
}

static int count_result(void *argument, uint64_t producer, uint64_t sequence, uint64_t position) {
    struct fx *f = argument;
    size_t slot = 0;
    while (slot < WORLD_PRODUCERS && f->world.producers[slot] != producer) slot++;
    CHECK(slot < WORLD_PRODUCERS);
    if (slot == WORLD_PRODUCERS) return 1;
    CHECK(f->world.result_at[slot][sequence % 64] == position);
    f->world.counted++;
    return 0;
}

static int count_job(void *argument, const Tarry__JobPut *job) {
    struct fx *f = argument;
    bool found = false;
    for (size_t i = 0; i < 8; i++) found = found || f->world.jobs[i] == job->job;
    CHECK(found);
    f->world.counted++;
    return 0;
}

static int count_queue(void *argument, const Tarry__QueuePut *queue) {
    struct fx *f = argument;
    const uint32_t place = queue_place(queue->number);
    CHECK(place <= WORLD_QUEUES);
    if (queue->number == f->world.numbers[place]) {
        CHECK(queue_hash(queue) == f->world.queue_hash[place]);
        f->world.counted++;
    } else { /* the queue was deleted, and the index keeps it only for its name */
        CHECK(queue->deleted && queue_generation(queue->number) < queue_generation(f->world.numbers[place]));
        f->world.former_counted++;
    }
    return 0;
}

static int count_producer(void *argument, const struct index_producer *producer) {
    struct fx *f = argument;
    size_t slot = 0;
    while (slot < WORLD_PRODUCERS && f->world.producers[slot] != producer->producer) slot++;
    CHECK(slot < WORLD_PRODUCERS);
    if (slot == WORLD_PRODUCERS) return 1;
    CHECK(producer->floor == f->world.floors[slot] || f->world.sequences[slot] == 0);
    f->world.counted++;
    return 0;
}

static int count_outcome(void *argument, const struct outcome *outcome) {
    struct fx *f = argument;
    f->world.counted++;
    for (size_t i = 0; i < f->world.outcome_count; i++) {
        const struct outcome *own = &f->world.outcomes[i];
        if (own->id != outcome->id) continue;
        CHECK(own->ended_ms == outcome->ended_ms && own->cause == outcome->cause && own->due_ms == outcome->due_ms &&
              own->session == outcome->session && own->deliveries == outcome->deliveries &&
              own->key_size == outcome->key_size && own->queue == outcome->queue &&
              memcmp(own->key, outcome->key, own->key_size) == 0);
        return 0;
    }
    CHECK(!"an outcome that never was");
    return 0;
}

int check_tables(struct fx *f) {
    struct world *w = &f->world;
    uint64_t leased = 0, results = 0, jobs = 0, producers = 0, queues = 0;
    int error;
    for (uint64_t id = 1; id < w->next_id; id++) {
        leased += w->tasks[id].state == WORLD_HERE && w->tasks[id].row.state == ROW_LEASED;
    }
    for (size_t i = 0; i < WORLD_PRODUCERS; i++) {
        producers += w->producers[i] != 0;
        for (size_t j = 0; j < 64; j++) results += w->producers[i] != 0 && w->result_at[i][j] != 0;
    }
    for (size_t i = 0; i < 8; i++) jobs += w->jobs[i] != 0;
    for (size_t i = 1; i <= WORLD_QUEUES; i++) queues += w->queue_hash[i] != 0;
    w->counted = 0;
    if ((error = index_each_lease(f->index, count_lease, f)) != 0) return error;
    CHECK(w->counted == leased);
    w->counted = 0;
    if ((error = index_each_result(f->index, count_result, f)) != 0) return error;
    CHECK(w->counted == results);
    w->counted = 0;
    if ((error = index_each_job(f->index, count_job, f)) != 0) return error;
    CHECK(w->counted == jobs);
    w->counted = w->former_counted = 0;
    if ((error = index_each_queue(f->index, count_queue, f)) != 0) return error;
    CHECK(w->counted == queues);
    CHECK(w->former_counted == (w->former < QUEUES_FORMER_TINY ? w->former : QUEUES_FORMER_TINY));
    w->counted = 0;
    if ((error = index_each_producer(f->index, count_producer, f)) != 0) return error;
    CHECK(w->counted == producers);
    w->counted = 0;
    if ((error = index_each_outcome(f->index, count_outcome, f)) != 0) return error;
    uint64_t least = w->outcome_count < f->outcomes_max ? w->outcome_count : f->outcomes_max;
    CHECK(w->counted >= least && w->counted <= w->outcome_count);
    struct index_meta meta;
    index_meta(f->index, &meta);
    /* TRUE-1: no outcome from known_since_ms or later is forgotten. */
    if (w->counted < w->outcome_count) {
        CHECK(meta.known_since_ms > w->outcomes[w->outcome_count - w->counted - 1].ended_ms);
    }
    CHECK(meta.position == w->position && meta.tally.digest == w->tally.digest && meta.tally.live == w->tally.live);
    CHECK(meta.tally.next_id == w->tally.next_id && meta.tally.next_queue == w->tally.next_queue);
    for (size_t i = 0; i < sizeof w->queues / sizeof w->queues[0]; i++) {
        const struct queue_tally *indexed = &meta.tally.queues[i], *known = &w->queues[i];
        CHECK(indexed->number == known->number);
        CHECK(memcmp((const uint8_t *)indexed, (const uint8_t *)known, QUEUE_COUNTS_SIZE) == 0);
    }
    return 0;
}

int check_retired(struct fx *f) {
    struct world *w = &f->world;
    for (unsigned round = 0; round < 30 && w->next_id > 1; round++) {
        uint64_t id = 1 + world_random(w, w->next_id - 1);
        const struct world_task *task = &w->tasks[id];
        void *data;
        size_t size;
        arena_reset(&f->arena);
        int error = index_blob_now(f->index, id, &f->arena, &data,
                                   &size); /* the content must not be in memory, because the task has ended */
        CHECK(error == -EAGAIN || (error == 0 && task->state == WORLD_HERE) || error == -ENOMEM);
        error = index_blob(f->index, id, &f->arena, &data, &size);
        if (error < 0) return error;
        if (task->state == WORLD_HERE && task->row.blob_at < w->log_start) {
            uint8_t blob[WORLD_BLOB_SIZE];
            world_blob(task->row.blob_at - FRAME_HEADER_SIZE, blob);
            CHECK(error == 0 && size == task->row.blob_size && memcmp(data, blob, size) == 0);
        } else {
            /* A content that the log still has may already have a copy. A small content of an ended task may stay until
             * its row is removed (check_verify). */
            bool may_be_here = task->state == WORLD_HERE || task->row.blob_size == WORLD_BLOB_SMALL;
            CHECK(error == 1 || (may_be_here && error == 0));
        }
    }
    for (size_t i = 0; i < WORLD_PRODUCERS; i++) {
        for (uint64_t j = 1; j <= w->sequences[i]; j++) {
            uint64_t at = w->result_at[i][j % 64];
            bool kept = w->producers[i] != 0 && j + 64 > w->sequences[i] && at != 0 && at < w->log_start;
            void *data;
            size_t size;
            arena_reset(&f->arena);
            int error = index_result(f->index, w->producers[i], j, &f->arena, &data, &size);
            if (error < 0) return error;
            bool may = kept || (w->producers[i] != 0 && j + 64 > w->sequences[i] && at != 0);
            CHECK(error == (kept ? 0 : 1) || (may && error == 0));
            if (kept) CHECK(size == 8 && memcmp(data, &at, 8) == 0);
        }
    }
    return 0;
}

int check_verify(struct fx *f) {
    struct index_verification verification;
    return index_verify(f->index, &verification, f->message, sizeof f->message, NULL, NULL);
}

static check *const checks[] = {check_retired, check_window, check_window, check_list,    check_scan,
                                check_lookup,  check_tables, check_verify, check_calendar};

void check_all(struct fx *f) {
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        int error = checks[i](f);
        if (error != 0) fail_msg("seed %llu: check %zu: %d %s", (unsigned long long)f->seed, i, error, f->message);
    }
}
