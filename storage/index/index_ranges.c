/* index_ranges.c: records which ids have ended, in ranges of 4,096 ids, and sweeps their rows.
 *
 *   range record = rows on disk u16 · ended rows among them u16 · bitmap of ended ids (left out while no id has ended)
 *
 * A bit, once set, stays set. A range without rows has no record, so ended tasks need no permanent data (I-1), and
 * memory grows only with the ranges that have rows. When most rows of a range have ended, the sweep deletes them
 * together with their contents, because single random deletes would cost one page each. */
#include "index_pages.h"

#include <assert.h>
#include <stdlib.h>

static size_t place_of(const struct ranges *ranges, uint64_t number) {
    return (size_t)((number * 0x9E3779B97F4A7C15ull) >> 20) & (ranges->capacity - 1);
}

struct range *ranges_find(const struct ranges *ranges, uint64_t number) {
    if (ranges->capacity == 0) return NULL;
    for (size_t i = place_of(ranges, number);; i = (i + 1) & (ranges->capacity - 1)) {
        struct range *range = &ranges->table[i];
        if (range->number == number + 1) return range;
        if (range->number == 0) return NULL;
    }
}

/* Returns true if the id has ended; the range must have a bitmap. */
static bool range_has_ended(const struct range *range, uint64_t id) {
    unsigned bit = (unsigned)(id & (RANGE_IDS - 1));
    return range->bits[bit / 64] >> (bit % 64) & 1;
}

bool ranges_ended(const struct ranges *ranges, uint64_t id) {
    const struct range *range = ranges_find(ranges, id >> RANGE_SHIFT);
    return range == NULL || (range->bits != NULL && range_has_ended(range, id));
}

/* Callers ask for ids in random order, and 30 million tasks have 4 MB of bitmaps. Without the prefetch, cache misses
 * took a fifth of the index thread's time (at 100,000/s in and out). */
void ranges_prefetch(const struct ranges *ranges, uint64_t id) {
    const struct range *range = ranges_find(ranges, id >> RANGE_SHIFT);
    if (range != NULL && range->bits != NULL) __builtin_prefetch(&range->bits[(id & (RANGE_IDS - 1)) / 64]);
}

static int ranges_rehash(struct ranges *ranges) {
    size_t capacity = ranges->capacity == 0 ? TABLE_CAPACITY_MIN : ranges->capacity * 2;
    struct range *old = ranges->table;
    size_t old_capacity = ranges->capacity;
    struct range *table = calloc(capacity, sizeof *table);
    if (table == NULL) return -ENOMEM;
    ranges->table = table;
    ranges->capacity = capacity;
    for (size_t i = 0; i < old_capacity; i++) {
        if (old[i].number == 0) continue;
        size_t at = place_of(ranges, old[i].number - 1);
        while (table[at].number != 0) at = (at + 1) & (capacity - 1);
        table[at] = old[i];
    }
    free(old);
    return 0;
}

/* Finds or makes a range; invalidates pointers into the table. */
static int ranges_take(struct ranges *ranges, uint64_t number, struct range **out) {
    struct range *range = ranges_find(ranges, number);
    if (range == NULL) {
        if ((ranges->count + 1) * 2 > ranges->capacity) {
            int error = ranges_rehash(ranges);
            if (error != 0) return error;
        }
        size_t at = place_of(ranges, number);
        while (ranges->table[at].number != 0) at = (at + 1) & (ranges->capacity - 1);
        range = &ranges->table[at];
        *range = (struct range){.number = number + 1};
        ranges->count++;
    }
    *out = range;
    return 0;
}

static void ranges_remove(struct ranges *ranges, struct range *range) {
    if (range->bits != NULL) ranges->bitmaps--;
    free(range->bits);
    size_t mask = ranges->capacity - 1, hole = (size_t)(range - ranges->table);
    for (size_t i = (hole + 1) & mask; ranges->table[i].number != 0; i = (i + 1) & mask) {
        size_t home = place_of(ranges, ranges->table[i].number - 1);
        /* An entry may not move before its home place, where a lookup for it starts. The free place is before that, so
         * this entry stays. */
        if (((i - home) & mask) < ((i - hole) & mask)) continue;
        ranges->table[hole] = ranges->table[i];
        hole = i;
    }
    ranges->table[hole] = (struct range){0};
    ranges->count--;
}

static int range_mark(struct ranges *ranges, struct range *range, uint64_t id) {
    if (range->bits == NULL) {
        range->bits = calloc(1, RANGE_BYTES);
        if (range->bits == NULL) return -ENOMEM;
        ranges->bitmaps++;
    }
    unsigned bit = id & (RANGE_IDS - 1);
    range->bits[bit / 64] |= 1ull << (bit % 64);
    return 0;
}

static int range_dirty(struct ranges *ranges, struct range *range) {
    if (range->dirty) return 0;
    range->dirty = true;
    return VECTOR_PUSH(&ranges->dirty, range->number - 1);
}

static uint64_t now_ns(const struct index *index) {
    return index->told_ns > index->steady_ns ? index->told_ns : index->steady_ns;
}

/* Inserts a sweep at the free index `at` or before it: after sweeps that are due earlier or at the same time, and after
 * those whose pages were requested. */
static void place_sweep(struct ranges *ranges, size_t at, struct pending_sweep sweep) {
    struct pending_sweep *items = ranges->sweeps.items;
    for (; at > ranges->sweeps_asked && items[at - 1].due_ns > sweep.due_ns; at--) items[at] = items[at - 1];
    items[at] = sweep;
}

static int queue_sweep(struct ranges *ranges, struct pending_sweep sweep) {
    int error = VECTOR_PUSH(&ranges->sweeps, sweep);
    if (error == 0) place_sweep(ranges, ranges->sweeps.count - 1, sweep);
    return error;
}

/* Makes the sweep of a range due earlier, because all its rows ended while it waited. */
static void hurry_sweep(struct ranges *ranges, uint64_t number, uint64_t due_ns) {
    const struct pending_sweep *items = ranges->sweeps.items;
    size_t at = ranges->sweeps_asked;
    while (at < ranges->sweeps.count && items[at].number != number) at++;
    if (at == ranges->sweeps.count || items[at].due_ns <= due_ns) return;
    place_sweep(ranges, at, (struct pending_sweep){.number = number, .due_ns = due_ns});
}

static uint64_t rest_ns(const struct index *index, const struct range *range) {
    uint64_t age_ns = index->steady_ns > range->since_ns ? index->steady_ns - range->since_ns : 0;
    if (range->ended == range->rows) return 0;
    return age_ns / 3 < SWEEP_REST_MAX_NS ? age_ns / 3 : SWEEP_REST_MAX_NS;
}

/* Queues a sweep when three quarters of a range's rows have ended. Reason: a sweep reads and writes every page of the
 * range, and LMDB frees a page only when three quarters of it are gone. With random endings, a sweep at one half freed
 * no pages.
 *
 * The sweep then waits for a third of the range's age, because tasks that were scheduled together mostly end in that
 * time; one sweep replaces three. The range with the newest ids is not queued until it is full. */
static int range_consider(struct index *index, struct range *range) {
    if (range->queued && range->ended == range->rows) hurry_sweep(&index->ranges, range->number - 1, now_ns(index));
    if (range->queued || range->ended == 0 || range->ended * 4u < range->rows * 3u) return 0;
    if (range->number > (index->tally.next_id >> RANGE_SHIFT)) return 0;
    range->queued = true;
    const struct pending_sweep sweep = {.number = range->number - 1, .due_ns = now_ns(index) + rest_ns(index, range)};
    return queue_sweep(&index->ranges, sweep);
}

/* Applies the `rows` fresh rows of one range; the ids from `from` to `to` (exclusive) without a row have ended. */
static int apply_fresh_range(struct index *index, uint64_t number, uint64_t from, uint64_t to) {
    struct ranges *ranges = &index->ranges;
    size_t rows = 0;
    for (uint64_t id = from; id < to; id++) {
        const struct change *change = batch_find(&index->batch, id);
        rows += change != NULL && !(change->flags & CHANGE_ENDED);
    }
    struct range *range = ranges_find(ranges, number);
    if (range == NULL && rows == 0) return 0; /* a range without record and without rows: all its ids have ended */
    bool is_new = range == NULL;
    int error = ranges_take(ranges, number, &range);
    if (error != 0) return error;
    if (is_new) {
        /* The range had no record, so its ids before this batch have no rows and have ended. */
        for (uint64_t id = number << RANGE_SHIFT; id < from && error == 0; id++) error = range_mark(ranges, range, id);
    }
    for (uint64_t id = from; id < to && error == 0; id++) {
        const struct change *change = batch_find(&index->batch, id);
        if (change == NULL || (change->flags & CHANGE_ENDED)) error = range_mark(ranges, range, id);
    }
    range->rows += (uint16_t)rows;
    range->since_ns = index->steady_ns;
    ranges->rows += rows;
    return error != 0 ? error : range_dirty(ranges, range);
}

static int apply_fresh(struct index *index) {
    const struct batch *batch = &index->batch;
    uint64_t from = batch->first_id, end = index->tally.next_id;
    size_t at = 0;
    while (from < end) {
        uint64_t number = from >> RANGE_SHIFT, next = (number + 1) << RANGE_SHIFT;
        if (next > end) next = end;
        while (at < batch->appends.count && batch->changes.items[batch->appends.items[at]].id < from) at++;
        uint64_t row = at < batch->appends.count ? batch->changes.items[batch->appends.items[at]].id : UINT64_MAX;
        if (row < next || ranges_find(&index->ranges, number) != NULL) {
            int error = apply_fresh_range(index, number, from, next);
            if (error != 0) return error;
        } else if (row != UINT64_MAX) {
            /* Skip to the next range, because a range without rows has no record. */
            next = row >> RANGE_SHIFT << RANGE_SHIFT;
        } else {
            break;
        }
        from = next;
    }
    return 0;
}

#define RANGES_AHEAD 12u

int ranges_apply(struct index *index) {
    struct batch *batch = &index->batch;
    struct ranges *ranges = &index->ranges;
    int error = apply_fresh(index);
    if (error != 0) return error;
    for (size_t i = 0; i < batch->changes.count; i++) {
        const struct change *change = &batch->changes.items[i];
        if (i + RANGES_AHEAD < batch->changes.count) ranges_prefetch(ranges, batch->changes.items[i + RANGES_AHEAD].id);
        if ((change->flags & (CHANGE_FRESH | CHANGE_ENDED)) != CHANGE_ENDED) continue;
        struct range *range = ranges_find(ranges, change->id >> RANGE_SHIFT);
        /* KEEP-1: a task ends only once. */
        if (range == NULL || ranges_ended(ranges, change->id)) return INDEX_DAMAGED;
        error = range_mark(ranges, range, change->id);
        if (error == 0) error = range_dirty(ranges, range);
        if (error != 0) return error;
        range->ended++;
        ranges->ended++;
        index->endings++;
        if (range->ended > range->rows) return INDEX_DAMAGED;
    }
    for (size_t i = 0; i < ranges->dirty.count; i++) {
        error = range_consider(index, ranges_find(ranges, ranges->dirty.items[i]));
        if (error != 0) return error;
    }
    return 0;
}

static int range_write(struct index *index, MDB_txn *txn, uint64_t number, const struct range *range) {
    uint8_t record[4 + RANGE_BYTES];
    memcpy(record, &range->rows, 2);
    memcpy(record + 2, &range->ended, 2);
    if (range->bits != NULL) memcpy(record + 4, range->bits, RANGE_BYTES);
    size_t size = range->bits != NULL ? sizeof record : 4;
    return db_put(&index->db, txn, DB_RANGES, &number, sizeof number, record, size, 0);
}

static int compare_numbers(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

int ranges_write(struct index *index, MDB_txn *txn) {
    struct numbers *dirty = &index->ranges.dirty;
    if (dirty->count > 1) qsort(dirty->items, dirty->count, sizeof *dirty->items, compare_numbers);
    for (size_t i = 0; i < dirty->count; i++) {
        struct range *range = ranges_find(&index->ranges, dirty->items[i]);
        int error = range_write(index, txn, dirty->items[i], range);
        if (error != 0) return error;
    }
    return 0;
}

void ranges_clean(struct index *index) {
    struct numbers *dirty = &index->ranges.dirty;
    for (size_t i = 0; i < dirty->count; i++) ranges_find(&index->ranges, dirty->items[i])->dirty = false;
    dirty->count = 0;
}

/* Checks I-1: the number of issued ids that have not ended equals the number of rows that have not ended, and no
 * unissued id has ended. */
static bool range_adds_up(const struct range *range, uint64_t next_id) {
    uint64_t first = (range->number - 1) << RANGE_SHIFT, given = 0, ended = 0;
    if (range->number - 1 <= next_id >> RANGE_SHIFT) given = next_id - first;
    if (given > RANGE_IDS) given = RANGE_IDS;
    if (range->bits == NULL) return range->ended == 0 && given == range->rows;
    for (uint64_t i = 0; i < RANGE_IDS / 64; i++) {
        uint64_t beyond = given >= 64 * i + 64 ? 0 : given <= 64 * i ? UINT64_MAX : UINT64_MAX << (given - 64 * i);
        if (range->bits[i] & beyond) return false;
        ended += (uint64_t)__builtin_popcountll(range->bits[i]);
    }
    return given - ended == (uint64_t)range->rows - range->ended;
}

static int load_one(struct index *index, const MDB_val *key, const MDB_val *sealed) {
    MDB_val data;
    int error = db_unseal(key, sealed, &data);
    if (error != 0) return error;
    if (key->mv_size != 8 || (data.mv_size != 4 && data.mv_size != 4 + RANGE_BYTES)) return INDEX_DAMAGED;
    uint64_t number;
    memcpy(&number, key->mv_data, sizeof number);
    struct range *range;
    error = ranges_take(&index->ranges, number, &range);
    if (error != 0) return error;
    range->since_ns = index->steady_ns;
    const uint8_t *record = data.mv_data;
    memcpy(&range->rows, record, 2);
    memcpy(&range->ended, record + 2, 2);
    if (range->rows == 0 || range->rows > RANGE_IDS || range->ended > range->rows) return INDEX_DAMAGED;
    if (data.mv_size > 4) {
        range->bits = malloc(RANGE_BYTES);
        if (range->bits == NULL) return -ENOMEM;
        index->ranges.bitmaps++;
        memcpy(range->bits, record + 4, RANGE_BYTES);
    }
    if (!range_adds_up(range, index->tally.next_id)) return INDEX_DAMAGED;
    index->ranges.rows += range->rows;
    index->ranges.ended += range->ended;
    return range_consider(index, range);
}

int ranges_load(struct index *index) {
    MDB_txn *txn;
    int error = db_read(&index->db, &txn);
    if (error != 0) return error;
    MDB_cursor *cursor = NULL;
    MDB_val key, data;
    error = db_cursor(&index->db, txn, DB_RANGES, &cursor);
    while (error == 0) {
        int found = db_cursor_get(cursor, &key, &data, MDB_NEXT);
        if (found == MDB_NOTFOUND) break;
        error = found != 0 ? found : load_one(index, &key, &data);
    }
    if (cursor != NULL) mdb_cursor_close(cursor);
    db_read_end(&index->db, txn);
    return error;
}

void ranges_deinit(struct ranges *ranges) {
    for (size_t i = 0; i < ranges->capacity; i++) free(ranges->table[i].bits);
    free(ranges->table);
    free(ranges->dirty.items);
    free(ranges->sweeps.items);
    *ranges = (struct ranges){0};
}

/* ---- the sweep */

struct sweep_range {
    struct range *range;
    size_t deleted;
};

static bool is_due(const struct index *index, size_t at) {
    const struct ranges *ranges = &index->ranges;
    if (at >= ranges->sweeps.count) return false;
    return at < ranges->sweeps_asked || ranges->sweeps.items[at].due_ns <= now_ns(index);
}

bool ranges_sweep_wanted(const struct index *index) {
    return is_due(index, 0);
}

uint64_t ranges_sweep_at(const struct index *index) {
    return index->ranges.sweeps.count > 0 ? index->ranges.sweeps.items[0].due_ns : UINT64_MAX;
}

/* One sweep of as many ranges as SWEEP_STEP_ROWS allows (step_scale). Reason: each transaction syncs twice and delays
 * the log's syncs. (At 100,000/s in and out, sweeps of one range took 95 transactions per second.) */
struct sweep {
    struct index *index;
    struct sweep_range ranges[SWEEP_STEP_RANGES];
    size_t count;
};

/* Iterates over existing rows, not over ended ids, because most ended ids may have been swept before. */
static int sweep_rows(MDB_cursor *cursor, struct sweep_range *sweep) {
    const struct range *range = sweep->range;
    uint64_t id = (range->number - 1) << RANGE_SHIFT, end = range->number << RANGE_SHIFT;
    MDB_val key = {sizeof id, &id}, value;
    sweep->deleted = 0;
    int error = db_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
    for (; error == 0; error = db_cursor_get(cursor, &key, &value, MDB_NEXT)) {
        memcpy(&id, key.mv_data, sizeof id);
        if (id >= end) break;
        if (!range_has_ended(range, id)) continue;
        error = db_cursor_del(cursor);
        if (error != 0) return error;
        sweep->deleted++;
    }
    if (error != 0 && error != MDB_NOTFOUND) return error;
    return sweep->deleted == range->ended ? 0 : INDEX_DAMAGED;
}

/* Deletes small contents of ended tasks, which the index keeps as long as the row (I-5). */
static int sweep_blobs(MDB_cursor *cursor, const struct range *range) {
    uint64_t id = (range->number - 1) << RANGE_SHIFT, end = range->number << RANGE_SHIFT;
    MDB_val key = {sizeof id, &id}, value;
    int error = db_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
    for (; error == 0; error = db_cursor_get(cursor, &key, &value, MDB_NEXT)) {
        memcpy(&id, key.mv_data, sizeof id);
        if (id >= end) break;
        if (range_has_ended(range, id)) error = db_cursor_del(cursor);
        if (error != 0) break;
    }
    return error == MDB_NOTFOUND ? 0 : error;
}

static int sweep_record(struct index *index, MDB_txn *txn, const struct sweep_range *sweep) {
    const struct range *range = sweep->range;
    uint64_t number = range->number - 1;
    struct range after = {.rows = (uint16_t)(range->rows - sweep->deleted), .bits = range->bits};
    if (after.rows > 0) return range_write(index, txn, number, &after);
    int error = db_del(&index->db, txn, DB_RANGES, &number, sizeof number);
    return error == 1 ? INDEX_DAMAGED : error;
}

/* Sweeps all chosen ranges, one table after the other. */
static int sweep_tables(struct sweep *sweep, MDB_txn *txn) {
    MDB_cursor *rows = NULL, *blobs = NULL;
    int error = db_cursor(&sweep->index->db, txn, DB_ROWS, &rows);
    if (error == 0) error = db_cursor(&sweep->index->db, txn, DB_BLOBS, &blobs);
    for (size_t i = 0; i < sweep->count && error == 0; i++) error = sweep_rows(rows, &sweep->ranges[i]);
    for (size_t i = 0; i < sweep->count && error == 0; i++) error = sweep_blobs(blobs, sweep->ranges[i].range);
    if (rows != NULL) mdb_cursor_close(rows);
    if (blobs != NULL) mdb_cursor_close(blobs);
    return error;
}

static int sweep_body(void *argument, MDB_txn *txn) {
    struct sweep *sweep = argument;
    int error = sweep_tables(sweep, txn);
    for (size_t i = 0; i < sweep->count && error == 0; i++) error = sweep_record(sweep->index, txn, &sweep->ranges[i]);
    return error;
}

static void sweep_choose(struct sweep *sweep, size_t count_max) {
    const struct ranges *ranges = &sweep->index->ranges;
    size_t rows = 0, rows_max = SWEEP_STEP_ROWS * step_scale(sweep->index);
    while (sweep->count < count_max && is_due(sweep->index, sweep->count)) {
        struct range *range = ranges_find(ranges, ranges->sweeps.items[sweep->count].number);
        assert(range != NULL && range->queued && range->bits != NULL);
        rows += range->ended;
        if (sweep->count > 0 && rows > rows_max) break;
        sweep->ranges[sweep->count++].range = range;
    }
}

/* Asks the kernel to read all pages of the chosen ranges at once; other work runs before the sweep. If the page cache
 * is smaller than the pending data, rows that waited for minutes are only on disk. Without the request, the index
 * thread took 15,000 page faults per second, one after another, and fell behind (at 100,000/s in and out). */
static int sweep_ask(struct sweep *sweep) {
    struct index *index = sweep->index;
    MDB_txn *txn;
    int error = db_read(&index->db, &txn);
    if (error != 0) return error;
    for (size_t i = 0; i < sweep->count && error == 0; i++) {
        const struct range *range = sweep->ranges[i].range;
        uint64_t end = range->number << RANGE_SHIFT;
        const struct ids ids = {.from = end - RANGE_IDS, .end = end, .entries = range->rows};
        error = pages_will_need(index, txn, DB_ROWS, &ids);
        if (error == 0) error = pages_will_need(index, txn, DB_BLOBS, &ids);
    }
    db_read_end(&index->db, txn);
    index->ranges.sweeps_asked = sweep->count;
    return error;
}

static void sweep_forget(struct ranges *ranges, size_t count) {
    ranges->sweeps.count -= count;
    memmove(ranges->sweeps.items, ranges->sweeps.items + count, ranges->sweeps.count * sizeof *ranges->sweeps.items);
    ranges->sweeps_asked = 0;
}

int ranges_sweep(struct index *index, bool *out_did) {
    struct ranges *ranges = &index->ranges;
    assert(ranges->dirty.count == 0);
    *out_did = ranges_sweep_wanted(index);
    if (!*out_did) return 0;
    struct sweep sweep = {.index = index};
    sweep_choose(&sweep, ranges->sweeps_asked > 0 ? ranges->sweeps_asked : SWEEP_STEP_RANGES);
    if (ranges->sweeps_asked == 0) return sweep_ask(&sweep);
    int error = index_write(index, sweep_body, &sweep);
    if (error != 0) return error;
    sweep_forget(ranges, sweep.count);
    size_t emptied[SWEEP_STEP_RANGES], count = 0;
    for (size_t i = 0; i < sweep.count; i++) {
        struct range *range = sweep.ranges[i].range;
        ranges->rows -= sweep.ranges[i].deleted;
        ranges->ended -= sweep.ranges[i].deleted;
        range->rows -= (uint16_t)sweep.ranges[i].deleted;
        range->ended = 0;
        range->queued = false;
        if (range->rows == 0) emptied[count++] = range->number - 1;
    }
    /* Find each range again, because a removal moves other ranges in the table. */
    for (size_t i = 0; i < count; i++) ranges_remove(ranges, ranges_find(ranges, emptied[i]));
    return 0;
}
