/* forget_calendar.c: `forget_calendar DIR` makes the index in DIR/index one of a program that knew of no calendar. The
 * broker of DIR must be stopped. */
#include <stdio.h>

#include "index_parts.h"

static int forget(void *argument, MDB_txn *txn) {
    struct db *db = argument;
    return db_negative(mdb_drop(txn, db->table[DB_CALENDAR], 1));
}

int main(int argc, char **argv) {
    char directory[4096];
    struct db db;
    if (argc != 2) return 2;
    snprintf(directory, sizeof(directory), "%s/index", argv[1]);
    int error = db_open(&db, directory, 1u << 30, false, false);
    if (error == 0) {
        error = db_write(&db, forget, &db);
        db_close(&db);
    }
    if (error != 0) fprintf(stderr, "forget_calendar: %s: error %d\n", directory, error);
    return error != 0;
}
