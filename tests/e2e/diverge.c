/* diverge.c: `diverge DIR` makes the state in DIR/index another than the log says, and every checksum right: the digest
 * of the whole is off by one. Nothing on that disk shows it; only another broker with the same log can tell (F-31). The
 * broker of DIR must be stopped. */
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

int main(int argc, char **argv) {
    char directory[4096];
    struct db db;
    if (argc != 2) return 2;
    snprintf(directory, sizeof(directory), "%s/index", argv[1]);
    int error = db_open(&db, directory, 1u << 30, false, false);
    if (error == 0) {
        error = db_write(&db, shift_digest, &db);
        db_close(&db);
    }
    if (error != 0) fprintf(stderr, "diverge: %s: error %d\n", directory, error);
    return error != 0;
}
