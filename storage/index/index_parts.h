/* index_parts.h: declarations that the files of the index share. Private to storage/index.
 *
 * index_absorb collects the net effects of frames in a batch. index_commit writes the batch in one transaction.
 * index_maintain merges key runs, sweeps rows and slots (deletes entries of ended tasks), and deletes merged runs.
 *
 * Invariants (db.h explains rows, ranges, slots, runs and tail)
 *   I-1  Every live or dead task has a row on disk. An id below next_id is *ended* if and only if its range has no
 *        record or the range's bitmap marks it as ended. A missing row of an id that has not ended is damage.
 *   I-2  Every waiting row has an entry (due, id) in some slot of its line. Entries without a matching row are stale.
 *   I-3  Every row with a key has an entry (hash, id) in the tail or in exactly one run.
 *   I-4  Ranges, runs and tail in memory equal the last commit; only the index thread changes them. A commit publishes
 *        its filters before its position.
 *   I-5  The index stores a content only if it stores the row of its task.
 *   I-6  Every transaction body can run again from the start, because the map may have to grow in the middle. */
#ifndef TARRY_STORAGE_INDEX_PARTS_H
#define TARRY_STORAGE_INDEX_PARTS_H

#include <errno.h>
#include <stdatomic.h>

#include "bloom.h"
#include "content_cache.h"
#include "db.h"
#include "hash_index.h"
#include "index.h"
#include "keyring.h"
#include "vector.h"

#define QUEUES_FORMER_TINY 5u /* value of QUEUES_FORMER_MAX in tests with small limits (INDEX_TINY) */
#ifndef INDEX_TINY
#define FORMER_MAX QUEUES_FORMER_MAX
#define RANGE_SHIFT 12
#define PAIRS_PER_CHUNK ((DB_CHUNK_SIZE - DB_SEAL_SIZE) / 16)
#define TAIL_KEYS_MAX 16384     /* maximum number of keys in the tail; more become a run */
#define RUN_KEYS_MIN 4096       /* a batch with at least this many keys becomes its own run */
#define RUN_LEVEL_KEYS 32768ull /* largest number of keys of a run of level 0; each level has eight times as many */
#define RUNS_BEHIND 32          /* if there are more runs than this, commits also merge */
#define MERGE_STEP_KEYS 100000u
#define BLOOM_STEP_CHUNKS 2000u
#define GARBAGE_STEP_CHUNKS 4000u
#define UNREAD_STEP_CHUNKS 256u
#define WINDOW_READ_MAX 65536u /* a slot with more entries moves to lower levels before a window reads it */
/* Maximum number of entries that one read-ahead keeps: entries of a line that a window read and did not return. */
#define READ_AHEAD_PAIRS_MAX 131072u
#define READ_AHEAD_ROWS_MAX 65536u /* maximum number of entries whose rows are read together */
#define READ_AHEAD_BYTES_MAX (1u << 30)
#define CASCADE_STEP_CHUNKS 256u
#define SWEEP_STEP_CHUNKS 64u
#define SWEEP_STEP_RANGES 64u
#define SWEEP_STEP_ROWS 16384u /* number of rows of ended tasks per step; a single range may have more */
#define SWEEP_REST_MAX_NS (180ull * 1000000000)
/* Size in bytes. A larger content is deleted when its task ends, a smaller one together with the task's row. */
#define BLOB_SWEPT_MAX 1024u
#define PLAN_SLOTS_MAX 256
#define PREFIX_EXAMINE 4096u /* number of candidates that a list call examines if most do not match the prefix */
#define TABLE_CAPACITY_MIN 1024u
#define SLOT_SLACK 65536u /* number of stale entries below which no sweep starts */
#define KEY_SLACK 65536u
#define RETIRE_BYTES_MAX (4u << 20)
#define RETIRE_COPIES_MAX 16384u
#else /* small limits for property tests: a few hundred tasks reach every limit */
#define FORMER_MAX QUEUES_FORMER_TINY
#define RANGE_SHIFT 6
#define PAIRS_PER_CHUNK 8u
#define TAIL_KEYS_MAX 48
#define RUN_KEYS_MIN 12
#define RUN_LEVEL_KEYS 32ull
#define RUNS_BEHIND 20
#define MERGE_STEP_KEYS 25u
#define BLOOM_STEP_CHUNKS 1u
#define GARBAGE_STEP_CHUNKS 2u
#define UNREAD_STEP_CHUNKS 1u
#define WINDOW_READ_MAX 40u
#define READ_AHEAD_PAIRS_MAX 40u
#define READ_AHEAD_ROWS_MAX 24u
#define READ_AHEAD_BYTES_MAX 1200u
#define CASCADE_STEP_CHUNKS 2u
#define SWEEP_STEP_CHUNKS 2u
#define SWEEP_STEP_RANGES 3u
#define SWEEP_STEP_ROWS 90u
#define SWEEP_REST_MAX_NS (20ull * 1000000000)
#define BLOB_SWEPT_MAX 32u
#define PLAN_SLOTS_MAX 8
#define PREFIX_EXAMINE 6u
#define TABLE_CAPACITY_MIN 4u
#define SLOT_SLACK 30u
#define KEY_SLACK 30u
#define RETIRE_BYTES_MAX 500u
#define RETIRE_COPIES_MAX 10u
#endif
/* A maintenance step is one transaction, whose two disk syncs compete with windows and the log's syncs. With more
 * memory a step does more work: up to STEP_SCALE_MAX times what the constants named …_STEP_… say. */
#define STEP_SCALE_MAX 8u
#define STEP_MEMORY ((size_t)64 << 20) /* up to this many bytes of options.memory, step limits are not scaled */
#define RANGE_IDS (1u << RANGE_SHIFT)
#define RANGE_BYTES (RANGE_IDS / 8)
#define SLOT_LEVELS 6
#define SLOT_SPAN 64 /* number of slots of one level that a batch may write */
#define RUN_FAN_IN 8
#define RUN_LEVELS 16
#define HELD_KEY_SIZE 21
#define RUN_KEY_SIZE 13
#define BLOOM_BLOCKS_PER_CHUNK ((DB_CHUNK_SIZE - DB_SEAL_SIZE) / 64)
#define FENCES_PER_CHUNK ((DB_CHUNK_SIZE - DB_SEAL_SIZE) / 8)
#define READS_PER_TRIM 256u /* rows or chunks read between two checks of the resident memory */
#define LOW_PAUSE_BYTES 4096u
#define MERGE_MEMORY_SHARE 4 /* the filter of a merge's output may use 1/4 of options.memory */
#define READ_AHEADS_MAX 4
#define READ_AHEAD_MEMORY_SHARE 32 /* a read-ahead's entries may use 1/32 of options.memory */
#define READ_AHEAD_ROWS_SHARE 8    /* the kept rows of all lines may use 1/8 of options.memory */
#define PAGES_MEMORY_SHARE 8       /* mapped pages may always use 1/8 of options.memory */

static inline unsigned slot_shift(unsigned level) {
    return 10 + 6 * level;
}

/* An entry of a slot (due, id) or of a key run (hash, id). */
struct pair {
    uint64_t first;
    uint64_t id;
};
_Static_assert(sizeof(struct pair) == 16, "pairs are stored without padding");

static inline struct pair pair_at(const uint8_t *data, size_t i) {
    struct pair pair;
    memcpy(&pair, data + i * sizeof pair, sizeof pair);
    return pair;
}

/* Returns the number of pairs in a chunk. A chunk is never empty; 0: malformed. */
static inline size_t pairs_in(const MDB_val *data) {
    return data->mv_size % sizeof(struct pair) == 0 ? data->mv_size / sizeof(struct pair) : 0;
}

struct pairs VECTOR_FIELDS(struct pair);
struct numbers VECTOR_FIELDS(uint64_t);

/* ---- ranges of ids */
struct range {
    uint64_t number;   /* number of the range plus 1; 0: free entry of the hash table */
    uint16_t rows;     /* number of the range's rows on disk */
    uint16_t ended;    /* number of the range's rows on disk whose tasks have ended */
    bool dirty;        /* true: the range is listed in ranges.dirty */
    bool queued;       /* true: the range is listed in ranges.sweeps */
    uint64_t *bits;    /* bitmap of ended ids; NULL: no id has ended */
    uint64_t since_ns; /* steady time of the range's newest row, or of the opening of the index if that is later */
};
struct pending_sweep { /* a range that waits for a sweep */
    uint64_t number;
    uint64_t due_ns; /* steady time */
};
struct ranges {
    struct range *table; /* hash table with open addressing; its capacity is a power of two */
    size_t capacity;
    size_t count;
    uint64_t rows;  /* number of rows on disk in all ranges */
    uint64_t ended; /* number of rows on disk whose tasks have ended */
    size_t bitmaps;
    struct numbers dirty;
    VECTOR(struct pending_sweep) sweeps; /* sweeps, ordered by due_ns, except the first sweeps_asked entries */
    size_t sweeps_asked; /* number of sweeps at the front whose pages the kernel was already asked to read */
};

/* ---- key runs */
struct run {
    atomic_uint refs;
    uint32_t level;
    uint64_t number;         /* number of the run; 0: this is the filter of the tail */
    uint64_t count;          /* number of keys in the run */
    uint64_t endings_before; /* value of index.endings when the run was made */
    uint32_t chunks;
    uint64_t blocks;     /* number of the filter's blocks of 64 bytes */
    uint64_t *fences;    /* first hash of every chunk of the run */
    uint64_t *bloom;     /* the filter; fences and bloom are valid once is_read is true */
    atomic_bool is_read; /* true: fences and bloom are in memory; before that they are only on disk (index_unread.c) */
    /* Number of filter chunks that index_read_filters has read; fences_read counts chunks of fences. */
    uint32_t bloom_read;
    uint32_t fences_read;
};
static inline bool run_is_read(const struct run *run) {
    return atomic_load_explicit(&run->is_read, memory_order_acquire);
}
struct index_filter {
    atomic_uint refs;
    uint64_t version; /* meta_record.filters_version */
    size_t count;
    struct run *runs[]; /* filters of the tail (first) and of the runs */
};
struct merge_head {
    uint32_t chunk;
    uint32_t at; /* index of the entry within its chunk */
};
struct merge {     /* a merge of several runs; plain data, so a step can be repeated from a copy */
    size_t inputs; /* number of runs; 0: no merge in progress */
    struct run *input[RUN_FAN_IN];

    struct merge_head head[RUN_FAN_IN];
    struct run *output;    /* run that the merge writes; its fences and filter are incomplete */
    uint32_t chunks;       /* number of chunks of the output that are written */
    uint64_t count;        /* number of keys in the written chunks of the output */
    uint32_t bloom_chunks; /* number of filter chunks of the output that are written */
    bool keys_done;
    bool is_finished;
    size_t pending;
    struct pair buffer[PAIRS_PER_CHUNK];
};
struct runs {
    VECTOR(struct run *) list; /* oldest first */
    struct run *tail_filter;
    struct pairs tail;
    pthread_mutex_t lock; /* protects the members previous, current and next */
    struct index_filter *previous, *current, *next;
    struct merge merge;
    struct numbers garbage; /* numbers of runs whose chunks must be deleted */
    uint64_t keys;          /* number of keys in all runs together */
};

/* ---- the meta record, in its on-disk layout */
struct meta_record {
    uint32_t format;
    uint32_t epoch;
    uint8_t cluster[16];
    uint8_t chain[FRAME_CHAIN_SIZE];
    uint64_t position;
    uint64_t log_start;
    uint64_t retired_to; /* retirement may have copied contents of frames below this position; it may exceed log_start
                            while retirement runs */
    uint64_t steady_ns;
    uint64_t wall_ns;
    uint64_t known_since_ms;
    uint64_t digest;
    uint64_t live;
    uint64_t next_id;
    uint64_t filters_version;
    uint64_t next_run;
    uint64_t next_chunk;   /* number of the next slot chunk */
    uint64_t next_outcome; /* key of the next chunk in DB_OUTCOMES */
    uint64_t outcomes;     /* number of remembered outcomes */
    uint64_t slot_entries;
    uint32_t next_queue;
    uint32_t known; /* 0: known_since has not been set yet */
};

/* ---- slots */
struct slot_key {
    struct line line;
    uint8_t level;
    uint64_t slot;
    uint64_t chunk;
};
struct bucket { /* entries of one slot */
    struct line line;
    uint8_t level;
    uint64_t slot;
    uint32_t count;
    uint32_t start; /* index of the bucket's first entry in `sorted` */
};
/* Slot entries that wait to be written. A counting sort orders them by slot. */
struct slot_entry {
    struct line line;
    uint64_t due_ms;
    uint64_t id;
};
struct slot_writer {
    VECTOR(struct bucket) buckets;
    VECTOR(uint32_t) places; /* index of the bucket of each entry */
    VECTOR(struct slot_entry) entries;
    struct hash_index index; /* hash index of the buckets */
    struct pairs sorted;
};
/* ---- the batch: net effects since the last commit */
enum change_flag {
    CHANGE_FRESH = 1, /* the task is new, so it has no row on disk */
    CHANGE_ENDED = 2,
};
struct change {
    uint64_t id;
    uint64_t due_ms;
    uint64_t first_due_ms;  /* due time on disk; this and the other first_ fields are invalid if CHANGE_FRESH is set */
    uint64_t key_hash;      /* hash of queue and key; valid if key_size > 0 */
    uint64_t offset;        /* offset of the packed row in batch.bytes */
    uint64_t large_blob_at; /* log position of a content above BLOB_SWEPT_MAX; UINT64_MAX: no such content */
    uint32_t queue;
    uint16_t size;
    uint8_t key_size;
    uint8_t priority;
    uint8_t base;
    uint8_t state;
    uint8_t first_base;
    uint8_t first_priority;
    uint8_t first_state;
    uint8_t flags;
};
enum keys_mode {
    KEYS_TO_TAIL,
    KEYS_TO_RUN,      /* the batch's keys become a run; the tail is unchanged */
    KEYS_FLUSH_TAIL,  /* the tail and the batch's keys become a run */
    KEYS_COMPACT_TAIL /* most keys of the tail have ended; the others stay in the tail */
};
struct producer_change {
    uint64_t producer;
    uint64_t used_ms;
    uint64_t floor;
    uint64_t owner; /* 0: unchanged */
    bool ended;
};
struct result_change {
    uint64_t producer;
    uint64_t sequence;
    uint64_t position;
};
/* A change of a queue, a job or a recurrence. There are few, so they are stored and applied in log order. */
struct side_change {
    enum db_table table;
    uint64_t number;
    size_t offset;
    size_t size; /* 0: deleted */
};
/* A change of a definition; stored and applied in log order. */
struct definition_change {
    size_t offset; /* the key, then the packed DefinitionPut, in `bytes` */
    size_t key_size;
    size_t size; /* size of the packed DefinitionPut; 0: the definition was deleted */
};
/* Format of an index that has, or had, groups (Policy.filter). A program that does not know groups would never deliver
 * the tasks of a topic, so it must refuse the directory. Such a program also does not know rows with a serial name or a
 * spread. */
#define INDEX_FORMAT_GROUPS 2u
/* Version of the index once it has absorbed a recurrence; it may also have groups. */
#define INDEX_FORMAT_RECURS 3u
/* Version of the index once it has absorbed a task that has its own settings (OWN-1); it may also have recurrences. */
#define INDEX_FORMAT_OWN 4u
#define INDEX_FORMAT_MAX INDEX_FORMAT_OWN

struct batch {
    uint64_t first_id; /* ids from this one on have no row on disk */
    VECTOR(struct change) changes;
    VECTOR(uint8_t) bytes;
    VECTOR(uint32_t)
    fresh; /* for each id from first_id on, at [id - first_id]: 1 + the index of the task in `changes`; 0: not in
              `changes` */
    struct hash_index old;    /* for ids below first_id: id → index in `changes`, plus 1 */
    VECTOR(uint8_t) outcomes; /* packed outcomes, one after another */
    VECTOR(uint32_t) outcome_sizes;
    struct numbers outcome_ends; /* ended_ms of each outcome */
    VECTOR(struct producer_change) producers;
    struct hash_index producer_places; /* producer → index in `producers`, plus 1 */
    VECTOR(struct result_change) results;
    VECTOR(struct side_change) sides;
    VECTOR(struct definition_change) definitions;
    size_t records;
    size_t redactions;
    uint32_t format; /* format version that the index needs for the batch (INDEX_FORMAT_…); 0: any */
    bool known;      /* the batch has the first frame of the log */
    uint64_t known_since_ms;
    /* For each place in the table of queues: true if the queue's counts changed. */
    uint8_t queue_dirty[QUEUE_PLACES + 1];
    /* The following fields are set when index_commit prepares the batch. */
    bool is_prepared;
    VECTOR(uint32_t) updates; /* indexes of changes to existing rows and of ended leases, in order of id */
    VECTOR(uint32_t) appends; /* indexes of fresh rows, in order of id */
    struct pairs keys;
    struct pairs tail_gone; /* keys of the tail whose tasks ended */
    enum keys_mode keys_mode;
    struct run *run;         /* new run of the batch's keys; NULL: no new run */
    struct run *tail_filter; /* new filter of the tail, if it is rebuilt */
    struct pairs tail;       /* new tail, if it is rebuilt */
};

/* ---- a line's index_advise_low, and the progress of its sweep */
struct low {
    struct line line;
    struct due low;
    /* Next line in the list index->lows_wanted: 1 + its index in index->lows; 0: this is the last line. */
    uint32_t next;
    bool is_listed; /* true: the line is in index->lows_wanted */
    bool is_wanted; /* true: the line needs a sweep, which may start when the index's position reaches not_before */
    uint64_t not_before; /* log position */
    uint64_t pause;      /* if the last sweep left entries in place: bytes of log to wait before the next sweep */
    bool is_open;        /* true: a sweep is in progress and continues at level, slot, chunk */
    uint8_t level;
    uint64_t slot, chunk;
    bool kept; /* true: the sweep has left entries in place */
};

/* A copy that waits for a transaction: a task's content or a commit's reply, from a segment that will be deleted. */
struct retire_copy {
    uint64_t id; /* id of the task whose content is copied; 0: the copy is a reply */
    uint64_t producer, sequence;
    size_t offset, size;
};
struct retire_batch {
    VECTOR(struct retire_copy) copies;
    VECTOR(uint8_t) bytes;
    uint64_t end; /* end position of the last frame that was read */
};

/* A sweep over all slots. */
struct whole_sweep {
    bool is_open;
    struct slot_key at;     /* slot at which the sweep continues */
    uint64_t entries_after; /* number of slot entries after the previous sweep */
};

/* Entries and rows of a line that are kept for the line's next windows (index_read_ahead.c). */
#define ROW_UNREAD UINT32_MAX
#define ROW_GONE (UINT32_MAX - 1) /* in `places`: the task no longer waits with the entry's due time */
struct read_ahead {
    struct line line;
    struct pairs pairs;   /* entries, ordered by due and id; empty: this struct is not in use */
    size_t next;          /* index of the first entry that no window has returned yet */
    size_t looked;        /* index of the first entry whose row has not been read */
    uint32_t *places;     /* per entry: offset of its row in `rows`, ROW_UNREAD or ROW_GONE */
    VECTOR(uint8_t) rows; /* for each row: its size (u16), then the packed row */
    struct due after;
    struct due through;
    uint64_t horizon_ms;
    uint64_t used; /* value of read_aheads_used when this struct was last used */
};

struct index {
    struct db db;
    struct index_options options;
    struct meta_record meta; /* meta record as of the last commit */
    atomic_ullong position;
    struct tally tally; /* counts as of the last absorbed frame */
    struct queue_tally *queues;
    uint64_t absorbed; /* end position of the last absorbed frame */
    uint8_t absorbed_chain[FRAME_CHAIN_SIZE];
    uint64_t steady_ns, wall_ns;
    uint64_t told_ns; /* steady time that the caller set (index_tell_time) */
    struct batch batch;
    struct ranges ranges;
    struct runs runs;
    struct slot_writer writer;
    VECTOR(struct low) lows;
    uint32_t *tally_keys; /* for each place: queue number of the counts on disk; 0: no counts yet */
    /* For each line (low_place): 1 + the index in `lows`. 0: index_advise_low was never called for the line. NULL: it
     * was never called. */
    uint32_t *low_places;
    struct {
        uint32_t first, last; /* first and last line of the list: 1 + the index in `lows`; 0: the list is empty */
    } lows_wanted;            /* queue of the lines that need a sweep or have one in progress */
    struct pairs scratch;
    struct read_ahead read_aheads[READ_AHEADS_MAX];
    uint64_t read_aheads_used;
    struct retire_batch retire;
    struct keyring *keyring;        /* encryption keys of the contents in DB_BLOBS */
    struct content_cache *contents; /* cache of contents; NULL: no cache (options.contents_memory is 0) */
    bool has_redactions;            /* true: the table DB_REDACTIONS is not empty */
    atomic_ullong erased;           /* redactions recorded below this position have been carried out */
    struct whole_sweep whole;
    uint64_t endings;    /* number of tasks with a row that ended since the index was opened */
    atomic_ullong reads; /* rows and chunks that other threads read; every READS_PER_TRIM reads, pages are dropped */
    /* Values that index_stats reads on other threads. */
    atomic_ullong bytes_memory, rows_seen, runs_seen, keys_seen, entries_seen;
    struct calendar *calendar; /* counts of tasks by due time (index_calendar.h); NULL: options.no_lookup is set */
    int failed;                /* the first fatal error of a write: every later write returns it (LOG-4) */
};

static inline size_t step_scale(const struct index *index) {
    size_t scale = index->options.memory / STEP_MEMORY;
    return scale < 1 ? 1 : scale < STEP_SCALE_MAX ? scale : STEP_SCALE_MAX;
}

/* ---- index.c */
/* Calls `each` with every value of a table, unsealed. */
int each_value(struct index *index, enum db_table table,
               int (*each)(void *argument, MDB_txn *txn, const MDB_val *key, const MDB_val *data), void *argument);
int index_write(struct index *index, int (*body)(void *argument, MDB_txn *txn), void *argument);
int meta_put(struct index *index, MDB_txn *txn, const struct meta_record *meta);
int meta_read(struct index *index, MDB_txn *txn, struct meta_record *out);
/* Returns the number of the queue at the place; for a place that no queue has used, the number of generation 0. */
uint32_t index_number_at(const struct index *index, uint32_t place);
void index_account(struct index *index);
/* Counts `count` rows or chunks as read, and may drop pages. Any thread. */
void index_touched(struct index *index, uint64_t count);
/* Returns the budget of mapped pages in bytes: options.memory minus the bytes that index_account counted. Any thread.
 */
size_t index_pages_max(const struct index *index);

/* ---- index_rows.c: packs and unpacks rows */
#define PACKED_ROW_MAX 896
size_t row_pack(const struct row *row, uint64_t changed, uint8_t out[PACKED_ROW_MAX]);
/* Unpacks a row; `out` borrows key and reason from `data`. INDEX_DAMAGED: malformed. */
int row_unpack(uint64_t id, const MDB_val *data, struct row *out);
/* Reads a row. 1: no such row on disk; the caller must check whether the task has ended. */
int row_get(struct index *index, MDB_txn *txn, uint64_t id, struct row *out);
/* Reads a row from DB_LEASED only. 1: not found. */
int row_get_leased(struct index *index, MDB_txn *txn, uint64_t id, struct row *out);
/* Copies a row to `out`, and its key and reason into the arena; -ENOMEM. */
int row_keep(const struct row *row, struct arena *arena, struct row *out);
/* One range, read through a thread's own transaction. Threads other than the index thread use it to check ended ids. */
struct range_view {
    uint64_t number; /* number of the range; UINT64_MAX: no range has been read */
    bool is_there;
    bool has_bits;
    uint8_t bits[RANGE_BYTES];
};
int range_view_ended(struct index *index, MDB_txn *txn, struct range_view *view, uint64_t id, bool *out);
/* Reads the live or dead row `id`. 1: the task has ended. INDEX_DAMAGED: the row should exist (I-1). */
int row_get_live(struct index *index, MDB_txn *txn, struct range_view *view, uint64_t next_id, uint64_t id,
                 struct row *out);

/* ---- index_lookup.c: one snapshot and the rows read from it; any thread */
struct reading {
    struct index *index;
    MDB_txn *txn;
    struct meta_record meta;
    struct index_filter *filter; /* filter of keys for the snapshot; NULL: not requested */
    struct range_view view;
    struct numbers ids;
    struct arena *arena;
    VECTOR(struct row) rows;
};

int reading_begin(struct reading *reading, struct index *index, struct arena *arena, bool with_filter);
void reading_end(struct reading *reading);
/* Appends a copy of the row to the result. */
int reading_keep(struct reading *reading, const struct row *row);
/* Moves the rows that were read into the arena. */
int reading_give(struct reading *reading, struct index_rows *out);

/* ---- index_ranges.c */
int ranges_load(struct index *index);
void ranges_deinit(struct ranges *ranges);
bool ranges_ended(const struct ranges *ranges, uint64_t id);
/* Prefetches the cache lines that ranges_ended will read. */
void ranges_prefetch(const struct ranges *ranges, uint64_t id);
struct range *ranges_find(const struct ranges *ranges, uint64_t number);
int ranges_apply(struct index *index);                /* applies the index's batch to the ranges in memory */
int ranges_write(struct index *index, MDB_txn *txn);  /* writes the ranges that have changed */
void ranges_clean(struct index *index);               /* completes ranges_write after the commit of the transaction */
int ranges_sweep(struct index *index, bool *out_did); /* does one bounded step of sweeping ranges */
bool ranges_sweep_wanted(const struct index *index);
uint64_t ranges_sweep_at(const struct index *index); /* steady time of the next sweep; UINT64_MAX: no sweep queued */

/* ---- index_window.c, index_sweep.c */
bool row_waits_at(const struct row *row, const struct line *line, uint64_t due_ms);
/* Deletes stale slot entries; one bounded step. */
int slots_sweep(struct index *index, bool *out_did);
bool slots_sweep_wanted(struct index *index);

/* ---- index_slots.c */
struct slot_view {
    uint64_t slot;
    uint64_t entries; /* number of the slot's entries, counted up to a limit */
    uint8_t level;
    bool is_there;
};
#define SLOT_KEY_SIZE 23
void slot_key_encode(const struct slot_key *key, uint8_t out[SLOT_KEY_SIZE]);
bool slot_key_decode(const MDB_val *in, struct slot_key *out);
int slot_writer_add(struct slot_writer *writer, const struct slot_entry *entry, uint64_t now_ms);
int slot_writer_sort(struct slot_writer *writer);
int slot_writer_write(struct index *index, MDB_txn *txn, struct slot_writer *writer, uint64_t *next_chunk);
void slot_writer_reset(struct slot_writer *writer);
void slot_writer_deinit(struct slot_writer *writer);
/* Moves a bounded part of a slot to lower levels. */
int slots_cascade(struct index *index, const struct line *line, const struct slot_view *view);

/* ---- index_keys.c, index_merge.c */
int runs_load(struct index *index);
void runs_deinit(struct index *index);
struct run *run_new(uint32_t level, uint64_t number, uint64_t count_max);
void run_drop(struct run *run);
uint32_t run_level_of(uint64_t count);
/* Returns the size in bytes of the filter of a run with `keys` keys. */
uint64_t run_filter_bytes(uint64_t keys);
void run_key(uint8_t out[RUN_KEY_SIZE], uint64_t number, uint8_t kind, uint32_t chunk);
enum run_kind { RUN_PAIRS = 0, RUN_BLOOM = 1, RUN_FENCES = 2 };
int run_write_descriptor(struct index *index, MDB_txn *txn, const struct run *run);
uint32_t run_bloom_chunks(const struct run *run);
uint32_t run_fence_chunks(const struct run *run);
/* Returns the number of items in chunk number `chunk`, if `total` items are divided into chunks of `per_chunk`. */
static inline size_t chunk_part(uint64_t total, uint32_t chunk, size_t per_chunk) {
    uint64_t left = total - (uint64_t)chunk * per_chunk;
    return left < per_chunk ? (size_t)left : per_chunk;
}
int run_write_bloom(struct index *index, MDB_txn *txn, const struct run *run, uint32_t from, uint32_t to);
int run_write_fences(struct index *index, MDB_txn *txn, const struct run *run);
int run_read_chunk(struct index *index, MDB_txn *txn, const struct run *run, uint32_t chunk, MDB_val *out);
/* Puts the batch's keys into the tail, or sorts them into a run. Announces the new set of filters. */
int keys_prepare(struct index *index);
int keys_write(struct index *index, MDB_txn *txn, struct meta_record *meta);
void keys_clean(struct index *index); /* completes keys_write after the commit of the transaction */
/* filters_announce publishes the set of filters of the next commit; filters_arrive makes it current after the commit.
 */
int filters_announce(struct index *index, struct run **list, size_t count, struct run *tail, uint64_t version);
void filters_arrive(struct index *index);
struct index_filter *filters_hold_version(struct index *index, uint64_t version);
/* Appends the ids that may have this key, from tail and runs. */
int keys_find(struct index *index, MDB_txn *txn, const struct index_filter *filter, uint64_t hash, struct numbers *out);
int pairs_compare(const void *a, const void *b); /* compares by `first`, then `id`; for qsort */
/* Sorts by `first`; stable. `spare` has space for `count` pairs. */
void pairs_sort(struct pair *pairs, struct pair *spare, size_t count);
/* Does one bounded step of the current merge, or starts a merge. */
int runs_merge(struct index *index, size_t keys_max, bool *out_did);
bool runs_merge_wanted(struct index *index);
int runs_collect_garbage(struct index *index, bool *out_did);

/* ---- index_unread.c: filter and fences of a run in the snapshot; from disk until they are in memory */
int run_may_have(struct index *index, MDB_txn *txn, const struct run *run, uint64_t hash, bool *out);
int run_fence(struct index *index, MDB_txn *txn, const struct run *run, uint32_t chunk, uint64_t *out);

/* ---- index_outcomes.c, index_producers.c */
int outcome_absorb(struct index *index, const struct row *row, uint16_t cause, uint64_t ended_ms);
int outcomes_write(struct index *index, MDB_txn *txn, struct meta_record *meta);
int producer_absorb(struct index *index, const struct producer_change *absorbed);
int producers_write(struct index *index, MDB_txn *txn);

/* ---- index_definitions.c */
int definition_absorb(struct index *index, const Tarry__DefinitionPut *put);
int definitions_write(struct index *index, MDB_txn *txn);

/* ---- index_calendar.c */
int calendar_open(struct index *index);
void calendar_close(struct index *index);
size_t calendar_bytes(const struct index *index);
int calendar_prepare(struct index *index); /* computes and sorts the net changes of the batch */
int calendar_write(struct index *index, MDB_txn *txn, uint64_t position);
void calendar_arrive(struct index *index); /* completes calendar_write after the commit of the transaction */
int calendar_count(struct index *index, bool *out_did); /* does one bounded step of a rebuild of the calendar */
bool calendar_count_wanted(const struct index *index);

/* ---- index_redact.c */
/* Sets has_redactions when the index is opened. */
int redactions_load(struct index *index);

/* ---- index_commit.c */
void held_key_encode(uint8_t out[HELD_KEY_SIZE], uint8_t state, uint32_t queue, uint64_t due_ms, uint64_t id);

/* ---- index_absorb.c */
void batch_reset(struct batch *batch);
void batch_deinit(struct batch *batch);
/* Finds the batch's change of an id; NULL: no change. */
struct change *batch_find(const struct batch *batch, uint64_t id);

#endif
