/* index_calendar.c: updates the calendar in each commit, and rebuilds it from the rows when necessary. See
 * index_calendar.h. */
#include "index_calendar.h"

#include <assert.h>
#include <stdlib.h>

static const char state_key[] = "state";

int calendar_state_read(struct index *index, MDB_txn *txn, uint64_t position, struct calendar_state *out) {
    MDB_val data;
    if (!index->db.has_calendar) return 1;
    int error = db_get(&index->db, txn, DB_CALENDAR, state_key, sizeof state_key - 1, &data);
    if (error != 0) return error;
    if (data.mv_size != sizeof *out) return 1; /* the table was written by another version, so it is rebuilt */
    memcpy(out, data.mv_data, sizeof *out);
    return out->version == CALENDAR_VERSION && out->position == position ? 0 : 1;
}

int calendar_open(struct index *index) {
    struct calendar *calendar = calloc(1, sizeof *calendar);
    if (calendar == NULL) return -ENOMEM;
    index->calendar = calendar;
    MDB_txn *txn;
    int error = db_read(&index->db, &txn);
    if (error != 0) return error;
    error = calendar_state_read(index, txn, index->meta.position, &calendar->state);
    db_read_end(&index->db, txn);
    if (error != 1) return error;
    calendar->is_stale = true;
    /* An index without rows needs no rebuild. */
    calendar->state = (struct calendar_state){.version = CALENDAR_VERSION, .position = index->meta.position};
    calendar->state.counted = index->meta.next_id == 1 ? UINT64_MAX : 1;
    return 0;
}

void calendar_close(struct index *index) {
    if (index->calendar == NULL) return;
    calendar_writer_deinit(&index->calendar->minutes);
    calendar_writer_deinit(&index->calendar->hours);
    free(index->calendar);
    index->calendar = NULL;
}

size_t calendar_bytes(const struct index *index) {
    const struct calendar *calendar = index->calendar;
    if (calendar == NULL) return 0;
    return calendar_writer_bytes(&calendar->minutes) + calendar_writer_bytes(&calendar->hours);
}

/* ---- with a commit */

static int add_change(struct calendar_writer *minutes, const struct change *change) {
    bool was = !(change->flags & CHANGE_FRESH) && change->first_state == ROW_WAITING;
    bool is = !(change->flags & CHANGE_ENDED) && change->state == ROW_WAITING;
    uint64_t from = change->first_due_ms / CALENDAR_MINUTE_MS, to = change->due_ms / CALENDAR_MINUTE_MS;
    int error = 0;
    if (was && is && from == to) return 0;
    if (was) error = calendar_add(minutes, change->queue, 0, from, -1);
    if (is && error == 0) error = calendar_add(minutes, change->queue, 0, to, 1);
    return error;
}

static void reset(struct calendar *calendar) {
    calendar_writer_reset(&calendar->minutes);
    calendar_writer_reset(&calendar->hours);
}

static int sort(struct calendar *calendar) {
    int error = calendar_sort(&calendar->minutes);
    return error == 0 ? calendar_hours(&calendar->minutes, &calendar->hours) : error;
}

int calendar_prepare(struct index *index) {
    struct calendar *calendar = index->calendar;
    const struct batch *batch = &index->batch;
    int error = 0;
    reset(calendar);
    for (size_t i = 0; i < batch->changes.count && error == 0; i++) {
        const struct change *change = &batch->changes.items[i];
        if (change->id < calendar->state.counted) error = add_change(&calendar->minutes, change);
    }
    return error == 0 ? sort(calendar) : error;
}

/* Writes the table's state. */
static int write_state(struct index *index, MDB_txn *txn, const struct calendar_state *state) {
    struct calendar *calendar = index->calendar;
    int error = 0;
    if (calendar->is_stale) error = db_negative(mdb_drop(txn, index->db.table[DB_CALENDAR], 0));
    if (error == 0) error = calendar_writer_write(index, txn, &calendar->minutes);
    if (error == 0) error = calendar_writer_write(index, txn, &calendar->hours);
    if (error != 0) return error;
    return db_put(&index->db, txn, DB_CALENDAR, state_key, sizeof state_key - 1, state, sizeof *state, 0);
}

int calendar_write(struct index *index, MDB_txn *txn, uint64_t position) {
    struct calendar_state state = index->calendar->state;
    state.position = position;
    return write_state(index, txn, &state);
}

static void arrive(struct calendar *calendar, const struct calendar_state *state) {
    calendar->state = *state;
    calendar->is_stale = false;
    reset(calendar);
}

void calendar_arrive(struct index *index) {
    struct calendar_state state = index->calendar->state;
    state.position = index->meta.position;
    arrive(index->calendar, &state);
}

/* ---- rebuild from the rows */

bool calendar_count_wanted(const struct index *index) {
    return index->calendar->state.counted != UINT64_MAX;
}

struct count {
    struct index *index;
    struct calendar_state state;
};

static int count_row(struct index *index, MDB_txn *txn, uint64_t id, const MDB_val *key, const MDB_val *sealed) {
    struct row row;
    MDB_val data;
    if (ranges_ended(&index->ranges, id)) return 0;
    int error = row_get_leased(index, txn, id, &row);
    if (error <= 0) return error; /* 1: the task is leased, so the calendar does not count it */
    error = db_unseal(key, sealed, &data);
    if (error == 0) error = row_unpack(id, &data, &row);
    if (error != 0 || row.state != ROW_WAITING) return error;
    return calendar_add(&index->calendar->minutes, row.queue, 0, row.due_ms / CALENDAR_MINUTE_MS, 1);
}

/* Rows come in the order of their ids. */
static int count_rows(struct count *count, MDB_txn *txn) {
    MDB_cursor *cursor;
    uint64_t id = count->state.counted;
    int error = db_cursor(&count->index->db, txn, DB_ROWS, &cursor);
    if (error != 0) return error;
    MDB_val key = {sizeof id, &id}, sealed;
    int found = db_cursor_get(cursor, &key, &sealed, MDB_SET_RANGE);
    for (unsigned i = 0; found == 0 && error == 0 && i < CALENDAR_COUNT_ROWS; i++) {
        if (key.mv_size != sizeof id) error = INDEX_DAMAGED;
        if (error == 0) memcpy(&id, key.mv_data, sizeof id);
        if (error == 0) error = count_row(count->index, txn, id, &key, &sealed);
        count->state.counted = id + 1;
        if (error == 0) found = db_cursor_get(cursor, &key, &sealed, MDB_NEXT);
    }
    mdb_cursor_close(cursor);
    if (error != 0 || found == 0) return error;
    count->state.counted = UINT64_MAX;
    return found == MDB_NOTFOUND ? 0 : found;
}

static int count_body(void *argument, MDB_txn *txn) {
    struct count *count = argument;
    struct calendar *calendar = count->index->calendar;
    reset(calendar);
    count->state = calendar->state;
    int error = count_rows(count, txn);
    if (error == 0) error = sort(calendar);
    return error == 0 ? write_state(count->index, txn, &count->state) : error;
}

int calendar_count(struct index *index, bool *out_did) {
    /* The caller makes sure that no batch is prepared. So no commit changes the rows on disk while they are counted. */
    assert(!index->batch.is_prepared);
    *out_did = calendar_count_wanted(index);
    if (!*out_did) return 0;
    struct count count = {.index = index};
    int error = index_write(index, count_body, &count);
    if (error == 0)
        arrive(index->calendar, &count.state);
    else
        reset(index->calendar);
    return error;
}
