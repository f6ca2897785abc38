/* record_reads.h: when a node of a pair reads the coordinator's record, and what a read says of the reading.
 *
 *   PAIR_READ ──► record_reads_ask ──► now, or at again_ns ──► what came ──► record_reads_took ──► the rules
 *
 * A coordinator that did not answer, or answered with what cannot be (F-30, F-31b), is asked again after a while, and
 * not at once. Pure. Times are MONOTONIC nanoseconds of the node. */
#ifndef TARRY_REPLICATION_RECORD_READS_H
#define TARRY_REPLICATION_RECORD_READS_H

#include <stdbool.h>
#include <stdint.h>

#include "pair.h"

struct record_reads {
    bool failed;       /* the last one */
    bool presence;     /* at again_ns: the leader's presence is asked for, too */
    uint64_t again_ns; /* when the record is read again after a failure; UINT64_MAX: not */
};

void record_reads_init(struct record_reads *reads);
/* The rules want to know it. True: it is read now; false: record_reads_due says when. */
bool record_reads_ask(struct record_reads *reads, bool presence, uint64_t now_ns);
/* True: it is read now, with `reads->presence`. */
bool record_reads_due(struct record_reads *reads, uint64_t now_ns);
/* PAIR_RECORD_READ or PAIR_RECORD_SWAPPED came, and the rules have not been told yet. True: the read was no answer. */
bool record_reads_took(struct record_reads *reads, const struct pair *pair, const struct pair_event *event);
/* A copy of this node's data directory leads: only this node claims as this node, and no claim of an earlier run
 * can come after one of this run (F-29). */
bool record_reads_is_copied(const struct pair *pair, const struct pair_event *event);

#endif
