/* summons.h: a follower that hears nothing asks its leader once more, by way of the coordinator (F-10, F-31c).
 *
 *   follower                                 coordinator                              leader
 *   hears nothing for half of its time,
 *   sends a probe, and declares ───────────► present-1: "asks N"  ── a watch ──────►  reads it, and declares
 *   silent: reads the record, and who  ◄──── present-0: "leads epoch E, heard N" ◄──  itself anew
 *   is present
 *
 * *Because* what a leader has left at the coordinator (a session, a lease) outlives its host by seconds, and a healthy
 * leader whose link to the follower is cut is present, too. *So* a presence counts as long as it is answered: a leader
 * that was asked N, and has not answered N for SUMMONS_WAIT_NS since the coordinator took the question, is absent.
 *
 * The time begins when the coordinator has taken the question, and is no shorter than that took: a coordinator that is
 * slow, or takes no changes, deposes no leader. What counts is a read that was sent after that time. An answer is good
 * for as long; then, if the leader is still silent, it is asked again.
 *
 * Opinion, as all of silence.h: what protects is the compare-and-set. Nothing is written at the coordinator while the
 * two nodes hear each other.
 *
 * Pure. Times are MONOTONIC nanoseconds of the node. Thread-safety: one owner. */
#ifndef TARRY_REPLICATION_SUMMONS_H
#define TARRY_REPLICATION_SUMMONS_H

#include <stdbool.h>
#include <stdint.h>

#include "pair.h"
#include "pair_times.h"

/* Time that a leader has to answer. */
#define SUMMONS_WAIT_NS (400 * PAIR_NS_PER_MS)

struct summons {
    uint64_t number;      /* of the newest question; its upper half is the run's, so no other run's answer is taken */
    uint64_t asked_ns;    /* 0: the leader is heard, nothing is asked */
    uint64_t stands_ns;   /* since then the coordinator has the question, as far as this node knows; 0: not yet */
    uint64_t answered_ns; /* the read was sent then that found an answer to it; 0: there was none */
    uint64_t read_ns;     /* the newest read of the record was sent then */
};

void summons_init(struct summons *summons, uint64_t run);
/* The leader was heard, or its time begins anew. */
void summons_end(struct summons *summons);
/* A probe is sent, or the leader is silent (silence_verdict): asks, or asks again, if this node could take over. */
void summons_ask(struct summons *summons, const struct pair *pair, uint64_t now_ns);
/* What is to be declared at the coordinator; 0: nothing. */
uint64_t summons_asks(const struct summons *summons, const struct pair *pair);
/* The coordinator has the question, since then. */
void summons_stands(struct summons *summons, uint64_t since_ns);
/* The record is read now. */
void summons_reads(struct summons *summons, uint64_t now_ns);
/* That read came back: `is_there`: the leader has declared itself in the record's epoch; `heard`: the number of the
 * question that it has answered. Is it present? */
bool summons_is_present(struct summons *summons, bool is_there, uint64_t heard);
/* When the leader has had its time, and a read of the record finds it absent; UINT64_MAX: it has answered, or is not
 * asked, or not known to be. */
uint64_t summons_due_ns(const struct summons *summons);

#endif
