/* table.h: the model index. It knows what the flat tables say at one position of the log, and behaves towards the
 * broker as storage/index/index.h promises: it lags the durable log, changes only as a whole at a commit and is durable
 * from then on, remembers position, chain and times, and takes over the contents and answers of a segment before the
 * segment goes (LOG-3). The real one is compared with a naive model in tests/property/index_test.c. */
#ifndef TARRY_TESTS_SIM_TABLE_H
#define TARRY_TESTS_SIM_TABLE_H

#include "flat.h"

#define TABLE_REDACTIONS_MAX 4096

struct table {
    struct flat flat;
    uint8_t chain[FRAME_CHAIN_SIZE];                          /* at flat.position */
    uint64_t log_start;                                       /* contents and answers from below it are here */
    const Tarry__Redaction *redactions[TABLE_REDACTIONS_MAX]; /* not yet reported as carried out; borrowed */
    size_t redaction_count;
};

struct table_rows { /* in the arena that was handed in */
    struct row *rows;
    size_t count;
    size_t capacity;
};

void table_begin(struct table *table);
void table_copy(struct table *to, const struct table *from);
void table_absorb(struct table *table, const struct frame_header *header, const Tarry__FrameBody *body);
/* Copies what is still needed of a frame whose segment is about to go. False: the log does not hold what it should. */
bool table_retire(struct table *table, const struct frame_header *header, const Tarry__FrameBody *body,
                  const uint8_t *blob, struct arena *arena);
/* The oldest `count` of them have been carried out. */
void table_redactions_done(struct table *table, size_t count);
bool table_is_redacting(const struct table *table, const Tarry__Redaction *redaction);

void table_lookup(const struct table *table, const struct want *wants, size_t want_count, struct arena *arena,
                  struct table_rows *out);
/* → through */
struct due table_window(const struct table *table, const struct core_window *window, struct arena *arena,
                        struct table_rows *out);
/* → the id to go on after; UINT64_MAX: done */
uint64_t table_page(const struct table *table, const struct core_page *page, size_t count_max, struct arena *arena,
                    struct table_rows *out);
/* → through */
struct due table_list(const struct table *table, const struct core_list_plan *plan, size_t count_max,
                      struct arena *arena, struct table_rows *out);

#endif
