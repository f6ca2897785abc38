/* index_calendar.h: counts of waiting tasks by due time. Private to storage/index.
 *
 * Key: line, level and chunk. A line is a queue, or CALENDAR_ALL for the sum of all queues. Level 0 has minutes, level
 * 1 hours. Value: the numbers of waiting tasks that are due in each of the chunk's CALENDAR_CELLS minutes or hours. A
 * chunk without tasks is not stored.
 *
 * A commit adds the net changes of its batch in the same transaction, so the counts are exact as of the index's
 * position. The commit sorts the changes by chunk, so it writes each chunk once.
 *
 * The table is rebuilt from the rows when it is missing or has another position than the index. (Another position
 * means that an older program, which does not know the table, wrote since.) During a rebuild the ids from `counted` on
 * are not in the table. index_maintain adds them, some thousands per transaction; commits ignore them meanwhile. */
#ifndef TARRY_STORAGE_INDEX_CALENDAR_H
#define TARRY_STORAGE_INDEX_CALENDAR_H

#include "index_parts.h"

#ifndef INDEX_TINY
#define CALENDAR_CELLS 480u         /* cells per chunk: eight hours of minutes, or twenty days of hours */
#define CALENDAR_COUNT_ROWS 20000u  /* number of rows that one step counts */
#define CALENDAR_CHUNKS_MAX 200000u /* maximum number of chunks that one query may read */
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

/* State of the table; stored in the table under its own key. */
struct calendar_state {
    uint32_t version;
    uint32_t reserved;
    uint64_t position; /* index position at the last write to the table */
    uint64_t counted;  /* the table counts tasks with ids below this one; UINT64_MAX: all tasks */
};

struct calendar_key {
    uint32_t line;
    uint8_t level;
    uint64_t chunk;
};

/* Changes that wait to be written to the table. A counting sort orders them by chunk. */
struct calendar_bucket {
    struct calendar_key key;
    uint32_t count;
    uint32_t start; /* index in `sorted` of the first entry of this bucket */
};
struct calendar_entry {
    uint32_t cell;
    int32_t change;
};
struct calendar_writer {
    VECTOR(struct calendar_bucket) buckets;
    VECTOR(uint32_t) places; /* index of the bucket of each entry */
    VECTOR(struct calendar_entry) entries;
    VECTOR(struct calendar_entry) sorted;
    struct hash_index index; /* hash index of the buckets */
    uint32_t last;           /* index of the bucket that was used last; valid if there is a bucket */
};

struct calendar {
    struct calendar_state state;    /* state of the table as of the last commit */
    bool is_stale;                  /* true: delete the table's content before the rebuild */
    struct calendar_writer minutes; /* changes per minute of single queues */
    struct calendar_writer hours;   /* changes per hour, computed from the minutes */
};

/* ---- index_calendar_chunk.c */
void calendar_key_encode(const struct calendar_key *key, uint8_t out[CALENDAR_KEY_SIZE]);
bool calendar_key_decode(const MDB_val *in, struct calendar_key *out);
/* Unpacks a chunk, and returns the sum of its counts. INDEX_DAMAGED: the chunk is malformed. */
int calendar_unpack(const MDB_val *data, uint64_t cells[CALENDAR_CELLS], uint64_t *out_total);
/* Reads only the sum from a chunk, without checking the counts. */
int calendar_total(const MDB_val *data, uint64_t *out_total);
#define CALENDAR_PACKED_MAX (16u + CALENDAR_CELLS * 8u)
size_t calendar_pack(const uint64_t cells[CALENDAR_CELLS], uint8_t out[CALENDAR_PACKED_MAX]);
/* Reads the table's state in the transaction. 1: the table is missing, or has another position than the index. */
int calendar_state_read(struct index *index, MDB_txn *txn, uint64_t position, struct calendar_state *out);

/* ---- index_calendar_writer.c */
/* Adds `change` tasks to cell number `at` of the line, counted from time 0. */
int calendar_add(struct calendar_writer *writer, uint32_t line, uint8_t level, uint64_t at, int32_t change);
int calendar_sort(struct calendar_writer *writer);
/* Adds the hour changes that result from sorted minute changes, in sorted order. */
int calendar_hours(const struct calendar_writer *minutes, struct calendar_writer *hours);
/* Writes the changes to the lines of the queues, and their sum to CALENDAR_ALL. */
int calendar_writer_write(struct index *index, MDB_txn *txn, const struct calendar_writer *writer);
void calendar_writer_reset(struct calendar_writer *writer);
void calendar_writer_deinit(struct calendar_writer *writer);
size_t calendar_writer_bytes(const struct calendar_writer *writer);

#endif
