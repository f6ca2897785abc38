/* record_reads.h: decides when a node of a pair reads the coordinator's record.
 *
 *   PAIR_READ ──► record_reads_ask ──► now, or at again_ns ──► what came ──► record_reads_took ──► the rules
 *
 * After no answer, or an impossible one (F-30, F-31b), the next read waits (again_ns). Pure. Times are MONOTONIC
 * nanoseconds of the node. */
#ifndef TARRY_REPLICATION_RECORD_READS_H
#define TARRY_REPLICATION_RECORD_READS_H

#include <stdbool.h>
#include <stdint.h>

#include "pair.h"

struct record_reads {
    bool failed;       /* the last read failed */
    bool presence;     /* the read at again_ns also asks for the leader's presence */
    uint64_t again_ns; /* time of the next read after a failure; UINT64_MAX: none is planned */
};

void record_reads_init(struct record_reads *reads);
/* The rules want to read the record (PAIR_READ). True: read it now; false: wait for record_reads_due. */
bool record_reads_ask(struct record_reads *reads, bool presence, uint64_t now_ns);
/* True: read the record now, with `reads->presence`. */
bool record_reads_due(struct record_reads *reads, uint64_t now_ns);
/* Call it with each PAIR_RECORD_READ and PAIR_RECORD_SWAPPED before pair_step. True: the read got no answer. */
bool record_reads_took(struct record_reads *reads, const struct pair *pair, const struct pair_event *event);
/* Returns whether a copy of this node's data directory leads: the record names this node as the leader of a later
 * epoch. Only this node claims under its number, and no claim of an earlier run can land after one of this run (F-29).
 */
bool record_reads_is_copied(const struct pair *pair, const struct pair_event *event);

#endif
