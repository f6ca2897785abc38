/* fuzz_index.c: an index with wrong values under correct checksums (seals), so that only the decoders can find them.
 * The values are rows, ranges, chunks of slots and runs, fences, filters, outcomes, counts and meta. Each use of the
 * index succeeds or reports an error: opening, `tarry verify`, reads at start-up, look-ups, windows, lists, maintenance
 * and absorbing more frames. If verify finds nothing wrong, the index works as usual.
 *
 * Built with INDEX_TINY: chunks of 8 entries, ranges of 64 ids, runs of a dozen keys.
 *
 * The input: a byte whose bits select the uses, and a program of changes. Each change names a table, the number of an
 * entry in the table, and an opcode with operands. Each line: an opcode, what it does, and its operands.
 *
 *     0  flips bits                               offset, mask
 *     1  changes a u64 by a small step            offset / 4, step
 *     2  writes other bytes from the offset on    offset, count, the bytes
 *     3  truncates the value                      size
 *     4  extends the value                        count, the bytes
 *     5  deletes the entry
 *     6  changes the entry's key                  offset, mask */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "directory.h"
#include "fuzz.h"
#include "index_parts.h"
#include "input.h"

#define OPS_MAX 12
#define VALUE_MAX 8192u
#define CALLS_MAX 3000 /* maximum number of repeated calls while the result is "again" or "more" */

static struct directory directory;
static char index_path[128];
static struct index_options options = {.directory = index_path,
                                       .memory = 1u << 20,
                                       .map_size = 8u << 20,
                                       .outcomes_max = 1000,
                                       .outcome_retention_ms = 1ull << 40,
                                       .no_sync = true};

/* ---- changes */

struct entry {
    uint8_t key[512];
    size_t key_size;
    uint8_t value[VALUE_MAX];
    size_t size;
};

/* Finds the entry at place `number` of a table. Returns false if the table is empty, or if the entry's value is too
 * large. */
static bool find_entry(struct db *db, MDB_txn *txn, enum db_table table, size_t number, struct entry *out) {
    MDB_cursor *cursor;
    MDB_val key, sealed, data;
    MDB_stat stat;
    if (mdb_stat(txn, db->table[table], &stat) != 0 || stat.ms_entries == 0) return false;
    if (db_cursor(db, txn, table, &cursor) != 0) return false;
    number %= stat.ms_entries;
    int found = db_cursor_get(cursor, &key, &sealed, MDB_FIRST);
    for (; found == 0 && number > 0; number--) found = db_cursor_get(cursor, &key, &sealed, MDB_NEXT);
    bool fits = found == 0 && db_unseal(&key, &sealed, &data) == 0 && data.mv_size <= VALUE_MAX / 2;
    if (fits) {
        memcpy(out->key, key.mv_data, out->key_size = key.mv_size);
        memcpy(out->value, data.mv_data, out->size = data.mv_size);
    }
    mdb_cursor_close(cursor);
    return fits;
}

static void step_number(struct entry *entry, size_t offset, int8_t step) {
    uint64_t number;
    if (offset + sizeof(number) > entry->size) return;
    memcpy(&number, entry->value + offset, sizeof(number));
    number += (uint64_t)(int64_t)step;
    memcpy(entry->value + offset, &number, sizeof(number));
}

static void change(struct entry *entry, struct input *input, unsigned what) {
    size_t offset = what == 2 || what == 0 ? input_number(input, 2) : 0, size;
    const uint8_t *bytes;
    switch (what) {
    case 0:
        if (entry->size > 0) entry->value[offset % entry->size] ^= input_byte(input);
        break;
    case 1:
        offset = (size_t)4 * input_byte(input);
        step_number(entry, offset, (int8_t)input_byte(input));
        break;
    case 2:
        bytes = input_bytes(input, input_byte(input) % 64, &size);
        offset %= entry->size + 1;
        if (size > 0) memcpy(entry->value + offset, bytes, size);
        if (offset + size > entry->size) entry->size = offset + size;
        break;
    case 3:
        entry->size = input_number(input, 2) % (entry->size + 1);
        break;
    case 4:
        bytes = input_bytes(input, input_byte(input), &size);
        if (size > 0) memcpy(entry->value + entry->size, bytes, size);
        entry->size += size;
        break;
    default:
        offset = input_byte(input) % entry->key_size;
        entry->key[offset] ^= input_byte(input);
        break;
    }
}

struct program {
    struct db *db;
    struct input input;
};

static int change_all(void *argument, MDB_txn *txn) {
    struct program *program = argument;
    struct input *input = &program->input;
    static struct entry entry;
    for (unsigned i = 0; i < OPS_MAX && input->size > 0; i++) {
        enum db_table table = (enum db_table)(input_byte(input) % DB_TABLES);
        size_t number = input_byte(input);
        unsigned what = input_byte(input) % 7;
        if (!find_entry(program->db, txn, table, number, &entry)) continue;
        if (what >= 5) db_del(program->db, txn, table, entry.key, entry.key_size);
        if (what == 5) continue;
        change(&entry, input, what);
        int error = db_put(program->db, txn, table, entry.key, entry.key_size, entry.value, entry.size, 0);
        if (error != 0) return error;
    }
    return 0;
}

static void change_index(struct input input) {
    struct db db;
    struct program program = {&db, input};
    int error = db_open(&db, index_path, options.map_size, false, true);
    if (error == 0) error = db_write(&db, change_all, &program);
    assert(error == 0);
    db_close(&db);
}

/* ---- uses */

/* Checks that the index may return this result (1: there is none). Returns false for an error. */
static bool is_fine(int result) {
    assert(result == 0 || result == 1 || result == INDEX_DAMAGED || result == INDEX_VERSION ||
           result == INDEX_FOREIGN || result == -ENOMEM);
    return result >= 0;
}

static int each_queue(void *argument, const Tarry__QueuePut *queue) {
    (void)argument;
    return queue->name != NULL && strlen(queue->name) > VALUE_MAX;
}
static int each_lease(void *argument, const struct row *row) {
    (void)argument;
    assert(row->state == ROW_LEASED && row_hash(row) != 0);
    return 0;
}
static int each_producer(void *argument, const struct index_producer *producer) {
    *(uint64_t *)argument += producer->producer;
    return 0;
}
static int each_result(void *argument, uint64_t producer, uint64_t sequence, uint64_t position) {
    *(uint64_t *)argument += producer + sequence + position;
    return 0;
}
static int each_job(void *argument, const Tarry__JobPut *job) {
    *(uint64_t *)argument += job->job;
    return 0;
}
static int each_outcome(void *argument, const struct outcome *outcome) {
    for (size_t i = 0; i < outcome->key_size; i++) *(uint64_t *)argument += (uint8_t)outcome->key[i];
    return 0;
}

static bool read_at_start(struct index *index) {
    uint64_t sum = 0;
    bool fine = is_fine(index_each_queue(index, each_queue, &sum));
    fine &= is_fine(index_each_lease(index, each_lease, &sum));
    fine &= is_fine(index_each_producer(index, each_producer, &sum));
    fine &= is_fine(index_each_result(index, each_result, &sum));
    fine &= is_fine(index_each_job(index, each_job, &sum));
    return is_fine(index_each_outcome(index, each_outcome, &sum)) && fine;
}

static void rows_are_sound(const struct index_rows *rows, const struct line *line) {
    for (size_t i = 0; i < rows->count; i++) {
        const struct row *row = &rows->rows[i];
        assert(row->state < ROW_STATES && row_hash(row) != 0);
        if (line == NULL) continue;
        assert(row->state == ROW_WAITING && row->queue == line->queue && row->base == line->base);
        assert(row->priority == line->priority);
        if (i > 0) assert(due_before((struct due){row[-1].due_ms, row[-1].id}, (struct due){row->due_ms, row->id}));
    }
}

static bool look_up(struct index *index, struct arena *arena) {
    const struct world *world = directory.world;
    bool fine = true;
    for (uint64_t id = 1; id < world->next_id; id += 5) {
        const struct row *row = &world->tasks[id].row;
        struct want wants[2] = {{.id = id}, {.queue = row->queue, .key_size = row->key_size, .key = row->key}};
        struct index_rows rows;
        void *data;
        size_t size;
        arena_reset(arena);
        int result = index_lookup(index, wants, row->key_size > 0 ? 2 : 1, SIZE_MAX, arena, &rows);
        if (is_fine(result)) rows_are_sound(&rows, NULL);
        fine &= result == 0 && is_fine(index_blob(index, id, arena, &data, &size));
    }
    return fine;
}

static bool walk(struct index *index, struct arena *arena) {
    struct index_rows rows;
    bool fine = true;
    for (uint32_t queue = 1; queue <= WORLD_QUEUES; queue++) {
        uint64_t next = 0;
        struct due through = {0, 0};
        int result = 0;
        for (unsigned calls = 0; result == 0 && next != UINT64_MAX && calls < CALLS_MAX; calls++) {
            arena_reset(arena);
            result = index_scan(index, queue, next, UINT64_MAX, 7, 20, arena, &rows, &next);
            if (result == 0) rows_are_sound(&rows, NULL);
        }
        fine &= is_fine(result) && (result != 0 || next == UINT64_MAX);
        struct index_query query = {
            .queue = queue, .states = 7, .due_to_ms = UINT64_MAX, .prefix = "k1", .count_max = 5};
        query.prefix_size = queue % 3;
        for (unsigned calls = 0; result == 0 && through.due_ms != UINT64_MAX && calls < CALLS_MAX; calls++) {
            arena_reset(arena);
            query.after = through;
            result = index_list(index, &query, arena, &rows, &through);
            if (result == 0) rows_are_sound(&rows, NULL);
        }
        fine &= is_fine(result) && (result != 0 || through.due_ms == UINT64_MAX);
    }
    return fine;
}

/* Walks through a line to its end. */
static bool window(struct index *index, const struct line *line, struct arena *arena) {
    struct due after = {0, 0}, through = {0, 0};
    for (unsigned calls = 0; after.due_ms != UINT64_MAX; calls++) {
        struct index_rows rows;
        bool again;
        if (calls == CALLS_MAX) return false;
        arena_reset(arena);
        if (!is_fine(index_window(index, line, after, UINT64_MAX, 9, arena, &rows, &through, &again))) return false;
        if (again) continue;
        rows_are_sound(&rows, line);
        assert(due_before(after, through));
        after = through;
    }
    return true;
}

static bool windows(struct index *index, struct arena *arena) {
    static const uint8_t priorities[] = {0, 5, 9};
    bool fine = true;
    for (uint32_t queue = 1; queue <= WORLD_QUEUES; queue++)
        for (uint8_t base = 0; base < ROW_BASES; base++)
            for (size_t i = 0; i < 3 && fine; i++) {
                struct line line = {queue, base, priorities[i]};
                fine = window(index, &line, arena);
                if (fine) index_advise_low(index, &line, (struct due){directory.world->now_ms, 0});
            }
    return fine;
}

/* Continues to use the index for writes. LMDB itself may find an error (a key that already exists). */
static bool go_on(struct index *index) {
    const struct world *world = directory.world;
    bool fine = true, more = true;
    for (unsigned i = 0; fine && more && i < CALLS_MAX; i++) fine = index_maintain(index, &more) == 0;
    /* Absorbs the rest of the log, if that begins at the position of the index. */
    for (size_t i = world->committed; fine && i < world->frame_count; i++) {
        if (i == world->committed && index_position(index) != world->frames[i].header.position) return true;
        fine = world_absorb(world, i, index) == 0;
    }
    return fine && index_commit(index) == 0;
}

static int verify(void) {
    char message[512] = "";
    struct index *index;
    struct index_verification found;
    options.read_only = true;
    int result = index_open(&index, &options, message, sizeof(message));
    options.read_only = false;
    if (result == 0) {
        result = index_verify(index, &found, message, sizeof(message), NULL, NULL);
        index_close(index);
    }
    assert(is_fine(result) || strlen(message) > 10);
    assert(result != 1);
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct arena arena; /* static, so that its large first block is kept between inputs */
    if (size > 1024) return 0;
    if (directory.world == NULL) {
        directory_make(&directory, true);
        arena_init(&arena, 64u << 20);
        memcpy(options.cluster, directory.cluster, sizeof(options.cluster));
        snprintf(index_path, sizeof(index_path), "%s/index", directory.path);
    }
    directory_restore(&directory);
    directory.files[1].changed = true; /* files[1] is the index */
    struct input input = {data, size};
    unsigned uses = input_byte(&input);
    change_index(input);
    int verified = verify();
    char message[512] = "";
    struct index *index;
    bool fine = is_fine(index_open(&index, &options, message, sizeof(message)));
    assert(fine || strlen(message) > 10);
    assert(fine || verified != 0);
    if (fine) {
        if (uses & 1) fine = read_at_start(index);
        if (uses & 2) fine = look_up(index, &arena) && fine;
        if (uses & 4) fine = walk(index, &arena) && fine;
        if (uses & 8) fine = windows(index, &arena) && fine;
        assert(fine || verified != 0); /* whatever these reads find, verify must find too */
        if (uses & 16) fine = go_on(index) && fine;
        index_close(index);
        int again = fine && verified == 0 ? verify() : 0;
        assert(again == 0);
    }
    return 0;
}
