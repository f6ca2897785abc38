/* index_calendar_test.c: calendar chunks in each of their forms, and the limit of what one query reads.
 * tests/property/index_test.c checks that the counts are right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "index_alone.h"
#include "index_calendar.h"

#define NOW_MS 1700000000000ull
#define TASKS 60u
/* Distance between due times in ms: so far apart that each task has its own chunk of the calendar (CALENDAR_CELLS
 * minutes). */
#define APART_MS (CALENDAR_CELLS * CALENDAR_MINUTE_MS)

static void check_form(const uint64_t cells[CALENDAR_CELLS], size_t size) {
    uint8_t packed[CALENDAR_PACKED_MAX];
    uint64_t found[CALENDAR_CELLS], total = 0, sum = 0;
    MDB_val data = {calendar_pack(cells, packed), packed};
    for (unsigned i = 0; i < CALENDAR_CELLS; i++) sum += cells[i];
    assert_int_equal(data.mv_size, size);
    assert_int_equal(calendar_unpack(&data, found, &total), 0);
    assert_memory_equal(found, cells, sizeof found);
    assert_int_equal(total, sum);
    assert_int_equal(calendar_total(&data, &total), 0);
    assert_int_equal(total, sum);
    for (size_t i = 0; i < size; i++) { /* no other bytes decode to the same counts */
        packed[i] ^= 1;
        int error = calendar_unpack(&data, found, &total);
        assert_true(error == INDEX_DAMAGED || memcmp(found, cells, sizeof found) != 0);
        packed[i] ^= 1;
    }
    for (data.mv_size = 0; data.mv_size < size; data.mv_size++)
        assert_int_equal(calendar_unpack(&data, found, &total), INDEX_DAMAGED);
}

static void a_chunk_is_as_short_as_its_counts_let_it_be(void **state) {
    uint64_t cells[CALENDAR_CELLS] = {0};
    uint8_t packed[CALENDAR_PACKED_MAX];
    assert_int_equal(calendar_pack(cells, packed), 0); /* an empty chunk is not stored */
    cells[0] = 1;
    cells[CALENDAR_CELLS - 1] = UINT32_MAX;
    check_form(cells, 16 + 2 * 6);
    for (unsigned i = 0; i < CALENDAR_CELLS; i++) cells[i] = i % 7;
    check_form(cells, 16 + CALENDAR_CELLS);
    cells[3] = UINT8_MAX + 1;
    check_form(cells, 16 + CALENDAR_CELLS * 2);
    cells[3] = UINT16_MAX + 1;
    check_form(cells, 16 + CALENDAR_CELLS * 4);
    cells[3] = UINT32_MAX + 1ull;
    check_form(cells, 16 + CALENDAR_CELLS * 8);
}

struct fx {
    char directory[64];
    struct index_options options;
    struct index *index;
    struct arena arena;
};

static int setup(void **state) {
    struct fx *f = calloc(1, sizeof *f);
    char message[256];
    strcpy(f->directory, "/tmp/tarry-calendar-unit-XXXXXX");
    assert_non_null(mkdtemp(f->directory));
    f->options = (struct index_options){.directory = f->directory, .memory = 16u << 20, .outcomes_max = 10};
    f->options.no_sync = true;
    arena_init(&f->arena, 64u << 20);
    assert_int_equal(index_open(&f->index, &f->options, message, sizeof message), 0);
    *state = f;
    return 0;
}

static int teardown(void **state) {
    static const char *const names[] = {"data.mdb", "lock.mdb", "keyring"};
    struct fx *f = *state;
    index_close(f->index);
    arena_deinit(&f->arena);
    for (size_t i = 0; i < 3; i++) {
        char path[96];
        snprintf(path, sizeof path, "%s/%s", f->directory, names[i]);
        unlink(path);
    }
    rmdir(f->directory);
    free(f);
    return 0;
}

static void schedule(struct fx *f, uint64_t id, uint64_t position) {
    const struct row row = {.id = id, .due_ms = NOW_MS + id * APART_MS, .scheduled_ms = NOW_MS, .queue = 1};
    assert_int_equal(absorb_scheduled(f->index, &position, &row), 0);
}

static void fill(struct fx *f) {
    for (uint64_t id = 1; id <= TASKS; id++) schedule(f, id, LOG_POSITION_FIRST + (id - 1) * frame_size(100, 0));
    assert_int_equal(index_commit(f->index), 0);
}

/* CALM-1: a query that would read too much is refused, and does not delay other queries. */
static void a_question_reads_no_more_than_it_may(void **state) {
    struct fx *f = *state;
    static uint32_t queues[CALENDAR_CHUNKS_MAX / TASKS + 1];
    struct index_calendar_query query = {.from_ms = NOW_MS / CALENDAR_MINUTE_MS * CALENDAR_MINUTE_MS,
                                         .step_ms = CALENDAR_MINUTE_MS,
                                         .span_count = TASKS * CALENDAR_CELLS,
                                         .queues = queues,
                                         .queue_count = 1};
    struct index_calendar found;
    fill(f);
    for (size_t i = 0; i < sizeof queues / sizeof *queues; i++) queues[i] = 1;
    assert_int_equal(index_calendar(f->index, &query, &f->arena, &found), 0);
    assert_int_equal(found.before, 0);
    assert_int_equal(found.after, 1);
    query.queue_count = sizeof queues / sizeof *queues;
    assert_int_equal(index_calendar(f->index, &query, &f->arena, &found), -E2BIG);
}

/* An index of an older program has no counts, and a read-only index does not make them. So there is no calendar. */
static void a_read_only_index_of_an_older_program_tells_nothing(void **state) {
    struct fx *f = *state;
    struct index_calendar_query query = {.step_ms = CALENDAR_MINUTE_MS, .span_count = 1, .of_all = true};
    struct index_calendar found;
    struct db db;
    MDB_txn *txn;
    char message[256];
    fill(f);
    index_close(f->index);
    assert_int_equal(db_open(&db, f->directory, 64u << 20, false, true), 0);
    assert_int_equal(mdb_txn_begin(db.env, NULL, 0, &txn), 0);
    assert_int_equal(mdb_drop(txn, db.table[DB_CALENDAR], 1), 0);
    assert_int_equal(mdb_txn_commit(txn), 0);
    db_close(&db);
    f->options.read_only = true;
    assert_int_equal(index_open(&f->index, &f->options, message, sizeof message), 0);
    assert_int_equal(index_calendar(f->index, &query, &f->arena, &found), 1);
    assert_int_equal(found.counted, 1);
    assert_int_equal(found.next_id, TASKS + 1);
    struct index_verification verification;
    assert_int_equal(index_verify(f->index, &verification, message, sizeof message, NULL, NULL), 0);
}

#define CALENDAR_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chunk_is_as_short_as_its_counts_let_it_be),
        CALENDAR_TEST(a_question_reads_no_more_than_it_may),
        CALENDAR_TEST(a_read_only_index_of_an_older_program_tells_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
