/* tally.h: values that are computed from records alone: the digest of the state, and the counts per queue.
 *
 * The core (at the end of the log) and the index (at its own position) run the same code over the same records. So
 * the counts in the index and those of a replayed core always agree. */
#ifndef TARRY_PROTO_TALLY_H
#define TARRY_PROTO_TALLY_H

#include "row.h"
#include "tarry_limits.h"

/* Counts of one queue. Plain data, stored in the index as it is: all fields are u64, little-endian. */
struct queue_tally {
    uint64_t waiting[ROW_BASES][PRIORITY_COUNT]; /* number of pending or ready tasks, by time base and priority */
    uint64_t in_flight;
    uint64_t dead;
    /* The following counters begin with the creation of the queue. A deleted queue that is created again starts at 0.
     */
    uint64_t scheduled;
    uint64_t cancelled;
    uint64_t delivered; /* number of leases, without leases that were given back unsent */
    uint64_t acked;
    uint64_t retried;
    uint64_t expired;
    uint64_t dropped;
    /* The fields from here on are not stored with the counts (QUEUE_COUNTS_SIZE). */
    /* Number of the queue that has this place, or had it last. 0: not known yet; the queue then is of generation 0. */
    uint32_t number;
};
#define QUEUE_COUNTS_SIZE offsetof(struct queue_tally, number)

struct tally {
    /* sum of row_hash, queue_hash, recur_hash, definition_hash and producer hashes, modulo 2^64 */
    uint64_t digest;
    uint64_t live;       /* number of waiting and leased tasks, in all queues */
    uint64_t next_id;    /* highest id so far, plus one */
    uint32_t next_queue; /* highest queue place so far, plus one */
    uint32_t epoch;      /* highest epoch so far */
    struct queue_tally
        *queues; /* counts of the queues, indexed by place; QUEUE_PLACES + 1 entries, borrowed from the owner */
};

/* Sets the tally of an empty log. `queues` must be zeroed and is borrowed. */
void tally_init(struct tally *tally, struct queue_tally *queues);

/* Applies one record. False: the record is inconsistent (a damaged log or a bug), and the tally is untouched.
 * Reasons: an unknown fact, a definition beyond its limits, a queue number out of range, a count below zero, or a
 * violation of these rules:
 *   - A put (a task's new state) is `fresh` (its first) exactly if its cause is SCHEDULED. The task of a fresh put is
 *     waiting, its id is at least next_id, and next_id grows.
 *   - Every other put has a cause up to REQUEUED, an id below next_id and a before_hash other than 0.
 *   - A task never changes its queue, and the queue still has its place in the table of queues.
 *   - An end has a cause from ACKED on.
 *   - A queue put for a new place (at least next_queue) has generation 0 and a before_hash of 0. Other queue puts
 *     have a before_hash.
 *   - A queue may take over a place that had one before only in the next generation, and only while the place is
 *     empty. (Only the core knows that the former queue was deleted.)
 *   - A queue is deleted only while it is empty. Its counts then start at 0.
 *   - A recurrence is set exactly by SET, deleted exactly by DELETED, and its state names the hash of what was set.
 *   - Epochs never decrease. */
bool tally_record(struct tally *tally, const Tarry__Record *record);
/* Applies one record like tally_record. For a put or an end, outputs the task's row, which borrows from the record, and
 * the row's hash. A caller that reuses both saves 600 instructions. `has_row`: the caller has already set `row->row`,
 * and has set `row->hash` to the row's hash, or to 0 if the hash is unknown. */
struct tally_row {
    struct row row;
    uint64_t hash;
};
bool tally_record_row(struct tally *tally, const Tarry__Record *record, bool has_row, struct tally_row *row);

/* Returns a producer's contribution to the digest. */
uint64_t producer_hash(uint64_t producer);

#endif
