/* index_pages.h: finds the file pages that hold the entries of neighbouring ids, so that the kernel can read them
 * together.
 *
 * Reason: a thread that reads many entries from disk waits for one page fault after another. The kernel reads all pages
 * at once if it gets a list of them. But a walk through all entries to make that list would itself read the pages.
 * Entries that were appended in the order of their ids are neighbours in the file. Measured: 4,096 rows were about 100
 * pages in one to three stretches (runs of adjacent pages), with 30 million pending tasks of 60 million, after ten
 * minutes of 100,000 tasks/s in and out.
 *
 * Method: pages_find looks up the first and the last entry. If their distance is at most twice the average space of as
 * many entries in this table, all pages between them form one stretch. Otherwise pages_find looks up the middle entry
 * and treats both halves in the same way, with at most PAGES_LOOKS_MAX lookups in total. A page that was not found
 * costs a page fault when it is read. This is common for contents, because contents above 2 KB lie between the pages.
 */
#ifndef TARRY_STORAGE_INDEX_PAGES_H
#define TARRY_STORAGE_INDEX_PAGES_H

#include "index_parts.h"

#define PAGES_LOOKS_MAX 128u

struct ids {
    uint64_t from, end; /* first id, and the id after the last one */
    uint64_t entries;   /* upper limit of the number of ids in this range that the table has */
};

/* Stretches of mapped memory, as address and size. */
struct spans VECTOR_FIELDS(MDB_val);

/* Appends the mapped stretches that hold the table's entries of these ids. */
int pages_find(struct index *index, MDB_txn *txn, enum db_table table, const struct ids *ids, struct spans *out);
/* Asks the kernel to read the pages that hold the table's entries of these ids. */
int pages_will_need(struct index *index, MDB_txn *txn, enum db_table table, const struct ids *ids);

#endif
