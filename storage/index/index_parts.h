/* index_parts.h: what the files of the index share. Private to storage/index*.c.
 *
 *   absorb ──► batch (net effects) ──► commit: rows, ranges, slots, keys, held, outcomes, results … meta, one
 * transaction maintain ──► merges of runs, sweeps of rows and slots, deletion of what was merged
 *
 * Invariants
 *   I-1  A row is on disk for every task that is live or dead; an id below next_id is *ended* exactly if its range has
 *        no record, or the range's bitmap says so. A row that should be there and is not is damage.
 *   I-2  Every waiting row has an entry (due, id) in some slot of its line. Entries without such a row are stale.
 *   I-3  Every row with a key has an entry (hash, id) in the tail or in exactly one run.
 *   I-4  Memory (ranges, runs, tail) says what the last commit says; only the index thread changes it. Filters are
 *        published before the position that needs them.
 *   I-5  A content lies here only where the row of its task does.
 *   I-6  What a transaction does can be done again from the start (the map may have to grow in the middle). */
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

#define QUEUES_FORMER_TINY 5u /* in the tests that make everything small */
#ifndef INDEX_TINY
#define FORMER_MAX QUEUES_FORMER_MAX
#define RANGE_SHIFT 12
#define PAIRS_PER_CHUNK ((DB_CHUNK_SIZE - DB_SEAL_SIZE) / 16)
#define TAIL_KEYS_MAX 16384     /* keys in the tail; more become a run */
#define RUN_KEYS_MIN 4096       /* a batch with so many keys is a run of its own */
#define RUN_LEVEL_KEYS 32768ull /* keys of a run of level 0 at most; eight times as many a level */
#define RUNS_BEHIND 32          /* with more runs than this, commits merge too */
#define MERGE_STEP_KEYS 100000u
#define BLOOM_STEP_CHUNKS 2000u
#define GARBAGE_STEP_CHUNKS 4000u
#define UNREAD_STEP_CHUNKS 256u
#define WINDOW_READ_MAX 65536u       /* entries that are read together rather than cascaded */
#define READ_AHEAD_PAIRS_MAX 131072u /* entries of a line that are kept for its next windows */
#define READ_AHEAD_ROWS_MAX 65536u   /* whose rows are read together */
#define READ_AHEAD_BYTES_MAX (1u << 30)
#define CASCADE_STEP_CHUNKS 256u
#define SWEEP_STEP_CHUNKS 64u
#define SWEEP_STEP_RANGES 64u
#define SWEEP_STEP_ROWS 16384u /* of ended tasks, unless one range has more */
#define SWEEP_REST_MAX_NS (180ull * 1000000000)
#define BLOB_SWEPT_MAX 1024u /* bytes; a larger content goes when its task ends, and not with the row */
#define PLAN_SLOTS_MAX 256
#define PREFIX_EXAMINE 4096u /* candidates of a list call when most will not match */
#define TABLE_CAPACITY_MIN 1024u
#define SLOT_SLACK 65536u /* stale entries that are not worth a pass */
#define KEY_SLACK 65536u
#define RETIRE_BYTES_MAX (4u << 20)
#define RETIRE_COPIES_MAX 16384u
#else /* for property tests: a few hundred tasks meet every boundary */
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
/* A step of upkeep is one transaction, two waits for the disk that windows and the log's own syncs share: with more
 * memory it does more, by up to so many times. */
#define STEP_SCALE_MAX 8u
#define STEP_MEMORY ((size_t)64 << 20) /* for which it does what the limits above say */
#define RANGE_IDS (1u << RANGE_SHIFT)
#define RANGE_BYTES (RANGE_IDS / 8)
#define SLOT_LEVELS 6
#define SLOT_SPAN 64 /* slots of one level that a batch may touch */
#define RUN_FAN_IN 8
#define RUN_LEVELS 16
#define HELD_KEY_SIZE 21
#define RUN_KEY_SIZE 13
#define BLOOM_BLOCKS_PER_CHUNK ((DB_CHUNK_SIZE - DB_SEAL_SIZE) / 64)
#define FENCES_PER_CHUNK ((DB_CHUNK_SIZE - DB_SEAL_SIZE) / 8)
#define READS_PER_TRIM 256u /* rows or chunks touched between looks at what is resident */
#define LOW_PAUSE_BYTES 4096u
#define MERGE_MEMORY_SHARE 4 /* 1 / of options.memory is what the filter of a merge's output may take */
#define READ_AHEADS_MAX 4
#define READ_AHEAD_MEMORY_SHARE 32 /* 1 / of it is what the entries of one line take at most */
#define READ_AHEAD_ROWS_SHARE 8    /* 1 / of it is what rows of all lines take at most */
#define PAGES_MEMORY_SHARE 8       /* 1 / of it is for mapped pages, whatever else takes */

static inline unsigned slot_shift(unsigned level) {
    return 10 + 6 * level;
}

/* Both kinds of entry are two integers: (due, id) in slots, (hash, id) in runs. */
struct pair {
    uint64_t first;
    uint64_t id;
};
_Static_assert(sizeof(struct pair) == 16, "pairs lie on disk as they are");

static inline struct pair pair_at(const uint8_t *data, size_t i) {
    struct pair pair;
    memcpy(&pair, data + i * sizeof pair, sizeof pair);
    return pair;
}

/* The pairs in a chunk, which is never empty; 0: it is malformed. */
static inline size_t pairs_in(const MDB_val *data) {
    return data->mv_size % sizeof(struct pair) == 0 ? data->mv_size / sizeof(struct pair) : 0;
}

struct pairs VECTOR_FIELDS(struct pair);
struct numbers VECTOR_FIELDS(uint64_t);

/* ---- ranges of ids */
struct range {
    uint64_t number;   /* id >> RANGE_SHIFT, plus 1; 0: free place */
    uint16_t rows;     /* on disk */
    uint16_t ended;    /* … of ended tasks */
    bool dirty;        /* in the batch's list */
    bool queued;       /* waits for a sweep */
    uint64_t *bits;    /* NULL: none ended */
    uint64_t since_ns; /* steady time of its last fresh row; as of the opening, for those that were there */
};
struct pending_sweep { /* of a range */
    uint64_t number;
    uint64_t due_ns; /* steady time */
};
struct ranges {
    struct range *table; /* open addressing, a power of two */
    size_t capacity;
    size_t count;
    uint64_t rows;  /* on disk, all ranges */
    uint64_t ended; /* of them */
    size_t bitmaps;
    struct numbers dirty;
    VECTOR(struct pending_sweep) sweeps; /* by when they are due, but for … */
    size_t sweeps_asked; /* … the first so many, whose pages were asked of the kernel: they are swept next */
};

/* ---- key runs */
struct run {
    atomic_uint refs;
    uint32_t level;
    uint64_t number;         /* 0: the tail's filter */
    uint64_t count;          /* keys */
    uint64_t endings_before; /* index.endings when it was made */
    uint32_t chunks;
    uint64_t blocks;     /* of 64 bytes */
    uint64_t *fences;    /* first hash of every chunk */
    uint64_t *bloom;     /* both valid once … */
    atomic_bool is_read; /* … all of them is in memory; until then they are on the disk alone (index_unread.c) */
    uint32_t bloom_read; /* chunks of them so far; for who reads them */
    uint32_t fences_read;
};
static inline bool run_is_read(const struct run *run) {
    return atomic_load_explicit(&run->is_read, memory_order_acquire);
}
struct index_filter {
    atomic_uint refs;
    uint64_t version; /* as in the meta record */
    size_t count;
    struct run *runs[]; /* the tail first */
};
struct merge_head {
    uint32_t chunk;
    uint32_t at; /* within the chunk */
};
struct merge {     /* of `inputs` runs; plain data, so that a step can be done again from a copy */
    size_t inputs; /* 0: none under way */
    struct run *input[RUN_FAN_IN];

    struct merge_head head[RUN_FAN_IN];
    struct run *output;    /* fences and filter are being filled */
    uint32_t chunks;       /* of the output, written */
    uint64_t count;        /* keys in them */
    uint32_t bloom_chunks; /* written */
    bool keys_done;
    bool is_finished;
    size_t pending;
    struct pair buffer[PAIRS_PER_CHUNK];
};
struct runs {
    VECTOR(struct run *) list; /* oldest first */
    struct run *tail_filter;
    struct pairs tail;
    pthread_mutex_t lock; /* of the three below */
    struct index_filter *previous, *current, *next;
    struct merge merge;
    struct numbers garbage; /* runs whose chunks are to be deleted */
    uint64_t keys;          /* in all runs */
};

/* ---- the meta record, as it lies on disk */
struct meta_record {
    uint32_t format;
    uint32_t epoch;
    uint8_t cluster[16];
    uint8_t chain[FRAME_CHAIN_SIZE];
    uint64_t position;
    uint64_t log_start;
    uint64_t retired_to; /* contents below it may lie in the index although log_start is lower */
    uint64_t steady_ns;
    uint64_t wall_ns;
    uint64_t known_since_ms;
    uint64_t digest;
    uint64_t live;
    uint64_t next_id;
    uint64_t filters_version;
    uint64_t next_run;
    uint64_t next_chunk;   /* of slots */
    uint64_t next_outcome; /* key of the next chunk of outcomes */
    uint64_t outcomes;     /* remembered */
    uint64_t slot_entries;
    uint32_t next_queue;
    uint32_t known; /* 0: known_since is not set yet */
};

/* ---- slots */
struct slot_key {
    struct line line;
    uint8_t level;
    uint64_t slot;
    uint64_t chunk;
};
struct bucket { /* the entries for one slot */
    struct line line;
    uint8_t level;
    uint64_t slot;
    uint32_t count;
    uint32_t start; /* in `sorted` */
};
/* Entries on their way into slots, sorted by slot without comparing: buckets, counts, places. */
struct slot_entry {
    struct line line;
    uint64_t due_ms;
    uint64_t id;
};
struct slot_writer {
    VECTOR(struct bucket) buckets;
    VECTOR(uint32_t) places; /* entry → bucket */
    VECTOR(struct slot_entry) entries;
    struct hash_index index; /* of the buckets */
    struct pairs sorted;
};
/* ---- the batch: net effects since the last commit */
enum change_flag {
    CHANGE_FRESH = 1, /* no row on disk */
    CHANGE_ENDED = 2,
};
struct change {
    uint64_t id;
    uint64_t due_ms;
    uint64_t first_due_ms;  /* as on disk; void if fresh */
    uint64_t key_hash;      /* valid if key_size > 0 */
    uint64_t offset;        /* of the packed row in batch.bytes */
    uint64_t large_blob_at; /* UINT64_MAX: no content above BLOB_SWEPT_MAX */
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
    KEYS_TO_RUN,      /* the tail stays as it is */
    KEYS_FLUSH_TAIL,  /* tail and keys become a run */
    KEYS_COMPACT_TAIL /* most of the tail has ended: what is left stays there */
};
struct producer_change {
    uint64_t producer;
    uint64_t used_ms;
    uint64_t floor;
    uint64_t owner; /* 0: as it was */
    bool ended;
};
struct result_change {
    uint64_t producer;
    uint64_t sequence;
    uint64_t position;
};
/* A queue or a job: few, so they are kept in order and applied in order. */
struct side_change {
    enum db_table table;
    uint64_t number;
    size_t offset;
    size_t size; /* 0: deleted */
};
struct batch {
    uint64_t first_id; /* ids from here on are fresh */
    VECTOR(struct change) changes;
    VECTOR(uint8_t) bytes;
    VECTOR(uint32_t) fresh;   /* id - first_id → change + 1 */
    struct hash_index old;    /* of the other ids: change + 1 */
    VECTOR(uint8_t) outcomes; /* packed, one after another */
    VECTOR(uint32_t) outcome_sizes;
    struct numbers outcome_ends; /* ended_ms of each */
    VECTOR(struct producer_change) producers;
    struct hash_index producer_places; /* producer → place in `producers` + 1 */
    VECTOR(struct result_change) results;
    VECTOR(struct side_change) sides;
    size_t records;
    size_t redactions;
    bool known; /* this batch holds the first frame ever */
    uint64_t known_since_ms;
    uint8_t queue_dirty[QUEUE_PLACES + 1]; /* [place] */
    /* made by prepare */
    bool is_prepared;
    VECTOR(uint32_t) updates; /* changes to rows on disk, and ends of leases, by id */
    VECTOR(uint32_t) appends; /* fresh rows, by id */
    struct pairs keys;
    struct pairs tail_gone; /* of the keys in the tail, these ended */
    enum keys_mode keys_mode;
    struct run *run;         /* made of the keys */
    struct run *tail_filter; /* the tail's new one, if it is made anew */
    struct pairs tail;       /* likewise the tail */
};

/* ---- the line's advice, and where its sweep stands */
struct low {
    struct line line;
    struct due low;
    uint32_t next;       /* in index->lows_wanted: index + 1; 0: it is the last one */
    bool is_listed;      /* it is in there */
    bool is_wanted;      /* a pass is wanted … */
    uint64_t not_before; /* … once the index has come so far */
    uint64_t pause;      /* bytes of log between passes that left something */
    bool is_open;        /* a pass is under way, and goes on at: */
    uint8_t level;
    uint64_t slot, chunk;
    bool kept; /* the pass left something */
};

/* Copies that wait for a transaction: contents of tasks and answers of commits, from segments about to go. */
struct retire_copy {
    uint64_t id; /* 0: an answer */
    uint64_t producer, sequence;
    size_t offset, size;
};
struct retire_batch {
    VECTOR(struct retire_copy) copies;
    VECTOR(uint8_t) bytes;
    uint64_t end; /* of the last frame looked at */
};

/* A pass over all slots. */
struct whole_sweep {
    bool is_open;
    struct slot_key at;     /* where it goes on */
    uint64_t entries_after; /* the last one */
};

/* Entries of a line that lie before the next windows, and rows of them (index_read_ahead.c). */
#define ROW_UNREAD UINT32_MAX
#define ROW_GONE (UINT32_MAX - 1) /* nothing waits there any more */
struct read_ahead {
    struct line line;
    struct pairs pairs;   /* by due and id; none: it is not in use */
    size_t next;          /* the first one that was not given */
    size_t looked;        /* rows of entries from here on were not read */
    uint32_t *places;     /* of each entry: where its row lies in `rows`, or one of the above */
    VECTOR(uint8_t) rows; /* size u16, then the row, packed */
    struct due after;
    struct due through;
    uint64_t horizon_ms;
    uint64_t used; /* when, by read_aheads_used */
};

struct index {
    struct db db;
    struct index_options options;
    struct meta_record meta; /* as of the last commit */
    atomic_ullong position;
    struct tally tally; /* as of what was absorbed */
    struct queue_tally *queues;
    uint64_t absorbed; /* position after the last frame absorbed */
    uint8_t absorbed_chain[FRAME_CHAIN_SIZE];
    uint64_t steady_ns, wall_ns;
    uint64_t told_ns; /* steady time by the clock of the caller (index_tell_time) */
    struct batch batch;
    struct ranges ranges;
    struct runs runs;
    struct slot_writer writer;
    VECTOR(struct low) lows;
    uint32_t *tally_keys; /* [place]: the number under which its counts lie on disk; 0: there are none yet */
    uint32_t *low_places; /* of a line, by low_place(): index + 1 in `lows`; 0: it was never advised. NULL: none was */
    struct {
        uint32_t first, last; /* index + 1; 0: none */
    } lows_wanted;            /* those that want a pass or have one under way, in turn */
    struct pairs scratch;
    struct read_ahead read_aheads[READ_AHEADS_MAX];
    uint64_t read_aheads_used;
    struct retire_batch retire;
    struct keyring *keyring;        /* of the contents that were moved here */
    struct content_cache *contents; /* some of them; NULL: none (options.contents_memory) */
    bool has_redactions;            /* in the table */
    atomic_ullong erased;           /* redactions recorded below this position have been carried out */
    struct whole_sweep whole;
    uint64_t endings;    /* of tasks with a row, since the index was opened */
    atomic_ullong reads; /* rows and chunks that other threads touched: now and then pages are given back */
    atomic_ullong bytes_memory, rows_seen, runs_seen, keys_seen, entries_seen; /* for statistics of other threads */
    struct calendar *calendar; /* index_calendar.h; NULL: nobody looks up anything (options.no_lookup) */
    int failed;                /* the first fatal error of a write: every later write returns it (LOG-4) */
};

static inline size_t step_scale(const struct index *index) {
    size_t scale = index->options.memory / STEP_MEMORY;
    return scale < 1 ? 1 : scale < STEP_SCALE_MAX ? scale : STEP_SCALE_MAX;
}

/* ---- index.c */
int index_write(struct index *index, int (*body)(void *argument, MDB_txn *txn), void *argument);
int meta_put(struct index *index, MDB_txn *txn, const struct meta_record *meta);
int meta_read(struct index *index, MDB_txn *txn, struct meta_record *out);
/* Number of the queue that has the place; of a place that no queue has had yet, that of generation 0. */
uint32_t index_number_at(const struct index *index, uint32_t place);
void index_account(struct index *index);
/* `count` rows or chunks were touched; any thread. */
void index_touched(struct index *index, uint64_t count);
/* What mapped pages may take: options.memory less what index_account has counted. Any thread. */
size_t index_pages_max(const struct index *index);

/* ---- index_rows.c: rows, packed and unpacked */
#define PACKED_ROW_MAX 640
size_t row_pack(const struct row *row, uint64_t changed, uint8_t out[PACKED_ROW_MAX]);
/* `out` borrows key and reason from `data`. INDEX_DAMAGED. */
int row_unpack(uint64_t id, const MDB_val *data, struct row *out);
/* 1: no such row on disk (it may be ended; that is for the caller to know). */
int row_get(struct index *index, MDB_txn *txn, uint64_t id, struct row *out);
/* Only from where leased rows are kept. 1: it is not there. */
int row_get_leased(struct index *index, MDB_txn *txn, uint64_t id, struct row *out);
/* Copies the row with key and reason into the arena's array; -ENOMEM. */
int row_keep(const struct row *row, struct arena *arena, struct row *out);
/* What a thread other than the index thread knows of ended ids: reads ranges through its transaction. */
struct range_view {
    uint64_t number; /* UINT64_MAX: nothing read yet */
    bool is_there;
    bool has_bits;
    uint8_t bits[RANGE_BYTES];
};
int range_view_ended(struct index *index, MDB_txn *txn, struct range_view *view, uint64_t id, bool *out);
/* The live or dead row `id` or 1; finds damage by I-1. */
int row_get_live(struct index *index, MDB_txn *txn, struct range_view *view, uint64_t next_id, uint64_t id,
                 struct row *out);

/* ---- index_lookup.c: one snapshot and what is gathered from it; any thread */
struct reading {
    struct index *index;
    MDB_txn *txn;
    struct meta_record meta;
    struct index_filter *filter; /* of the snapshot; NULL: not asked for */
    struct range_view view;
    struct numbers ids;
    struct arena *arena;
    VECTOR(struct row) rows;
};

int reading_begin(struct reading *reading, struct index *index, struct arena *arena, bool with_filter);
void reading_end(struct reading *reading);
/* Copies the row. */
int reading_keep(struct reading *reading, const struct row *row);
/* Moves the rows into the arena. */
int reading_give(struct reading *reading, struct index_rows *out);

/* ---- index_ranges.c */
int ranges_load(struct index *index);
void ranges_deinit(struct ranges *ranges);
bool ranges_ended(const struct ranges *ranges, uint64_t id);
/* Has the processor fetch what ranges_ended will look at. */
void ranges_prefetch(const struct ranges *ranges, uint64_t id);
struct range *ranges_find(const struct ranges *ranges, uint64_t number);
int ranges_apply(struct index *index);                /* the batch's effects, in memory */
int ranges_write(struct index *index, MDB_txn *txn);  /* what is dirty */
void ranges_clean(struct index *index);               /* after the commit */
int ranges_sweep(struct index *index, bool *out_did); /* one bounded step */
bool ranges_sweep_wanted(const struct index *index);
uint64_t ranges_sweep_at(const struct index *index); /* steady time when one is due; UINT64_MAX: none is queued */

/* ---- index_window.c, index_sweep.c */
bool row_waits_at(const struct row *row, const struct line *line, uint64_t due_ms);
/* Deletes stale entries of slots; one bounded step. */
int slots_sweep(struct index *index, bool *out_did);
bool slots_sweep_wanted(struct index *index);

/* ---- index_slots.c */
struct slot_view {
    uint64_t slot;
    uint64_t entries; /* counted up to a cap */
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
/* What the filter of a run of so many keys takes. */
uint64_t run_filter_bytes(uint64_t keys);
void run_key(uint8_t out[RUN_KEY_SIZE], uint64_t number, uint8_t kind, uint32_t chunk);
enum run_kind { RUN_PAIRS = 0, RUN_BLOOM = 1, RUN_FENCES = 2 };
int run_write_descriptor(struct index *index, MDB_txn *txn, const struct run *run);
uint32_t run_bloom_chunks(const struct run *run);
uint32_t run_fence_chunks(const struct run *run);
/* Of `total` items, `per_chunk` a chunk: how many are in this one. */
static inline size_t chunk_part(uint64_t total, uint32_t chunk, size_t per_chunk) {
    uint64_t left = total - (uint64_t)chunk * per_chunk;
    return left < per_chunk ? (size_t)left : per_chunk;
}
int run_write_bloom(struct index *index, MDB_txn *txn, const struct run *run, uint32_t from, uint32_t to);
int run_write_fences(struct index *index, MDB_txn *txn, const struct run *run);
int run_read_chunk(struct index *index, MDB_txn *txn, const struct run *run, uint32_t chunk, MDB_val *out);
/* The batch's keys: into the tail, or sorted into a run. Announces the set of filters. */
int keys_prepare(struct index *index);
int keys_write(struct index *index, MDB_txn *txn, struct meta_record *meta);
void keys_clean(struct index *index); /* after the commit */
/* Publishes the set of filters that the next commit makes true; rotates it in afterwards. */
int filters_announce(struct index *index, struct run **list, size_t count, struct run *tail, uint64_t version);
void filters_arrive(struct index *index);
struct index_filter *filters_hold_version(struct index *index, uint64_t version);
/* Ids that may have this key, from tail and runs. */
int keys_find(struct index *index, MDB_txn *txn, const struct index_filter *filter, uint64_t hash, struct numbers *out);
int pairs_compare(const void *a, const void *b); /* by first, then id; for qsort */
/* By `first`, and what is equal as it was; `spare` has room for as many. */
void pairs_sort(struct pair *pairs, struct pair *spare, size_t count);
/* One bounded step of the merge under way, or of a new one. */
int runs_merge(struct index *index, size_t keys_max, bool *out_did);
bool runs_merge_wanted(struct index *index);
int runs_collect_garbage(struct index *index, bool *out_did);

/* ---- index_unread.c: of a run that is in the snapshot; from memory, or as long as it is not there from the disk */
int run_may_have(struct index *index, MDB_txn *txn, const struct run *run, uint64_t hash, bool *out);
int run_fence(struct index *index, MDB_txn *txn, const struct run *run, uint32_t chunk, uint64_t *out);

/* ---- index_outcomes.c, index_producers.c */
int outcome_absorb(struct index *index, const struct row *row, uint16_t cause, uint64_t ended_ms);
int outcomes_write(struct index *index, MDB_txn *txn, struct meta_record *meta);
int producer_absorb(struct index *index, const struct producer_change *absorbed);
int producers_write(struct index *index, MDB_txn *txn);

/* ---- index_calendar.c */
int calendar_open(struct index *index);
void calendar_close(struct index *index);
size_t calendar_bytes(const struct index *index);
int calendar_prepare(struct index *index); /* the batch's changes, net and sorted */
int calendar_write(struct index *index, MDB_txn *txn, uint64_t position);
void calendar_arrive(struct index *index);              /* after the commit */
int calendar_count(struct index *index, bool *out_did); /* one bounded step of making it anew */
bool calendar_count_wanted(const struct index *index);

/* ---- index_redact.c */
/* At the start: is there anything to be erased? */
int redactions_load(struct index *index);

/* ---- index_commit.c */
void held_key_encode(uint8_t out[HELD_KEY_SIZE], uint8_t state, uint32_t queue, uint64_t due_ms, uint64_t id);

/* ---- index_absorb.c */
void batch_reset(struct batch *batch);
void batch_deinit(struct batch *batch);
/* NULL: the batch does not know the id. */
struct change *batch_find(const struct batch *batch, uint64_t id);

#endif
