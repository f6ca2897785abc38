/* tally.h: what can be counted from records alone: the digest and the counts per queue.
 *
 * The core (at the head of the log) and the index (at its own position) run the same code over the same records,
 * so the counts stored in the index and those of a replayed core agree by construction. */
#ifndef TARRY_PROTO_TALLY_H
#define TARRY_PROTO_TALLY_H

#include "row.h"
#include "tarry_limits.h"

/* Counts of one queue. Plain data; stored in the index as it is (fields are u64, little-endian). */
struct queue_tally {
    uint64_t waiting[ROW_BASES][PRIORITY_COUNT]; /* pending or ready, per line */
    uint64_t in_flight;
    uint64_t dead;
    /* since the queue came into being, for the first time or again */
    uint64_t scheduled;
    uint64_t cancelled;
    uint64_t delivered; /* leases that were not given back unsent */
    uint64_t acked;
    uint64_t retried;
    uint64_t expired;
    uint64_t dropped;
    /* The rest is not stored with the counts (QUEUE_COUNTS_SIZE). */
    uint32_t number; /* of the queue that has the place, or had it last; 0: not known yet, of generation 0 */
};
#define QUEUE_COUNTS_SIZE offsetof(struct queue_tally, number)

struct tally {
    uint64_t digest;            /* sum of row_hash, queue_hash and producer hashes, modulo 2^64 */
    uint64_t live;              /* waiting + in flight, all queues */
    uint64_t next_id;           /* one above the highest id seen */
    uint32_t next_queue;        /* one above the highest place of a queue seen */
    uint32_t epoch;             /* highest seen */
    struct queue_tally *queues; /* [place], borrowed: QUEUE_PLACES + 1 entries owned by the holder */
};

/* Of an empty log. `queues` must be zeroed and is borrowed. */
void tally_init(struct tally *tally, struct queue_tally *queues);

/* Brings `tally` up to date with one record. False (tally untouched) if the record makes no sense: unknown fact,
 * queue number out of range, a count that would fall below zero, and so on: a damaged log or a bug.
 * What makes sense: a put is `fresh` exactly if its cause is SCHEDULED; it is waiting then, with an id at or above
 * next_id, which grows; any other put has a cause up to REQUEUED, an id below next_id and a before_hash other than 0;
 * queue and priority of a task never change; its queue has its place now, and did not lose it to another. An end has a
 * cause from ACKED on. A queue is new exactly if its before_hash is 0, its place at or above next_queue and its
 * generation 0, or if it follows, in the next generation, one whose place holds nothing any more (only the core knows
 * that it was deleted); one is deleted only while nothing is in it, and then counts from 0. Epochs never fall. */
bool tally_record(struct tally *tally, const Tarry__Record *record);
/* The same; of a put or an end that makes sense, the task's row and its hash, for who goes on with them: it was read
 * and hashed anyway (600 instructions). `row` borrows from the record. `has_row`: whoever made the record has its row
 * still, and its hash or 0, so that the one is not read, nor the other made if it is there. */
struct tally_row {
    struct row row;
    uint64_t hash;
};
bool tally_record_row(struct tally *tally, const Tarry__Record *record, bool has_row, struct tally_row *row);

/* A producer's contribution to the digest. */
uint64_t producer_hash(uint64_t producer);

#endif
