/* table.h: the model index. It has the state of the flat tables at one position of the log, and keeps the promises of
 * storage/index/index.h to the broker. It lags behind the durable log. It changes only at a commit, as a whole, and is
 * durable after that. It stores position, hash chain and times, and copies the contents and replies of a segment before
 * the segment is deleted (LOG-3). tests/property/index_test.c compares the real index with a naive model. */
#ifndef TARRY_TESTS_SIM_TABLE_H
#define TARRY_TESTS_SIM_TABLE_H

#include "flat.h"

#define TABLE_REDACTIONS_MAX 4096

struct table {
    struct flat flat;
    uint8_t chain[FRAME_CHAIN_SIZE]; /* chain hash of the log at flat.position */
    uint64_t log_start;              /* the table has copies of contents and replies below this log position */
    const Tarry__Redaction
        *redactions[TABLE_REDACTIONS_MAX]; /* redactions that have not been carried out yet; borrowed */
    size_t redaction_count;
};

struct table_rows { /* rows of tasks; allocated in the given arena */
    struct row *rows;
    size_t count;
    size_t capacity;
};

void table_begin(struct table *table);
void table_copy(struct table *to, const struct table *from);
void table_absorb(struct table *table, const struct frame_header *header, const Tarry__FrameBody *body);
/* Copies the contents and replies of a frame that are still needed, before its segment is deleted. Returns false if the
 * log lacks them. */
bool table_retire(struct table *table, const struct frame_header *header, const Tarry__FrameBody *body,
                  const uint8_t *blob, struct arena *arena);
/* Removes the oldest `count` redactions, because their contents are erased. */
void table_redactions_done(struct table *table, size_t count);
bool table_is_redacting(const struct table *table, const Tarry__Redaction *redaction);

void table_lookup(const struct table *table, const struct want *wants, size_t want_count, struct arena *arena,
                  struct table_rows *out);
/* Reads rows for a window. Returns the (due, id) up to which they are complete. */
struct due table_window(const struct table *table, const struct core_window *window, struct arena *arena,
                        struct table_rows *out);
/* Reads rows for a page of a job. Returns the id after which the next call continues; UINT64_MAX: there are no more
 * rows. */
uint64_t table_page(const struct table *table, const struct core_page *page, size_t count_max, struct arena *arena,
                    struct table_rows *out);
/* Reads rows for a list. Returns the (due, id) up to which they are complete. */
struct due table_list(const struct table *table, const struct core_list_plan *plan, size_t count_max,
                      struct arena *arena, struct table_rows *out);

#endif
