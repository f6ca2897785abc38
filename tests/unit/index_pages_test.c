/* index_pages_test.c: where the index's file has the entries of certain ids. The search must find pages with many of
 * these entries by reading only a few entries (storage/index/index_pages.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "index_alone.h"
#include "index_pages.h"

#define NOW_MS 1700000000000ull
#define PAGE ((uintptr_t)4096)
#define PAGES_MAX 4096u

struct fx {
    char directory[64];
    struct index *index;
    uint64_t position;
    uint64_t next_id;
    MDB_txn *txn;  /* LMDB transaction that stays open while the pages are searched */
    size_t pages;  /* number of wanted pages */
    size_t missed; /* number of wanted pages that no found range of pages includes */
};

static int setup(void **state) {
    struct fx *f = calloc(1, sizeof *f);
    char message[256];
    *f = (struct fx){.directory = "/tmp/tarry-index-pages-XXXXXX", .position = LOG_POSITION_FIRST, .next_id = 1};
    assert_non_null(mkdtemp(f->directory));
    struct index_options options = {.directory = f->directory,
                                    .memory = 16u << 20,
                                    .outcomes_max = 1000,
                                    .outcome_retention_ms = 3600000,
                                    .no_sync = true};
    assert_int_equal(index_open(&f->index, &options, message, sizeof message), 0);
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fx *f = *state;
    char command[128];
    index_close(f->index);
    snprintf(command, sizeof command, "rm -r %s", f->directory);
    assert_int_equal(system(command), 0);
    free(f);
    return 0;
}

static struct row row_of(uint64_t id) {
    return (struct row){.id = id, .due_ms = NOW_MS + 86400000, .scheduled_ms = NOW_MS, .queue = 1, .key = ""};
}

static void schedule(struct fx *f, uint64_t count) {
    for (uint64_t end = f->next_id + count; f->next_id < end; f->next_id++) {
        struct row row = row_of(f->next_id);
        assert_int_equal(absorb_scheduled(f->index, &f->position, &row), 0);
    }
    assert_int_equal(index_commit(f->index), 0);
}

/* Ends all tasks except every fifth one, and runs the sweeps. */
static void end_most(struct fx *f, uint64_t from, uint64_t end) {
    for (uint64_t id = from; id < end; id++) {
        struct row row = row_of(id);
        if (id % 5 != 0) assert_int_equal(absorb_ended(f->index, &f->position, &row, NOW_MS), 0);
    }
    assert_int_equal(index_commit(f->index), 0);
    for (bool more = true; more;) assert_int_equal(index_maintain(f->index, &more), 0);
}

/* Collects the addresses of the pages that have rows of those ids. Returns the number of rows. */
static size_t walk(struct fx *f, struct ids *ids, uintptr_t out[PAGES_MAX]) {
    MDB_cursor *cursor;
    uint64_t id = ids->from;
    MDB_val key = {sizeof id, &id}, value;
    size_t count = 0;
    assert_int_equal(db_cursor(&f->index->db, f->txn, DB_ROWS, &cursor), 0);
    int error = db_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
    for (; error == 0; error = db_cursor_get(cursor, &key, &value, MDB_NEXT)) {
        memcpy(&id, key.mv_data, sizeof id);
        if (id >= ids->end) break;
        ids->entries++;
        uintptr_t page = (uintptr_t)key.mv_data & ~(PAGE - 1);
        if (count > 0 && out[count - 1] == page) continue;
        assert_true(count < PAGES_MAX);
        out[count++] = page;
    }
    mdb_cursor_close(cursor);
    return count;
}

static bool is_within(const struct spans *spans, uintptr_t page) {
    for (size_t i = 0; i < spans->count; i++) {
        uintptr_t from = (uintptr_t)spans->items[i].mv_data;
        if (page >= from && page < from + spans->items[i].mv_size) return true;
    }
    return false;
}

/* Checks that the found ranges of pages include few unwanted pages, and counts the wanted pages that they miss. Returns
 * the number of ranges. */
static size_t check(struct fx *f, uint64_t from, uint64_t end) {
    static uintptr_t pages[PAGES_MAX];
    struct spans spans = {0};
    size_t found = 0;
    MDB_stat stat;
    assert_int_equal(db_read(&f->index->db, &f->txn), 0);
    struct ids ids = {.from = from, .end = end};
    size_t count = walk(f, &ids, pages);
    assert_int_equal(pages_find(f->index, f->txn, DB_ROWS, &ids, &spans), 0);
    assert_int_equal(mdb_stat(f->txn, f->index->db.table[DB_ROWS], &stat), 0);
    size_t expected = ids.entries > 0 ? ids.entries * stat.ms_leaf_pages / stat.ms_entries : 0;
    db_read_end(&f->index->db, f->txn);
    for (size_t i = 0; i < count; i++) f->missed += !is_within(&spans, pages[i]);
    f->pages += count;
    for (size_t i = 0; i < spans.count; i++) found += spans.items[i].mv_size / PAGE;
    assert_true(found <= 3 * count + expected + 8);
    size_t stretches = spans.count;
    free(spans.items);
    return stretches;
}

static void what_was_appended_at_once_is_one_stretch(void **state) {
    struct fx *f = *state;
    schedule(f, 3 * RANGE_IDS);
    assert_int_equal(check(f, RANGE_IDS, 2 * RANGE_IDS), 1);
    assert_int_equal(check(f, RANGE_IDS + 1, RANGE_IDS + 2), 1); /* one row */
    assert_int_equal(check(f, 2 * RANGE_IDS, 9 * RANGE_IDS), 1); /* some of these ids are beyond the end of the table */
    assert_int_equal(f->missed, 0);
}

static void what_is_not_there_lies_nowhere(void **state) {
    struct fx *f = *state;
    assert_int_equal(check(f, 0, 100), 0);
    schedule(f, RANGE_IDS);
    assert_int_equal(check(f, 2 * RANGE_IDS, 3 * RANGE_IDS), 0);
    schedule(f, 2 * RANGE_IDS);
    end_most(f, RANGE_IDS, 2 * RANGE_IDS);
    assert_int_equal(check(f, RANGE_IDS + 1, RANGE_IDS + 2), 0); /* no id exists in this range */
}

/* Free pages are scattered over the file, and the next rows are written to them. */
static void what_lies_anywhere_is_found(void **state) { /* CALM-1 */
    struct fx *f = *state;
    size_t most = 0;
    for (unsigned round = 0; round < 6; round++) {
        uint64_t from = f->next_id;
        for (unsigned i = 0; i < 8; i++) schedule(f, RANGE_IDS * 3 / 4);
        end_most(f, from, f->next_id);
    }
    for (uint64_t id = 0; id < f->next_id; id += RANGE_IDS) {
        size_t stretches = check(f, id, id + RANGE_IDS);
        if (stretches > most) most = stretches;
    }
    assert_true(most > 1);
    assert_true(f->missed * 50 <= f->pages); /* a few pages are missed, because they lie elsewhere in the file */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(what_was_appended_at_once_is_one_stretch),
        TEST(what_is_not_there_lies_nowhere),
        TEST(what_lies_anywhere_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
