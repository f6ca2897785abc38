/* index_merge.c: makes and merges key runs.
 *
 * A commit with few keys adds them to the tail. A full tail becomes a run of level 0. A commit with many keys makes a
 * run at once; its level depends on its size. Eight runs of one level are merged into one run of the next level, in
 * bounded steps and without keys of ended tasks. The merged runs are deleted later.
 *
 * A merge's output is invisible until its last step. That step writes the output's descriptor and deletes the inputs'
 * descriptors in one transaction. Chunks without a descriptor are garbage: index_open finds them, and background work
 * deletes them. */
#include "index_parts.h"

#include <assert.h>
#include <stdlib.h>

#define RADIX_BITS 11
#define RADIX_PASSES 6 /* 66 bits */

/* Stable radix sort: ids come in ascending order, so pairs with equal hashes stay in order of id. Ids and times differ
 * in few digits and need about three passes. */
void pairs_sort(struct pair *pairs, struct pair *spare, size_t count) {
    struct pair *from = pairs, *to = spare;
    uint64_t varying = 0; /* bits in which the values differ; times and ids have many equal digits */
    for (size_t i = 1; i < count; i++) varying |= pairs[i].first ^ pairs[0].first;
    for (unsigned pass = 0; pass < RADIX_PASSES; pass++) {
        size_t places[(1 << RADIX_BITS) + 1];
        unsigned shift = pass * RADIX_BITS;
        if ((varying >> shift & ((1 << RADIX_BITS) - 1)) == 0) continue;
        memset(places, 0, sizeof places);
        for (size_t i = 0; i < count; i++) places[(from[i].first >> shift & ((1 << RADIX_BITS) - 1)) + 1]++;
        for (size_t i = 1; i < 1 << RADIX_BITS; i++) places[i] += places[i - 1];
        for (size_t i = 0; i < count; i++) {
            to[places[from[i].first >> shift & ((1 << RADIX_BITS) - 1)]++] = from[i];
        }
        struct pair *swap = from;
        from = to;
        to = swap;
    }
    if (from != pairs) memcpy(pairs, from, count * sizeof *pairs);
}

static int collect_keys(struct index *index) {
    struct batch *batch = &index->batch;
    batch->keys.count = batch->tail_gone.count = 0;
    int error = VECTOR_RESERVE(&batch->keys, batch->appends.count);
    for (size_t i = 0; i < batch->appends.count && error == 0; i++) {
        const struct change *change = &batch->changes.items[batch->appends.items[i]];
        if (change->key_size > 0) batch->keys.items[batch->keys.count++] = (struct pair){change->key_hash, change->id};
    }
    if (index->runs.tail.count == 0) return error;
    for (size_t i = 0; i < batch->changes.count && error == 0; i++) {
        const struct change *change = &batch->changes.items[i];
        if ((change->flags & (CHANGE_FRESH | CHANGE_ENDED)) != CHANGE_ENDED || change->key_size == 0) continue;
        error = VECTOR_PUSH(&batch->tail_gone, (struct pair){change->key_hash, change->id});
    }
    return error;
}

/* Sorts `keys` and makes a run of them. */
static int build_run(struct index *index, struct pairs *keys, struct run **out) {
    index->scratch.count = 0;
    int error = VECTOR_RESERVE(&index->scratch, keys->count);
    if (error != 0) return error;
    pairs_sort(keys->items, index->scratch.items, keys->count);
    struct run *run = run_new(run_level_of(keys->count), index->meta.next_run, keys->count);
    if (run == NULL) return -ENOMEM;
    run->count = keys->count;
    run->endings_before = index->endings;
    run->chunks = (uint32_t)((keys->count + PAIRS_PER_CHUNK - 1) / PAIRS_PER_CHUNK);
    for (uint32_t i = 0; i < run->chunks; i++) run->fences[i] = keys->items[(size_t)i * PAIRS_PER_CHUNK].first;
    for (size_t i = 0; i < keys->count; i++) bloom_fill(run->bloom, run->blocks, keys->items[i].first);
    *out = run;
    return 0;
}

/* Handles a full tail: its live keys and the batch's keys become a run, or a new tail if they are few. */
static int prepare_full_tail(struct index *index) {
    struct batch *batch = &index->batch;
    struct runs *runs = &index->runs;
    batch->tail.count = 0;
    int error = VECTOR_RESERVE(&batch->tail, runs->tail.count + batch->keys.count);
    if (error != 0) return error;
    for (size_t i = 0; i < runs->tail.count; i++) {
        if (!ranges_ended(&index->ranges, runs->tail.items[i].id)) {
            batch->tail.items[batch->tail.count++] = runs->tail.items[i];
        }
    }
    for (size_t i = 0; i < batch->keys.count; i++) batch->tail.items[batch->tail.count++] = batch->keys.items[i];
    batch->tail_filter = run_new(0, 0, TAIL_KEYS_MAX);
    if (batch->tail_filter == NULL) return -ENOMEM;
    if (batch->tail.count < RUN_KEYS_MIN) {
        batch->keys_mode = KEYS_COMPACT_TAIL;
        for (size_t i = 0; i < batch->tail.count; i++) {
            bloom_fill(batch->tail_filter->bloom, batch->tail_filter->blocks, batch->tail.items[i].first);
        }
        return 0;
    }
    batch->keys_mode = KEYS_FLUSH_TAIL;
    return build_run(index, &batch->tail, &batch->run);
}

int keys_prepare(struct index *index) {
    struct batch *batch = &index->batch;
    struct runs *runs = &index->runs;
    int error = collect_keys(index);
    if (error != 0) return error;
    if (batch->keys.count >= RUN_KEYS_MIN) {
        batch->keys_mode = KEYS_TO_RUN;
        error = build_run(index, &batch->keys, &batch->run);
    } else if (runs->tail.count + batch->keys.count > TAIL_KEYS_MAX) {
        error = prepare_full_tail(index);
    } else {
        batch->keys_mode = KEYS_TO_TAIL;
        for (size_t i = 0; i < batch->keys.count; i++) {
            bloom_add(runs->tail_filter->bloom, runs->tail_filter->blocks, batch->keys.items[i].first);
        }
        return VECTOR_RESERVE(&runs->tail, batch->keys.count);
    }
    if (error == 0) error = VECTOR_RESERVE(&runs->list, 1);
    if (error != 0) return error;
    /* list.count is increased only after the commit. */
    if (batch->run != NULL) runs->list.items[runs->list.count] = batch->run;
    struct run *tail = batch->tail_filter != NULL ? batch->tail_filter : runs->tail_filter;
    return filters_announce(index, runs->list.items, runs->list.count + (batch->run != NULL), tail,
                            index->meta.filters_version + 1);
}

static int write_chunk(struct index *index, MDB_txn *txn, uint64_t number, uint32_t chunk, const struct pair *pairs,
                       size_t count) {
    uint8_t key[RUN_KEY_SIZE];
    run_key(key, number, RUN_PAIRS, chunk);
    return db_put(&index->db, txn, DB_KEYS, key, sizeof key, pairs, count * sizeof *pairs, 0);
}

static int write_run(struct index *index, MDB_txn *txn, const struct run *run, const struct pair *pairs) {
    for (uint32_t i = 0; i < run->chunks; i++) {
        size_t from = (size_t)i * PAIRS_PER_CHUNK, count = run->count - from;
        if (count > PAIRS_PER_CHUNK) count = PAIRS_PER_CHUNK;
        int error = write_chunk(index, txn, run->number, i, pairs + from, count);
        if (error != 0) return error;
    }
    int error = run_write_bloom(index, txn, run, 0, run_bloom_chunks(run));
    if (error == 0) error = run_write_fences(index, txn, run);
    if (error == 0) error = run_write_descriptor(index, txn, run);
    return error;
}

static void tail_key(uint8_t out[16], struct pair pair) {
    put_be64(out, pair.first);
    put_be64(out + 8, pair.id);
}

static int write_tail(struct index *index, MDB_txn *txn) {
    struct batch *batch = &index->batch;
    uint8_t key[16];
    for (size_t i = 0; i < batch->tail_gone.count; i++) {
        tail_key(key, batch->tail_gone.items[i]);
        /* db_del returns 1, which is no error, if the tail does not have the key because a run has it. */
        int error = db_del(&index->db, txn, DB_TAIL, key, sizeof key);
        if (error < 0) return error;
    }
    if (batch->keys_mode == KEYS_TO_RUN) return 0;
    for (size_t i = 0; i < batch->keys.count; i++) {
        tail_key(key, batch->keys.items[i]);
        int error = db_put(&index->db, txn, DB_TAIL, key, sizeof key, NULL, 0, 0);
        if (error != 0) return error;
    }
    return 0;
}

int keys_write(struct index *index, MDB_txn *txn, struct meta_record *meta) {
    struct batch *batch = &index->batch;
    int error = 0;
    if (batch->run != NULL) {
        const struct pairs *pairs = batch->keys_mode == KEYS_TO_RUN ? &batch->keys : &batch->tail;
        error = write_run(index, txn, batch->run, pairs->items);
        meta->next_run++;
    }
    if (error != 0) return error;
    if (batch->keys_mode != KEYS_TO_TAIL) meta->filters_version++;
    if (batch->keys_mode == KEYS_FLUSH_TAIL) return db_negative(mdb_drop(txn, index->db.table[DB_TAIL], 0));
    return write_tail(index, txn);
}

void keys_clean(struct index *index) {
    struct batch *batch = &index->batch;
    struct runs *runs = &index->runs;
    if (batch->keys_mode == KEYS_TO_TAIL) {
        for (size_t i = 0; i < batch->keys.count; i++) runs->tail.items[runs->tail.count++] = batch->keys.items[i];
        return;
    }
    if (batch->run != NULL) {
        runs->list.count++; /* keys_prepare has already stored the run's pointer at list.items[list.count] */
        runs->keys += batch->run->count;
        batch->run = NULL;
    }
    if (batch->tail_filter != NULL) {
        run_drop(runs->tail_filter);
        runs->tail_filter = batch->tail_filter;
        batch->tail_filter = NULL;
        if (batch->keys_mode == KEYS_FLUSH_TAIL) batch->tail.count = 0;
        struct pairs old = runs->tail;
        runs->tail = batch->tail;
        batch->tail = old;
    }
    filters_arrive(index);
}

/* ---- merging */

/* Returns true if the filter of a merge's output fits into its share of memory (MERGE_MEMORY_SHARE). The inputs keep
 * their filters during the merge. A run that is too large to merge stays, and the number of such runs is unlimited. */
static bool may_be_merged(const struct index *index, uint64_t keys) {
    return run_filter_bytes(keys) <= index->options.memory / MERGE_MEMORY_SHARE;
}

/* Selects the oldest runs of a level that may be merged together. Returns their number; below 2: no merge. */
static size_t merge_of_level(const struct index *index, uint32_t level, struct run *out[RUN_FAN_IN]) {
    const struct runs *runs = &index->runs;
    uint64_t keys = 0;
    size_t count = 0, all = 0;
    for (size_t i = 0; i < runs->list.count; i++) {
        struct run *run = runs->list.items[i];
        if (run->level != level) continue;
        all++;
        if (count == RUN_FAN_IN || !may_be_merged(index, keys + run->count)) continue;
        keys += run->count;
        out[count++] = run;
    }
    return all >= RUN_FAN_IN ? count : 0;
}

/* Returns true if most keys belong to ended tasks, and enough tasks ended since the run was made to justify a rewrite.
 */
static bool run_is_stale(const struct index *index, const struct run *run) {
    uint64_t here = index->ranges.rows - index->ranges.ended;
    return index->runs.keys > 2 * here + KEY_SLACK && (index->endings - run->endings_before) * 2 >= run->count;
}

/* Selects runs to merge: of the lowest level with eight runs, otherwise stale runs; a single stale run is rewritten
 * alone. Returns their number. */
static size_t merge_choose(const struct index *index, struct run *out[RUN_FAN_IN], uint32_t *out_level) {
    const struct runs *runs = &index->runs;
    for (uint32_t level = 0; level + 1 < RUN_LEVELS; level++) {
        size_t count = merge_of_level(index, level, out);
        *out_level = level + 1;
        if (count >= 2) return count;
    }
    uint64_t keys = 0;
    size_t count = 0;
    *out_level = 0;
    for (size_t i = 0; i < runs->list.count && count < RUN_FAN_IN; i++) {
        struct run *run = runs->list.items[i];
        if (!run_is_stale(index, run) || (count > 0 && !may_be_merged(index, keys + run->count))) continue;
        keys += run->count;
        out[count++] = run;
        if (run->level > *out_level) *out_level = run->level;
    }
    return count;
}

bool runs_merge_wanted(struct index *index) {
    struct run *inputs[RUN_FAN_IN];
    uint32_t level;
    return index->runs.merge.inputs > 0 || merge_choose(index, inputs, &level) > 0;
}

/* Starts a merge. 1: no runs to merge. */
static int merge_start(struct index *index) {
    struct merge *merge = &index->runs.merge;
    uint64_t count = 0;
    uint32_t level;
    memset(merge, 0, sizeof *merge);
    size_t inputs = merge_choose(index, merge->input, &level);
    if (inputs == 0) return 1;
    for (size_t i = 0; i < inputs; i++) count += merge->input[i]->count;
    uint32_t by_size = run_level_of(count);
    /* The merge's first step stores the used run number in the meta record. */
    merge->output = run_new(by_size > level ? by_size : level, index->meta.next_run, count);
    if (merge->output == NULL) return -ENOMEM;
    merge->output->endings_before = index->endings;
    merge->inputs = inputs;
    return 0;
}

struct merge_step {
    struct index *index;
    size_t keys_max;
    struct merge merge;
    struct meta_record meta;
    MDB_val chunk[RUN_FAN_IN]; /* current chunk of each input; size 0: no more chunks */
    struct pair now[RUN_FAN_IN];
    struct pair copies[RUN_FAN_IN][PAIRS_PER_CHUNK]; /* copies of small chunks; `chunk` points to them */
};

/* Copies a small chunk, because it shares an LMDB page with others, and each write may move it. */
static int merge_load(struct merge_step *step, MDB_txn *txn, size_t i) {
    struct merge *merge = &step->merge;
    step->chunk[i].mv_size = 0;
    if (merge->head[i].chunk >= merge->input[i]->chunks) return 0;
    int error = run_read_chunk(step->index, txn, merge->input[i], merge->head[i].chunk, &step->chunk[i]);
    if (error != 0) return error;
    if (merge->head[i].at * sizeof(struct pair) >= step->chunk[i].mv_size) return INDEX_DAMAGED;
    if (step->chunk[i].mv_size > sizeof step->copies[i]) return INDEX_DAMAGED;
    memcpy(step->copies[i], step->chunk[i].mv_data, step->chunk[i].mv_size);
    step->chunk[i].mv_data = step->copies[i];
    step->now[i] = pair_at(step->chunk[i].mv_data, merge->head[i].at);
    for (size_t at = merge->head[i].at; at < pairs_in(&step->chunk[i]); at++)
        ranges_prefetch(&step->index->ranges, step->copies[i][at].id);
    return 0;
}

static int merge_flush(struct merge_step *step, MDB_txn *txn) {
    struct merge *merge = &step->merge;
    if (merge->pending == 0) return 0;
    merge->output->fences[merge->chunks] = merge->buffer[0].first;
    for (size_t i = 0; i < merge->pending; i++) {
        bloom_fill(merge->output->bloom, merge->output->blocks, merge->buffer[i].first);
    }
    int error = write_chunk(step->index, txn, merge->output->number, merge->chunks, merge->buffer, merge->pending);
    merge->chunks++;
    merge->count += merge->pending;
    merge->pending = 0;
    return error;
}

static int merge_advance(struct merge_step *step, MDB_txn *txn, size_t i) {
    struct merge_head *head = &step->merge.head[i];
    head->at++;
    if (head->at * sizeof(struct pair) < step->chunk[i].mv_size) {
        step->now[i] = pair_at(step->chunk[i].mv_data, head->at);
        return 0;
    }
    head->at = 0;
    head->chunk++;
    return merge_load(step, txn, i);
}

static int merge_keys(struct merge_step *step, MDB_txn *txn) {
    struct merge *merge = &step->merge;
    const struct ranges *ranges = &step->index->ranges;
    for (size_t i = 0; i < merge->inputs; i++) {
        int error = merge_load(step, txn, i);
        if (error != 0) return error;
    }
    for (size_t done = 0; done < step->keys_max; done++) {
        size_t least = merge->inputs;
        for (size_t i = 0; i < merge->inputs; i++) {
            if (step->chunk[i].mv_size == 0) continue;
            if (least == merge->inputs || step->now[i].first < step->now[least].first) least = i;
        }
        if (least == merge->inputs) {
            merge->keys_done = true;
            return merge_flush(step, txn);
        }
        if (!ranges_ended(ranges, step->now[least].id)) merge->buffer[merge->pending++] = step->now[least];
        int error = merge_advance(step, txn, least);
        if (error == 0 && merge->pending == PAIRS_PER_CHUNK) error = merge_flush(step, txn);
        if (error != 0) return error;
    }
    return 0;
}

/* Writes the list of the runs after the merge to `out`. */
static size_t merged_list(const struct runs *runs, const struct merge *merge, struct run **out) {
    size_t count = 0;
    bool is_placed = merge->count == 0;
    for (size_t i = 0; i < runs->list.count; i++) {
        bool is_input = false;
        for (size_t j = 0; j < merge->inputs; j++) is_input = is_input || runs->list.items[i] == merge->input[j];
        if (!is_input) {
            out[count++] = runs->list.items[i];
        } else if (!is_placed) {
            out[count++] = merge->output;
            is_placed = true;
        }
    }
    return count;
}

static int merge_finish(struct merge_step *step, MDB_txn *txn) {
    struct index *index = step->index;
    struct merge *merge = &step->merge;
    struct run *output = merge->output;
    output->chunks = merge->chunks;
    output->count = merge->count;
    int error = run_write_fences(index, txn, output);
    if (error == 0 && merge->count > 0) error = run_write_descriptor(index, txn, output);
    for (size_t i = 0; i < merge->inputs && error == 0; i++) {
        error = db_del(&index->db, txn, DB_RUNS, &merge->input[i]->number, sizeof(uint64_t));
        if (error == 1) error = INDEX_DAMAGED;
    }
    struct run **list = malloc((index->runs.list.count + 1) * sizeof *list);
    if (list == NULL) return -ENOMEM;
    step->meta.filters_version++;
    merge->is_finished = true;
    size_t count = merged_list(&index->runs, merge, list);
    if (error == 0) {
        error = filters_announce(index, list, count, index->runs.tail_filter, step->meta.filters_version);
    }
    free(list);
    return error;
}

static int merge_body(void *argument, MDB_txn *txn) {
    struct merge_step *step = argument;
    struct index *index = step->index;
    struct merge *merge = &step->merge;
    int error = 0;
    *merge = index->runs.merge;
    step->meta = index->meta;
    if (step->meta.next_run <= merge->output->number) step->meta.next_run = merge->output->number + 1;
    if (!merge->keys_done) error = merge_keys(step, txn);
    if (error == 0 && merge->keys_done) {
        uint32_t all = merge->count == 0 ? 0 : run_bloom_chunks(merge->output);
        uint32_t to = merge->bloom_chunks + BLOOM_STEP_CHUNKS < all ? merge->bloom_chunks + BLOOM_STEP_CHUNKS : all;
        error = run_write_bloom(index, txn, merge->output, merge->bloom_chunks, to);
        merge->bloom_chunks = to;
        if (error == 0 && to == all) error = merge_finish(step, txn);
    }
    return error != 0 ? error : meta_put(index, txn, &step->meta);
}

/* Updates memory after the last step is durable; the space was reserved before. */
static void merge_arrive(struct index *index) {
    struct runs *runs = &index->runs;
    struct merge *merge = &runs->merge;
    /* Reading and writing the same array is safe: a write is never ahead of the reads. */
    size_t count = merged_list(runs, merge, runs->list.items);
    runs->list.count = count;
    for (size_t i = 0; i < merge->inputs; i++) {
        runs->keys -= merge->input[i]->count;
        runs->garbage.items[runs->garbage.count++] = merge->input[i]->number;
        run_drop(merge->input[i]);
    }
    runs->keys += merge->count;
    if (merge->count == 0) run_drop(merge->output);
    merge->output = NULL;
    merge->inputs = 0;
    filters_arrive(index);
}

int runs_merge(struct index *index, size_t keys_max, bool *out_did) {
    struct runs *runs = &index->runs;
    *out_did = false;
    if (runs->merge.inputs == 0) {
        int error = merge_start(index);
        if (error != 0) return error == 1 ? 0 : error;
    }
    int error = VECTOR_RESERVE(&runs->garbage, RUN_FAN_IN);
    struct merge_step *step = calloc(1, sizeof *step);
    if (step == NULL || error != 0) {
        free(step);
        return -ENOMEM;
    }
    step->index = index;
    step->keys_max = keys_max;
    error = index_write(index, merge_body, step);
    if (error == 0) {
        runs->merge = step->merge;
        index->meta = step->meta;
        if (runs->merge.is_finished) merge_arrive(index);
        *out_did = true;
    }
    free(step);
    return error;
}

struct garbage_step {
    struct index *index;
    bool is_done;
};

static int garbage_body(void *argument, MDB_txn *txn) {
    struct garbage_step *step = argument;
    struct index *index = step->index;
    uint64_t number = index->runs.garbage.items[index->runs.garbage.count - 1];
    MDB_cursor *cursor;
    int error = db_cursor(&index->db, txn, DB_KEYS, &cursor);
    if (error != 0) return error;
    step->is_done = false;
    for (unsigned i = 0; i < GARBAGE_STEP_CHUNKS && error == 0 && !step->is_done; i++) {
        uint8_t bytes[RUN_KEY_SIZE];
        run_key(bytes, number, 0, 0);
        MDB_val key = {sizeof bytes, bytes}, sealed;
        /* Search again, because the last delete moved the pages. */
        error = db_cursor_get(cursor, &key, &sealed, MDB_SET_RANGE);
        step->is_done = error == MDB_NOTFOUND;
        if (error != 0) break;
        if (key.mv_size != sizeof bytes)
            error = INDEX_DAMAGED;
        else if (get_be64(key.mv_data) != number)
            step->is_done = true;
        else
            error = db_cursor_del(cursor);
    }
    mdb_cursor_close(cursor);
    return step->is_done ? 0 : error;
}

int runs_collect_garbage(struct index *index, bool *out_did) {
    *out_did = index->runs.garbage.count > 0;
    if (!*out_did) return 0;
    struct garbage_step step = {.index = index};
    int error = index_write(index, garbage_body, &step);
    if (error == 0 && step.is_done) index->runs.garbage.count--;
    return error;
}
