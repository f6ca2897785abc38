/* index_verify.c: recomputes all derived data from the rows of an index that is not in use, and compares it.
 *
 * Verification makes five passes over one snapshot of the index, each with these checks:
 *   1. Rows: the checksums, the digest, the counts, the ranges and the contents are correct.
 *   2. Slots of the timing wheel: every waiting row has an entry in a slot.
 *   3. Keys: every row with a key is in the tail or in exactly one run, in order; the run's fence and filter admit it.
 *   4. Held tasks: the tables of leases and of dead letters are correct.
 *   5. Calendar: the calendar counts every task with a due time.
 * Keys and the calendar are compared as sums over their entries, so no pass needs random access. */
#include "index_calendar.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct verify {
    struct index *index;
    MDB_txn *txn;
    struct index_verification found;
    struct queue_tally *queues;
    uint64_t live;
    uint64_t waiting;
    uint64_t held;
    uint64_t leased; /* number of rows in DB_LEASED */
    uint64_t keys_sum, keys;
    struct calendar_state calendar; /* state of the calendar; invalid if the index has no calendar */
    uint64_t calendar_sums[CALENDAR_LEVELS], calendar_all_sums[CALENDAR_LEVELS];
    uint64_t **marks; /* one bitmap per entry of the table of ranges; a set bit: an entry in a slot has this task id */
    uint64_t marked;
    uint64_t known_run; /* number of the run to which the previous chunk belonged */
    uint64_t producer;  /* producer to which the last result belonged */
    uint64_t results;   /* number of results of `producer` so far */
    char *message;
    size_t message_size;
    void (*progress)(void *argument, uint64_t done, uint64_t total);
    void *argument;
};

__attribute__((format(printf, 2, 3))) static int complain(struct verify *verify, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(verify->message, verify->message_size, format, arguments);
    va_end(arguments);
    return INDEX_DAMAGED;
}

static uint64_t mix(uint64_t hash, uint64_t id) {
    uint64_t mixed = (hash ^ id * 0x9E3779B97F4A7C15ull) * 0xBF58476D1CE4E5B9ull;
    return mixed ^ mixed >> 31;
}

typedef int verify_each(struct verify *verify, const MDB_val *key, const MDB_val *data);

/* Calls `each` with every entry of a table, checked and unsealed. */
static int each_entry(struct verify *verify, enum db_table table, const char *name, verify_each *each) {
    MDB_cursor *cursor;
    int error = db_cursor(&verify->index->db, verify->txn, table, &cursor);
    if (error != 0) return error;
    MDB_val key, sealed, data;
    int found = 0;
    while (error == 0 && (found = db_cursor_get(cursor, &key, &sealed, MDB_NEXT)) == 0) {
        index_touched(verify->index, 1);
        error = db_unseal(&key, &sealed, &data);
        if (error != 0)
            complain(verify, "index: an entry of %s has a wrong checksum", name);
        else
            error = each(verify, &key, &data);
    }
    if (error == 0 && found != MDB_NOTFOUND) error = found;
    mdb_cursor_close(cursor);
    return error;
}

static int verify_blob(struct verify *verify, const struct row *row) {
    if (row->blob_size == 0 || row->blob_at >= verify->index->meta.log_start) return 0;
    MDB_val data;
    int error = db_get(&verify->index->db, verify->txn, DB_BLOBS, &row->id, sizeof row->id, &data);
    if (error == 1) return complain(verify, "index: the content of task %llu is missing", (unsigned long long)row->id);
    if (error != 0) return error;
    uint8_t *content = malloc(data.mv_size + 1);
    if (content == NULL) return -ENOMEM;
    memcpy(content, data.mv_data, data.mv_size);
    error = keyring_apply(verify->index->keyring, row->id, content, data.mv_size);
    bool is_whole = error == 0 && data.mv_size == row->blob_size && frame_sum(content, data.mv_size) == row->blob_sum;
    bool is_erased = error == 1 || (error == 0 && content_is_erased(content, data.mv_size));
    free(content);
    if (is_erased) {
        verify->found.erased_task = row->id; /* the index is older than the redaction that erased this content */
        return complain(verify, "index: the content of task %llu has been erased", (unsigned long long)row->id);
    }
    if (error >= 0 && !is_whole) {
        return complain(verify, "index: the content of task %llu is damaged", (unsigned long long)row->id);
    }
    return error;
}

/* Checks I-5. */
static int verify_blob_row(struct verify *verify, const MDB_val *key, const MDB_val *data) {
    (void)data;
    MDB_val row;
    if (key->mv_size != sizeof(uint64_t)) return complain(verify, "index: the key of a content is malformed");
    int error = db_get(&verify->index->db, verify->txn, DB_ROWS, key->mv_data, key->mv_size, &row);
    if (error != 1) return error;
    uint64_t id;
    memcpy(&id, key->mv_data, sizeof id);
    return complain(verify, "index: task %llu has a content but no row", (unsigned long long)id);
}

/* Adds a waiting row to the expected calendar; verify_calendar subtracts it again. */
static void count_waiting(struct verify *verify, const struct row *row) {
    if (row->state != ROW_WAITING || row->id >= verify->calendar.counted) return;
    for (unsigned level = 0; level < CALENDAR_LEVELS; level++) {
        uint64_t cell = row->due_ms / calendar_cell_ms(level);
        verify->calendar_sums[level] += mix(cell, row->queue);
        verify->calendar_all_sums[level] += mix(cell, 0);
    }
}

static int verify_calendar(struct verify *verify, const MDB_val *key, const MDB_val *data) {
    struct calendar_key at;
    uint64_t cells[CALENDAR_CELLS], total;
    if (key->mv_size != CALENDAR_KEY_SIZE)
        return 0; /* this entry is the calendar's state, not a chunk of the calendar */
    if (!calendar_key_decode(key, &at) || calendar_unpack(data, cells, &total) != 0)
        return complain(verify, "index: a chunk of the calendar is malformed");
    uint64_t *sum = at.line == CALENDAR_ALL ? verify->calendar_all_sums : verify->calendar_sums;
    for (unsigned i = 0; i < CALENDAR_CELLS; i++)
        sum[at.level] -= cells[i] * mix(at.chunk * CALENDAR_CELLS + i, at.line);
    return 0;
}

/* Compares the calendar. A missing calendar, or one of another position, is no error: the next writer of the index
 * rebuilds it. */
static int compare_calendar(struct verify *verify) {
    if (verify->calendar.version == 0) return 0;
    int error = each_entry(verify, DB_CALENDAR, "the calendar", verify_calendar);
    for (unsigned level = 0; level < CALENDAR_LEVELS && error == 0; level++)
        if (verify->calendar_sums[level] != 0 || verify->calendar_all_sums[level] != 0)
            error = complain(verify, "index: the calendar does not match the rows");
    return error;
}

static int verify_row(struct verify *verify, const MDB_val *key, const MDB_val *data) {
    struct row row;
    uint64_t id;
    if (key->mv_size != sizeof id) return complain(verify, "index: a row's key has a wrong size");
    memcpy(&id, key->mv_data, sizeof id);
    if (row_unpack(id, data, &row) != 0)
        return complain(verify, "index: row %llu is malformed", (unsigned long long)id);
    if (++verify->found.rows % 65536 == 0 && verify->progress != NULL) {
        verify->progress(verify->argument, verify->found.rows, verify->index->ranges.rows);
    }
    if (ranges_find(&verify->index->ranges, id >> RANGE_SHIFT) == NULL) {
        return complain(verify, "index: row %llu is in a range of ended tasks", (unsigned long long)id);
    }
    if (ranges_ended(&verify->index->ranges, id)) return 0;
    struct row leased;
    int error = row_get_leased(verify->index, verify->txn, id, &leased);
    if (error < 0) return error;
    if (error == 0) {
        row = leased;
        verify->leased++;
    }
    verify->found.digest += row_hash(&row);
    struct queue_tally *queue = &verify->queues[queue_place(row.queue)];
    if (index_number_at(verify->index, queue_place(row.queue)) != row.queue)
        return complain(verify, "index: task %llu is in a deleted queue", (unsigned long long)id);
    if (row.state == ROW_WAITING)
        queue->waiting[row.base][row.priority]++;
    else if (row.state == ROW_LEASED)
        queue->in_flight++;
    else
        queue->dead++;
    count_waiting(verify, &row);
    verify->waiting += row.state == ROW_WAITING;
    verify->held += row.state != ROW_WAITING;
    verify->live += row.state != ROW_BURIED;
    if (row.key_size > 0) {
        verify->keys++;
        verify->keys_sum += mix(row_key_hash(row.queue, row.key, row.key_size), id);
    }
    return verify_blob(verify, &row);
}

static int mark(struct verify *verify, uint64_t id) {
    const struct ranges *ranges = &verify->index->ranges;
    uint64_t **bits = &verify->marks[ranges_find(ranges, id >> RANGE_SHIFT) - ranges->table];
    if (*bits == NULL) *bits = calloc(1, RANGE_BYTES);
    if (*bits == NULL) return -ENOMEM;
    unsigned bit = id & (RANGE_IDS - 1);
    verify->marked += !((*bits)[bit / 64] >> (bit % 64) & 1);
    (*bits)[bit / 64] |= 1ull << (bit % 64);
    return 0;
}

static int verify_slot(struct verify *verify, const MDB_val *key, const MDB_val *data) {
    struct slot_key at;
    if (!slot_key_decode(key, &at) || pairs_in(data) == 0) {
        return complain(verify, "index: a chunk of a due slot is malformed");
    }
    for (size_t i = 0; i < pairs_in(data); i++) {
        struct pair pair = pair_at(data->mv_data, i);
        verify->found.slots_entries++;
        if (pair.first >> slot_shift(at.level) != at.slot) {
            return complain(verify, "index: task %llu is in a wrong due slot", (unsigned long long)pair.id);
        }
        if (ranges_ended(&verify->index->ranges, pair.id)) continue;
        struct row row;
        int error = row_get(verify->index, verify->txn, pair.id, &row);
        if (error == 1) return complain(verify, "index: row %llu is missing", (unsigned long long)pair.id);
        if (error != 0) return error;
        bool is_fresh = row.state == ROW_WAITING && row.due_ms == pair.first && row.queue == at.line.queue &&
                        row.base == at.line.base && row.priority == at.line.priority;
        if (is_fresh) error = mark(verify, pair.id);
        if (error != 0) return error;
    }
    return 0;
}

/* Reports INDEX_DAMAGED as damage. Passes other errors on, for example a lack of memory, because they prove no damage.
 */
static int judge_reading(struct verify *verify, int error, const char *what) {
    return error == INDEX_DAMAGED ? complain(verify, "index: %s is malformed", what) : error;
}

static void count_key(struct verify *verify, struct pair pair) {
    if (ranges_ended(&verify->index->ranges, pair.id)) return;
    verify->keys--;
    verify->keys_sum -= mix(pair.first, pair.id);
}

static int verify_tail(struct verify *verify, const MDB_val *key, const MDB_val *data) {
    if (key->mv_size != 16) return complain(verify, "index: an entry of the tail is malformed");
    struct pair pair = {get_be64(key->mv_data), get_be64((const uint8_t *)key->mv_data + 8)};
    const struct run *filter = verify->index->runs.tail_filter;
    if (!bloom_has(filter->bloom, filter->blocks, pair.first))
        return complain(verify, "index: the filter of the tail lacks a key");
    count_key(verify, pair);
    return 0;
}

static int verify_run(struct verify *verify, const struct run *run) {
    uint64_t last = 0, count = 0;
    for (uint32_t chunk = 0; chunk < run->chunks; chunk++) {
        MDB_val data;
        int error = run_read_chunk(verify->index, verify->txn, run, chunk, &data);
        if (error == INDEX_DAMAGED)
            return complain(verify, "index: a chunk of key run %llu is damaged", (unsigned long long)run->number);
        if (error != 0) return error;
        index_touched(verify->index, 1);
        uint64_t fence;
        error = run_fence(verify->index, verify->txn, run, chunk, &fence);
        if (error != 0) return judge_reading(verify, error, "a fence");
        if (pair_at(data.mv_data, 0).first != fence) return complain(verify, "index: a fence is wrong");
        for (size_t i = 0; i < pairs_in(&data); i++, count++) {
            struct pair pair = pair_at(data.mv_data, i);
            if (pair.first < last) return complain(verify, "index: a key run is out of order");
            bool may = false;
            error = run_may_have(verify->index, verify->txn, run, pair.first, &may);
            if (error != 0) return judge_reading(verify, error, "a filter");
            if (!may) return complain(verify, "index: the filter of a key run lacks a key");
            last = pair.first;
            count_key(verify, pair);
        }
    }
    return count == run->count ? 0 : complain(verify, "index: a key run has a wrong count");
}

static int verify_held(struct verify *verify, const MDB_val *key, const MDB_val *data) {
    const uint8_t *at = key->mv_data;
    if (key->mv_size != HELD_KEY_SIZE) return complain(verify, "index: a lease is malformed");
    uint64_t id = get_be64(at + 13);
    struct row row;
    int error = ranges_ended(&verify->index->ranges, id) ? 1 : row_get(verify->index, verify->txn, id, &row);
    if (error < 0) return error;
    if (error == 1 || row.state != at[0] || row.queue != get_be32(at + 1) || row.due_ms != get_be64(at + 5)) {
        return complain(verify, "index: a lease or dead letter of task %llu has no row", (unsigned long long)id);
    }
    verify->held--;
    return 0;
}

static int verify_queue(struct verify *verify, const MDB_val *key, const MDB_val *data) {
    Tarry__QueuePut *queue = tarry__queue_put__unpack(NULL, data->mv_size, data->mv_data);
    if (queue == NULL) return complain(verify, "index: a queue is malformed");
    bool is_own = key->mv_size == 4 && queue->number == get_be32(key->mv_data);
    const bool is_former = is_own && queue_number_is_valid(queue->number) &&
                           index_number_at(verify->index, queue_place(queue->number)) != queue->number;
    const bool is_lost = is_former && !queue->deleted;
    if (!is_former) verify->found.digest += queue_hash(queue);
    tarry__queue_put__free_unpacked(queue, NULL);
    if (is_lost) return complain(verify, "index: two queues that are not deleted have the same place");
    return is_own ? 0 : complain(verify, "index: a queue is stored under the number of another queue");
}

static int verify_producer(struct verify *verify, const MDB_val *key, const MDB_val *data) {
    uint64_t producer;
    if (key->mv_size != sizeof producer) return complain(verify, "index: a producer is malformed");
    memcpy(&producer, key->mv_data, sizeof producer);
    verify->found.digest += producer_hash(producer);
    return 0;
}

/* Checks a result. Results are sorted by producer. Every result must have a producer, and no producer may have too many
 * results, because the broker refuses to start with such an index (ONCE-1). */
static int verify_result(struct verify *verify, const MDB_val *key, const MDB_val *data) {
    if (key->mv_size != 16) return complain(verify, "index: a result is malformed");
    uint64_t producer = get_be64(key->mv_data);
    MDB_val record;
    if (producer != verify->producer) {
        int error = db_get(&verify->index->db, verify->txn, DB_PRODUCERS, &producer, sizeof producer, &record);
        if (error < 0) return error;
        if (error == 1)
            return complain(verify, "index: a result belongs to producer %llu, which has ended",
                            (unsigned long long)producer);
        verify->producer = producer;
        verify->results = 0;
    }
    if (++verify->results <= COMMITS_PER_PRODUCER_MAX) return 0;
    return complain(verify, "index: producer %llu has more than %u results", (unsigned long long)producer,
                    COMMITS_PER_PRODUCER_MAX);
}

static int count_leased(struct verify *verify, const MDB_val *key, const MDB_val *data) {
    verify->leased--;
    return 0;
}

static int nothing(struct verify *verify, const MDB_val *key, const MDB_val *data) {
    return 0;
}

/* Checks that every chunk belongs to a run, or to a run that waits for deletion. */
static int verify_chunk(struct verify *verify, const MDB_val *key, const MDB_val *data) {
    const struct runs *runs = &verify->index->runs;
    if (key->mv_size != RUN_KEY_SIZE) return complain(verify, "index: a chunk of a key run is malformed");
    uint64_t number = get_be64(key->mv_data);
    if (number == verify->known_run) return 0;
    bool is_known = runs->merge.inputs > 0 && runs->merge.output->number == number;
    for (size_t i = 0; i < runs->list.count; i++) is_known = is_known || runs->list.items[i]->number == number;
    for (size_t i = 0; i < runs->garbage.count; i++) is_known = is_known || runs->garbage.items[i] == number;
    verify->known_run = number;
    return is_known ? 0 : complain(verify, "index: key run %llu is not referenced", (unsigned long long)number);
}

static int compare_counts(struct verify *verify) {
    struct index *index = verify->index;
    for (uint32_t i = 0; i <= QUEUE_PLACES; i++) {
        const struct queue_tally *a = &verify->queues[i], *b = &index->queues[i];
        if (memcmp(a->waiting, b->waiting, sizeof a->waiting) != 0 || a->in_flight != b->in_flight ||
            a->dead != b->dead) {
            return complain(verify, "index: the counts of queue %u differ from its rows", i);
        }
    }
    if (verify->live != index->meta.live) {
        return complain(verify, "index: %llu live tasks counted, %llu recorded", (unsigned long long)verify->live,
                        (unsigned long long)index->meta.live);
    }
    if (verify->found.rows != index->ranges.rows) return complain(verify, "index: rows are missing");
    if (verify->found.digest != index->meta.digest) {
        return complain(verify, "index: the digest of its rows is %016llx, but %016llx is recorded",
                        (unsigned long long)verify->found.digest, (unsigned long long)index->meta.digest);
    }
    return 0;
}

static int count_outcome(void *argument, const struct outcome *outcome) {
    ++*(uint64_t *)argument;
    return 0;
}

static int take_result(void *argument, uint64_t producer, uint64_t sequence, uint64_t position) {
    return 0;
}

static int take_producer(void *argument, const struct index_producer *producer) {
    return 0;
}

/* Adds the definition to the digest that is compared with the recorded one. */
static int take_definition(void *argument, const Tarry__DefinitionPut *definition) {
    struct verify *verify = argument;
    verify->found.digest += definition_hash(definition);
    return 0;
}

static int take_recur(void *argument, const Tarry__RecurPut *put, const struct row *next, size_t open_live) {
    struct verify *verify = argument;
    verify->found.digest += put->before_hash;
    return 0;
}

static int take_job(void *argument, const Tarry__JobPut *job) {
    return 0;
}

/* Reads the data that a start loads into memory, in the same way as a start. */
static int verify_memory(struct verify *verify) {
    struct index *index = verify->index;
    uint64_t outcomes = 0;
    int error = judge_reading(verify, index_each_outcome(index, count_outcome, &outcomes), "an outcome");
    if (error == 0 && outcomes != index->meta.outcomes) error = complain(verify, "index: outcomes are missing");
    if (error == 0) error = judge_reading(verify, index_each_result(index, take_result, NULL), "a result");
    if (error == 0) error = judge_reading(verify, index_each_producer(index, take_producer, NULL), "a producer");
    if (error == 0) error = judge_reading(verify, index_each_job(index, take_job, NULL), "a job");
    return error;
}

static int verify_all(struct verify *verify) {
    int error = calendar_state_read(verify->index, verify->txn, verify->index->meta.position, &verify->calendar);
    if (error == 1) verify->calendar = (struct calendar_state){0};
    if (error >= 0) error = each_entry(verify, DB_ROWS, "rows", verify_row);
    if (error == 0) error = each_entry(verify, DB_QUEUES, "queues", verify_queue);
    if (error == 0) error = each_entry(verify, DB_PRODUCERS, "producers", verify_producer);
    if (error == 0) error = each_entry(verify, DB_RESULTS, "results", verify_result);
    if (error == 0)
        error = judge_reading(verify, index_each_definition(verify->index, take_definition, verify), "a definition");
    if (error == 0) error = judge_reading(verify, index_each_recur(verify->index, take_recur, verify), "a recurrence");
    if (error == 0) error = compare_counts(verify);
    if (error == 0) error = each_entry(verify, DB_SLOTS, "slots", verify_slot);
    if (error == 0 && verify->marked != verify->waiting) {
        error = complain(verify, "index: %llu tasks wait, %llu of them are in a due slot",
                         (unsigned long long)verify->waiting, (unsigned long long)verify->marked);
    }
    if (error == 0 && verify->found.slots_entries != verify->index->meta.slot_entries) {
        error = complain(verify, "index: chunks of due slots are missing");
    }
    if (error == 0) error = each_entry(verify, DB_KEYS, "key runs", verify_chunk);
    if (error == 0) error = each_entry(verify, DB_TAIL, "the tail", verify_tail);
    for (size_t i = 0; i < verify->index->runs.list.count && error == 0; i++) {
        error = verify_run(verify, verify->index->runs.list.items[i]);
    }
    if (error == 0 && (verify->keys != 0 || verify->keys_sum != 0)) {
        error = complain(verify, "index: the key runs do not match the rows");
    }
    if (error == 0) error = each_entry(verify, DB_LEASED, "leased", count_leased);
    if (error == 0 && verify->leased != 0) error = complain(verify, "index: leases exist without a task");
    if (error == 0) error = each_entry(verify, DB_HELD, "held", verify_held);
    if (error == 0 && verify->held != 0) error = complain(verify, "index: leases or dead letters are missing");
    if (error == 0) error = verify_memory(verify);
    if (error == 0) error = compare_calendar(verify);
    if (error == 0) error = each_entry(verify, DB_REPLIES, "replies", nothing);
    if (error == 0) error = each_entry(verify, DB_BLOBS, "blobs", verify_blob_row);
    if (error == 0) error = each_entry(verify, DB_REDACTIONS, "redactions", nothing);
    return error;
}

int index_verify(struct index *index, struct index_verification *out, char *message, size_t message_size,
                 void (*progress)(void *argument, uint64_t done, uint64_t total), void *argument) {
    struct verify verify = {
        .index = index, .message = message, .message_size = message_size, .progress = progress, .argument = argument};
    int error = -ENOMEM;
    verify.queues = calloc(QUEUE_PLACES + 1, sizeof *verify.queues);
    verify.marks = calloc(index->ranges.capacity + 1, sizeof *verify.marks);
    if (message_size > 0) message[0] = 0;
    if (verify.queues != NULL && verify.marks != NULL) error = db_read(&index->db, &verify.txn);
    if (error == 0) {
        error = verify_all(&verify);
        db_read_end(&index->db, verify.txn);
    }
    *out = verify.found;
    if (error != 0 && message_size > 0 && message[0] == 0)
        snprintf(message, message_size, "index: cannot be read (%d)", error);
    for (size_t i = 0; verify.marks != NULL && i < index->ranges.capacity; i++) free(verify.marks[i]);
    free(verify.marks);
    free(verify.queues);
    return error;
}
