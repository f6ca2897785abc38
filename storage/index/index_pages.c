/* index_pages.c: see index_pages.h. */
#include "index_pages.h"

#include <stdlib.h>

/* A stretch may have this many pages more than twice the average, because accepting a stretch saves lookups. */
#define SLACK_PAGES 4u

struct place {
    uint64_t id;
    uintptr_t page; /* address of the LMDB page that has the entry */
};

struct pages {
    MDB_cursor *cursor;
    uintptr_t size;   /* size of an LMDB page, in bytes */
    uint64_t ids;     /* number of ids from the first to the last existing one */
    uint64_t entries; /* upper limit of the number of entries among these `ids` ids */
    uint64_t all;     /* number of entries in the table */
    uint64_t leaves;  /* number of leaf pages in the table */
    unsigned looks;
    struct spans *spans;
};

/* Finds the first entry from `id` on, or the entry before the cursor (MDB_PREV). MDB_NOTFOUND: no such entry. */
static int look(struct pages *pages, uint64_t id, MDB_cursor_op op, struct place *out) {
    MDB_val key = {sizeof id, &id}, value;
    pages->looks++;
    int error = db_cursor_get(pages->cursor, &key, &value, op);
    if (error != 0) return error;
    if (key.mv_size != sizeof out->id) return INDEX_DAMAGED;
    memcpy(&out->id, key.mv_data, sizeof out->id);
    out->page = (uintptr_t)key.mv_data & ~(pages->size - 1);
    return 0;
}

/* Returns the average number of pages that the entries of `ids` successive ids take in this table. */
static uint64_t pages_of(const struct pages *pages, uint64_t ids) {
    uint64_t entries = ids * pages->entries / pages->ids;
    return entries * pages->leaves / pages->all;
}

static int add(struct pages *pages, uintptr_t first, uintptr_t last) {
    return VECTOR_PUSH(pages->spans, (MDB_val){last - first + pages->size, (void *)first});
}

/* Finds the pages of the entries from `first` to `last`, which both exist. */
static int find_between(struct pages *pages, struct place first, struct place last) {
    for (;;) {
        /* An unsigned number: huge if `last` is before `first` in the file. */
        uint64_t apart = (last.page - first.page) / pages->size;
        if (apart <= 2 * pages_of(pages, last.id - first.id) + SLACK_PAGES) return add(pages, first.page, last.page);
        if (last.id - first.id <= 1 || pages->looks >= PAGES_LOOKS_MAX) break;
        uint64_t middle = first.id + (last.id - first.id) / 2;
        struct place above, below;
        int error = look(pages, middle, MDB_SET_RANGE, &above);
        if (error == 0) error = look(pages, middle, MDB_PREV, &below);
        if (error == 0)
            error = find_between(pages, first, below); /* each recursion halves the number of ids, so it is not deep */
        if (error != 0) return error == MDB_NOTFOUND ? INDEX_DAMAGED : error;
        first = above;
    }
    int error = add(pages, first.page, first.page);
    return error != 0 ? error : add(pages, last.page, last.page);
}

static int find(struct pages *pages, uint64_t from, uint64_t end) {
    struct place first, above, last;
    int error = look(pages, from, MDB_SET_RANGE, &first);
    if (error != 0) return error;
    if (first.id >= end) return MDB_NOTFOUND;
    error = look(pages, end, MDB_SET_RANGE, &above);
    if (error == 0)
        error = look(pages, end, MDB_PREV, &last);
    else if (error == MDB_NOTFOUND)
        error = look(pages, end, MDB_LAST, &last);
    if (error != 0) return error;
    pages->ids = last.id - first.id + 1;
    return find_between(pages, first, last);
}

int pages_find(struct index *index, MDB_txn *txn, enum db_table table, const struct ids *ids, struct spans *out) {
    MDB_stat stat;
    int error = db_negative(mdb_stat(txn, index->db.table[table], &stat));
    if (error != 0 || stat.ms_entries == 0) return error;
    struct pages pages = {.size = stat.ms_psize,
                          .entries = ids->entries,
                          .all = stat.ms_entries,
                          .leaves = stat.ms_leaf_pages,
                          .spans = out};
    error = db_cursor(&index->db, txn, table, &pages.cursor);
    if (error != 0) return error;
    error = find(&pages, ids->from, ids->end);
    mdb_cursor_close(pages.cursor);
    return error == MDB_NOTFOUND ? 0 : error;
}

int pages_will_need(struct index *index, MDB_txn *txn, enum db_table table, const struct ids *ids) {
    struct spans spans = {0};
    int error = pages_find(index, txn, table, ids, &spans);
    if (error == 0) db_will_need(spans.items, spans.count);
    free(spans.items);
    return error;
}
