/* record_reads.h: decides when a node of a pair reads the coordinator's record. For PAIR_READ, record_reads_ask decides
 * whether to read now or at again_ns. The result goes to record_reads_took and then to the rules. If the coordinator
 * did not answer (F-30), or the record is lost or older than one already seen (F-31b), the next read waits until
 * again_ns. Pure. Times are MONOTONIC nanoseconds of the node. */
#ifndef TARRY_REPLICATION_RECORD_READS_H
#define TARRY_REPLICATION_RECORD_READS_H

#include <stdbool.h>
#include <stdint.h>

#include "pair.h"

struct record_reads {
    bool failed;       /* true: the last read of the record failed */
    bool presence;     /* the read at again_ns also asks for the leader's presence */
    uint64_t again_ns; /* time of the next read after a failure; UINT64_MAX: none is planned */
};

void record_reads_init(struct record_reads *reads);
/* Handles PAIR_READ: the rules require a read of the record. Returns true if it must be read now, and false if
 * record_reads_due will say when. */
bool record_reads_ask(struct record_reads *reads, bool presence, uint64_t now_ns);
/* Returns true if the record must be read now, with `reads->presence`. */
bool record_reads_due(struct record_reads *reads, uint64_t now_ns);
/* Notes the result of a read. Call it with each PAIR_RECORD_READ and PAIR_RECORD_SWAPPED before pair_step. Returns true
 * if the read got no answer. */
bool record_reads_took(struct record_reads *reads, const struct pair *pair, const struct pair_event *event);
/* Returns whether a copy of this node's data directory leads. In that case the record names this node as the leader of
 * a later epoch, although this node, which leads, has not claimed it. A claim of an earlier run of this node cannot
 * succeed after a claim of this run (F-29). */
bool record_reads_is_copied(const struct pair *pair, const struct pair_event *event);

#endif
