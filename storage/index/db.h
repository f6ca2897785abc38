/* db.h: the little that the index needs of LMDB: tables, sealed values, short transactions, a map that grows.
 *
 * Every value is *sealed*: its first four bytes are a checksum over key and value, checked at every read, so that a
 * flipped bit is INDEX_DAMAGED and never a wrong row (F-8). Keys are big-endian, or a native u64 (MDB_INTEGERKEY).
 * No transaction outlives the call that opened it. One environment per file and process; never across fork. */
#ifndef TARRY_STORAGE_DB_H
#define TARRY_STORAGE_DB_H

#include <lmdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are written as they lie in memory");

enum db_table {
    DB_META,       /* one record */
    DB_TALLIES,    /* number of the queue that has a place → counts */
    DB_ROWS,       /* id → row, save for what DB_LEASED says */
    DB_LEASED,     /* id → row, while it is leased: a lease is short, and rows lie at random */
    DB_RANGES,     /* id / 4096 → rows, ended rows, bitmap of ended ids */
    DB_SLOTS,      /* line, level, slot, chunk → (due, id)… */
    DB_RUNS,       /* run → what it is */
    DB_KEYS,       /* run, kind, chunk → (hash, id)… or filter blocks or fences */
    DB_TAIL,       /* hash, id → nothing: keys not yet in a run */
    DB_HELD,       /* state, queue, due, id → nothing: leases and dead letters */
    DB_OUTCOMES,   /* sequence → packed outcomes */
    DB_QUEUES,     /* number → packed QueuePut */
    DB_PRODUCERS,  /* producer → used, floor */
    DB_RESULTS,    /* producer, sequence → log position */
    DB_JOBS,       /* job → packed JobPut */
    DB_BLOBS,      /* id → content of a retired segment */
    DB_REPLIES,    /* producer, sequence → packed CommitReply of a retired segment */
    DB_REDACTIONS, /* id → packed Redaction, until it has been carried out */
    DB_CALENDAR,   /* line, level, chunk → counts of waiting tasks by due time; made anew from the rows if need be */
    DB_TABLES
};

#define DB_SEAL_SIZE 4u
/* The largest sealed value that fills one overflow page and no second one. */
#define DB_CHUNK_SIZE 4080u
#define DB_READERS_MAX 512
#define DB_POOL_MAX 64

struct db {
    MDB_env *env;
    MDB_dbi table[DB_TABLES];
    pthread_rwlock_t map_lock; /* read transactions hold it shared; growing the map needs it alone */
    pthread_mutex_t pool_lock;
    MDB_txn *pool[DB_POOL_MAX]; /* reset read transactions, to be renewed */
    size_t pool_count;
    size_t map_size;
    void *base;              /* where the file is mapped; NULL: not yet known */
    _Atomic bool grow_waits; /* the map is to grow: whoever holds map_lock for long gives it up */
    bool read_only;
    bool has_calendar; /* read-only: an older program has made no such table */
};

/* Opens or makes the environment and its tables. MDB_NOTFOUND: read-only and not there. */
int db_open(struct db *db, const char *directory, size_t map_size, bool read_only, bool no_sync);
void db_close(struct db *db);
/* Makes the directory with an empty environment in it, both durable, if there is no such directory: it gets its name
 * last (F-6), for LMDB takes half of its first pages for a file that is none. 0 or a negative errno or code of LMDB's.
 */
int db_make(const char *directory, bool no_sync);

/* A read transaction. Any thread; ends with db_read_end in the same call. */
int db_read(struct db *db, MDB_txn **out);
void db_read_end(struct db *db, MDB_txn *txn);

/* One state of the file, held still while it is copied: the pages that make it up are not used again meanwhile. The one
 * read transaction that outlives a call. Pages of the file are read through `handle`, never through the map, so that a
 * copy makes nothing resident (CALM-1). */
struct db_snapshot {
    MDB_txn *txn;
    int handle;
    uint8_t *heads; /* the first two pages, which say where the others belong */
    size_t page_size;
    uint64_t size; /* bytes of the file that count */
};
int db_snapshot_begin(struct db *db, struct db_snapshot *out);
/* By the same thread. It must not be held while db_grow_waits for longer than a step takes. */
void db_snapshot_end(struct db *db, struct db_snapshot *snapshot);
bool db_grow_waits(const struct db *db);

/* Runs `body` in one synced write transaction. The map full: it is grown and `body` runs again, so that `body` must
 * leave nothing behind but what the next run of it overwrites. Any other result of `body` than 0 aborts and is
 * returned. */
int db_write(struct db *db, int (*body)(void *argument, MDB_txn *txn), void *argument);

/* Gives mapped pages back to the kernel if more than `budget` bytes of files are resident in this process. */
void db_trim(struct db *db, size_t budget);
uint64_t db_file_size(struct db *db);

/* Values of a read transaction, not looked at yet, that will be soon: the kernel is asked to read their pages, all at
 * once instead of one page fault after the other. Advice. */
void db_will_need(const MDB_val *values, size_t count);

/* The seal over key and value. */
uint32_t db_seal(const void *key, size_t key_size, const void *value, size_t size);

/* Seals and stores. `flags` are LMDB's (MDB_APPEND). */
int db_put(struct db *db, MDB_txn *txn, enum db_table table, const void *key, size_t key_size, const void *value,
           size_t size, unsigned flags);
/* The same by a cursor of the table's, which finds its way sooner from the last key to the next one in order. */
int db_put_at(MDB_cursor *cursor, const void *key, size_t key_size, const void *value, size_t size, unsigned flags);
/* 1: it was not there. */
int db_del_at(MDB_cursor *cursor, const void *key, size_t key_size);
/* 1: not there. `*out` is the value without its seal, valid until the transaction writes or ends. */
int db_get(struct db *db, MDB_txn *txn, enum db_table table, const void *key, size_t key_size, MDB_val *out);
/* 1: it was not there. */
int db_del(struct db *db, MDB_txn *txn, enum db_table table, const void *key, size_t key_size);
/* Takes the seal off a value that a cursor found; INDEX_DAMAGED if it is broken. */
int db_unseal(const MDB_val *key, const MDB_val *sealed, MDB_val *out);

/* LMDB returns a positive errno or a negative code of its own; the house knows negative ones only. */
static inline int db_negative(int error) {
    return error > 0 ? -error : error;
}

static inline int db_cursor(struct db *db, MDB_txn *txn, enum db_table table, MDB_cursor **out) {
    return db_negative(mdb_cursor_open(txn, db->table[table], out));
}

/* MDB_NOTFOUND at the end. */
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
