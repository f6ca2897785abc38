/* index_fetch.c: ranges that wait for their sweep, and the reading of their pages ahead of it.
 *
 *   range_consider ──► unread ──(index_fetch, any thread)──► ready ──► ranges_sweep
 *                         └──────(nobody fetches)───────────────┘
 *
 * Where tasks wait for minutes, and more of them than the page cache holds, the rows that a sweep deletes are on the
 * disk alone: a page fault for each of some 200 pages a range, one after the other, while commits and windows wait for
 * the index's only writer (100,000/s in and out: 15,000 faults a second, and 17 GB of index became 25). So others read
 * them. What is ready is as much as one sweep takes, and is swept once it is half of that, or nothing else comes: the
 * pages are still there, and few transactions do it. First come, first swept. */
#include "index_parts.h"

#include <stdlib.h>

#include "seeded_bug.h"

static struct sweep_item *list_first(const struct sweep_list *list) {
    return &list->entries.items[list->first];
}

static size_t list_count(const struct sweep_list *list) {
    return list->entries.count - list->first;
}

static int list_push(struct sweep_list *list, struct sweep_item item) {
    int error = VECTOR_PUSH(&list->entries, item);
    if (error == 0) list->rows += item.rows;
    return error;
}

static void list_pop(struct sweep_list *list) {
    struct sweep_item *items = list->entries.items;
    list->rows -= items[list->first++].rows;
    if (list->first * 2 < list->entries.count) return; /* so that moving what is left costs little */
    list->entries.count -= list->first;
    memmove(items, items + list->first, list->entries.count * sizeof *items);
    list->first = 0;
}

static uint64_t rows_max(const struct index *index) {
    return SWEEP_STEP_ROWS * step_scale(index);
}

/* Under the lock. What is ready, or soon, is no more than one sweep takes. */
static bool may_fetch(const struct index *index) {
    const struct sweeps *sweeps = &index->sweeps;
    if (list_count(&sweeps->unread) == 0) return false;
    uint64_t ahead = sweeps->ready.rows + sweeps->reading;
    return ahead == 0 || ahead + list_first(&sweeps->unread)->rows <= rows_max(index);
}

/* Under the lock. */
static bool may_sweep(const struct index *index) {
    const struct sweeps *sweeps = &index->sweeps;
    if (list_count(&sweeps->ready) == 0) return false;
    bool is_last = sweeps->reading == 0 && !may_fetch(index);
    return is_last || sweeps->ready.rows * 2 >= rows_max(index);
}

bool index_may_fetch(struct index *index) {
    pthread_mutex_lock(&index->sweeps.lock);
    bool may = may_fetch(index);
    pthread_mutex_unlock(&index->sweeps.lock);
    return may;
}

bool index_may_sweep(struct index *index) {
    pthread_mutex_lock(&index->sweeps.lock);
    bool may = may_sweep(index);
    pthread_mutex_unlock(&index->sweeps.lock);
    return may;
}

/* ---- the index thread's */

int sweeps_push(struct index *index, uint64_t number, uint32_t rows) {
    struct sweeps *sweeps = &index->sweeps;
    pthread_mutex_lock(&sweeps->lock);
    struct sweep_list *list = index->options.sweeps_fetched ? &sweeps->unread : &sweeps->ready;
    int error = list_push(list, (struct sweep_item){number, rows});
    pthread_mutex_unlock(&sweeps->lock);
    return error;
}

size_t sweeps_choose(struct index *index, uint64_t out[SWEEP_STEP_RANGES]) {
    struct sweeps *sweeps = &index->sweeps;
    size_t count = 0;
    uint64_t rows = 0;
    pthread_mutex_lock(&sweeps->lock);
    size_t count_max = may_sweep(index) ? list_count(&sweeps->ready) : 0;
    for (; count < count_max && count < SWEEP_STEP_RANGES; count++) {
        const struct sweep_item *item = list_first(&sweeps->ready) + count;
        rows += item->rows;
        if (count > 0 && rows > rows_max(index)) break;
        out[count] = item->number;
    }
    pthread_mutex_unlock(&sweeps->lock);
    return count;
}

void sweeps_swept(struct index *index, size_t count) {
    struct sweeps *sweeps = &index->sweeps;
    pthread_mutex_lock(&sweeps->lock);
    for (size_t i = 0; i < count; i++) list_pop(&sweeps->ready);
    pthread_mutex_unlock(&sweeps->lock);
}

void sweeps_init(struct sweeps *sweeps) {
    pthread_mutex_init(&sweeps->lock, NULL);
}

void sweeps_deinit(struct sweeps *sweeps) {
    pthread_mutex_destroy(&sweeps->lock);
    free(sweeps->unread.entries.items);
    free(sweeps->ready.entries.items);
}

/* ---- any thread */

/* A look at each value of the range has its page read. */
static int touch_table(struct index *index, MDB_txn *txn, enum db_table table, uint64_t number) {
    MDB_cursor *cursor;
    int error = db_cursor(&index->db, txn, table, &cursor);
    if (error != 0) return error;
    uint64_t id = number << RANGE_SHIFT, end = (number + 1) << RANGE_SHIFT;
    MDB_val key = {sizeof id, &id}, value;
    error = db_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
    for (; error == 0; error = db_cursor_get(cursor, &key, &value, MDB_NEXT)) {
        memcpy(&id, key.mv_data, sizeof id);
        if (id >= end) break;
        if (value.mv_size > 0) (void)*(const volatile uint8_t *)value.mv_data;
    }
    mdb_cursor_close(cursor);
    return error == MDB_NOTFOUND ? 0 : error;
}

static int touch_range(struct index *index, uint64_t number) {
    MDB_txn *txn;
    int error = db_read(&index->db, &txn);
    if (error != 0) return error;
    error = touch_table(index, txn, DB_ROWS, number);
    if (error == 0) error = touch_table(index, txn, DB_BLOBS, number);
    db_read_end(&index->db, txn);
    index_touched(index, READS_PER_TRIM);
    return error;
}

int index_fetch(struct index *index, bool *out_did) {
    struct sweeps *sweeps = &index->sweeps;
    pthread_mutex_lock(&sweeps->lock);
    *out_did = may_fetch(index);
    struct sweep_item item = {0};
    if (*out_did) {
        item = *list_first(&sweeps->unread);
        list_pop(&sweeps->unread);
        sweeps->reading += item.rows;
    }
    pthread_mutex_unlock(&sweeps->lock);
    if (!*out_did) return 0;
    int error = touch_range(index, item.number);
    pthread_mutex_lock(&sweeps->lock);
    sweeps->reading -= item.rows;
    if (error == 0 && !SEEDED_BUG(fetched_never_swept)) error = list_push(&sweeps->ready, item);
    pthread_mutex_unlock(&sweeps->lock);
    return error;
}
