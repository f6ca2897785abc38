/* index_keys.c: key runs, their filters, and the tail.
 *
 * A run is a sorted list of (hash of queue and key, id), in chunks of one LMDB page. In memory, a run has a blocked
 * Bloom filter and its fences, the first hash of every chunk. Both are also on disk, so opening reads them and rebuilds
 * nothing (index_unread.c). The tail is a small B-tree that collects the keys of small commits until there are enough
 * for a run. The filter (bloom.h) has 12 bits per key, and up to 24 in small runs. Runs are sorted by hash, so a merge
 * fills the output's filter from front to back.
 *
 * Other threads use sets of runs (struct index_filter). A set never changes, and lives until its last holder drops it.
 * Only the tail's filter gets new bits while it is used; an extra bit costs at most one lookup. A lookup needs the set
 * of runs as of its own read transaction. The meta record names that set's version. The sets of the previous, the
 * present and the next commit exist. */
#include "index_parts.h"

#include <assert.h>
#include <stdlib.h>

#define BLOOM_BITS_PER_KEY 12 /* bits per key in the filters of large runs, which have nearly all keys */
#define LARGE_LEVEL 3

struct run_record {
    uint32_t level;
    uint32_t chunks;
    uint64_t count;
    uint64_t blocks;
};

uint32_t run_level_of(uint64_t count) {
    uint32_t level = 0;
    while (level + 1 < RUN_LEVELS && count > RUN_LEVEL_KEYS << (3 * level)) level++;
    return level;
}

/* Returns the filter bits per key of a level. A lookup asks every run, and there are as many small runs as large ones,
 * so a false positive of a small run costs the same. More bits in small runs cost little memory. At 12 bits in all of
 * 18 runs with 30 million keys, 9 % of the new keys were looked up on disk. (N. Dayan, M. Athanassoulis, S. Idreos,
 * Monkey: Optimal Navigable Key-Value Store, 2017.) */
static uint64_t bits_per_key(uint32_t level) {
    static const uint8_t bits[LARGE_LEVEL] = {24, 24, 16};
    return level < LARGE_LEVEL ? bits[level] : BLOOM_BITS_PER_KEY;
}

static uint64_t blocks_of(uint32_t level, uint64_t keys) {
    return (keys * bits_per_key(level) + 511) / 512 + 1;
}

uint64_t run_filter_bytes(uint64_t keys) {
    return blocks_of(run_level_of(keys), keys) * 64;
}

/* Makes a run with uninitialised filter and fences. */
static struct run *run_make(uint32_t level, uint64_t number, uint64_t count_max, uint64_t blocks) {
    struct run *run = calloc(1, sizeof *run);
    if (run == NULL) return NULL;
    run->refs = 1;
    run->level = level;
    run->number = number;
    run->blocks = blocks;
    run->bloom = aligned_alloc(64, run->blocks * 64);
    run->fences = malloc((count_max / PAIRS_PER_CHUNK + 1) * sizeof(uint64_t));
    if (run->bloom == NULL || run->fences == NULL) {
        run_drop(run);
        return NULL;
    }
    return run;
}

struct run *run_new(uint32_t level, uint64_t number, uint64_t count_max) {
    struct run *run = run_make(level, number, count_max, blocks_of(level, count_max));
    if (run == NULL) return NULL;
    memset(run->bloom, 0, run->blocks * 64);
    run->is_read = true;
    return run;
}

void run_drop(struct run *run) {
    if (run == NULL || atomic_fetch_sub(&run->refs, 1) != 1) return;
    free(run->bloom);
    free(run->fences);
    free(run);
}

void run_key(uint8_t out[RUN_KEY_SIZE], uint64_t number, uint8_t kind, uint32_t chunk) {
    put_be64(out, number);
    out[8] = kind;
    put_be32(out + 9, chunk);
}

int run_write_descriptor(struct index *index, MDB_txn *txn, const struct run *run) {
    struct run_record record = {run->level, run->chunks, run->count, run->blocks};
    return db_put(&index->db, txn, DB_RUNS, &run->number, sizeof run->number, &record, sizeof record, 0);
}

uint32_t run_bloom_chunks(const struct run *run) {
    return (uint32_t)((run->blocks + BLOOM_BLOCKS_PER_CHUNK - 1) / BLOOM_BLOCKS_PER_CHUNK);
}

uint32_t run_fence_chunks(const struct run *run) {
    return (uint32_t)((run->chunks + FENCES_PER_CHUNK - 1) / FENCES_PER_CHUNK);
}

int run_write_bloom(struct index *index, MDB_txn *txn, const struct run *run, uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to; i++) {
        uint8_t key[RUN_KEY_SIZE];
        run_key(key, run->number, RUN_BLOOM, i);
        int error =
            db_put(&index->db, txn, DB_KEYS, key, sizeof key, run->bloom + (size_t)i * BLOOM_BLOCKS_PER_CHUNK * 8,
                   chunk_part(run->blocks, i, BLOOM_BLOCKS_PER_CHUNK) * 64, 0);
        if (error != 0) return error;
    }
    return 0;
}

int run_write_fences(struct index *index, MDB_txn *txn, const struct run *run) {
    for (uint32_t i = 0; i < run_fence_chunks(run); i++) {
        uint8_t key[RUN_KEY_SIZE];
        run_key(key, run->number, RUN_FENCES, i);
        int error = db_put(&index->db, txn, DB_KEYS, key, sizeof key, run->fences + (size_t)i * FENCES_PER_CHUNK,
                           chunk_part(run->chunks, i, FENCES_PER_CHUNK) * 8, 0);
        if (error != 0) return error;
    }
    return 0;
}

int run_read_chunk(struct index *index, MDB_txn *txn, const struct run *run, uint32_t chunk, MDB_val *out) {
    uint8_t key[RUN_KEY_SIZE];
    run_key(key, run->number, RUN_PAIRS, chunk);
    int error = db_get(&index->db, txn, DB_KEYS, key, sizeof key, out);
    if (error == 0 && pairs_in(out) == 0) error = INDEX_DAMAGED;
    return error == 1 ? INDEX_DAMAGED : error;
}

/* ---- sets of filters */

static void filter_free(struct index_filter *filter) {
    if (filter == NULL || atomic_fetch_sub(&filter->refs, 1) != 1) return;
    for (size_t i = 0; i < filter->count; i++) run_drop(filter->runs[i]);
    free(filter);
}

int filters_announce(struct index *index, struct run **list, size_t count, struct run *tail, uint64_t version) {
    struct index_filter *filter = malloc(sizeof *filter + (count + 1) * sizeof(struct run *));
    if (filter == NULL) return -ENOMEM;
    filter->refs = 1;
    filter->version = version;
    filter->count = count + 1;
    filter->runs[0] = tail;
    for (size_t i = 0; i < count; i++) filter->runs[i + 1] = list[i];
    for (size_t i = 0; i <= count; i++) atomic_fetch_add(&filter->runs[i]->refs, 1);
    struct runs *runs = &index->runs;
    pthread_mutex_lock(&runs->lock);
    struct index_filter *old = runs->next;
    runs->next = filter;
    pthread_mutex_unlock(&runs->lock);
    filter_free(old);
    return 0;
}

void filters_arrive(struct index *index) {
    struct runs *runs = &index->runs;
    pthread_mutex_lock(&runs->lock);
    assert(runs->next != NULL);
    struct index_filter *old = runs->previous;
    runs->previous = runs->current;
    runs->current = runs->next;
    runs->next = NULL;
    pthread_mutex_unlock(&runs->lock);
    filter_free(old);
}

struct index_filter *filters_hold_version(struct index *index, uint64_t version) {
    struct runs *runs = &index->runs;
    struct index_filter *found = NULL;
    pthread_mutex_lock(&runs->lock);
    struct index_filter *sets[] = {runs->current, runs->next, runs->previous};
    for (size_t i = 0; i < 3 && found == NULL; i++) {
        if (sets[i] != NULL && sets[i]->version == version) found = sets[i];
    }
    if (found != NULL) atomic_fetch_add(&found->refs, 1);
    pthread_mutex_unlock(&runs->lock);
    return found;
}

struct index_filter *index_filter_hold(struct index *index) {
    pthread_mutex_lock(&index->runs.lock);
    struct index_filter *filter = index->runs.current;
    atomic_fetch_add(&filter->refs, 1);
    pthread_mutex_unlock(&index->runs.lock);
    return filter;
}

void index_filter_drop(struct index_filter *filter) {
    filter_free(filter);
}

void index_filter_prefetch(const struct index_filter *filter, uint64_t key_hash) {
    for (size_t i = 0; i < filter->count; i++)
        __builtin_prefetch(bloom_block(filter->runs[i]->bloom, filter->runs[i]->blocks, key_hash));
}

bool index_filter_may_contain(const struct index_filter *filter, uint64_t key_hash) {
    /* Prefetch the blocks of all runs first, so the cache misses overlap. The bits of the key are the same in every
     * block. */
    struct bloom_mask mask = bloom_mask(bloom_bits(key_hash));
    index_filter_prefetch(filter, key_hash);
    for (size_t i = 0; i < filter->count; i++) {
        if (!run_is_read(filter->runs[i])) return true;
        if (bloom_block_covers(bloom_block(filter->runs[i]->bloom, filter->runs[i]->blocks, key_hash), &mask))
            return true;
    }
    return false;
}

/* ---- finding */

/* Finds the last chunk that begins with a smaller hash than `hash`. Entries with `hash` itself may begin in that chunk,
 * before the chunk that has `hash` as its fence (first hash). */
static int run_chunk_of(struct index *index, MDB_txn *txn, const struct run *run, uint64_t hash, uint32_t *out) {
    uint32_t low = 0, high = run->chunks;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        uint64_t fence;
        int error = run_fence(index, txn, run, middle, &fence);
        if (error != 0) return error;
        if (fence < hash)
            low = middle + 1;
        else
            high = middle;
    }
    *out = low > 0 ? low - 1 : 0;
    return 0;
}

static int run_find(struct index *index, MDB_txn *txn, const struct run *run, uint64_t hash, struct numbers *out) {
    uint32_t chunk = 0;
    int error = run_chunk_of(index, txn, run, hash, &chunk);
    for (; error == 0 && chunk < run->chunks; chunk++) {
        MDB_val data;
        uint64_t fence = 0;
        error = run_fence(index, txn, run, chunk, &fence);
        if (error == 0 && fence > hash) break;
        if (error == 0) error = run_read_chunk(index, txn, run, chunk, &data);
        if (error != 0) return error;
        size_t count = pairs_in(&data), low = 0, high = count;
        while (low < high) {
            size_t middle = low + (high - low) / 2;
            if (pair_at(data.mv_data, middle).first < hash)
                low = middle + 1;
            else
                high = middle;
        }
        for (; low < count && pair_at(data.mv_data, low).first == hash; low++) {
            error = VECTOR_PUSH(out, pair_at(data.mv_data, low).id);
            if (error != 0) return error;
        }
        if (low < count) break;
    }
    return error;
}

static int tail_find(struct index *index, MDB_txn *txn, uint64_t hash, struct numbers *out) {
    MDB_cursor *cursor;
    int error = db_cursor(&index->db, txn, DB_TAIL, &cursor);
    if (error != 0) return error;
    uint8_t bytes[16] = {0};
    put_be64(bytes, hash);
    MDB_val key = {sizeof bytes, bytes}, sealed, data;
    int found = db_cursor_get(cursor, &key, &sealed, MDB_SET_RANGE);
    for (; found == 0 && error == 0; found = db_cursor_get(cursor, &key, &sealed, MDB_NEXT)) {
        if (key.mv_size != sizeof bytes)
            error = INDEX_DAMAGED;
        else if (get_be64(key.mv_data) != hash)
            break;
        else
            error = db_unseal(&key, &sealed, &data);
        if (error == 0) error = VECTOR_PUSH(out, get_be64((const uint8_t *)key.mv_data + 8));
    }
    if (error == 0 && found != 0 && found != MDB_NOTFOUND) error = found;
    mdb_cursor_close(cursor);
    return error;
}

int keys_find(struct index *index, MDB_txn *txn, const struct index_filter *filter, uint64_t hash,
              struct numbers *out) {
    for (size_t i = 0; i < filter->count; i++) {
        const struct run *run = filter->runs[i];
        bool may = false;
        int error = run_may_have(index, txn, run, hash, &may);
        if (error == 0 && may) error = i == 0 ? tail_find(index, txn, hash, out) : run_find(index, txn, run, hash, out);
        if (error != 0) return error;
    }
    return 0;
}

/* ---- loading */

/* Checks that a descriptor is possible, before memory is allocated for the run. */
static bool record_adds_up(const struct run_record *record, uint64_t entries) {
    return record->level < RUN_LEVELS && record->count > 0 && record->blocks > 0 &&
           record->count / PAIRS_PER_CHUNK <= entries && record->blocks / BLOOM_BLOCKS_PER_CHUNK <= entries &&
           record->chunks == (record->count + PAIRS_PER_CHUNK - 1) / PAIRS_PER_CHUNK;
}

static int load_run(struct index *index, MDB_txn *txn, const MDB_val *key, const MDB_val *sealed) {
    MDB_val data;
    struct run_record record;
    int error = db_unseal(key, sealed, &data);
    if (error != 0) return error;
    if (key->mv_size != 8 || data.mv_size != sizeof record) return INDEX_DAMAGED;
    memcpy(&record, data.mv_data, sizeof record);
    MDB_stat stat;
    error = db_negative(mdb_stat(txn, index->db.table[DB_KEYS], &stat));
    if (error != 0) return error;
    if (!record_adds_up(&record, stat.ms_entries)) return INDEX_DAMAGED;
    uint64_t number;
    memcpy(&number, key->mv_data, sizeof number);
    struct run *run = run_make(record.level, number, record.count, record.blocks);
    if (run == NULL) return -ENOMEM;
    run->chunks = record.chunks;
    run->count = record.count;
    error = VECTOR_PUSH(&index->runs.list, run);
    if (error != 0)
        run_drop(run);
    else
        index->runs.keys += run->count;
    return error;
}

static int load_tail(struct index *index, MDB_cursor *cursor) {
    MDB_val key, sealed, data;
    int found;
    while ((found = db_cursor_get(cursor, &key, &sealed, MDB_NEXT)) == 0) {
        int error = db_unseal(&key, &sealed, &data);
        if (error == 0 && key.mv_size != 16) error = INDEX_DAMAGED;
        if (error != 0) return error;
        struct pair pair = {get_be64(key.mv_data), get_be64((const uint8_t *)key.mv_data + 8)};
        error = VECTOR_PUSH(&index->runs.tail, pair);
        if (error != 0) return error;
        bloom_add(index->runs.tail_filter->bloom, index->runs.tail_filter->blocks, pair.first);
    }
    return found == MDB_NOTFOUND ? 0 : found;
}

/* Finds chunks without a descriptor, from an unfinished merge or from a merged run that was not deleted yet. */
static int load_garbage(struct index *index, MDB_cursor *cursor) {
    uint8_t bytes[RUN_KEY_SIZE];
    uint64_t number = 0;
    for (;;) {
        run_key(bytes, number, 0, 0);
        MDB_val key = {sizeof bytes, bytes}, sealed;
        int found = db_cursor_get(cursor, &key, &sealed, MDB_SET_RANGE);
        if (found == MDB_NOTFOUND) return 0;
        if (found != 0) return found;
        if (key.mv_size != sizeof bytes) return INDEX_DAMAGED;
        number = get_be64(key.mv_data);
        bool is_known = false;
        for (size_t i = 0; i < index->runs.list.count; i++) {
            is_known = is_known || index->runs.list.items[i]->number == number;
        }
        if (!is_known) {
            int error = VECTOR_PUSH(&index->runs.garbage, number);
            if (error != 0) return error;
        }
        if (number == UINT64_MAX) return 0;
        number++;
    }
}

static int load_all(struct index *index, MDB_txn *txn) {
    MDB_cursor *cursor = NULL;
    MDB_val key, sealed;
    int error = db_cursor(&index->db, txn, DB_RUNS, &cursor);
    if (error != 0) return error;
    int found = 0;
    while (error == 0 && (found = db_cursor_get(cursor, &key, &sealed, MDB_NEXT)) == 0) {
        error = load_run(index, txn, &key, &sealed);
    }
    mdb_cursor_close(cursor);
    if (error == 0 && found != MDB_NOTFOUND) error = found;
    if (error != 0) return error;
    error = db_cursor(&index->db, txn, DB_TAIL, &cursor);
    if (error != 0) return error;
    error = load_tail(index, cursor);
    mdb_cursor_close(cursor);
    if (error != 0) return error;
    error = db_cursor(&index->db, txn, DB_KEYS, &cursor);
    if (error != 0) return error;
    error = load_garbage(index, cursor);
    mdb_cursor_close(cursor);
    return error;
}

int runs_load(struct index *index) {
    struct runs *runs = &index->runs;
    runs->tail_filter = run_new(0, 0, TAIL_KEYS_MAX);
    if (runs->tail_filter == NULL) return -ENOMEM;
    MDB_txn *txn;
    int error = db_read(&index->db, &txn);
    if (error != 0) return error;
    error = load_all(index, txn);
    db_read_end(&index->db, txn);
    if (error != 0) return error;
    error = filters_announce(index, runs->list.items, runs->list.count, runs->tail_filter, index->meta.filters_version);
    if (error != 0) return error;
    filters_arrive(index);
    bool more = !index->options.filters_later;
    while (error == 0 && more) error = index_read_filters(index, &more);
    return error;
}

void runs_deinit(struct index *index) {
    struct runs *runs = &index->runs;
    for (size_t i = 0; i < runs->list.count; i++) run_drop(runs->list.items[i]);
    free(runs->list.items);
    run_drop(runs->tail_filter);
    run_drop(runs->merge.output);
    free(runs->tail.items);
    free(runs->garbage.items);
    filter_free(runs->previous);
    filter_free(runs->current);
    filter_free(runs->next);
}
