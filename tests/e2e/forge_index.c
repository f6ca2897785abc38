/* forge_index.c: makes the index of a stopped broker what no broker would make it.
 *
 *   forge_index digest DIR     The state in DIR/index is another than the log says, and every checksum is right: the
 *                              digest of the whole is off by one. Nothing on that disk shows it; only another broker
 *                              with the same log can tell (F-31).
 *   forge_index calendar DIR   The index is one of a program that knew of no calendar. */
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
