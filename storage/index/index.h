/* index.h: the index of all pending tasks, as of one log position (LOG-3). It uses LMDB and hides LMDB from callers.
 *
 * Directory: DIR/index/. The index follows the durable log. It stores its log position in the same transaction as the
 * data.
 *
 * Schema (storage/README.md draws it):
 *   rows      id → row, appended in order of id; a bitmap of ended ids per 4,096 ids; a sweep deletes rows by range
 *   slots     (queue, base, priority, level, slot, chunk) → chunk of (due, id): the timing wheel's part on disk
 *   calendar  (queue, minutes or hours) → number of waiting tasks that become due in each minute or hour
 *   keys      sorted runs of (hash of queue and key, id), blocked Bloom filter per run, merged eight to one
 *   held      (leased or dead, queue, since, id)
 *   outcomes  in the order of ending; limited
 *   others    queues, producers, jobs, blobs, results; definitions and totals (meta)
 *
 * Threads: *one index thread* calls absorb, commit, retire and window (the "writer" calls). A call marked "any thread"
 * opens its own read transaction and ends it before it returns. Only a copy's read transaction outlives a call.
 * Errors: negative errno, LMDB's negative codes (MDB_…), or INDEX_… (storage_codes.h). An error is fatal unless its
 * function says otherwise. */
#ifndef TARRY_STORAGE_INDEX_H
#define TARRY_STORAGE_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "frame.h"
#include "row.h"
#include "storage_codes.h"
#include "tally.h"

struct index;

struct index_options {
    const char *directory;
    uint8_t cluster[16];
    size_t memory; /* target of resident bytes. The key filters take 1.5 to 2 bytes per key; mapped pages get the rest,
                      at least an eighth. After commits, pages beyond that are dropped (madvise) */
    size_t contents_memory; /* bytes, in addition to `memory`, for contents that moved from the log to the index
                               (content_cache.h); 0: no cache */
    size_t map_size;        /* initial size of LMDB's map, in bytes; it grows when full */
    uint32_t outcomes_max;
    uint64_t outcome_retention_ms;
    /* For tools and --inspect: changes no byte of the directory; no other process may write to it meanwhile. */
    bool read_only;
    bool no_lookup;     /* for tools that look up no task: key filters and due times are not loaded */
    bool filters_later; /* index_open leaves the key filters (1.5 to 2 bytes per key) on disk, and index_read_filters
                           reads them later; until then keys are looked up on disk, and deliveries do not wait */
    bool no_sync;       /* for unit tests and benches only */
};

/* Totals of the index, as of its position. */
struct index_meta {
    uint64_t position; /* end of the last absorbed frame; LOG_POSITION_FIRST in a new index */
    uint8_t chain[FRAME_CHAIN_SIZE];
    uint64_t log_start; /* the index stores the contents of frames below this position (LOG-3) */
    uint64_t steady_ns; /* logical steady time of the last absorbed frame */
    uint64_t wall_ns;
    uint64_t known_since_ms; /* time from which the index remembers all endings */
    struct tally tally;      /* tally.queues points into the index; read it only at start */
};

int index_open(struct index **out, const struct index_options *options, char *message, size_t message_size);
void index_close(struct index *index);
/* Called by the index thread, or before that thread starts. */
void index_meta(const struct index *index, struct index_meta *out);

/* ---- start-up: calls that read everything that the core keeps in memory. `each` borrows its arguments during the
 * call. If `each` returns non-zero, the iteration stops and returns that value. */
int index_each_queue(struct index *index, int (*each)(void *argument, const Tarry__QueuePut *queue), void *argument);
int index_each_lease(struct index *index, int (*each)(void *argument, const struct row *row), void *argument);
struct index_producer {
    uint64_t producer;
    uint64_t used_ms; /* logical steady time of the producer's last commit */
    uint64_t floor;   /* sequences of the producer below this one are forgotten */
    uint64_t owner;   /* principal to which the producer belongs (principal_owner) */
};
int index_each_producer(struct index *index, int (*each)(void *argument, const struct index_producer *producer),
                        void *argument);
int index_each_result(struct index *index,
                      int (*each)(void *argument, uint64_t producer, uint64_t sequence, uint64_t position),
                      void *argument);
int index_each_job(struct index *index, int (*each)(void *argument, const Tarry__JobPut *job), void *argument);
/* Calls `each` for every definition, with a before_hash of 0. */
int index_each_definition(struct index *index, int (*each)(void *argument, const Tarry__DefinitionPut *definition),
                          void *argument);
/* Calls `each` for every recurrence. `put` has the recurrence's definition, and its state without open tasks that have
 * ended; put->before_hash is the hash of the state as recorded. `next`: row of the next occurrence's task; NULL: that
 * task has ended. `open_live`: number of open tasks that are waiting or in flight; they come first in the state, and
 * dead ones follow. */
int index_each_recur(struct index *index,
                     int (*each)(void *argument, const Tarry__RecurPut *put, const struct row *next, size_t open_live),
                     void *argument);
/* Calls `each` for every remembered ending and redaction (OUTCOME_REDACTION), oldest first. */
int index_each_outcome(struct index *index, int (*each)(void *argument, const struct outcome *outcome), void *argument);

/* ---- absorbing (index thread) */
/* Adds one frame to the batch in memory; writes nothing. The frame must start where the previous frame ended. */
int index_absorb(struct index *index, const struct frame_header *header, const Tarry__FrameBody *body);
/* Returns the number of records absorbed since the last commit. */
size_t index_pending(const struct index *index);
/* Writes the batch in one synced transaction; if the map is full, grows the map and tries again. Writes net effects
 * only: a task that was scheduled and ended within the batch changes only the outcomes. -ENOSPC is not fatal: nothing
 * was written, and the caller may repeat the call when there is space. Until the call succeeds, index_absorb,
 * index_retire and an index_window that must write return -ENOSPC too. Every other error is permanent: later calls
 * return it again. */
int index_commit(struct index *index);
/* Does one step of background work: merges key runs, or sweeps ended rows and slots. Call it after commits, and at the
 * time that index_maintain_at returns. A step is at most one bounded transaction (target: < 20 ms). Sets *out_more if
 * more work is due. */
int index_maintain(struct index *index, bool *out_more);
/* Returns the steady time at which postponed background work becomes due, if no commit happens before. A time in the
 * past means that the work is due now. UINT64_MAX: no postponed work. */
uint64_t index_maintain_at(const struct index *index);
/* Sets the current steady time. Without this call the index knows only the time of its last frame. */
void index_tell_time(struct index *index, uint64_t steady_ns);
/* Returns the log position of the last commit. Any thread. */
uint64_t index_position(const struct index *index);

/* ---- the near window (index thread) */
struct index_rows { /* rows and their keys are in the caller's arena */
    struct row *rows;
    size_t count;
    uint64_t position; /* index position of the snapshot that they were read from */
};
/* Reads waiting tasks of a line with `after` < (due, id) and due ≤ until_ms: the soonest count_max of them.
 * `*out_through`: `out` has every waiting task of the line after `after` up to this point. The point may be later than
 * until_ms if no task is due before the next slot. {UINT64_MAX, UINT64_MAX}: the line has no later task.
 *
 * May cascade slots (move the entries of a large slot to lower levels), which writes; a read-only index does not
 * cascade. If the cascade needs another step, sets *out_again and returns no rows; the caller repeats the call. */
int index_window(struct index *index, const struct line *line, struct due after, uint64_t until_ms, size_t count_max,
                 struct arena *arena, struct index_rows *out, struct due *out_through, bool *out_again);
/* Tells the index that every task of the line with (due, id) < `low` was leased, moved or ended, so a sweep may delete
 * the slot entries of these tasks. The sweep checks each task's row first and does not rely on the call. */
void index_advise_low(struct index *index, const struct line *line, struct due low);

/* ---- looking up (any thread) */
struct index_filter; /* an immutable snapshot of the key filters of all runs */
/* Returns the current filter; never NULL. Its position is at least index_position() before the call. */
struct index_filter *index_filter_hold(struct index *index);
/* Returns false only if no row has this key. Returns true for every key until all filters are in memory. */
bool index_filter_may_contain(const struct index_filter *filter, uint64_t key_hash);
/* Prefetches the cache lines that index_filter_may_contain will read. */
void index_filter_prefetch(const struct index_filter *filter, uint64_t key_hash);
void index_filter_drop(struct index_filter *filter);
/* With options.filters_later: reads up to 1 MiB of the filters. Sets *out_more to false when all filters are in memory.
 * Any thread, but one thread at a time. INDEX_DAMAGED as from index_open. */
int index_read_filters(struct index *index, bool *out_more);

/* Looks up live and dead rows by id or key, in any order. A key yields its live row and, unless live_only, its 16
 * youngest dead rows. Missing rows are left out. Returns 1 if the rows need more than `size_max` bytes of the arena;
 * then the reading stopped and `out` has no rows (CALM-1). */
int index_lookup(struct index *index, const struct want *wants, size_t want_count, size_t size_max, struct arena *arena,
                 struct index_rows *out);
/* Reads live and dead rows of `queue` (0: all queues) with after_id < id < id_end, in order of id. Examines at most
 * `examine_max` rows, of any queue. `*out_next`: the `after_id` of the next call; UINT64_MAX: done. */
int index_scan(struct index *index, uint32_t queue, uint64_t after_id, uint64_t id_end, size_t count_max,
               size_t examine_max, struct arena *arena, struct index_rows *out, uint64_t *out_next);
/* Reads at most count_max rows in order of (due, id), for `tarry list`. `states` is a mask of 1 << enum row_state; an
 * empty prefix matches every key. Matches rows with (due, id) > after and due_from ≤ due < due_to. `*out_through`:
 * `out` has every matching row up to this point; {UINT64_MAX, UINT64_MAX}: it has all matching rows. Even a result
 * without rows may have a point before the end; the caller continues from the point. */
struct index_query {
    uint32_t queue;
    uint32_t states;
    uint64_t due_from_ms;
    uint64_t due_to_ms; /* exclusive */
    const char *prefix;
    size_t prefix_size;
    struct due after; /* rows after this due time and id; {0, 0}: from the start */
    size_t count_max;
};
int index_list(struct index *index, const struct index_query *query, struct arena *arena, struct index_rows *out,
               struct due *out_through);
/* The exact number of waiting tasks (pending and ready) by due time, as of one position. Any thread. */
#define CALENDAR_MINUTE_MS 60000ull
#define CALENDAR_HOUR_MS 3600000ull
struct index_calendar_query {
    uint64_t from_ms; /* start of the first span; a whole minute */
    uint64_t step_ms; /* length of each span; whole minutes */
    uint32_t span_count;
    bool of_all; /* true: count all queues together; false: count the queues in `queues` */
    const uint32_t *queues;
    size_t queue_count;
    bool by_queue; /* true: also count the tasks of all spans for each queue in `queues` */
};
struct index_calendar {
    uint64_t *counts; /* one count per span; allocated in the arena, like by_queue */
    uint64_t *by_queue;
    uint64_t before, after; /* number of tasks due before the first span and after the last span */
    uint64_t position;
    uint64_t steady_ms; /* steady time of the last frame below `position` */
    uint64_t counted; /* tasks with smaller ids are in the counts; less than next_id only while the table is rebuilt */
    uint64_t next_id; /* upper bound of task ids: greater than all of them */
};
/* Answers a calendar query. Returns 1 while the index still counts the tasks of an index that an older program wrote;
 * then only position, steady_ms, counted and next_id are set. A read-only index never finishes counting. -E2BIG: the
 * query would read too many chunks. Neither result is fatal. */
int index_calendar(struct index *index, const struct index_calendar_query *query, struct arena *arena,
                   struct index_calendar *out);
/* Reads a content that moved from a retired segment to the index. 1: not found. `*out` is in the arena. */
int index_blob(struct index *index, uint64_t id, struct arena *arena, void **out, size_t *out_size);
/* Like index_blob, but never reads the disk. -EAGAIN: the content is not in memory. */
int index_blob_now(struct index *index, uint64_t id, struct arena *arena, void **out, size_t *out_size);
/* Prefetches the cache lines that index_blob_now will read, for a few tens of tasks. */
void index_blobs_prefetch(struct index *index, const uint64_t *ids, size_t count);
/* Reads a commit's packed CommitReply that moved from a retired segment to the index. 1: not found. */
int index_result(struct index *index, uint64_t producer, uint64_t sequence, struct arena *arena, void **out,
                 size_t *out_size);

/* ---- copying (any one thread): writes the index, as of one position, into a file that LMDB can open. Reads and writes
 * of the index continue; its file grows by the pages that are written meanwhile. */
struct index_copy;
int index_copy_begin(struct index_copy **out, struct index *index);
/* Copies up to `size_max` bytes to `handle`, which is an empty file before the first step. 1: more to do; the copy may
 * have restarted because the index's map had to grow. 0: complete; the read transaction has ended. */
int index_copy_step(struct index_copy *copy, int handle, size_t size_max);
uint64_t index_copy_size(const struct index_copy *copy);     /* returns the number of bytes to copy in all */
uint64_t index_copy_done(const struct index_copy *copy);     /* bytes copied */
uint64_t index_copy_position(const struct index_copy *copy); /* returns the log position of the copied index */
/* Ends the copy. Called by the thread that began it, also before the copy is complete; NULL is allowed. */
void index_copy_end(struct index_copy *copy);
/* ---- redactions (index thread): those that were not yet reported to the index as carried out */
/* Reads the first `count_max` redactions into the arena. */
int index_redactions(struct index *index, size_t count_max, struct arena *arena, Tarry__Redaction ***out,
                     size_t *out_count);
/* Reports that these redactions were carried out in log and archive. Destroys the encryption keys of the contents that
 * the index stores or stored, then removes the redactions. On -ENOSPC repeat the call, as with index_commit. */
int index_redactions_done(struct index *index, Tarry__Redaction *const *redactions, size_t count);
/* Returns the position below which all recorded redactions were carried out. Any thread. */
uint64_t index_erased(const struct index *index);

/* Copies the whole index into an existing empty directory. For a read-only index, which no process writes meanwhile. */
int index_clone(struct index *index, const char *directory);

struct index_stats {
    uint64_t bytes_file;
    uint64_t bytes_memory; /* bytes of filters, fences and buffers; counted, not measured */
    uint64_t key_runs;
    uint64_t rows; /* number of rows on disk, including rows of ended tasks that were not swept */
    /* Number of keys in the key runs and in the tail (keys that are in no run yet). Includes keys of ended tasks that
     * no merge has dropped. */
    uint64_t key_entries;
    uint64_t slot_entries; /* number of entries in slots, including stale entries that were not swept */
};
void index_stats(struct index *index, struct index_stats *out); /* any thread */

/* ---- retirement (index thread) */
/* Copies contents of live and dead tasks, and remembered results, from a frame into the index. Call it for each frame
 * of a segment in order, then index_retire_commit(log_start), which commits in a synced transaction; only then may the
 * segment be deleted. Commits in between, so memory is bounded. */
int index_retire_frame(struct index *index, const struct frame_header *header, const Tarry__FrameBody *body,
                       const uint8_t *blob);
int index_retire_commit(struct index *index, uint64_t log_start);

/* ---- offline (opened read-only): recomputes the digest and the counts from all rows and compares them with the stored
 * ones. On a mismatch, `message` gets a sentence. */
struct index_verification {
    uint64_t rows;
    uint64_t digest;
    uint64_t slots_entries;
    uint64_t erased_task; /* id of a live task whose content was erased, which made the check fail; 0: no such task */
};
int index_verify(struct index *index, struct index_verification *out, char *message, size_t message_size,
                 void (*progress)(void *argument, uint64_t done, uint64_t total), void *argument);

#endif
