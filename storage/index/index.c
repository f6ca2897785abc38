/* index.c: opens and closes the index, and reads its totals and the data that the core loads at start. */
#include "index_select.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

static const char meta_key[] = "meta";

int meta_put(struct index *index, MDB_txn *txn, const struct meta_record *meta) {
    return db_put(&index->db, txn, DB_META, meta_key, sizeof meta_key - 1, meta, sizeof *meta, 0);
}

int meta_read(struct index *index, MDB_txn *txn, struct meta_record *out) {
    MDB_val data;
    int error = db_get(&index->db, txn, DB_META, meta_key, sizeof meta_key - 1, &data);
    if (error != 0) return error;
    if (data.mv_size != sizeof *out) return INDEX_VERSION;
    memcpy(out, data.mv_data, sizeof *out);
    return 0;
}

int index_write(struct index *index, int (*body)(void *argument, MDB_txn *txn), void *argument) {
    if (index->failed != 0) return index->failed;
    int error = db_write(&index->db, body, argument);
    if (error < 0 && error != -ENOSPC) index->failed = error; /* LOG-4: never retry after a failure */
    return error;
}

static int create_body(void *argument, MDB_txn *txn) {
    struct index *index = argument;
    return meta_put(index, txn, &index->meta);
}

static int create(struct index *index, const char *directory) {
    struct meta_record meta = {
        .format = FORMAT_VERSION,
        .position = LOG_POSITION_FIRST,
        .log_start = LOG_POSITION_FIRST,
        .retired_to = LOG_POSITION_FIRST,
        .next_id = 1,
        .next_queue = 1,
        .next_run = 1,
        .next_chunk = 1,
        .next_outcome = 1,
    };
    memcpy(meta.cluster, index->options.cluster, sizeof meta.cluster);
    index->meta = meta;
    int error = keyring_make(directory, index->options.no_sync); /* make the keyring before the index, because an index
                                                                    without a keyring counts as damaged */
    return error != 0 ? error : index_write(index, create_body, index);
}

static int load_meta(struct index *index, const char *directory) {
    MDB_txn *txn;
    int error = db_read(&index->db, &txn);
    if (error != 0) return error;
    error = meta_read(index, txn, &index->meta);
    db_read_end(&index->db, txn);
    if (error == 1) return index->options.read_only ? INDEX_DAMAGED : create(index, directory);
    if (error != 0) return error;
    const uint32_t format = index->meta.format;
    if (format < FORMAT_VERSION || format > INDEX_FORMAT_MAX) return INDEX_VERSION;
    if (format >= INDEX_FORMAT_RECURS && index->db.lacks_recurs)
        return INDEX_DAMAGED; /* this index has had recurrences; creating their missing table empty would hide a loss
                                 (F-8) */
    if (memcmp(index->meta.cluster, index->options.cluster, sizeof index->meta.cluster) != 0) return INDEX_FOREIGN;
    return 0;
}

static int load_tally(void *argument, MDB_txn *txn, const MDB_val *key, const MDB_val *data) {
    struct index *index = argument;
    if (key->mv_size != 4 || data->mv_size != QUEUE_COUNTS_SIZE) return INDEX_DAMAGED;
    const uint32_t number = get_be32(key->mv_data);
    if (!queue_number_is_valid(number)) return INDEX_DAMAGED;
    struct queue_tally *counts = &index->queues[queue_place(number)];
    if (counts->number != 0) return INDEX_DAMAGED; /* another queue already has this place of the table of queues */
    memcpy(counts, data->mv_data, QUEUE_COUNTS_SIZE);
    counts->number = index->tally_keys[queue_place(number)] = number;
    return 0;
}

static int load_tallies(struct index *index) {
    return each_value(index, DB_TALLIES, load_tally, index);
}

static int load(struct index *index, const char *directory) {
    int error = load_meta(index, directory);
    if (error == 0) error = keyring_open(&index->keyring, directory, index->options.read_only, index->options.no_sync);
    if (error == 0) error = load_tallies(index);
    if (error == 0 && index->options.contents_memory >= CONTENT_CACHE_MEMORY_MIN) {
        index->contents = content_cache_new(index->options.contents_memory);
        if (index->contents == NULL) error = -ENOMEM;
    }
    if (error != 0) return error;
    const struct meta_record *meta = &index->meta;
    index->tally = (struct tally){
        .digest = meta->digest,
        .live = meta->live,
        .next_id = meta->next_id,
        .next_queue = meta->next_queue,
        .epoch = meta->epoch,
        .queues = index->queues,
    };
    index->batch.first_id = meta->next_id;
    index->absorbed = meta->position;
    memcpy(index->absorbed_chain, meta->chain, sizeof index->absorbed_chain);
    index->steady_ns = meta->steady_ns;
    index->wall_ns = meta->wall_ns;
    atomic_store(&index->position, meta->position);
    if (!index->options.no_lookup) error = ranges_load(index);
    if (error == 0 && !index->options.no_lookup) error = runs_load(index);
    if (error == 0 && !index->options.no_lookup) error = calendar_open(index);
    return error == 0 ? redactions_load(index) : error;
}

static void explain(int error, const char *directory, char *message, size_t size) {
    switch (error) {
    case INDEX_DAMAGED:
        snprintf(message, size, "the index in %s is damaged: a checksum is wrong or something is missing", directory);
        break;
    case INDEX_VERSION:
        snprintf(message, size, "the index in %s has another format version; this program reads versions %u to %u",
                 directory, FORMAT_VERSION, INDEX_FORMAT_MAX);
        break;
    case INDEX_FOREIGN:
        snprintf(message, size, "the index in %s belongs to another cluster", directory);
        break;
    default:
        snprintf(message, size, "cannot open the index in %s: %s", directory,
                 mdb_strerror(error < -30000 ? error : -error)); /* LMDB codes are below -30000; others are an errno */
    }
}

int index_open(struct index **out, const struct index_options *options, char *message, size_t message_size) {
    struct index *index = calloc(1, sizeof *index);
    int error = -ENOMEM;
    bool is_open = false;
    if (index == NULL) goto out;
    index->options = *options;
    /* The caller may free the directory's name after index_open, so no pointer to it is kept. */
    index->options.directory = NULL;
    pthread_mutex_init(&index->runs.lock, NULL);
    index->queues = calloc(QUEUE_PLACES + 1, sizeof *index->queues);
    index->tally_keys = calloc(QUEUE_PLACES + 1, sizeof *index->tally_keys);
    if (index->queues == NULL || index->tally_keys == NULL) goto out;
    error = 0;
    if (!options->read_only) error = db_make(options->directory, options->no_sync);
    if (error == 0) {
        error = db_open(&index->db, options->directory, options->map_size, options->read_only, options->no_sync);
        is_open = error == 0;
    }
    if (error == 0) error = load(index, options->directory);
    if (error == 0 && !options->no_lookup) index_account(index);
out:
    if (error != 0) {
        explain(error, options->directory, message, message_size);
        if (index != NULL && !is_open) {
            pthread_mutex_destroy(&index->runs.lock);
            free(index->queues);
            free(index->tally_keys);
            free(index);
        } else if (index != NULL) {
            index_close(index);
        }
        return error;
    }
    *out = index;
    return 0;
}

void index_close(struct index *index) {
    if (index == NULL) return;
    db_close(&index->db);
    keyring_close(index->keyring);
    content_cache_free(index->contents);
    ranges_deinit(&index->ranges);
    runs_deinit(index);
    calendar_close(index);
    pthread_mutex_destroy(&index->runs.lock);
    batch_deinit(&index->batch);
    slot_writer_deinit(&index->writer);
    read_aheads_deinit(index);
    free(index->lows.items);
    free(index->low_places);
    free(index->scratch.items);
    free(index->retire.copies.items);
    free(index->retire.bytes.items);
    free(index->queues);
    free(index->tally_keys);
    free(index);
}

int index_clone(struct index *index, const char *directory) {
    assert(index->options.read_only);
    /* Copies the keyring before the index, because an index without a keyring counts as damaged. */
    int error = keyring_copy(index->keyring, directory);
    return error != 0 ? error : db_negative(mdb_env_copy2(index->db.env, directory, 0));
}

void index_meta(const struct index *index, struct index_meta *out) {
    const struct meta_record *meta = &index->meta;
    *out = (struct index_meta){
        .position = meta->position,
        .log_start = meta->log_start,
        .steady_ns = meta->steady_ns,
        .wall_ns = meta->wall_ns,
        .known_since_ms = meta->known_since_ms,
        .tally =
            {
                .digest = meta->digest,
                .live = meta->live,
                .next_id = meta->next_id,
                .next_queue = meta->next_queue,
                .epoch = meta->epoch,
                .queues = index->queues,
            },
    };
    memcpy(out->chain, meta->chain, sizeof out->chain);
}

uint64_t index_position(const struct index *index) {
    return atomic_load(&index->position);
}

size_t index_pages_max(const struct index *index) {
    size_t memory = index->options.memory, least = memory / PAGES_MEMORY_SHARE;
    uint64_t taken = atomic_load(&index->bytes_memory);
    return taken < memory - least ? memory - (size_t)taken : least;
}

void index_touched(struct index *index, uint64_t count) {
    uint64_t before = atomic_fetch_add(&index->reads, count);
    if (before / READS_PER_TRIM != (before + count) / READS_PER_TRIM) db_trim(&index->db, index_pages_max(index));
}

/* Updates the counts for index_stats, because other threads call it and only the index thread can count them. */
void index_account(struct index *index) {
    const struct runs *runs = &index->runs;
    const struct batch *batch = &index->batch;
    uint64_t bytes = (QUEUE_PLACES + 1) * sizeof *index->queues + sizeof *index;
    for (size_t i = 0; i < runs->list.count; i++) {
        bytes += runs->list.items[i]->blocks * 64 + runs->list.items[i]->chunks * 8ull;
    }
    if (runs->merge.inputs > 0) {
        bytes += runs->merge.output->blocks * 64;
        for (size_t i = 0; i < runs->merge.inputs; i++)
            bytes += runs->merge.input[i]->chunks * 8ull; /* size of the run's fences, in bytes */
    }
    bytes += runs->tail_filter->blocks * 64 + runs->tail.capacity * sizeof(struct pair);
    bytes += index->ranges.capacity * sizeof(struct range) + index->ranges.bitmaps * RANGE_BYTES;
    bytes += batch->changes.capacity * sizeof(struct change) + batch->bytes.capacity + batch->outcomes.capacity;
    bytes += (batch->keys.capacity + index->scratch.capacity + index->writer.sorted.capacity) * sizeof(struct pair);
    bytes += index->writer.entries.capacity * sizeof(struct slot_entry) + calendar_bytes(index);
    bytes += read_aheads_bytes(index) + keyring_bytes(index->keyring);
    atomic_store(&index->bytes_memory, bytes);
    atomic_store(&index->rows_seen, index->ranges.rows);
    atomic_store(&index->runs_seen, runs->list.count);
    atomic_store(&index->keys_seen, runs->keys + runs->tail.count);
    atomic_store(&index->entries_seen, index->meta.slot_entries);
}

void index_stats(struct index *index, struct index_stats *out) {
    *out = (struct index_stats){
        .bytes_file = db_file_size(&index->db),
        .bytes_memory = atomic_load(&index->bytes_memory),
        .key_runs = atomic_load(&index->runs_seen),
        .rows = atomic_load(&index->rows_seen),
        .key_entries = atomic_load(&index->keys_seen),
        .slot_entries = atomic_load(&index->entries_seen),
    };
}

/* ---- start-up */

int each_value(struct index *index, enum db_table table,
               int (*each)(void *argument, MDB_txn *txn, const MDB_val *key, const MDB_val *data), void *argument) {
    MDB_txn *txn;
    MDB_cursor *cursor;
    int error = db_read(&index->db, &txn);
    if (error != 0) return error;
    error = db_cursor(&index->db, txn, table, &cursor);
    if (error == 0) {
        MDB_val key, sealed, data;
        int found = 0;
        while (error == 0 && (found = db_cursor_get(cursor, &key, &sealed, MDB_NEXT)) == 0) {
            error = db_unseal(&key, &sealed, &data);
            if (error == 0) error = each(argument, txn, &key, &data);
        }
        if (error == 0 && found != MDB_NOTFOUND) error = found;
        mdb_cursor_close(cursor);
    }
    db_read_end(&index->db, txn);
    return error;
}

struct queue_each {
    int (*each)(void *argument, const Tarry__QueuePut *queue);
    void *argument;
};

static int each_queue(void *argument, MDB_txn *txn, const MDB_val *key, const MDB_val *data) {
    const struct queue_each *queue_each = argument;
    Tarry__QueuePut *queue = tarry__queue_put__unpack(NULL, data->mv_size, data->mv_data);
    if (queue == NULL) return INDEX_DAMAGED;
    bool is_own = key->mv_size == 4 && queue->number == get_be32(key->mv_data);
    int result = is_own ? queue_each->each(queue_each->argument, queue) : INDEX_DAMAGED;
    tarry__queue_put__free_unpacked(queue, NULL);
    return result;
}

int index_each_queue(struct index *index, int (*each)(void *argument, const Tarry__QueuePut *queue), void *argument) {
    struct queue_each queue_each = {each, argument};
    return each_value(index, DB_QUEUES, each_queue, &queue_each);
}

struct job_each {
    int (*each)(void *argument, const Tarry__JobPut *job);
    void *argument;
};

static int each_job(void *argument, MDB_txn *txn, const MDB_val *key, const MDB_val *data) {
    const struct job_each *job_each = argument;
    Tarry__JobPut *job = tarry__job_put__unpack(NULL, data->mv_size, data->mv_data);
    if (job == NULL) return INDEX_DAMAGED;
    bool is_own = key->mv_size == sizeof job->job && memcmp(key->mv_data, &job->job, sizeof job->job) == 0;
    int result = is_own ? job_each->each(job_each->argument, job) : INDEX_DAMAGED;
    tarry__job_put__free_unpacked(job, NULL);
    return result;
}

int index_each_job(struct index *index, int (*each)(void *argument, const Tarry__JobPut *job), void *argument) {
    struct job_each job_each = {each, argument};
    return each_value(index, DB_JOBS, each_job, &job_each);
}

struct recur_each {
    int (*each)(void *argument, const Tarry__RecurPut *put, const struct row *next, size_t open_live);
    void *argument;
    struct index *index;
    struct range_view view;
    Tarry__RecurPut *put; /* the recurrence's definition, read from the first of its two rows */
};

/* Removes the ended tasks from the state's list of open tasks. Moves the tasks that are waiting or in flight to the
 * front and sets `*out_live` to their number. The others are dead letters. */
static int keep_open(struct recur_each *recur_each, MDB_txn *txn, Tarry__RecurState *state, size_t *out_live) {
    size_t count = 0;
    *out_live = 0;
    for (size_t i = 0; i < state->n_open; i++) {
        const uint64_t id = state->open[i];
        struct row row;
        int error = row_get_live(recur_each->index, txn, &recur_each->view, recur_each->index->meta.next_id, id, &row);
        if (error < 0) return error;
        if (error != 0) continue;
        state->open[count++] = id;
        if (row.state == ROW_BURIED) continue;
        memmove(state->open + *out_live + 1, state->open + *out_live, (count - 1 - *out_live) * sizeof *state->open);
        state->open[(*out_live)++] = id;
    }
    state->n_open = count;
    return 0;
}

static int pass_recur(struct recur_each *recur_each, MDB_txn *txn, Tarry__RecurState *state) {
    Tarry__RecurPut *put = recur_each->put;
    struct row row;
    int found =
        row_get_live(recur_each->index, txn, &recur_each->view, recur_each->index->meta.next_id, state->next_id, &row);
    if (found < 0) return found;
    if (put->state != NULL) tarry__recur_state__free_unpacked(put->state, NULL);
    put->state = state;
    /* Hash of the recorded state; computed before the next call changes the list of open tasks. */
    put->before_hash = recur_hash(put->number, state);
    size_t open_live = 0;
    int error = keep_open(recur_each, txn, state, &open_live);
    return error != 0 ? error : recur_each->each(recur_each->argument, put, found == 0 ? &row : NULL, open_live);
}

/* Each recurrence has two rows: first its definition, then its state. */
static int each_recur(void *argument, MDB_txn *txn, const MDB_val *key, const MDB_val *data) {
    struct recur_each *recur_each = argument;
    uint64_t number;
    if (key->mv_size != sizeof number) return INDEX_DAMAGED;
    memcpy(&number, key->mv_data, sizeof number);
    if (number % 2 == 0) {
        if (recur_each->put != NULL) return INDEX_DAMAGED;
        recur_each->put = tarry__recur_put__unpack(NULL, data->mv_size, data->mv_data);
        const Tarry__RecurPut *put = recur_each->put;
        return put != NULL && put->set != NULL && put->number == number / 2 ? 0 : INDEX_DAMAGED;
    }
    Tarry__RecurState *state = tarry__recur_state__unpack(NULL, data->mv_size, data->mv_data);
    const bool is_own = state != NULL && recur_each->put != NULL && recur_each->put->number == number / 2 &&
                        state->set_hash == recur_set_hash(recur_each->put->set);
    int result = is_own ? pass_recur(recur_each, txn, state) : INDEX_DAMAGED;
    if (recur_each->put == NULL || recur_each->put->state != state) {
        if (state != NULL) tarry__recur_state__free_unpacked(state, NULL);
    }
    if (recur_each->put != NULL) tarry__recur_put__free_unpacked(recur_each->put, NULL);
    recur_each->put = NULL;
    return result;
}

int index_each_recur(struct index *index,
                     int (*each)(void *argument, const Tarry__RecurPut *put, const struct row *next, size_t open_live),
                     void *argument) {
    if (index->db.lacks_recurs && index->db.read_only) return 0;
    struct recur_each recur_each = {each, argument, index, .view.number = UINT64_MAX};
    int error = each_value(index, DB_RECURS, each_recur, &recur_each);
    if (recur_each.put != NULL) tarry__recur_put__free_unpacked(recur_each.put, NULL);
    return error == 0 && recur_each.put != NULL ? INDEX_DAMAGED : error;
}

struct lease_each {
    int (*each)(void *argument, const struct row *row);
    void *argument;
    struct index *index;
};

static int each_lease(void *argument, MDB_txn *txn, const MDB_val *key, const MDB_val *data) {
    const struct lease_each *lease_each = argument;
    const uint8_t *bytes = key->mv_data;
    if (key->mv_size != HELD_KEY_SIZE) return INDEX_DAMAGED;
    if (bytes[0] != ROW_LEASED) return 0;
    struct row row;
    int error = row_get(lease_each->index, txn, get_be64(bytes + 13), &row);
    if (error == 1 || (error == 0 && row.state != ROW_LEASED)) error = INDEX_DAMAGED;
    return error != 0 ? error : lease_each->each(lease_each->argument, &row);
}

int index_each_lease(struct index *index, int (*each)(void *argument, const struct row *row), void *argument) {
    struct lease_each lease_each = {each, argument, index};
    return each_value(index, DB_HELD, each_lease, &lease_each);
}
