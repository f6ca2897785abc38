/* index_pages.h: where the entries of neighbouring ids lie in the file, told by a few of them.
 *
 * A thread that touches many entries on the disk waits for one page after the other. The kernel reads them all at once,
 * if it is told which; to walk through the entries in order to tell it would be to touch them. But entries that were
 * appended in the order of their ids lie side by side: 4,096 rows are some 100 pages in one to three stretches
 * (measured: 30 million pending of 60 million, after ten minutes of 100,000/s in and out).
 *
 * So the first and the last entry are looked up. If they are no farther apart than twice what so many entries take in
 * this table on average, everything between them is one stretch. If they are, the entry in the middle is looked up, and
 * both halves are treated likewise, PAGES_LOOKS_MAX times at most. A page that is not found costs a page fault when it
 * is touched, as without all this; so do most pages of contents, where many contents above 2 KB lie between them. */
#ifndef TARRY_STORAGE_INDEX_PAGES_H
#define TARRY_STORAGE_INDEX_PAGES_H

#include "index_parts.h"

#define PAGES_LOOKS_MAX 128u

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
