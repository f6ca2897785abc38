/* forge_index.c: changes the index of a stopped broker in a way that no broker does. forge_index digest DIR adds one to
 * the digest of the state in DIR/index, and corrects all checksums. No check of that directory shows the change; only
 * another broker with the same log detects it (F-31). forge_index calendar DIR removes the calendar, as in an index of
 * an older version. */
#include <stdio.h>
#include <string.h>

#include "index_parts.h"

static int shift_digest(void *argument, MDB_txn *txn) {
    struct db *db = argument;
    struct meta_record meta;
    MDB_val data;
    int error = db_get(db, txn, DB_META, "meta", 4, &data);
    if (error != 0 || data.mv_size != sizeof(meta)) return error != 0 ? error : INDEX_VERSION;
    memcpy(&meta, data.mv_data, sizeof(meta));
    meta.digest++;
    return db_put(db, txn, DB_META, "meta", 4, &meta, sizeof(meta), 0);
}

static int forget_calendar(void *argument, MDB_txn *txn) {
    struct db *db = argument;
    return db_negative(mdb_drop(txn, db->table[DB_CALENDAR], 1));
}

int main(int argc, char **argv) {
    char directory[4096];
    struct db db;
    bool is_digest = argc == 3 && strcmp(argv[1], "digest") == 0;
    if (!is_digest && (argc != 3 || strcmp(argv[1], "calendar") != 0)) return 2;
    snprintf(directory, sizeof(directory), "%s/index", argv[2]);
    int error = db_open(&db, directory, 1u << 30, false, false);
    if (error == 0) {
        error = db_write(&db, is_digest ? shift_digest : forget_calendar, &db);
        db_close(&db);
    }
    if (error != 0) fprintf(stderr, "forge_index: %s: error %d\n", directory, error);
    return error != 0;
}
