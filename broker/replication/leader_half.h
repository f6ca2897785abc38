/* leader_half.h: what a node of a pair decides while it leads, beside the rules (broker/pair): what its follower has,
 * when the follower's question is answered, when a follower that stores nothing is given up, and which part of the log
 * is kept for it.
 *
 *   a question ──► admission_of ──► leader_half_hear ──► pair_step ──► leader_half_take ──► held, or answered
 *   any turn   ──► the release gate ─► leader_half_released ─► leader_half_must_answer ─► pair_step ─► frames
 *
 * A question waits until there are frames for it, or another position is committed, or a request waits for a
 * confirmation, or its time is over; it acknowledges at once. The rules are asked again when it is answered, so that
 * the answer's stamp is younger than whatever came meanwhile: to them that is the same question, come twice.
 *
 * Pure: no thread, no clock, no I/O. Times are MONOTONIC nanoseconds of the node, positions are those of its log.
 * broker/shell/pair/node_leader.c and tests/sim/node_lead.c carry out what is decided here. */
#ifndef TARRY_REPLICATION_LEADER_HALF_H
#define TARRY_REPLICATION_LEADER_HALF_H

#include <stdbool.h>
#include <stdint.h>

#include "hung_disk.h"
#include "pair.h"
#include "pair_times.h"
#include "tarry.pb-c.h"

/* A disk that has kept a write waiting for so long hangs (F-31a); hung_disk.h says what counts. */
#define LEADER_DISK_HUNG_MS 1500u
/* A follower syncs once for each sync of its leader that it lacks (LOG-5). While it does, every request waits that
 * needs its acknowledgement: so it is waited for once it lacks no more than this many; twice as many each time the
 * patience is over, and after LEADER_SYNCS_KNOWN any number within FOLLOW_NEAR_BYTES, for under load it may never come
 * nearer (R5). */
#define LEADER_NEAR_SYNCS 4u
#define LEADER_NEAR_PATIENCE_MS 500u
#define LEADER_SYNCS_KNOWN 128u

struct leader_half {
    struct pair_times times;
    bool began;                         /* the core leads */
    uint64_t written;                   /* the end of the log, durable or not; leader_half_written moves it */
    uint64_t syncs[LEADER_SYNCS_KNOWN]; /* up to where each of the newest ones wrote */
    uint64_t sync_next;                 /* how many there were, since it leads */
    uint64_t syncs_from;                /* what was written below it is in none of them */

    /* the follower */
    uint64_t follower_end; /* durable there, as its newest question said; 0: none came */
    uint64_t asked_ns;     /* when it came */
    uint64_t grown_ns;     /* when that had grown, or its time began anew; 0: not yet */
    uint64_t stuck_end;    /* up to where it had when it was given up (F-28); 0: it was not */
    uint64_t chased_ns;    /* since when it lacks little, but too much to be waited for; 0: it does not */
    uint64_t kept_from;    /* the log from here on is still needed by it; UINT64_MAX: it is free */
    uint64_t kept_ns;      /* when that was last known */

    /* its newest question, unanswered */
    void *held; /* of the caller; NULL: none. Taken away by leader_half_release */
    uint64_t held_end, held_stamp;
    uint64_t held_ns;  /* when it came */
    uint64_t until_ns; /* when it must be answered */
    uint64_t wake_ns;  /* when leader_half_must_answer is to be asked again; UINT64_MAX: at the next event */
    uint64_t told;     /* committed, as the follower was told last */

    struct hung_disk disk;

    /* what is durable here and has not left */
    uint64_t waits_since_ns; /* since when nothing has left, though something waits; UINT64_MAX: nothing waits */
    struct waited leaves;    /* … by the time that this node was awake */
    uint64_t stalled_ns;     /* when that was found to be too long; 0: it is not */
};

void leader_half_init(struct leader_half *half, const struct pair_times *times);
/* The rules say: lead. The log ends at `end`. */
void leader_half_begin(struct leader_half *half, uint64_t end);
/* The log ends at `end`, and one sync makes durable what is new. */
void leader_half_written(struct leader_half *half, uint64_t end);

/* ---- a question came, which is the rules' to answer (ADMISSION_RULES) */
/* What it says of the follower. In any role. */
void leader_half_hear(struct leader_half *half, const struct pair *pair, const Tarry__Follow *follow, uint64_t now_ns);
/* Must the requester's log be compared with this node's before PAIR_ASKED? */
bool leader_half_compares(const struct pair *pair);
/* Does it lack so little that it may be waited for (R5), and has it stored anything since it was given up (F-28)? */
bool leader_half_is_near(struct leader_half *half, uint64_t follower_end, uint64_t now_ns);
/* The rules' answer to it. True: it waits, and `held` is the caller's question; one that waited before must have been
 * released. False: it is answered now. `committed`: what may be told. */
bool leader_half_take(struct leader_half *half, const Tarry__Follow *follow, void *held,
                      const struct pair_message *answer, uint64_t committed, uint64_t now_ns);
/* The question that waits is answered otherwise, or now. Returns it; NULL: there is none. */
void *leader_half_release(struct leader_half *half);

/* ---- each turn */
/* First of all: `since_ns` is when the oldest write that is not synced yet began; 0: none waits. */
void leader_half_look_at_disk(struct leader_half *half, uint64_t since_ns, uint64_t now_ns);
/* What may leave has left. `has_left`: there was something; `waits`: something is left over. */
void leader_half_released(struct leader_half *half, bool has_left, bool waits, uint64_t now_ns);
/* Has any request waited for too long? True: that has changed (stalled_ns). */
bool leader_half_look(struct leader_half *half, uint64_t now_ns);
/* Is it time to answer the question that waits? `wants_word`: a request waits for the follower's confirmation.
 */
bool leader_half_must_answer(struct leader_half *half, const struct pair *pair, bool wants_word, uint64_t now_ns);
/* F-31a. The disk hangs, and the follower, which has whatever was acknowledged, is told to lead. */
bool leader_half_is_hung(const struct leader_half *half, const struct pair *pair);
/* The rules' answer to it, as it is sent: `answer` may change. */
void leader_half_answer(struct leader_half *half, const struct pair *pair, struct pair_message *answer);
/* Is this node present at the coordinator as the leader? For as long as it takes its turns, and its disk answers: what
 * only lives does not keep the other from taking over. */
bool leader_half_declares(const struct leader_half *half, const struct pair *pair);
/* LEADING: all that either node has acknowledged by now, in this epoch or an earlier one, lies below it; otherwise 0.
 */
uint64_t leader_half_known(const struct pair *pair);
/* When the next turn is due. */
uint64_t leader_half_timer(const struct leader_half *half);

/* ---- the log that the follower needs */
void leader_half_keep(struct leader_half *half, uint64_t from, uint64_t now_ns);
/* It is not kept for ever for a follower that does not come. `is_copied`: a backup or snapshot is under way, and the
 * node that copies it comes once it has it. */
void leader_half_forget_needs(struct leader_half *half, bool is_copied, uint64_t now_ns);

/* ---- a follower that counts, asks, and stores nothing (F-28): its disk is full, or it starts again and again */
/* When it is given up as if it were silent; UINT64_MAX: never. */
uint64_t leader_half_stuck_ns(const struct leader_half *half, const struct pair *pair);
/* It is. True: it lacks something, and for the first time at this position. */
bool leader_half_give_up(struct leader_half *half);
/* This node stood still, and has not heard what the follower stored meanwhile: its time begins anew. */
void leader_half_overslept(struct leader_half *half, uint64_t now_ns);

#endif
