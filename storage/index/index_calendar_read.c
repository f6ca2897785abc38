/* index_calendar_read.c: answers calendar queries. Any thread; each query has its own snapshot. See index_calendar.h.
 *
 * A query adds counts of whole hours where possible, and of minutes only at the edges. For a chunk that lies completely
 * in a span, it reads only the sum in the chunk's head. */
#include <assert.h>

#include "index_calendar.h"

struct question {
    struct reading reading;
    const struct index_calendar_query *query;
    struct index_calendar *out;
    uint64_t to_ms;
    size_t chunks_left;
};

/* Part of a line whose chunks are read: the cells from one time to another. */
struct walk {
    struct calendar_key key;
    uint64_t from, to; /* cells */
    uint64_t first;    /* first cell of the current chunk */
    MDB_val data;
};
typedef int walk_each(struct question *question, const struct walk *walk, void *argument);

static int walk_line(struct question *question, struct walk *walk, walk_each *each, void *argument) {
    struct index *index = question->reading.index;
    MDB_cursor *cursor;
    uint8_t bytes[CALENDAR_KEY_SIZE];
    if (walk->from >= walk->to) return 0;
    int error = db_cursor(&index->db, question->reading.txn, DB_CALENDAR, &cursor);
    if (error != 0) return error;
    const struct calendar_key wanted = walk->key;
    walk->key.chunk = walk->from / CALENDAR_CELLS;
    calendar_key_encode(&walk->key, bytes);
    MDB_val key = {sizeof bytes, bytes}, sealed;
    int found = db_cursor_get(cursor, &key, &sealed, MDB_SET_RANGE);
    for (; found == 0; found = db_cursor_get(cursor, &key, &sealed, MDB_NEXT)) {
        if (key.mv_size != CALENDAR_KEY_SIZE) break; /* this entry is the table's state, which comes last */
        if (!calendar_key_decode(&key, &walk->key)) error = INDEX_DAMAGED;
        if (error != 0 || walk->key.line != wanted.line || walk->key.level != wanted.level) break;
        walk->first = walk->key.chunk * CALENDAR_CELLS;
        if (walk->first >= walk->to) break;
        if (question->chunks_left-- == 0) error = -E2BIG;
        if (error == 0) error = db_unseal(&key, &sealed, &walk->data);
        if (error == 0) error = each(question, walk, argument);
        if (error != 0) break;
        index_touched(index, 1);
    }
    mdb_cursor_close(cursor);
    if (error == 0 && found != 0 && found != MDB_NOTFOUND) error = found;
    return error;
}

static int add_chunk(struct question *question, const struct walk *walk, void *argument) {
    uint64_t cells[CALENDAR_CELLS], total, *sum = argument;
    if (walk->first >= walk->from && walk->first + CALENDAR_CELLS <= walk->to) {
        int error = calendar_total(&walk->data, &total);
        *sum += total;
        return error;
    }
    int error = calendar_unpack(&walk->data, cells, &total);
    if (error != 0) return error;
    for (unsigned i = 0; i < CALENDAR_CELLS; i++)
        if (walk->first + i >= walk->from && walk->first + i < walk->to) *sum += cells[i];
    return 0;
}

static int sum_cells(struct question *question, uint32_t line, uint8_t level, uint64_t from, uint64_t to,
                     uint64_t *sum) {
    struct walk walk = {.key = {line, level, 0}, .from = from, .to = to};
    return walk_line(question, &walk, add_chunk, sum);
}

/* Adds the tasks of a line in the minutes [from, to), by whole hours where possible. */
static int sum_minutes(struct question *question, uint32_t line, uint64_t from, uint64_t to, uint64_t *sum) {
    const uint64_t minutes = CALENDAR_HOUR_MS / CALENDAR_MINUTE_MS;
    uint64_t from_hour = from / minutes + (from % minutes != 0), to_hour = to / minutes;
    if (from_hour >= to_hour) return sum_cells(question, line, 0, from, to, sum);
    int error = sum_cells(question, line, 1, from_hour, to_hour, sum);
    if (error == 0) error = sum_cells(question, line, 0, from, from_hour * minutes, sum);
    return error == 0 ? sum_cells(question, line, 0, to_hour * minutes, to, sum) : error;
}

static int add_spans(struct question *question, const struct walk *walk, void *argument) {
    uint64_t cells[CALENDAR_CELLS], total, cell_ms = *(const uint64_t *)argument;
    uint64_t per_span = question->query->step_ms / cell_ms;
    int error = calendar_unpack(&walk->data, cells, &total);
    for (unsigned i = 0; i < CALENDAR_CELLS && error == 0; i++) {
        uint64_t cell = walk->first + i;
        if (cells[i] == 0 || cell < walk->from || cell >= walk->to) continue;
        question->out->counts[(cell - walk->from) / per_span] += cells[i];
    }
    return error;
}

static int count_line(struct question *question, uint32_t line) {
    const struct index_calendar_query *query = question->query;
    struct index_calendar *out = question->out;
    bool by_hour = query->from_ms % CALENDAR_HOUR_MS == 0 && query->step_ms % CALENDAR_HOUR_MS == 0;
    uint8_t level = by_hour ? 1 : 0;
    uint64_t cell_ms = calendar_cell_ms(level);
    struct walk walk = {.key = {line, level, 0}, .from = query->from_ms / cell_ms, .to = question->to_ms / cell_ms};
    int error = walk_line(question, &walk, add_spans, &cell_ms);
    uint64_t from = query->from_ms / CALENDAR_MINUTE_MS, to = question->to_ms / CALENDAR_MINUTE_MS;
    if (error == 0) error = sum_minutes(question, line, 0, from, &out->before);
    return error == 0 ? sum_minutes(question, line, to, UINT64_MAX, &out->after) : error;
}

static int count(struct question *question) {
    const struct index_calendar_query *query = question->query;
    uint64_t from = query->from_ms / CALENDAR_MINUTE_MS, to = question->to_ms / CALENDAR_MINUTE_MS;
    int error = query->of_all ? count_line(question, CALENDAR_ALL) : 0;
    for (size_t i = 0; i < query->queue_count && !query->of_all && error == 0; i++)
        error = count_line(question, query->queues[i]);
    for (size_t i = 0; i < query->queue_count && query->by_queue && error == 0; i++)
        error = sum_minutes(question, query->queues[i], from, to, &question->out->by_queue[i]);
    return error;
}

static uint64_t *zeros(struct arena *arena, size_t count) {
    uint64_t *made = arena_alloc(arena, (count + 1) * sizeof *made);
    if (made != NULL) memset(made, 0, (count + 1) * sizeof *made);
    return made;
}

int index_calendar(struct index *index, const struct index_calendar_query *query, struct arena *arena,
                   struct index_calendar *out) {
    assert(query->step_ms > 0 && query->step_ms % CALENDAR_MINUTE_MS == 0 && query->from_ms % CALENDAR_MINUTE_MS == 0);
    struct question question = {.query = query, .out = out, .chunks_left = CALENDAR_CHUNKS_MAX};
    question.to_ms = query->from_ms + query->step_ms * query->span_count;
    *out = (struct index_calendar){.counts = zeros(arena, query->span_count),
                                   .by_queue = zeros(arena, query->queue_count)};
    if (out->counts == NULL || out->by_queue == NULL) return -ENOMEM;
    int error = reading_begin(&question.reading, index, arena, false);
    if (error != 0) return error;
    const struct meta_record *meta = &question.reading.meta;
    struct calendar_state state;
    error = calendar_state_read(index, question.reading.txn, meta->position, &state);
    out->position = meta->position;
    out->steady_ms = meta->steady_ns / 1000000;
    out->next_id = meta->next_id;
    out->counted = error == 0 ? state.counted : 1;
    if (error == 0 && state.counted != UINT64_MAX) error = 1;
    if (error == 0) error = count(&question);
    reading_end(&question.reading);
    return error;
}
