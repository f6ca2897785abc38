/* index_pages.h: where the entries of neighbouring ids lie in the file, told by a few of them.
 *
 * A thread that is to touch many entries that lie on the disk alone waits for one page after the other, unless the
 * kernel is asked for all at once; and to know their pages by walking through them would be to touch them. But a table
 * whose keys are ids, in which entries are appended, has most of them side by side: 4,096 rows are some 100 pages in
 * one to three stretches (measured: 30 million pending of 60 million, after ten minutes of 100,000/s in and out). So
 * the first and the last entry are looked up. Do they lie no farther apart than twice what so many entries take in this
 * table, all between them is taken for one stretch; otherwise the entry in the middle is looked up, and so on with both
 * halves. A page that lies elsewhere all the same costs its page fault. */
#ifndef TARRY_STORAGE_INDEX_PAGES_H
#define TARRY_STORAGE_INDEX_PAGES_H

#include "index_parts.h"

struct ids {
    uint64_t from, end; /* from … end - 1 */
    uint64_t entries;   /* so many of them, at most, are in the table */
};

/* Stretches of mapped memory. */
struct spans VECTOR_FIELDS(MDB_val);

/* Appends where the pages with what a table has of these ids are mapped. */
int pages_find(struct index *index, MDB_txn *txn, enum db_table table, const struct ids *ids, struct spans *out);
/* The kernel is asked to read them. */
int pages_will_need(struct index *index, MDB_txn *txn, enum db_table table, const struct ids *ids);

#endif
