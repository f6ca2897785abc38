/* summons.h: a follower that hears nothing asks its leader once more, through the coordinator (F-10, F-31c).
 *
 * A follower that hears nothing for half of its timeout sends a probe, and writes its entry at the coordinator:
 * present-1: "asks N". The coordinator reports the change to the leader. The leader reads question N and answers with
 * its own entry: present-0: "leads epoch E, heard N". When the timeout is over, the follower reads the record and the
 * leader's entry.
 *
 * A leader's session or lease at the coordinator outlives its host by seconds. A healthy leader whose link to the
 * follower is cut is present, too. So presence alone is not enough: a leader that has not answered question N within
 * SUMMONS_WAIT_NS after the coordinator took that question counts as absent. The wait begins when the coordinator has
 * stored the question. It lasts at least as long as storing took, so a slow coordinator deposes no leader. The follower
 * uses only a read that it sent after the wait. An answer is valid for SUMMONS_WAIT_NS; after that, the follower asks a
 * leader that is still silent again.
 *
 * A wrong decision here costs time only; the compare-and-set keeps the pair correct. Nothing is written at the
 * coordinator while the two nodes hear each other.
 *
 * Pure. Times are MONOTONIC nanoseconds of the node. Thread-safety: one owner. */
#ifndef TARRY_REPLICATION_SUMMONS_H
#define TARRY_REPLICATION_SUMMONS_H

#include <stdbool.h>
#include <stdint.h>

#include "pair.h"
#include "pair_times.h"

/* Minimum time that a leader has to answer. */
#define SUMMONS_WAIT_NS (400 * PAIR_NS_PER_MS)

struct summons {
    uint64_t number;    /* number of the newest question; its upper half identifies the run, so answers to other runs do
                           not count */
    uint64_t asked_ns;  /* when the question was asked; 0: no question is open, because the leader was heard */
    uint64_t stands_ns; /* since when the coordinator is known to have the question; 0: it is not known to have it */
    uint64_t answered_ns; /* when the read that found the answer was sent; 0: no answer yet */
    uint64_t read_ns;     /* when the newest read of the record was sent */
};

void summons_init(struct summons *summons, uint64_t run);
/* Ends the question, because the leader was heard, or its timeout starts again. */
void summons_end(struct summons *summons);
/* Asks the leader to answer, or repeats the question, if this node could take over. Call it when a probe is sent or the
 * leader is silent (silence_verdict). */
void summons_ask(struct summons *summons, const struct pair *pair, uint64_t now_ns);
/* Returns the number of the question that must be declared at the coordinator; 0: none. */
uint64_t summons_asks(const struct summons *summons, const struct pair *pair);
/* Notes that the coordinator has had the question since `since_ns`. */
void summons_stands(struct summons *summons, uint64_t since_ns);
/* Notes that a read of the record is being sent. */
void summons_reads(struct summons *summons, uint64_t now_ns);
/* Returns whether the leader counts as present. Call it after the read. `is_there`: the leader has declared itself in
 * the record's epoch; `heard`: number of the question that it answered. */
bool summons_is_present(struct summons *summons, bool is_there, uint64_t heard);
/* Returns the time until which the leader must answer the question. If a read of the coordinator after this time finds
 * no answer, the leader counts as absent. UINT64_MAX: no question is open, the coordinator has not confirmed the
 * question, or the leader has answered it. */
uint64_t summons_due_ns(const struct summons *summons);

#endif
