/* index.h: what is pending, as of one log position (LOG-3). LMDB underneath; nothing of LMDB shows here.
 *
 * Directory: DIR/index/. The index follows the durable log. It stores its position in the same transaction as the data.
 *
 * Schema (storage/README.md draws it; measured in DESIGN.md 3):
 *   rows      id → row, appended in order of id; a bitmap of ended ids per 4,096 ids; rows go by range
 *   slots     (queue, base, priority, level, slot, chunk) → chunk of (due, id): the timing wheel goes on on disk
 *   calendar  (queue, minutes or hours) → how many waiting tasks fall due in each
 *   keys      sorted runs of (hash of queue and key, id), blocked Bloom filter per run, merged eight to one
 *   leases, dead (queue, since, id), outcomes (by ending, limited), queues, producers, jobs, blobs, results, meta
 *
 * Threads: *one index thread* calls absorb/commit/retire/window (the "writer" calls). Calls marked "any thread" open a
 * read transaction of their own and end it before they return; no read transaction outlives a call, but a copy's.
 * Errors: negative errno, LMDB's own negative codes (MDB_…), or INDEX_… below; all fatal but where said. */
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
    size_t memory; /* resident bytes aimed at. The filters of keys come first, 1.5 to 2 bytes a key; mapped pages get
                      what is left, an eighth at least: they are dropped (madvise) after commits beyond it */
    size_t contents_memory; /* beside it: of contents that were moved here, until their tasks end (content_cache.h); 0:
                               none */
    size_t map_size;        /* address space at first; grown when full */
    uint32_t outcomes_max;
    uint64_t outcome_retention_ms;
    bool read_only; /* for tools and --inspect: nobody may write meanwhile, and not a byte of the directory changes */
    bool no_lookup; /* for tools that look up no task: what leads to keys and due times is not loaded */
    bool filters_later; /* the filters of keys, 1.5 to 2 bytes a key, are read by index_read_filters and not by the
                           opening: what is due goes out meanwhile, and keys are looked for on the disk */
    bool no_sync;       /* for unit tests and benches only */
};

/* What the index knows of the whole, as of its position. */
struct index_meta {
    uint64_t position; /* absorbed up to here; LOG_POSITION_FIRST if new */
    uint8_t chain[FRAME_CHAIN_SIZE];
    uint64_t log_start; /* contents below it lie in the index (LOG-3) */
    uint64_t steady_ns; /* of the last frame absorbed */
    uint64_t wall_ns;
    uint64_t known_since_ms; /* endings are remembered since */
    struct tally tally;      /* tally.queues points into the index; read it at start only */
};

int index_open(struct index **out, const struct index_options *options, char *message, size_t message_size);
void index_close(struct index *index);
void index_meta(const struct index *index, struct index_meta *out); /* index thread, or before it runs */

/* ---- start-up: everything that lives in memory anyway. `each` borrows its arguments for the call; non-zero stops and
 * is returned. */
int index_each_queue(struct index *index, int (*each)(void *argument, const Tarry__QueuePut *queue), void *argument);
int index_each_lease(struct index *index, int (*each)(void *argument, const struct row *row), void *argument);
struct index_producer {
    uint64_t producer;
    uint64_t used_ms; /* last commit, logical steady time */
    uint64_t floor;   /* sequences below are forgotten */
    uint64_t owner;   /* principal_owner of whose it is */
};
int index_each_producer(struct index *index, int (*each)(void *argument, const struct index_producer *producer),
                        void *argument);
int index_each_result(struct index *index,
                      int (*each)(void *argument, uint64_t producer, uint64_t sequence, uint64_t position),
                      void *argument);
int index_each_job(struct index *index, int (*each)(void *argument, const Tarry__JobPut *job), void *argument);
/* Oldest first; among the endings, redactions (OUTCOME_REDACTION). */
int index_each_outcome(struct index *index, int (*each)(void *argument, const struct outcome *outcome), void *argument);

/* ---- absorbing (index thread) */
/* Takes one frame in, in memory only. The frame must start at the position where the last one ended. */
int index_absorb(struct index *index, const struct frame_header *header, const Tarry__FrameBody *body);
/* Records taken in since the last commit. */
size_t index_pending(const struct index *index);
/* Writes everything taken in, in one synced transaction (map full: grows it and tries again). Net effects only: what
 * was scheduled and ended in between touches nothing but the outcomes. `chain` is the chain hash at the new position.
 * -ENOSPC is not fatal: nothing was written, and the call may be repeated once there is room; until it has succeeded,
 * absorb, retire and a window that must cascade answer -ENOSPC too. Every other error is kept and returned for good. */
int index_commit(struct index *index);
/* Bounded background work: merges of key runs, sweeps of ended rows and slots. Call after commits, and at the time that
 * index_maintain_at tells; true in *out_more if there is more to do now. Each call is one bounded transaction at most
 * (aim: < 20 ms). */
int index_maintain(struct index *index, bool *out_more);
/* Steady time at which it will have something to do though nothing is committed before: what it puts off for a while.
 * In the past: now. UINT64_MAX: none. */
uint64_t index_maintain_at(const struct index *index);
/* What time it is by then: of itself the index knows that of the last frame. */
void index_tell_time(struct index *index, uint64_t steady_ns);
/* Position of the last commit. Any thread. */
uint64_t index_position(const struct index *index);

/* ---- the near window (index thread) */
struct index_rows { /* in (due, id) order where order matters; rows and their keys live in the arena passed in */
    struct row *rows;
    size_t count;
    uint64_t position; /* the index position they were read at */
};
/* The waiting tasks of a line with `after` < (due, id) and due ≤ until_ms, at most count_max, soonest first, with their
 * rows.
 * `*out_through`: every waiting task of the line up to and including it is in `out` (or at or below `after`); it may
 * lie beyond until_ms when nothing is due before the next slot; {UINT64_MAX, UINT64_MAX} when the line holds nothing
 * beyond. May cascade slots (writes; not if read-only). If the cascade needs more than one bounded step, *out_again is
 * set, nothing is returned, and the call is to be repeated. */
int index_window(struct index *index, const struct line *line, struct due after, uint64_t until_ms, size_t count_max,
                 struct arena *arena, struct index_rows *out, struct due *out_through, bool *out_again);
/* Everything of the line below `low` has been leased, moved or ended: its slots may go (they are checked before).
 * Advice, never trusted. */
void index_advise_low(struct index *index, const struct line *line, struct due low);

/* ---- looking up (any thread) */
struct index_filter; /* an immutable snapshot of the key runs' filters */
struct index_filter *
index_filter_hold(struct index *index); /* never NULL; as of a position ≥ index_position() before the call */
/* True of any key as long as one of the filters is not read. */
bool index_filter_may_contain(const struct index_filter *filter, uint64_t key_hash);
/* Has the processor fetch what index_filter_may_contain will look at. */
void index_filter_prefetch(const struct index_filter *filter, uint64_t key_hash);
void index_filter_drop(struct index_filter *filter);
/* With options.filters_later: reads a piece of the filters, a mebibyte at most; false in *out_more once all are in
 * memory. Any thread, but one at a time. INDEX_DAMAGED as the opening would have said it. */
int index_read_filters(struct index *index, bool *out_more);

/* Rows that are live or dead, in any order; all matches of a key (one live; of the dead ones, unless live_only, the 16
 * youngest). What is not there is simply missing. 1: they take more than `size_max` bytes of the arena; reading stopped
 * there, and nothing is given (CALM-1). */
int index_lookup(struct index *index, const struct want *wants, size_t want_count, size_t size_max, struct arena *arena,
                 struct index_rows *out);
/* Rows of `queue` (0: of all; live and dead) with after_id < id < id_end, in order of id; examines at most
 * `examine_max` rows of any queue. `*out_next`: go on after this id; UINT64_MAX: done. */
int index_scan(struct index *index, uint32_t queue, uint64_t after_id, uint64_t id_end, size_t count_max,
               size_t examine_max, struct arena *arena, struct index_rows *out, uint64_t *out_next);
/* Rows in the order of (due, id) for `tarry list`: states is a mask 1 << enum row_state, prefix may be empty; (due, id)
 * > after, due_from ≤ due < due_to. At most count_max. `*out_through`: complete up to here; {UINT64_MAX, UINT64_MAX}:
 * to the end. May return few, even none, and yet not the end. */
struct index_query {
    uint32_t queue;
    uint32_t states;
    uint64_t due_from_ms;
    uint64_t due_to_ms; /* exclusive */
    const char *prefix;
    size_t prefix_size;
    struct due after; /* {0, 0}: from the start */
    size_t count_max;
};
int index_list(struct index *index, const struct index_query *query, struct arena *arena, struct index_rows *out,
               struct due *out_through);
/* How many waiting tasks (pending and ready) fall due when, exactly, as of one position. Any thread. */
#define CALENDAR_MINUTE_MS 60000ull
#define CALENDAR_HOUR_MS 3600000ull
struct index_calendar_query {
    uint64_t from_ms; /* of the first span; a whole minute */
    uint64_t step_ms; /* of each span; whole minutes */
    uint32_t span_count;
    bool of_all; /* all queues together; else those named */
    const uint32_t *queues;
    size_t queue_count;
    bool by_queue; /* moreover, for each queue named, how much of it lies in the spans */
};
struct index_calendar {
    uint64_t *counts; /* of each span; in the arena, as the following */
    uint64_t *by_queue;
    uint64_t before, after; /* due before the first span, and behind the last one */
    uint64_t position;
    uint64_t steady_ms; /* of the last frame below it */
    uint64_t counted;   /* for an index that an older program wrote: tasks with ids below are counted so far … */
    uint64_t next_id;   /* … of those below this one */
};
/* 1: not all is counted yet (of a read-only index: nor will it be), and nothing but the last four is told. -E2BIG: the
 * question is about more than may be read at once. Neither is fatal. */
int index_calendar(struct index *index, const struct index_calendar_query *query, struct arena *arena,
                   struct index_calendar *out);
/* A content that was moved here from a retired segment. 1: there is none. `*out` lives in the arena. */
int index_blob(struct index *index, uint64_t id, struct arena *arena, void **out, size_t *out_size);
/* The same without the disk: -EAGAIN if it is not in memory. */
int index_blob_now(struct index *index, uint64_t id, struct arena *arena, void **out, size_t *out_size);
/* Has the processor fetch what that will look at, for some tens of tasks. */
void index_blobs_prefetch(struct index *index, const uint64_t *ids, size_t count);
/* A commit's packed CommitReply that was moved here. 1: there is none. */
int index_result(struct index *index, uint64_t producer, uint64_t sequence, struct arena *arena, void **out,
                 size_t *out_size);

/* ---- copying (one thread, any): the index as of one position, into a file that LMDB opens. Reading goes on and so
 * does writing; the index's file grows by what is written meanwhile. */
struct index_copy;
int index_copy_begin(struct index_copy **out, struct index *index);
/* Copies up to `size_max` bytes to `handle`, an empty file at first. 1: there is more to do (it may have begun anew,
 * because the index's map had to grow); 0: it is whole, and nothing of the index is held any more. */
int index_copy_step(struct index_copy *copy, int handle, size_t size_max);
uint64_t index_copy_size(const struct index_copy *copy);     /* bytes, in all */
uint64_t index_copy_done(const struct index_copy *copy);     /* bytes, so far */
uint64_t index_copy_position(const struct index_copy *copy); /* of the index, as it is copied */
void index_copy_end(struct index_copy *copy);                /* whole or not; by the same thread; NULL is fine */
/* ---- redactions (index thread): what the index knows of, and nobody has reported as carried out */
/* The first `count_max` of them; they live in the arena. */
int index_redactions(struct index *index, size_t count_max, struct arena *arena, Tarry__Redaction ***out,
                     size_t *out_count);
/* These are erased in log and archive: destroys the keys of what the index itself holds or once held, then forgets
 * them. -ENOSPC as index_commit; to be repeated. */
int index_redactions_done(struct index *index, Tarry__Redaction *const *redactions, size_t count);
/* Redactions recorded below this position have been carried out. Any thread. */
uint64_t index_erased(const struct index *index);

/* All of it, as it is, into a directory that is there and empty. Of a read-only index: nobody writes it meanwhile. */
int index_clone(struct index *index, const char *directory);

struct index_stats {
    uint64_t bytes_file;
    uint64_t bytes_memory; /* filters, fences and buffers; counted, not measured */
    uint64_t key_runs;
    uint64_t rows;         /* on disk, ended ones not yet swept included */
    uint64_t key_entries;  /* in runs and tail, those of ended tasks not yet dropped included */
    uint64_t slot_entries; /* likewise in due slots */
};
void index_stats(struct index *index, struct index_stats *out); /* any thread */

/* ---- retirement (index thread) */
/* Called for the frames of a segment about to be retired, in order: copies contents of tasks that are still live (or
 * dead) and results that are still remembered. Then index_retire_commit(log_start) in a synced transaction; only then
 * may the segment go. Bounded: commits in between as needed. */
int index_retire_frame(struct index *index, const struct frame_header *header, const Tarry__FrameBody *body,
                       const uint8_t *blob);
int index_retire_commit(struct index *index, uint64_t log_start);

/* ---- offline (read-only open): recomputes the digest and the counts from every row and compares; a sentence in
 * `message` on a mismatch. */
struct index_verification {
    uint64_t rows;
    uint64_t digest;
    uint64_t slots_entries;
    uint64_t erased_task; /* a live one, what it contained is gone, which is why it failed; 0: none */
};
int index_verify(struct index *index, struct index_verification *out, char *message, size_t message_size,
                 void (*progress)(void *argument, uint64_t done, uint64_t total), void *argument);

#endif
