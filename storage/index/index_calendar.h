/* index_calendar.h: how much falls due when. Private to storage/index.
 *
 *   (line, level, chunk) → counts of the waiting tasks due in each of CALENDAR_CELLS minutes (level 0) or hours (1);
 *   a line is a queue, or CALENDAR_ALL: the sum of all. What is zero is not there.
 *
 * A commit adds what its batch changes, net, in its own transaction: so the counts are exact as of the index's
 * position. It sorts the changes by chunk first, and touches each chunk once.
 *
 * The table can be made anew from the rows, and is when it is not there or tells of another position than the index's
 * (a program that did not know it has written since): the ids from `counted` on are not in it yet, index_maintain takes
 * them in, some thousands a transaction, and commits leave them alone meanwhile. */
#ifndef TARRY_STORAGE_INDEX_CALENDAR_H
#define TARRY_STORAGE_INDEX_CALENDAR_H

#include "index_parts.h"

#ifndef INDEX_TINY
#define CALENDAR_CELLS 480u         /* eight hours of minutes, twenty days of hours */
#define CALENDAR_COUNT_ROWS 20000u  /* rows that one step takes in */
#define CALENDAR_CHUNKS_MAX 200000u /* that one question may read */
#else
#define CALENDAR_CELLS 12u
#define CALENDAR_COUNT_ROWS 7u
#define CALENDAR_CHUNKS_MAX 100000u
#endif
#define CALENDAR_LEVELS 2
#define CALENDAR_VERSION 1u
#define CALENDAR_ALL 0u
#define CALENDAR_KEY_SIZE 13

static inline uint64_t calendar_cell_ms(unsigned level) {
    return level == 0 ? CALENDAR_MINUTE_MS : CALENDAR_HOUR_MS;
}

/* How far the table goes, under a key of its own. */
struct calendar_state {
    uint32_t version;
    uint32_t reserved;
    uint64_t position; /* of the index, when the table was written last */
    uint64_t counted;  /* tasks with ids below are in it; UINT64_MAX: all */
};

struct calendar_key {
    uint32_t line;
    uint8_t level;
    uint64_t chunk;
};

/* Changes on their way into the table, sorted by chunk without comparing: buckets, counts, places. */
struct calendar_bucket {
    struct calendar_key key;
    uint32_t count;
    uint32_t start; /* in `sorted` */
};
struct calendar_entry {
    uint32_t cell;
    int32_t change;
};
struct calendar_writer {
    VECTOR(struct calendar_bucket) buckets;
    VECTOR(uint32_t) places; /* entry → bucket */
    VECTOR(struct calendar_entry) entries;
    VECTOR(struct calendar_entry) sorted;
    struct hash_index index; /* of the buckets */
    uint32_t last;           /* bucket that was used last; valid if there is any */
};

struct calendar {
    struct calendar_state state;    /* as of the last commit */
    bool is_stale;                  /* what lies in the table is to be forgotten first */
    struct calendar_writer minutes; /* of queues */
    struct calendar_writer hours;   /* what follows from them */
};

/* ---- index_calendar_chunk.c */
void calendar_key_encode(const struct calendar_key *key, uint8_t out[CALENDAR_KEY_SIZE]);
bool calendar_key_decode(const MDB_val *in, struct calendar_key *out);
/* A chunk, and the sum of its counts. INDEX_DAMAGED: it is malformed. */
int calendar_unpack(const MDB_val *data, uint64_t cells[CALENDAR_CELLS], uint64_t *out_total);
/* The sum alone, not looked into. */
int calendar_total(const MDB_val *data, uint64_t *out_total);
#define CALENDAR_PACKED_MAX (16u + CALENDAR_CELLS * 8u)
size_t calendar_pack(const uint64_t cells[CALENDAR_CELLS], uint8_t out[CALENDAR_PACKED_MAX]);
/* As of the transaction; 1: there is none, or not of the index's position. */
int calendar_state_read(struct index *index, MDB_txn *txn, uint64_t position, struct calendar_state *out);

/* ---- index_calendar_writer.c */
/* Adds `change` tasks to a cell: `at` counts them from the line's beginning. */
int calendar_add(struct calendar_writer *writer, uint32_t line, uint8_t level, uint64_t at, int32_t change);
int calendar_sort(struct calendar_writer *writer);
/* Adds, sorted, the hours that follow from sorted minutes. */
int calendar_hours(const struct calendar_writer *minutes, struct calendar_writer *hours);
/* The lines, and what they are for all queues together. */
int calendar_writer_write(struct index *index, MDB_txn *txn, const struct calendar_writer *writer);
void calendar_writer_reset(struct calendar_writer *writer);
void calendar_writer_deinit(struct calendar_writer *writer);
size_t calendar_writer_bytes(const struct calendar_writer *writer);

#endif
