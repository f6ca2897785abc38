/* index_unread.c: reads the filters and fences of runs after index_open, if options.filters_later is set. A run is a
 * sorted set of keys in the index; its filter and fences help a lookup to find a key.
 *
 * Reason: filters and fences are the only data read at an opening that grows with the number of pending tasks: 1.5 to 2
 * bytes per key, and a page fault per 4 KiB. Until a run's filter is in memory, a lookup reads one or two LMDB pages of
 * the filter, which is slower but exact. When a run's filter and fences are in memory, the run's `is_read` is set and
 * stays set. A new run has its filter in memory. A run that was merged meanwhile is not read. */
#include "bytes.h"
#include "index_parts.h"

/* Reads a chunk of the filter or fences, of `size` bytes. */
static int part_get(struct index *index, MDB_txn *txn, const struct run *run, enum run_kind kind, uint32_t chunk,
                    size_t size, MDB_val *out) {
    uint8_t key[RUN_KEY_SIZE];
    run_key(key, run->number, kind, chunk);
    int error = db_get(&index->db, txn, DB_KEYS, key, sizeof key, out);
    return error == 1 || (error == 0 && out->mv_size != size) ? INDEX_DAMAGED : error;
}

static size_t bloom_size(const struct run *run, uint32_t chunk) {
    return chunk_part(run->blocks, chunk, BLOOM_BLOCKS_PER_CHUNK) * 64;
}

static size_t fences_size(const struct run *run, uint32_t chunk) {
    return chunk_part(run->chunks, chunk, FENCES_PER_CHUNK) * sizeof *run->fences;
}

/* ---- lookups on disk */

int run_may_have(struct index *index, MDB_txn *txn, const struct run *run, uint64_t hash, bool *out) {
    if (run_is_read(run)) {
        *out = bloom_has(run->bloom, run->blocks, hash);
        return 0;
    }
    size_t place = bloom_place(run->blocks, hash);
    uint32_t chunk = (uint32_t)(place / BLOOM_BLOCKS_PER_CHUNK);
    uint64_t block[8];
    MDB_val data;
    index_touched(index, 1);
    int error = part_get(index, txn, run, RUN_BLOOM, chunk, bloom_size(run, chunk), &data);
    if (error != 0) return error;
    memcpy(block, (const uint8_t *)data.mv_data + place % BLOOM_BLOCKS_PER_CHUNK * sizeof block, sizeof block);
    *out = bloom_block_has(block, bloom_bits(hash));
    return 0;
}

int run_fence(struct index *index, MDB_txn *txn, const struct run *run, uint32_t chunk, uint64_t *out) {
    if (run_is_read(run)) {
        *out = run->fences[chunk];
        return 0;
    }
    MDB_val data;
    index_touched(index, 1);
    uint32_t part = (uint32_t)(chunk / FENCES_PER_CHUNK);
    int error = part_get(index, txn, run, RUN_FENCES, part, fences_size(run, part), &data);
    if (error == 0) *out = get_u64((const uint8_t *)data.mv_data + chunk % FENCES_PER_CHUNK * sizeof *out);
    return error;
}

/* ---- reading into memory, one part at a time */

/* Asks the kernel to read the chunks' pages; a cursor finds the chunks without reading them. */
static int foretell(struct index *index, MDB_txn *txn, const struct run *run, enum run_kind kind, uint32_t from,
                    uint32_t count) {
    MDB_val found[UNREAD_STEP_CHUNKS];
    uint8_t bytes[RUN_KEY_SIZE];
    MDB_cursor *cursor;
    int error = db_cursor(&index->db, txn, DB_KEYS, &cursor);
    if (error != 0) return error;
    run_key(bytes, run->number, kind, from);
    MDB_val key = {sizeof bytes, bytes};
    size_t got = 0;
    error = db_cursor_get(cursor, &key, &found[0], MDB_SET);
    while (error == 0 && ++got < count) error = db_cursor_get(cursor, &key, &found[got], MDB_NEXT);
    mdb_cursor_close(cursor);
    db_will_need(found, got);
    return error == MDB_NOTFOUND ? 0 : error; /* ignore missing chunks here, because part_get reports them later */
}

/* Reads the chunks from number *at to `all`, and advances *at. */
static int read_part(struct index *index, MDB_txn *txn, struct run *run, enum run_kind kind, uint32_t all,
                     uint32_t *at) {
    uint32_t count = all - *at < UNREAD_STEP_CHUNKS ? all - *at : UNREAD_STEP_CHUNKS;
    int error = foretell(index, txn, run, kind, *at, count);
    for (uint32_t end = *at + count; error == 0 && *at < end; ++*at) {
        MDB_val data;
        size_t size = kind == RUN_BLOOM ? bloom_size(run, *at) : fences_size(run, *at);
        uint64_t *to = kind == RUN_BLOOM ? run->bloom + (size_t)*at * BLOOM_BLOCKS_PER_CHUNK * 8
                                         : run->fences + (size_t)*at * FENCES_PER_CHUNK;
        error = part_get(index, txn, run, kind, *at, size, &data);
        if (error != 0) return error;
        memcpy(to, data.mv_data, size);
    }
    return error;
}

static int read_run(struct index *index, MDB_txn *txn, struct run *run) {
    int error = 0;
    uint32_t blooms = run_bloom_chunks(run), fences = run_fence_chunks(run);
    if (run->bloom_read < blooms)
        error = read_part(index, txn, run, RUN_BLOOM, blooms, &run->bloom_read);
    else if (run->fences_read < fences)
        error = read_part(index, txn, run, RUN_FENCES, fences, &run->fences_read);
    if (error == 0 && run->bloom_read == blooms && run->fences_read == fences)
        atomic_store_explicit(&run->is_read, true, memory_order_release);
    return error;
}

int index_read_filters(struct index *index, bool *out_more) {
    struct reading reading;
    int error = reading_begin(&reading, index, NULL, true);
    if (error != 0) return error;
    struct run *run = NULL;
    for (size_t i = 0; i < reading.filter->count && run == NULL; i++) {
        if (!run_is_read(reading.filter->runs[i])) run = reading.filter->runs[i];
    }
    if (run != NULL) error = read_run(index, reading.txn, run);
    reading_end(&reading);
    *out_more = run != NULL;
    index_touched(index, UNREAD_STEP_CHUNKS);
    return error;
}
