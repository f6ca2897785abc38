/* db.h: the part of LMDB that the index uses: tables, sealed values, short transactions and a growing map.
 *
 * Every value is *sealed*: its first four bytes are a checksum over key and value. Every read checks the seal, so a
 * flipped bit gives INDEX_DAMAGED and never a wrong row (F-8). Keys are big-endian, or a native u64 (MDB_INTEGERKEY).
 * No transaction outlives the call that opened it, except a db_snapshot. A process opens one environment per file, and
 * does not use it after fork. */
#ifndef TARRY_STORAGE_DB_H
#define TARRY_STORAGE_DB_H

#include <lmdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are written in the byte order of memory");

enum db_table {
    /* key "meta": the record with the totals; other keys: packed DefinitionPuts, by space and name
       (index_definitions.c) */
    DB_META,
    DB_TALLIES, /* counts of tasks for each place in the table of queues, by the number of the queue that now has the
                   place */
    DB_ROWS,    /* rows of tasks by id; DB_LEASED has the newer row of a leased task */
    DB_LEASED,  /* rows of leased tasks by id; a small table, so short leases do not change random LMDB pages */
    DB_RANGES,  /* for each range of 4,096 ids: number of rows, number of ended rows, and a bitmap of the ended ids */
    DB_SLOTS,   /* entries (due, id) of waiting tasks, in chunks; key: line, level, slot and number of the chunk
                   (index_slots.c) */
    DB_RUNS,    /* descriptors of the key runs, by number of the run */
    DB_KEYS, /* key runs (index_keys.c), in chunks; key: number of the run, kind and number of the chunk. Kinds: entries
                (hash, id), blocks of the Bloom filter, first hashes of the chunks */
    DB_TAIL, /* keys that are in no run yet: hash and id, without a value */
    DB_HELD, /* leases and dead letters: state, queue, due time and id, without a value */
    DB_OUTCOMES,  /* chunks of packed outcomes, in the order of ending */
    DB_QUEUES,    /* packed QueuePut of each queue, by its number */
    DB_PRODUCERS, /* by producer: time of its last commit, and its lowest remembered sequence */
    DB_RESULTS,   /* log positions of stored replies, by producer and sequence */
    DB_JOBS,      /* packed JobPut of each job, by its id */
    DB_RECURS, /* recurrences. Key 2 × number: packed RecurPut of the last SET. Key 2 × number + 1: packed RecurState */
    DB_BLOBS,      /* contents of retired segments, by task id */
    DB_REPLIES,    /* packed CommitReplies of retired segments, by producer and sequence */
    DB_REDACTIONS, /* packed Redactions by task id, until they have been carried out */
    DB_CALENDAR,   /* counts of waiting tasks by due time; key: line, level and chunk (index_calendar.h). Can be rebuilt
                      from the rows */
    DB_TABLES
};

#define DB_SEAL_SIZE 4u
/* Size in bytes of the largest sealed value that fits into one LMDB overflow page. */
#define DB_CHUNK_SIZE 4080u
#define DB_READERS_MAX 512
#define DB_POOL_MAX 64

struct db {
    MDB_env *env;
    MDB_dbi table[DB_TABLES];
    pthread_rwlock_t map_lock; /* locked for reading by read transactions, for writing while the map grows */
    pthread_mutex_t pool_lock;
    MDB_txn *pool[DB_POOL_MAX]; /* read transactions that were reset and can be reused */
    size_t pool_count;
    size_t map_size;
    void *base; /* address of the mapped file; NULL: not known yet */
    /* true: a writer waits to grow the map. A copy, which holds map_lock for long, must release it. */
    _Atomic bool grow_waits;
    bool read_only;
    bool has_calendar; /* true: the calendar's table exists. Only a read-only environment that an older program made
                          lacks it */
    bool lacks_recurs; /* the environment had no table of recurrences when it was opened */
};

/* Opens the environment, or makes it with its tables. MDB_NOTFOUND: read-only, and there is no environment. */
int db_open(struct db *db, const char *directory, size_t map_size, bool read_only, bool no_sync);
void db_close(struct db *db);
/* If the directory is missing, makes it with an empty environment, durably. The directory gets its name last (F-6),
 * because LMDB rejects a file whose first pages are incomplete. 0, a negative errno, or a negative LMDB code. */
int db_make(const char *directory, bool no_sync);

/* Begins a read transaction. Any thread. The same call must end it with db_read_end. */
int db_read(struct db *db, MDB_txn **out);
void db_read_end(struct db *db, MDB_txn *txn);

/* A snapshot of the file for a copy: LMDB does not reuse its pages meanwhile. Its read transaction is the only one that
 * outlives a call. The copy reads the file through `handle`, not through the map, so it makes no pages resident
 * (CALM-1). */
struct db_snapshot {
    MDB_txn *txn;
    int handle;
    uint8_t *heads; /* the first two LMDB pages (the meta pages), which point to the root pages */
    size_t page_size;
    uint64_t size; /* bytes of the file that belong to the snapshot */
};
int db_snapshot_begin(struct db *db, struct db_snapshot *out);
/* Ends a snapshot, on the thread that began it. A copy that sees db_grow_waits return true must end its snapshot before
 * its next step. */
void db_snapshot_end(struct db *db, struct db_snapshot *snapshot);
bool db_grow_waits(const struct db *db);

/* Runs `body` in one synced write transaction. If the map is full, grows the map and runs `body` again, so `body` must
 * be repeatable. If `body` returns non-zero, aborts and returns that value. */
int db_write(struct db *db, int (*body)(void *argument, MDB_txn *txn), void *argument);

/* Drops mapped pages (madvise) if more than `budget` bytes of files are resident in this process. */
void db_trim(struct db *db, size_t budget);
uint64_t db_file_size(struct db *db);

/* Asks the kernel to read the pages of these values, which the caller will soon read in the same read transaction. One
 * request for all replaces one page fault after another. Only advice. */
void db_will_need(const MDB_val *values, size_t count);

/* Returns the checksum over key and value. */
uint32_t db_seal(const void *key, size_t key_size, const void *value, size_t size);

/* Seals and stores a value. `flags` are LMDB's (MDB_APPEND). */
int db_put(struct db *db, MDB_txn *txn, enum db_table table, const void *key, size_t key_size, const void *value,
           size_t size, unsigned flags);
/* Like db_put, by a cursor of the table. It is faster when the keys come in ascending order. */
int db_put_at(MDB_cursor *cursor, const void *key, size_t key_size, const void *value, size_t size, unsigned flags);
/* Deletes a value by a cursor. 1: not found. */
int db_del_at(MDB_cursor *cursor, const void *key, size_t key_size);
/* Reads a value and checks its seal. `*out` is the value without its seal, valid until the transaction writes or ends.
 * 1: not found. */
int db_get(struct db *db, MDB_txn *txn, enum db_table table, const void *key, size_t key_size, MDB_val *out);
/* Deletes a value. 1: not found. */
int db_del(struct db *db, MDB_txn *txn, enum db_table table, const void *key, size_t key_size);
/* Checks and removes the seal of a value that a cursor found. INDEX_DAMAGED: the checksum is wrong. */
int db_unseal(const MDB_val *key, const MDB_val *sealed, MDB_val *out);

/* Converts LMDB's error, a positive errno or a negative code, to a negative one. */
static inline int db_negative(int error) {
    return error > 0 ? -error : error;
}

static inline int db_cursor(struct db *db, MDB_txn *txn, enum db_table table, MDB_cursor **out) {
    return db_negative(mdb_cursor_open(txn, db->table[table], out));
}

/* Moves a cursor. MDB_NOTFOUND: no more entries. */
static inline int db_cursor_get(MDB_cursor *cursor, MDB_val *key, MDB_val *data, MDB_cursor_op op) {
    return db_negative(mdb_cursor_get(cursor, key, data, op));
}

static inline int db_cursor_del(MDB_cursor *cursor) {
    return db_negative(mdb_cursor_del(cursor, 0));
}

static inline void put_be32(uint8_t *out, uint32_t value) {
    value = __builtin_bswap32(value);
    memcpy(out, &value, sizeof value);
}

static inline void put_be64(uint8_t *out, uint64_t value) {
    value = __builtin_bswap64(value);
    memcpy(out, &value, sizeof value);
}

static inline uint32_t get_be32(const uint8_t *in) {
    uint32_t value;
    memcpy(&value, in, sizeof value);
    return __builtin_bswap32(value);
}

static inline uint64_t get_be64(const uint8_t *in) {
    uint64_t value;
    memcpy(&value, in, sizeof value);
    return __builtin_bswap64(value);
}

#endif
