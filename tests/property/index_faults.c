/* index_faults.c: see index_faults.h. */
#include "index_faults.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "db.h"

const char *const fault_names[FAULTS] = {
    [FAULT_NONE] = "nothing",
    [FAULT_LMDB] = "LMDB fails",
    [FAULT_MEMORY] = "no memory",
    [FAULT_MAP_FULL] = "the map is full",
    [FAULT_NO_SPACE] = "the disk is full",
    [FAULT_FLIPPED] = "a bit is flipped",
    [FAULT_SHORT] = "a value is too short",
    [FAULT_LONGER] = "a value is too long",
    [FAULT_EMPTY] = "a value is empty",
    [FAULT_KEY] = "a key is too long",
    [FAULT_GARBAGE] = "a value is nonsense",
};

static struct {
    enum fault fault;
    uint64_t left; /* number of calls until the fault */
    bool met;
    uint8_t *copy; /* damaged copy of the value or key */
} plan;

void *__real_malloc(size_t size);

void fault_arm(enum fault fault, uint64_t n) {
    plan.fault = fault;
    plan.left = n;
    plan.met = false;
}

bool fault_disarm(void) {
    plan.fault = FAULT_NONE;
    free(plan.copy);
    plan.copy = NULL;
    return plan.met;
}

static bool strikes(enum fault fault) {
    if (plan.fault != fault || plan.left == 0 || --plan.left > 0) return false;
    plan.met = true;
    return true;
}

/* ---- calls that fail */

#define MAY_FAIL(name, parameters, arguments)                                                                          \
    int __real_##name parameters;                                                                                      \
    int __wrap_##name parameters;                                                                                      \
    int __wrap_##name parameters {                                                                                     \
        return strikes(FAULT_LMDB) ? FAULT_LMDB_ERROR : __real_##name arguments;                                       \
    }

MAY_FAIL(mdb_env_create, (MDB_env * *env), (env))
MAY_FAIL(mdb_env_set_maxdbs, (MDB_env * env, MDB_dbi count), (env, count))
MAY_FAIL(mdb_env_set_maxreaders, (MDB_env * env, unsigned count), (env, count))
MAY_FAIL(mdb_env_set_mapsize, (MDB_env * env, size_t size), (env, size))
MAY_FAIL(mdb_env_open, (MDB_env * env, const char *path, unsigned flags, mdb_mode_t mode), (env, path, flags, mode))
MAY_FAIL(mdb_reader_check, (MDB_env * env, int *dead), (env, dead))
MAY_FAIL(mdb_txn_begin, (MDB_env * env, MDB_txn *parent, unsigned flags, MDB_txn **txn), (env, parent, flags, txn))
MAY_FAIL(mdb_txn_renew, (MDB_txn * txn), (txn))
MAY_FAIL(mdb_dbi_open, (MDB_txn * txn, const char *name, unsigned flags, MDB_dbi *dbi), (txn, name, flags, dbi))
MAY_FAIL(mdb_cursor_open, (MDB_txn * txn, MDB_dbi dbi, MDB_cursor **cursor), (txn, dbi, cursor))
MAY_FAIL(mdb_cursor_del, (MDB_cursor * cursor, unsigned flags), (cursor, flags))
MAY_FAIL(mdb_del, (MDB_txn * txn, MDB_dbi dbi, MDB_val *key, MDB_val *data), (txn, dbi, key, data))
MAY_FAIL(mdb_drop, (MDB_txn * txn, MDB_dbi dbi, int del), (txn, dbi, del))

int __real_mdb_put(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, MDB_val *data, unsigned flags);
int __wrap_mdb_put(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, MDB_val *data, unsigned flags);
int __wrap_mdb_put(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, MDB_val *data, unsigned flags) {
    if (strikes(FAULT_LMDB)) return FAULT_LMDB_ERROR;
    if (strikes(FAULT_MAP_FULL)) return MDB_MAP_FULL;
    return __real_mdb_put(txn, dbi, key, data, flags);
}

/* A failed commit also ends the transaction. */
int __real_mdb_txn_commit(MDB_txn *txn);
int __wrap_mdb_txn_commit(MDB_txn *txn);
int __wrap_mdb_txn_commit(MDB_txn *txn) {
    int error = strikes(FAULT_LMDB)       ? FAULT_LMDB_ERROR
                : strikes(FAULT_MAP_FULL) ? MDB_MAP_FULL
                : strikes(FAULT_NO_SPACE) ? ENOSPC
                                          : 0;
    if (error == 0) return __real_mdb_txn_commit(txn);
    mdb_txn_abort(txn);
    return error;
}

/* ---- reads that return damaged data */

static uint8_t *copy_take(size_t size) {
    free(plan.copy);
    plan.copy = __real_malloc(size);
    if (plan.copy == NULL) abort();
    return plan.copy;
}

/* Changes the size of a value from `size` to `size_now` bytes, truncated or padded with zeros, and gives it a correct
 * seal. */
static void reseal(const MDB_val *key, MDB_val *sealed, size_t size_now) {
    size_t size = sealed->mv_size - DB_SEAL_SIZE;
    uint8_t *copy = copy_take(DB_SEAL_SIZE + size_now + 1);
    memset(copy, 0, DB_SEAL_SIZE + size_now + 1);
    memcpy(copy + DB_SEAL_SIZE, (uint8_t *)sealed->mv_data + DB_SEAL_SIZE, size < size_now ? size : size_now);
    uint32_t seal = db_seal(key->mv_data, key->mv_size, copy + DB_SEAL_SIZE, size_now);
    memcpy(copy, &seal, sizeof(seal));
    *sealed = (MDB_val){DB_SEAL_SIZE + size_now, copy};
}

static void damage_value(const MDB_val *key, MDB_val *sealed) {
    if (sealed->mv_size < DB_SEAL_SIZE) return;
    size_t size = sealed->mv_size - DB_SEAL_SIZE;
    if (strikes(FAULT_FLIPPED)) {
        uint8_t *copy = memcpy(copy_take(sealed->mv_size), sealed->mv_data, sealed->mv_size);
        copy[sealed->mv_size - 1] ^= 0x10;
        sealed->mv_data = copy;
    } else if (strikes(FAULT_SHORT)) {
        sealed->mv_size = DB_SEAL_SIZE - 1;
    } else if (strikes(FAULT_LONGER)) {
        reseal(key, sealed, size + 1);
    } else if (strikes(FAULT_EMPTY)) {
        reseal(key, sealed, 0);
    } else if (strikes(FAULT_GARBAGE)) {
        reseal(key, sealed, size);
        memset(plan.copy + DB_SEAL_SIZE, 0xff, size);
        uint32_t seal = db_seal(key->mv_data, key->mv_size, plan.copy + DB_SEAL_SIZE, size);
        memcpy(plan.copy, &seal, sizeof(seal));
    }
}

int __real_mdb_get(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, MDB_val *data);
int __wrap_mdb_get(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, MDB_val *data);
int __wrap_mdb_get(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, MDB_val *data) {
    if (strikes(FAULT_LMDB)) return FAULT_LMDB_ERROR;
    int error = __real_mdb_get(txn, dbi, key, data);
    if (error == 0) damage_value(key, data);
    return error;
}

int __real_mdb_cursor_get(MDB_cursor *cursor, MDB_val *key, MDB_val *data, MDB_cursor_op op);
int __wrap_mdb_cursor_get(MDB_cursor *cursor, MDB_val *key, MDB_val *data, MDB_cursor_op op);
int __wrap_mdb_cursor_get(MDB_cursor *cursor, MDB_val *key, MDB_val *data, MDB_cursor_op op) {
    if (strikes(FAULT_LMDB)) return FAULT_LMDB_ERROR;
    int error = __real_mdb_cursor_get(cursor, key, data, op);
    if (error != 0) return error;
    damage_value(key, data);
    if (strikes(FAULT_KEY)) {
        uint8_t *copy = copy_take(key->mv_size + 1);
        memcpy(copy, key->mv_data, key->mv_size);
        copy[key->mv_size] = 0;
        *key = (MDB_val){key->mv_size + 1, copy};
    }
    return 0;
}

/* ---- the allocator */

void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size) {
    return strikes(FAULT_MEMORY) ? NULL : __real_malloc(size);
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size) {
    return strikes(FAULT_MEMORY) ? NULL : __real_calloc(count, size);
}

void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size) {
    return strikes(FAULT_MEMORY) ? NULL : __real_realloc(old, size);
}

void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size) {
    return strikes(FAULT_MEMORY) ? NULL : __real_aligned_alloc(alignment, size);
}
