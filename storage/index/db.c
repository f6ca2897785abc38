/* db.c: the environment, its transactions, and sealed values. See db.h. */
#include "db.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "disk.h"
#include "storage_codes.h"

#define DB_PATH_SIZE 4096
#define MAP_SIZE_DEFAULT (64ull << 30) /* size of the map in bytes of address space */
#define DISK_FULL_BYTES (4u << 20)     /* a failed write counts as a full disk if fewer bytes are free */

static const struct {
    const char *name;
    unsigned flags;
} tables[DB_TABLES] = {
    [DB_META] = {"meta", 0},
    [DB_TALLIES] = {"tallies", 0},
    [DB_ROWS] = {"rows", MDB_INTEGERKEY},
    [DB_LEASED] = {"leased", MDB_INTEGERKEY},
    [DB_RANGES] = {"ranges", MDB_INTEGERKEY},
    [DB_SLOTS] = {"slots", 0},
    [DB_RUNS] = {"runs", MDB_INTEGERKEY},
    [DB_KEYS] = {"keys", 0},
    [DB_TAIL] = {"tail", 0},
    [DB_HELD] = {"held", 0},
    [DB_OUTCOMES] = {"outcomes", MDB_INTEGERKEY},
    [DB_QUEUES] = {"queues", 0},
    [DB_PRODUCERS] = {"producers", MDB_INTEGERKEY},
    [DB_RESULTS] = {"results", 0},
    [DB_JOBS] = {"jobs", MDB_INTEGERKEY},
    [DB_RECURS] = {"recurs", MDB_INTEGERKEY},
    [DB_BLOBS] = {"blobs", MDB_INTEGERKEY},
    [DB_REPLIES] = {"replies", 0},
    [DB_REDACTIONS] = {"redactions", MDB_INTEGERKEY},
    [DB_CALENDAR] = {"calendar", 0},
};

/* Opens a table. Creates missing tables only in a new file. Reason: if LMDB does not find a table's name, or finds
 * other flags, a bit was flipped. A new empty table would hide pending tasks (F-8).
 *
 * Two tables are also created in an index of an earlier version, which lacks them: the calendar and the recurrences.
 * The calendar can be rebuilt from the other tables. The format version of the index says whether it has had
 * recurrences (INDEX_FORMAT_RECURS). */
static int open_table(struct db *db, MDB_txn *txn, int table, unsigned create) {
    unsigned flags;
    bool is_derived = table == DB_CALENDAR, is_later = is_derived || table == DB_RECURS;
    int error = mdb_dbi_open(txn, tables[table].name, tables[table].flags | create, &db->table[table]);
    if (error == MDB_NOTFOUND && table == DB_RECURS) db->lacks_recurs = true;
    if (error == MDB_NOTFOUND && is_later && !db->read_only)
        error = mdb_dbi_open(txn, tables[table].name, tables[table].flags | MDB_CREATE, &db->table[table]);
    if (error == MDB_NOTFOUND && is_later) return 0;
    if (error == MDB_NOTFOUND || error == MDB_INCOMPATIBLE) return INDEX_DAMAGED;
    if (error == 0) error = mdb_dbi_flags(txn, db->table[table], &flags);
    if (error == 0 && flags != tables[table].flags) return INDEX_DAMAGED;
    if (is_derived) db->has_calendar = error == 0;
    return db_negative(error);
}

static int open_tables(struct db *db) {
    MDB_txn *txn;
    MDB_stat names;
    int error = mdb_env_stat(db->env, &names);
    if (error == 0 && names.ms_entries == 0 && db->read_only) error = MDB_NOTFOUND;
    if (error == 0) error = mdb_txn_begin(db->env, NULL, db->read_only ? MDB_RDONLY : 0, &txn);
    if (error != 0) return db_negative(error);
    for (int i = 0; i < DB_TABLES; i++) {
        error = open_table(db, txn, i, names.ms_entries == 0 ? MDB_CREATE : 0);
        if (error != 0) {
            mdb_txn_abort(txn);
            return error;
        }
    }
    return db_negative(mdb_txn_commit(txn));
}

int db_open(struct db *db, const char *directory, size_t map_size, bool read_only, bool no_sync) {
    memset(db, 0, sizeof *db);
    db->map_size = map_size != 0 ? map_size : MAP_SIZE_DEFAULT;
    db->read_only = read_only;
    pthread_rwlock_init(&db->map_lock, NULL);
    pthread_mutex_init(&db->pool_lock, NULL);
    /* Read-only: do not use LMDB's reader table, because using it would change its file. */
    unsigned flags = MDB_NOTLS | MDB_NORDAHEAD | (read_only ? MDB_RDONLY | MDB_NOLOCK : 0) | (no_sync ? MDB_NOSYNC : 0);
    int error = mdb_env_create(&db->env);
    if (error == 0) error = mdb_env_set_maxdbs(db->env, DB_TABLES);
    if (error == 0) error = mdb_env_set_maxreaders(db->env, DB_READERS_MAX);
    if (error == 0) error = mdb_env_set_mapsize(db->env, db->map_size);
    if (error == 0) error = mdb_env_open(db->env, directory, flags, 0600);
    if (error == 0) {
        int dead;
        /* Removes killed processes from LMDB's reader table; as readers they would keep pages in use. */
        error = mdb_reader_check(db->env, &dead);
    }
    error = db_negative(error);
    if (error == 0) error = open_tables(db);
    while (error == MDB_MAP_FULL) {
        db->map_size *= 2;
        error = db_negative(mdb_env_set_mapsize(db->env, db->map_size));
        if (error == 0) error = open_tables(db);
    }
    if (error != 0) db_close(db);
    return error;
}

void db_close(struct db *db) {
    for (size_t i = 0; i < db->pool_count; i++) mdb_txn_abort(db->pool[i]);
    db->pool_count = 0;
    if (db->env != NULL) mdb_env_close(db->env);
    db->env = NULL;
    pthread_rwlock_destroy(&db->map_lock);
    pthread_mutex_destroy(&db->pool_lock);
}

/* Makes an empty directory for a new environment; deletes the files of an earlier attempt. */
static int make_empty(const char *directory) {
    static const char *const files[] = {"data.mdb", "lock.mdb"};
    if (mkdir(directory, 0700) != 0 && errno != EEXIST) return -errno;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[DB_PATH_SIZE];
        int size = snprintf(path, sizeof path, "%s/%s", directory, files[i]);
        if (size < 0 || (size_t)size >= sizeof path) return -ENAMETOOLONG;
        if (unlink(path) != 0 && errno != ENOENT) return -errno;
    }
    return 0;
}

int db_make(const char *directory, bool no_sync) {
    struct stat status;
    if (stat(directory, &status) == 0) return 0;
    if (errno != ENOENT) return -errno;
    char fresh[DB_PATH_SIZE], parent[DB_PATH_SIZE];
    int size = snprintf(fresh, sizeof fresh, "%s.new", directory);
    if (size < 0 || (size_t)size >= sizeof fresh) return -ENAMETOOLONG;
    snprintf(parent, sizeof parent, "%s/..", directory);
    int error = make_empty(fresh);
    struct db db;
    if (error == 0) error = db_open(&db, fresh, 0, false, no_sync);
    if (error != 0) return error;
    db_close(&db); /* db_close needs no sync here: db_open has synced its first transaction */
    if (!no_sync) error = disk_posix.sync_directory(NULL, fresh);
    if (error == 0 && rename(fresh, directory) != 0) error = -errno;
    if (error == 0 && !no_sync) error = disk_posix.sync_directory(NULL, parent);
    return error;
}

int db_read(struct db *db, MDB_txn **out) {
    MDB_txn *txn = NULL;
    pthread_rwlock_rdlock(&db->map_lock);
    pthread_mutex_lock(&db->pool_lock);
    if (db->pool_count > 0) txn = db->pool[--db->pool_count];
    pthread_mutex_unlock(&db->pool_lock);
    int error = txn != NULL ? mdb_txn_renew(txn) : mdb_txn_begin(db->env, NULL, MDB_RDONLY, &txn);
    if (error != 0) {
        if (txn != NULL) mdb_txn_abort(txn);
        pthread_rwlock_unlock(&db->map_lock);
        return db_negative(error);
    }
    *out = txn;
    return 0;
}

void db_read_end(struct db *db, MDB_txn *txn) {
    mdb_txn_reset(txn);
    pthread_mutex_lock(&db->pool_lock);
    bool kept = db->pool_count < DB_POOL_MAX;
    if (kept) db->pool[db->pool_count++] = txn;
    pthread_mutex_unlock(&db->pool_lock);
    if (!kept) mdb_txn_abort(txn);
    pthread_rwlock_unlock(&db->map_lock);
}

/* Begins the read transaction and reads the size of the used file while a write transaction is open. The write
 * transaction is empty and excludes commits, so size and read transaction belong to the same state. The caller takes
 * map_lock first, because the map must not move during a transaction. */
static int snapshot_take(struct db *db, struct db_snapshot *out) {
    MDB_txn *writer = NULL;
    MDB_envinfo info;
    MDB_stat stat;
    int error = mdb_txn_begin(db->env, NULL, 0, &writer);
    if (error != 0) return db_negative(error);
    error = mdb_txn_begin(db->env, NULL, MDB_RDONLY, &out->txn);
    if (error == 0) error = mdb_env_info(db->env, &info);
    if (error == 0) error = mdb_env_stat(db->env, &stat);
    if (error == 0) error = mdb_env_get_fd(db->env, &out->handle);
    if (error == 0) {
        out->page_size = stat.ms_psize;
        out->size = ((uint64_t)info.me_last_pgno + 1) * stat.ms_psize;
        out->heads = malloc(2 * out->page_size);
        if (out->heads == NULL) error = ENOMEM;
    }
    if (error == 0) {
        int64_t count = disk_read_all(&disk_posix, out->handle, out->heads, 2 * out->page_size, 0);
        if (count != (int64_t)(2 * out->page_size)) error = count < 0 ? (int)count : EIO;
    }
    mdb_txn_abort(writer);
    return db_negative(error);
}

int db_snapshot_begin(struct db *db, struct db_snapshot *out) {
    *out = (struct db_snapshot){.handle = -1};
    pthread_rwlock_rdlock(&db->map_lock);
    int error = snapshot_take(db, out);
    if (error != 0) db_snapshot_end(db, out);
    return error;
}

void db_snapshot_end(struct db *db, struct db_snapshot *snapshot) {
    if (snapshot->txn != NULL) mdb_txn_abort(snapshot->txn);
    free(snapshot->heads);
    *snapshot = (struct db_snapshot){.handle = -1};
    pthread_rwlock_unlock(&db->map_lock);
}

bool db_grow_waits(const struct db *db) {
    return atomic_load(&db->grow_waits);
}

static int grow(struct db *db) {
    atomic_store(&db->grow_waits, true);
    pthread_rwlock_wrlock(&db->map_lock); /* LMDB allows no active transaction while the map moves */
    atomic_store(&db->grow_waits, false);
    db->base = NULL;
    db->map_size *= 2;
    int error = mdb_env_set_mapsize(db->env, db->map_size);
    pthread_rwlock_unlock(&db->map_lock);
    return db_negative(error);
}

/* Converts EIO to ENOSPC on a full disk, because LMDB returns EIO after a short write. The whole transaction was
 * aborted, so no unsynced data is used (LOG-4). */
static int full_or_broken(struct db *db, int error) {
    int handle;
    struct statvfs disk;
    if (error != -EIO || mdb_env_get_fd(db->env, &handle) != 0 || fstatvfs(handle, &disk) != 0) return error;
    return (uint64_t)disk.f_bavail * disk.f_frsize < DISK_FULL_BYTES ? -ENOSPC : error;
}

int db_write(struct db *db, int (*body)(void *argument, MDB_txn *txn), void *argument) {
    for (;;) {
        MDB_txn *txn;
        int error = mdb_txn_begin(db->env, NULL, 0, &txn);
        if (error != 0) return db_negative(error);
        error = body(argument, txn);
        if (error != 0) {
            mdb_txn_abort(txn);
        } else {
            error = full_or_broken(db, db_negative(mdb_txn_commit(txn)));
        }
        if (error != MDB_MAP_FULL) return error;
        error = grow(db);
        if (error != 0) return error;
    }
}

/* Finds the address of LMDB's map in the kernel's list, because LMDB has no call for it. NULL: not found; then db_trim
 * drops no pages. */
static void *map_base(struct db *db) {
    int handle;
    struct stat status;
    if (mdb_env_get_fd(db->env, &handle) != 0 || fstat(handle, &status) != 0) return NULL;
    FILE *maps = fopen("/proc/self/maps", "re");
    if (maps == NULL) return NULL;
    char line[4352];
    void *base = NULL;
    while (base == NULL && fgets(line, sizeof line, maps) != NULL) {
        unsigned long from, to, offset, inode;
        unsigned major, minor;
        char mode[8];
        if (sscanf(line, "%lx-%lx %7s %lx %x:%x %lu", &from, &to, mode, &offset, &major, &minor, &inode) != 7) continue;
        if (inode == status.st_ino && offset == 0 && to - from == db->map_size) base = (void *)from;
    }
    fclose(maps);
    return base;
}

/* Returns the resident bytes of mapped files in this process; nearly all belong to the index. 0: unknown. */
static size_t resident_file_bytes(void) {
    int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0; /* without /proc, the kernel alone drops pages when memory is short */
    char text[128];
    ssize_t size = read(file, text, sizeof text - 1);
    close(file);
    if (size <= 0) return 0;
    text[size] = 0;
    unsigned long total, resident, shared;
    if (sscanf(text, "%lu %lu %lu", &total, &resident, &shared) != 3) return 0;
    return (size_t)shared * (size_t)sysconf(_SC_PAGESIZE);
}

void db_trim(struct db *db, size_t budget) {
    if (resident_file_bytes() <= budget) return;
    pthread_rwlock_rdlock(&db->map_lock);
    void *base = __atomic_load_n(&db->base, __ATOMIC_RELAXED);
    if (base == NULL) base = map_base(db);
    __atomic_store_n(&db->base, base, __ATOMIC_RELAXED);
    uint64_t length = db_file_size(db);
    if (length > db->map_size) length = db->map_size;
    /* Safe, because the map is read-only: a dropped page is read again from the file on its next use. */
    if (base != NULL) madvise(base, length & ~(uint64_t)4095, MADV_DONTNEED);
    pthread_rwlock_unlock(&db->map_lock);
}

void db_will_need(const MDB_val *values, size_t count) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < count;) {
        uintptr_t from = (uintptr_t)values[i].mv_data & ~(page - 1), to = from;
        for (; i < count; i++) { /* join neighbouring pages into one request */
            uintptr_t first = (uintptr_t)values[i].mv_data, last = first + values[i].mv_size;
            if (first > to + page || first < from) break;
            if (last > to) to = last;
        }
        (void)madvise((void *)from, to - from, MADV_WILLNEED);
    }
}

uint64_t db_file_size(struct db *db) {
    int handle;
    struct stat status;
    if (mdb_env_get_fd(db->env, &handle) != 0 || fstat(handle, &status) != 0) return 0;
    return (uint64_t)status.st_size;
}

uint32_t db_seal(const void *key, size_t key_size, const void *value, size_t size) {
    uint64_t sum = XXH3_64bits(value, size) + XXH3_64bits(key, key_size) * 0x9E3779B97F4A7C15ull;
    return (uint32_t)(sum >> 32);
}

int db_put(struct db *db, MDB_txn *txn, enum db_table table, const void *key, size_t key_size, const void *value,
           size_t size, unsigned flags) {
    uint32_t seal = db_seal(key, key_size, value, size);
    MDB_val key_value = {key_size, (void *)key};
    MDB_val data = {size + DB_SEAL_SIZE, NULL};
    int error = mdb_put(txn, db->table[table], &key_value, &data, flags | MDB_RESERVE);
    if (error != 0) return db_negative(error);
    memcpy(data.mv_data, &seal, sizeof seal);
    if (size > 0) memcpy((uint8_t *)data.mv_data + DB_SEAL_SIZE, value, size);
    return 0;
}

int db_put_at(MDB_cursor *cursor, const void *key, size_t key_size, const void *value, size_t size, unsigned flags) {
    uint32_t seal = db_seal(key, key_size, value, size);
    MDB_val key_value = {key_size, (void *)key};
    MDB_val data = {size + DB_SEAL_SIZE, NULL};
    int error = mdb_cursor_put(cursor, &key_value, &data, flags | MDB_RESERVE);
    if (error != 0) return db_negative(error);
    memcpy(data.mv_data, &seal, sizeof seal);
    if (size > 0) memcpy((uint8_t *)data.mv_data + DB_SEAL_SIZE, value, size);
    return 0;
}

int db_del_at(MDB_cursor *cursor, const void *key, size_t key_size) {
    MDB_val key_value = {key_size, (void *)key}, data;
    int error = mdb_cursor_get(cursor, &key_value, &data, MDB_SET);
    if (error == 0) error = mdb_cursor_del(cursor, 0);
    return error == MDB_NOTFOUND ? 1 : db_negative(error);
}

int db_unseal(const MDB_val *key, const MDB_val *sealed, MDB_val *out) {
    uint32_t seal;
    if (sealed->mv_size < DB_SEAL_SIZE) return INDEX_DAMAGED;
    memcpy(&seal, sealed->mv_data, sizeof seal);
    out->mv_size = sealed->mv_size - DB_SEAL_SIZE;
    out->mv_data = (uint8_t *)sealed->mv_data + DB_SEAL_SIZE;
    bool is_whole = db_seal(key->mv_data, key->mv_size, out->mv_data, out->mv_size) == seal;
    return is_whole ? 0 : INDEX_DAMAGED;
}

int db_get(struct db *db, MDB_txn *txn, enum db_table table, const void *key, size_t key_size, MDB_val *out) {
    MDB_val key_value = {key_size, (void *)key}, data;
    int error = mdb_get(txn, db->table[table], &key_value, &data);
    if (error == MDB_NOTFOUND) return 1;
    if (error != 0) return db_negative(error);
    return db_unseal(&key_value, &data, out);
}

int db_del(struct db *db, MDB_txn *txn, enum db_table table, const void *key, size_t key_size) {
    MDB_val key_value = {key_size, (void *)key};
    int error = mdb_del(txn, db->table[table], &key_value, NULL);
    return error == MDB_NOTFOUND ? 1 : db_negative(error);
}
